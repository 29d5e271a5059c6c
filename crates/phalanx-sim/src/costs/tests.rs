use super::*;

/// A run in which nothing is wrong.
fn calm(seed: u64, members: usize) -> Cost {
    run(Trouble::Nothing, "nothing", seed, members, 10)
}

#[test]
fn without_a_fault_nobody_waits_for_long_and_nothing_changes() {
    for (seed, members) in [(1, 3), (2, 7), (3, 2)] {
        let cost = calm(seed, members);
        assert!(cost.violations.is_empty(), "{}", cost.story.unwrap_or_default());
        assert!((1..200).contains(&cost.waited_ms), "{} ms", cost.waited_ms);
        assert_eq!((cost.left_out.len(), cost.members), (0, members));
    }
}

#[test]
fn a_cell_that_stands_still_is_seen() {
    // No member is suspected within two seconds, and uniform messages wait for all members.
    let cost = cost(FaultKind::Stopped, 5, 4, 2);
    assert!(cost.waited_ms > 1_500, "{} ms", cost.waited_ms);
    // Without a bound nothing exceeds it; with a small one something does.
    assert!(Cost { bound_ms: Some(1_500), ..cost.clone() }.is_exceeded());
    assert!(!Cost { bound_ms: None, ..cost }.is_exceeded());
}

#[test]
fn the_dead_are_left_out_and_the_others_go_on() {
    let cost = cost(FaultKind::Dead, 6, 5, 60);
    assert!(cost.is_kept(), "{cost:?}");
    assert!((3_000..cost.bound_ms.unwrap_or(0)).contains(&cost.waited_ms), "{} ms", cost.waited_ms);
    assert_eq!(cost.minutes, [Changes { views: 1, exclusions: 1, transfers: 0 }]);
}

#[test]
fn whom_a_fault_may_cost_is_the_younger_end_and_nobody_else() {
    for seed in 0..20 {
        let mut lab = Lab::new(Trouble::Fault(FaultKind::Link), seed, 4);
        assert_eq!(lab.run(0), Ok(()));
        assert_eq!((lab.hit.ends.len(), lab.whole().len()), (2, 2));
        assert!(lab.hit.may_go.is_some_and(|slot| lab.hit.ends.contains(&slot)));
        let mut lab = Lab::new(Trouble::Fault(FaultKind::Deaf), seed, 2);
        assert_eq!(lab.run(0), Ok(()));
        assert_eq!(lab.whole().len(), 1);
    }
}

#[test]
fn the_older_of_two_goes_on_alone() {
    for seed in 0..6 {
        let cost = cost(FaultKind::Link, seed, 2, 20);
        assert!(cost.is_kept() && cost.waited_ms > 2_000, "{cost:?}");
    }
}

#[test]
fn a_seed_does_the_same_again() {
    let once = |seed| format!("{:?}", cost(FaultKind::OneWay, seed, 0, 20));
    assert_eq!(once(9), once(9));
}

#[test]
fn the_worst_minute_is_none_of_the_first() {
    let minute = |views, exclusions| Changes { views, exclusions, transfers: 0 };
    let cost = Cost { minutes: vec![minute(9, 9), minute(1, 4), minute(3, 0)], ..calm(1, 3) };
    assert_eq!(cost.worst_minute(), minute(3, 4));
}

#[test]
fn an_overloaded_cell_keeps_all_and_delivers_all() {
    for bottleneck in Bottleneck::ALL {
        let run = overload(bottleneck, 3, 4, 30);
        assert!(run.violations.is_empty(), "{}", run.story.unwrap_or_default());
        assert!(run.is_kept(), "{run:?}");
    }
}

#[test]
fn a_cell_that_does_all_it_is_asked_for_is_not_overloaded() {
    let run = Overload { asked_bytes: 100, refused_bytes: 50, ..overload(Bottleneck::Interfaces, 3, 3, 5) };
    assert!(!run.is_met() && !run.is_kept());
    assert!(Overload { refused_bytes: 51, ..run }.is_met());
}

/// Links drop packets that would wait long. Their queues grow to 200 ms, and retransmissions must not keep them full.
#[test]
fn overloaded_links_hold_nobody_up_for_seconds() {
    for seed in [2, 3] {
        let run = overload(Bottleneck::Links, seed, 0, 40);
        assert!(run.is_kept() && run.waited_ms < 1_000, "{run:?}");
    }
}
