//! M12: processes that are out of a group without having asked.

mod common;

use common::{GROUP, World, id};
use phalanx_check::{Options, Property, Report, Require, check};
use phalanx_trace::{Event, LeaveReason, Trouble};

/// Three in a group. One of them lost it for the reason `why`, the other two record `said` of it if they go on, and the
/// harness injected a defect or not.
fn run(why: LeaveReason, said: Option<LeaveReason>, defect: bool) -> Report {
    let mut w = World::group(3);
    if defect {
        w.harness_says(Event::Trouble { what: Trouble::Nonsense, incarnation: id(0), begins: true });
    }
    for p in 1..3 {
        if let Some(said) = said {
            w.group_view(p, 2, Some(1), &[1, 2], &[], &[(0, said)]);
        }
    }
    w.push(0, Event::GroupLost { group: GROUP, why });
    w.push(0, Event::GroupLeft { group: GROUP });
    check(&w.traces, &Options { complete: true, require: Require::Nothing, ..Options::default() })
}

fn breaks(report: &Report) -> bool {
    report.violated().contains(&Property::M12)
}

#[test]
fn a_group_is_lost_with_a_cause_and_all_say_the_same() {
    let anew = run(LeaveReason::Anew, Some(LeaveReason::Anew), true);
    assert!(!breaks(&anew), "{anew}");
    assert_eq!(anew.instances(Property::M12), 1);
    assert!(breaks(&run(LeaveReason::Anew, Some(LeaveReason::Anew), false)), "nothing made no sense");
    assert!(breaks(&run(LeaveReason::Anew, Some(LeaveReason::Nonsense), true)), "the others say something else");
    assert!(!breaks(&run(LeaveReason::Stopped, None, true)));
    assert!(breaks(&run(LeaveReason::Stopped, Some(LeaveReason::Stopped), true)), "the others go on");
    assert!(breaks(&run(LeaveReason::Stopped, None, false)));
}

/// Who has no state goes with the last member that has it, though nothing made no sense to anybody.
#[test]
fn who_refused_the_state_goes_with_the_last_that_has_it() {
    for refuses in [false, true] {
        let mut w = World::taker(2, refuses);
        w.push(0, Event::GroupLost { group: GROUP, why: LeaveReason::Anew });
        w.push(0, Event::GroupLeft { group: GROUP });
        let report = check(&w.traces, &Options { complete: true, require: Require::Nothing, ..Options::default() });
        assert_eq!(breaks(&report), !refuses, "{report}");
    }
}

#[test]
fn nobody_ends_by_itself_unasked() {
    let run = |level: u16, defect: bool, asked: bool| {
        let mut w = World::strangers(2);
        w.cell_view(1, 1, &[0, 1], &[]);
        w.push(1, Event::Level { level, known: 2 });
        if defect {
            w.harness_says(Event::Trouble { what: Trouble::Nonsense, incarnation: id(0), begins: true });
        }
        if asked {
            w.push(1, Event::LeaveAsked);
        }
        w.push(1, Event::Left);
        breaks(&check(&w.traces, &Options { complete: true, require: Require::Nothing, ..Options::default() }))
    };
    assert!(!run(2, false, true) && !run(1, true, false));
    assert!(run(2, true, false) && run(1, false, false));
}
