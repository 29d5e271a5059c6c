//! Levels and agreed settings in whole cells (`docs/levels.md`).

use std::time::Duration;

use crate::net::Net;
use phalanx_core::{
    CommandError, Event, Founding, GroupTerms, LEVEL, Limits, Order, SlowMembers, Stability, Timing, Uniformity,
};

/// A cell in which each process knows the given level.
fn found(seed: u64, levels: &[u16]) -> Net {
    let mut net = Net::new(seed, 0);
    for (i, level) in levels.iter().enumerate() {
        add(&mut net, if i == 0 { Founding::Alone } else { Founding::Join }, *level);
    }
    let n = levels.len();
    net.run_until(30, |net| net.alive().all(|(_, seen)| seen.views.last().is_some_and(|view| view.1 == n)));
    net
}

fn add(net: &mut Net, founding: Founding, level: u16) -> usize {
    let i = net.add_with(founding, level, Timing::default(), Limits::default());
    let now = net.now;
    net.nodes[i].0.join_group(now, "g", false, GroupTerms::default()).expect("a good name");
    i
}

fn levels(net: &Net) -> Vec<u16> {
    net.alive().map(|(_, seen)| seen.level).collect()
}

fn raise(net: &mut Net, i: usize, level: u16) -> Result<(), CommandError> {
    let now = net.now;
    net.nodes[i].0.raise_level(now, level)
}

#[test]
fn a_level_rises_when_somebody_asks_and_never_by_itself() {
    let mut net = found(1, &[2, 2, 2]);
    net.run(Duration::from_secs(3));
    assert_eq!(levels(&net), [2, 2, 2], "a cell founded alone has the level of its build");
    let mut net = found(2, &[1, 2, 2]);
    net.run(Duration::from_secs(3));
    assert_eq!(levels(&net), [1, 1, 1]);
    // The earlier build is replaced. All could follow now, but nobody asked.
    net.nodes[0].2 = false;
    add(&mut net, Founding::Join, 2);
    net.run_until(10, |net| net.alive().all(|(_, seen)| seen.cell_views.last().is_some_and(|view| view.1 == 3)));
    net.run(Duration::from_secs(3));
    assert_eq!(levels(&net), [1, 1, 1]);
    let views = net.nodes[1].1.cell_views.len();
    raise(&mut net, 2, 2).expect("all know it");
    net.run_until(5, |net| levels(net) == [2, 2, 2]);
    assert_eq!(net.nodes[1].1.cell_views.len(), views + 1, "a view of the same members");
    assert!(net.cast(1, Order::Total, Uniformity::Uniform, b"and it goes on"));
    net.run_until(5, |net| (1..4).all(|i| net.delivered(i) == 1));
}

#[test]
fn a_rise_is_refused_while_a_member_cannot_follow() {
    let mut net = found(3, &[1, 2, 2]);
    let refused = raise(&mut net, 1, 2).expect_err("a member knows level 1 alone");
    assert_eq!(refused.to_string(), "the cell cannot rise to level 2: member m0 knows level 1 at most");
    assert_eq!(raise(&mut net, 1, 1), Ok(()), "it is in force");
    assert!(raise(&mut net, 1, 3).is_err(), "this build does not know it");
    net.run(Duration::from_secs(2));
    assert_eq!(levels(&net), [1, 1, 1]);
}

#[test]
fn a_member_of_an_earlier_build_that_was_cut_off_for_a_moment_is_not_locked_out() {
    let mut net = found(4, &[1, 2, 2]);
    net.cut = vec![(0, 1), (0, 2), (1, 0), (2, 0)];
    net.run(Duration::from_millis(500));
    assert!(raise(&mut net, 1, 2).is_err(), "it is a member still");
    net.cut.clear();
    net.run(Duration::from_secs(3));
    assert!(
        net.alive().all(|(_, seen)| seen.ended.is_none() && seen.cell_views.last().is_some_and(|view| view.1 == 3))
    );
    assert_eq!(levels(&net), [1, 1, 1]);
}

