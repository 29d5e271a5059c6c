//! E1: records that stand where they may not.

mod common;

use common::{GROUP, World, causal, fifo, id};
use phalanx_check::{Options, Property, Require, check};
use phalanx_trace::{Event, LeaveReason};

#[test]
fn e1_time_goes_backwards() {
    let mut w = World::cell(2);
    w.traces[0].push(1, Event::NonPrimary);
    w.breaks(Property::E1);
}

#[test]
fn e1_sends_skip_a_number() {
    let mut w = World::group(2);
    w.send(fifo(0, 1, 2));
    w.breaks(Property::E1);
}

#[test]
fn e1_a_process_of_another_cell() {
    let mut w = World::group(2);
    w.traces[1].header.cell = "elsewhere".into();
    let report = w.breaks(Property::E1);
    assert!(report.to_string().contains("asked to join another cell"), "{report}");
    for event in w.traces[1].records.iter_mut().map(|r| &mut r.event) {
        if let Event::JoinAsked { cell } = event {
            *cell = "elsewhere".into();
        }
    }
    let report = w.breaks(Property::E1);
    assert!(report.to_string().contains("is of cell"), "{report}");
}

#[test]
fn e1_a_process_of_another_name() {
    let mut w = World::group(2);
    w.traces[1].header.node = "nobody".into();
    w.breaks(Property::E1);
}

#[test]
fn e1_a_quiet_phase_of_a_run_about_nothing() {
    let quiet = |about: Option<&[&str]>| {
        let mut w = World::group(2);
        if let Some(codes) = about {
            w.harness_says(Event::About { codes: codes.iter().map(|&code| code.to_owned()).collect() });
        }
        w.quiet();
        w.traces.last_mut().expect("the harness").records.retain(|r| match &r.event {
            Event::About { .. } => about.is_some(),
            _ => true,
        });
        w.wait(20 * common::SECOND);
        w.end(&[0, 1]);
        w
    };
    quiet(Some(&["M1"])).holds(&[Property::V1]);
    for w in [quiet(None), quiet(Some(&[]))] {
        let report = w.breaks(Property::E1);
        assert!(report.to_string().contains("--require"), "{report}");
        // A caller that requires properties by name, or none, knows what the run was about.
        for require in [Require::These(vec![Property::M1]), Require::Nothing] {
            let report = check(&w.traces, &Options { require, ..common::options() });
            assert!(report.passed, "{report}");
        }
        let report = check(&w.traces, &Options { complete: false, ..common::options() });
        assert!(report.passed, "{report}");
    }
}

#[test]
fn e1_records_stand_where_they_may_not() {
    let broken: [fn(&mut World); 12] = [
        |w| w.push(0, Event::Start),
        |w| w.push(0, Event::Crash { incarnation: id(1) }),
        |w| w.push(0, Event::Primary),
        |w| w.push(0, Event::GroupLeft { group: 99 }),
        |w| w.digest(0, 1, 1, 5),
        |w| w.digest(0, 2, 0, 5),
        |w| w.push(0, Event::SnapshotOut { group: GROUP, view: 9, digest: 1 }),
        |w| w.push(0, Event::P2pSend { to: id(1), k: 2, hash: 3 }),
        |w| {
            w.push(0, Event::End);
            w.push(0, Event::NonPrimary);
        },
        |w| {
            w.push(0, Event::LeaveAsked);
            w.push(0, Event::Left);
            w.push(0, Event::NonPrimary);
        },
        |w| {
            let harness = w.harness();
            w.push(harness, Event::NonPrimary);
        },
        |w| {
            let again = w.traces[0].clone();
            w.traces.push(again);
        },
    ];
    for (i, break_it) in broken.iter().enumerate() {
        let mut w = World::group(2);
        break_it(&mut w);
        let report = w.report();
        assert!(report.violated().contains(&Property::E1), "case {i}: {report}");
        assert!(i == 11 || report.violated().len() == 1, "case {i}: {report}");
    }
}

#[test]
fn e1_a_position_without_total_order() {
    let mut w = World::group(2);
    w.send(causal(0, 1, 1));
    w.deliver_at(1, causal(0, 1, 1), 1);
    w.breaks(Property::E1);
}

#[test]
fn e1_holds_for_primary_after_nonprimary() {
    let mut w = World::group(2);
    w.push(0, Event::NonPrimary);
    w.push(0, Event::Primary);
    w.push(0, Event::P2pSend { to: id(1), k: 1, hash: 3 });
    w.push(1, Event::P2pDeliver { from: id(0), k: 1, hash: 3 });
    w.push(0, Event::P2pSend { to: id(1), k: 2, hash: 3 });
    w.holds(&[Property::E1, Property::I1, Property::I3]);
}

