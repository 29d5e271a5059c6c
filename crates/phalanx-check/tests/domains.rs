//! Domains of a group's state: one list, which suits its members (X10), and messages to one of them (X11).

mod common;

use common::{GROUP, M, World, id, total};
use phalanx_check::Property;
use phalanx_trace::{Event, Order};

fn has(w: &mut World, p: usize, own: &[(&str, u32, bool)]) {
    w.ask_group(p, true);
    let own = own.iter().map(|(name, version, optional)| ((*name).to_owned(), *version, *optional)).collect();
    w.push(p, Event::OwnDomains { name: "ledger".into(), own });
}

fn lists(w: &mut World, p: usize, view: u64, list: &[(&str, u32)]) {
    let list = list.iter().map(|(name, version)| ((*name).to_owned(), *version)).collect();
    w.push(p, Event::GroupDomains { group: GROUP, view, list });
}

const PLAIN: &[(&str, u32)] = &[("", 1)];
const BOTH: &[(&str, u32)] = &[("", 1), ("x", 1)];

/// Two members that have a domain x, which they may do without, in a view with these lists.
fn two(own: &[(&str, u32, bool)], first: &[(&str, u32)], second: &[(&str, u32)]) -> World {
    let mut w = World::cell(2);
    for p in 0..2 {
        has(&mut w, p, own);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
        lists(&mut w, p, 1, if p == 0 { first } else { second });
    }
    w
}

const OWN: &[(&str, u32, bool)] = &[("", 1, false), ("x", 1, true)];

#[test]
fn x10_a_view_has_one_list_of_what_its_members_have() {
    let ends = |mut w: World| {
        w.end(&[0, 1]);
        w
    };
    ends(two(OWN, PLAIN, PLAIN)).holds(&[Property::X10]);
    ends(two(OWN, BOTH, BOTH)).holds(&[Property::X10]);
    ends(two(OWN, PLAIN, BOTH)).breaks(Property::X10);
    ends(two(OWN, &[("", 1), ("x", 2)], &[("", 1), ("x", 2)])).breaks(Property::X10);
    ends(two(OWN, &[("", 1), ("", 1)], &[("", 1), ("", 1)])).breaks(Property::X10);
    let needs = &[("", 1, false), ("x", 1, false)];
    ends(two(needs, BOTH, BOTH)).holds(&[Property::X10]);
    ends(two(needs, PLAIN, PLAIN)).breaks(Property::X10);
}

#[test]
fn x10_a_list_grows_at_its_end_alone() {
    let run = |first: &[(&str, u32)], next: &[(&str, u32)]| {
        let mut w = two(OWN, first, first);
        for p in 0..2 {
            w.group_view(p, 2, Some(1), &[0, 1], &[], &[]);
            lists(&mut w, p, 2, next);
        }
        w.end(&[0, 1]);
        w
    };
    run(PLAIN, BOTH).holds(&[Property::X10]);
    run(BOTH, PLAIN).breaks(Property::X10);
    run(PLAIN, &[("x", 1), ("", 1)]).breaks(Property::X10);
}

fn named(w: &mut World, p: usize, m: M, domain: u8) {
    w.push(p, Event::DeliveredTo { group: GROUP, view: m.view, sender: id(m.sender), seq: m.seq, domain });
}

#[test]
fn x11_a_message_to_a_domain_is_one_to_all() {
    let run = |m: M, at: [Option<u8>; 2]| {
        let mut w = two(OWN, BOTH, BOTH);
        w.send(m);
        for (p, domain) in at.into_iter().enumerate() {
            w.deliver_at(p, m, (m.order == Order::Total).then_some(1));
            domain.into_iter().for_each(|domain| named(&mut w, p, m, domain));
        }
        w.end(&[0, 1]);
        w
    };
    let ordered = total(0, 1, 1);
    run(ordered, [Some(1), Some(1)]).holds(&[Property::X11]);
    run(ordered, [Some(0), Some(1)]).breaks(Property::X11);
    run(ordered, [Some(1), None]).breaks(Property::X11);
    run(ordered, [Some(2), Some(2)]).breaks(Property::X11);
    run(M { order: Order::Fifo, ..ordered }, [Some(1), Some(1)]).breaks(Property::X11);
}
