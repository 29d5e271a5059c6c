//! U7, too few send nothing uniform; and S8, which lets these messages wait.

mod common;

use common::{GROUP, M, SECOND, World, fifo, uniform};
use phalanx_check::Property;
use phalanx_trace::Event;

/// One process alone in its cell and its group, which require the given numbers of members.
fn alone(cell: u64, group: u64) -> World {
    let mut w = World::strangers(2);
    w.cell_view(0, 1, &[0], &[]);
    w.push(0, Event::Level { level: 2, known: 2 });
    w.push(0, Event::CellMinimum { members: cell });
    w.ask_group(0, false);
    w.group_view(0, 1, None, &[0], &[0], &[]);
    w.push(0, Event::GroupTerms { group: GROUP, uniform: true, members_min: group, adequate: group == 1 });
    w
}

const MINE: M = M { uniform: true, ..FIRST };
const FIRST: M = M { sender: 0, view: 1, seq: 1, order: phalanx_trace::Order::Fifo, uniform: false };

#[test]
fn what_is_uniform_is_sent_where_there_are_enough() {
    for (cell, group) in [(1, 1), (2, 1), (1, 2)] {
        let mut plain = alone(cell, group);
        plain.multicast(FIRST, &[0]);
        plain.end(&[0]);
        assert!(!plain.report().violated().contains(&Property::U7), "{}", plain.report());
        let mut w = alone(cell, group);
        w.multicast(MINE, &[0]);
        w.end(&[0]);
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::U7), (cell, group) != (1, 1), "{cell} {group}: {report}");
    }
}

#[test]
fn it_may_have_been_sent_after_the_view_that_has_enough_and_before_that_was_told() {
    let mut w = alone(2, 1);
    w.send(MINE);
    w.cell_view(0, 2, &[0, 1], &[]);
    w.push(0, Event::CellMinimum { members: 2 });
    w.deliver(0, MINE);
    w.end(&[0]);
    assert!(!w.report().violated().contains(&Property::U7), "{}", w.report());
}

#[test]
fn a_group_view_becomes_adequate_and_no_longer_is() {
    let adequacy = |adequate| Event::GroupAdequacy { group: GROUP, view: 1, adequate };
    for (at_last, broken) in [(true, false), (false, true)] {
        let mut w = alone(1, 2);
        w.push(0, adequacy(true));
        w.push(0, adequacy(at_last));
        w.multicast(MINE, &[0]);
        w.end(&[0]);
        // A group view of one member is reported as adequate with a minimum of two, which is false in any case.
        let report = w.report();
        let lies = report.properties.iter().find(|p| p.property == Property::U7).expect("it is reported");
        assert_eq!(lies.violations, if at_last { 2 } else { 1 } + u64::from(broken), "{report}");
    }
}

#[test]
fn a_minimum_and_terms_are_agreed() {
    let run = |minima: [u64; 2], defaults: [bool; 2]| {
        let mut w = World::strangers(2);
        for p in [0, 1] {
            w.cell_view(p, 1, &[0, 1], &[]);
            w.push(p, Event::CellMinimum { members: minima[p] });
            w.ask_group(p, false);
            w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
            let uniform = defaults[p];
            w.push(p, Event::GroupTerms { group: GROUP, uniform, members_min: 1, adequate: true });
        }
        w.end(&[0, 1]);
        w.report().violated().contains(&Property::M11)
    };
    assert!(!run([2, 2], [true, true]));
    assert!(run([2, 1], [true, true]) && run([2, 2], [true, false]));
}

/// A group of two requires three. What one of them accepts waits, for as long as the run lasts.
#[test]
fn what_waits_for_members_is_not_overdue() {
    for members_min in [2, 3] {
        let mut w = World::group(2);
        for p in [0, 1] {
            let adequate = members_min == 2;
            w.push(p, Event::GroupTerms { group: GROUP, uniform: true, members_min, adequate });
        }
        w.multicast(fifo(1, 1, 1), &[0, 1]);
        w.accept(fifo(1, 1, 1));
        w.quiet();
        w.wait(SECOND);
        w.accept(uniform(fifo(0, 1, 1)));
        w.wait(60 * SECOND);
        w.end(&[0, 1]);
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::S8), members_min == 2, "{report}");
    }
}