/// A run of three that ends properly, `change`d before the end of all.
fn ended(change: impl Fn(&mut World)) -> World {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    change(&mut w);
    w
}

#[test]
fn e1_traces_have_their_end() {
    // Recorded ends and recorded deaths, before or after the harness's end.
    ended(|w| w.end(&[0, 1, 2])).holds(&[Property::E1]);
    ended(|w| w.end(&[0, 1])).holds(&[Property::E1]);
    let died = |w: &mut World| {
        w.crash(2);
        w.end(&[0, 1]);
    };
    ended(died).holds(&[Property::E1]);
    let unsaid = |w: &mut World| {
        w.harness_says(Event::End);
        [0, 1].iter().for_each(|&p| w.push(p, Event::End));
    };
    let w = ended(unsaid);
    let report = w.breaks(Property::E1);
    assert!(report.to_string().contains("the trace of c (0000000000000003) has no end"), "{report}");
    // With a part of the traces nothing can be concluded.
    let report = check(&w.traces, &Options { complete: false, ..common::options() });
    assert!(report.passed, "{report}");
    // A harness that kills after its end records nothing else there.
    let talks = |w: &mut World| {
        w.end(&[0, 1]);
        w.harness_says(Event::Stop { incarnation: 3 });
    };
    ended(talks).breaks(Property::E1);
}

#[test]
fn e1_every_member_has_a_trace() {
    let mut w = World::cell(3);
    w.end(&[0, 1, 2]);
    w.traces.remove(1);
    let report = w.breaks(Property::E1);
    assert!(report.to_string().contains("is a member of cell view 1 and has no trace"), "{report}");
}

#[test]
fn e1_a_trace_that_was_cut() {
    let mut w = ended(|w| {
        w.crash(2);
        w.end(&[0, 1]);
    });
    w.traces[2].truncated = true;
    w.holds(&[Property::E1]);
    let harness = w.harness();
    let (mut survivor, mut harness_cut) = (w.clone(), w.clone());
    survivor.traces[1].truncated = true;
    survivor.breaks(Property::E1);
    harness_cut.traces[harness].truncated = true;
    harness_cut.breaks(Property::E1);
    // No record says which processes were killed.
    w.traces.remove(harness);
    let some = Options { complete: false, ..common::options() };
    assert_eq!(check(&w.traces, &some).violated(), [Property::E1]);
    assert_eq!(w.report().violated(), [Property::E1], "and the harness's trace is missing");
}

#[test]
fn e1_the_dead_and_the_stopped_do_nothing() {
    let late = |event: Event, again: Option<Event>| {
        let mut w = World::group(3);
        w.harness_says(event);
        w.multicast(fifo(0, 1, 1), &[0, 1]);
        if let Some(again) = again.clone() {
            w.harness_says(again);
        }
        w.deliver(2, fifo(0, 1, 1));
        if again.is_none() {
            w.harness_says(Event::Cont { incarnation: 3 });
        }
        w.end(&[0, 1, 2]);
        w
    };
    let (stop, cont) = (Event::Stop { incarnation: 3 }, Event::Cont { incarnation: 3 });
    late(stop.clone(), Some(cont)).holds(&[Property::E1]);
    let report = late(stop, None).breaks(Property::E1);
    assert!(report.to_string().contains("is stopped, and goes on"), "{report}");
    let report = late(Event::Crash { incarnation: 3 }, None).breaks(Property::E1);
    assert!(report.to_string().contains("was killed, and goes on"), "{report}");
}

#[test]
fn m8_whoever_ends_after_a_view_without_it_was_told() {
    let gone = [(2, LeaveReason::Unreachable)];
    let run = |told: bool, left_first: bool| {
        let mut w = World::cell(3);
        if left_first {
            w.push(2, Event::End);
        }
        [0, 1].iter().for_each(|&p| w.cell_view(p, 2, &[0, 1], &gone));
        if told {
            w.push(2, Event::Excluded { view: 2 });
        }
        if !left_first {
            w.push(2, Event::End);
        }
        w.wait(common::SECOND);
        w.end(&[0, 1]);
        w
    };
    run(true, false).holds(&[Property::M8]);
    // Its application stopped by itself, before.
    run(false, true).holds(&[]);
    run(false, false).breaks(Property::M8);
}