#[test]
fn an_earlier_build_is_kept_out_of_a_later_level_and_told_why() {
    let mut net = found(5, &[2, 2]);
    let late = add(&mut net, Founding::Join, 1);
    net.run_until(5, |net| !net.nodes[late].1.refused.is_empty());
    net.run(Duration::from_secs(5));
    let told: Vec<String> = net.nodes[late].1.refused.iter().map(|event| format!("{event:?}")).collect();
    assert_eq!(told, [r#"Differs { setting: "level", cell: "2", own: "1" }"#], "said once");
    assert!(net.nodes[late].1.cell_views.is_empty());
    assert!(net.nodes[late].1.packets < 120, "it asks seldom: {} packets", net.nodes[late].1.packets);
}

#[test]
fn a_joiner_takes_the_settings_of_its_cell() {
    let mut net = Net::new(6, 0);
    let ms = Duration::from_millis;
    let timing = Timing { heartbeat: ms(50), suspect_after: ms(400), ballot_step: ms(60), ..Timing::default() };
    let limits = Limits { watchers: 3, slow_members: SlowMembers::Expel, ..Limits::default() };
    net.add_with(Founding::Alone, 1, timing, limits);
    net.add(Founding::Join);
    net.run_until(10, |net| net.alive().all(|(_, seen)| seen.cell_views.last().is_some_and(|view| view.1 == 2)));
    let [first, second] = [0, 1].map(|i| net.nodes[i].0.agreed());
    assert_eq!(first, second);
    assert_eq!((second.heartbeat, second.watchers, second.slow_members), (ms(50), 3, SlowMembers::Expel));
}

#[test]
fn a_joiner_with_another_window_is_refused_by_name_and_with_both_values() {
    let mut net = Net::new(7, 0);
    net.add(Founding::Alone);
    net.run(Duration::from_secs(1));
    let limits = Limits { group_window_bytes: 1 << 20, outbox_bytes: 1 << 17, ..Limits::default() };
    let other = net.add_with(Founding::Join, LEVEL, Timing::default(), limits);
    net.run_until(5, |net| !net.nodes[other].1.refused.is_empty());
    let Event::Differs { setting, cell, own } = &net.nodes[other].1.refused[0] else { panic!("something else") };
    assert_eq!((&**setting, &**cell, &**own), ("limits.group_window", "8MiB", "1MiB"));
}

#[test]
fn founders_with_different_windows_found_nothing_and_say_why() {
    let mut net = Net::new(8, 0);
    let named = || Founding::Named(vec!["m0".into(), "m1".into(), "m2".into()]);
    net.add(named());
    net.add(named());
    let limits = Limits { group_window_bytes: 1 << 20, outbox_bytes: 1 << 17, ..Limits::default() };
    net.add_with(named(), LEVEL, Timing::default(), limits);
    net.run(Duration::from_secs(8));
    assert!(net.alive().all(|(_, seen)| seen.cell_views.is_empty()));
    let told = |i: usize| net.nodes[i].1.refused.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>();
    let differs = r#"Differs { setting: "limits.group_window", cell: "8MiB", own: "1MiB" }"#;
    assert_eq!((told(1), told(2)), (Vec::new(), vec![differs.to_owned()]), "the one that is not like its leader");
    let why = "founder m2 has another limits.group_window: 1MiB, and this process 8MiB";
    assert!(net.nodes[0].1.searching.contains(why), "{}", net.nodes[0].1.searching);
}

#[test]
fn founders_of_two_builds_begin_at_the_lower_level() {
    let mut net = Net::new(9, 0);
    let named = || Founding::Named(vec!["m0".into(), "m1".into(), "m2".into()]);
    for level in [2, 1, 2] {
        net.add_with(named(), level, Timing::default(), Limits::default());
    }
    net.run_until(5, |net| net.alive().all(|(_, seen)| seen.cell_views.last().is_some_and(|view| view.1 == 3)));
    assert_eq!(levels(&net), [1, 1, 1]);
}

/// A group has its founder's default. The delivery of a multicast that names no stability shows it.
#[test]
fn a_groups_default_is_its_founders_and_whoever_joins_takes_it() {
    for uniformity in [Uniformity::Plain, Uniformity::Uniform] {
        let mut net = Net::new(10 + u64::from(uniformity.is_uniform()), 0);
        let other = Uniformity::from_flag(!uniformity.is_uniform());
        for (i, wished) in [uniformity, other, other].into_iter().enumerate() {
            let founding = if i == 0 { Founding::Alone } else { Founding::Join };
            net.add_with(founding, LEVEL, Timing::default(), Limits::default());
            let now = net.now;
            net.nodes[i]
                .0
                .join_group(
                    now,
                    "g",
                    uniformity.is_uniform(),
                    GroupTerms { uniformity: wished, ..GroupTerms::default() },
                )
                .expect("a good name");
            net.run_until(30, |net| net.alive().all(|(_, seen)| seen.views.last().is_some_and(|view| view.1 == i + 1)));
        }
        for i in 0..3 {
            assert_eq!(net.nodes[i].1.terms, Some(GroupTerms { uniformity, ..GroupTerms::default() }), "m{i}");
            for (asked, is) in [
                (Stability::GroupDefault, uniformity),
                (Stability::Plain, Uniformity::Plain),
                (Stability::Uniform, Uniformity::Uniform),
            ] {
                let (now, group) = (net.now, net.nodes[i].1.group.expect("a member"));
                let (process, seen, _) = &mut net.nodes[i];
                let accepted = process.multicast(now, group, Order::Total, asked, &[b"m"], seen);
                assert_eq!(accepted.map(|accepted| accepted.uniformity), Ok(is), "{asked:?}");
            }
        }
        net.run_until(5, |net| (0..3).all(|i| net.nodes[i].1.uniformities.len() == 9));
        let wanted = 3 * (1 + usize::from(uniformity.is_uniform()));
        assert!((0..3).all(|i| net.nodes[i].1.uniformities.iter().filter(|is| is.is_uniform()).count() == wanted));
    }
}
