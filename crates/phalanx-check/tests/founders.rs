//! M13: who is in the first view of a cell accepted it.

mod common;

use common::{SECOND, World, id, name};
use phalanx_check::Property;
use phalanx_trace::{Event, Header, LeaveReason, Trace};

/// Two processes start; something happens to the second of them; a third starts, and they found a cell.
fn founded(before: impl FnOnce(&mut World), between: impl FnOnce(&mut World)) -> World {
    let mut w = World::strangers(2);
    w.wait(SECOND);
    before(&mut w);
    w.wait(SECOND);
    w.traces.insert(2, Trace::new(Header::process("cell", &name(2), id(2), "clock")));
    w.push(2, Event::Start);
    w.push(2, Event::JoinAsked { cell: "cell".into() });
    w.wait(SECOND);
    between(&mut w);
    w.cell_view(0, 1, &[0, 1, 2], &[]);
    w.cell_view(2, 1, &[0, 1, 2], &[]);
    w
}

#[test]
fn m13_a_founder_that_was_there_may_be_gone_since() {
    for after in [false, true] {
        let mut w = founded(
            |_| (),
            |w| {
                if !after {
                    w.crash(1);
                }
            },
        );
        if after {
            w.crash(1);
        }
        [0, 2].iter().for_each(|&p| w.cell_view(p, 2, &[0, 2], &[(1, LeaveReason::Died)]));
        w.end(&[0, 2]);
        w.holds(&[Property::M13]);
    }
}

#[test]
fn m13_a_founder_that_was_dead_before_another_started() {
    let mut w = founded(|w| w.crash(1), |_| ());
    [0, 2].iter().for_each(|&p| w.cell_view(p, 2, &[0, 2], &[(1, LeaveReason::Died)]));
    w.end(&[0, 2]);
    w.breaks(Property::M13);
}

#[test]
fn m13_a_founder_that_nobody_could_reach_or_that_reached_nobody() {
    for deaf in [true, false] {
        let run = |mended: bool| {
            let links = || match deaf {
                true => vec![(name(0), name(1)), (name(2), name(1))],
                false => vec![(name(1), name(0)), (name(1), name(2))],
            };
            let mend = |w: &mut World| {
                if mended {
                    w.harness_says(Event::Mend { links: links() });
                    w.wait(SECOND);
                }
            };
            let mut w = founded(|w| w.harness_says(Event::Cut { links: links() }), mend);
            w.cell_view(1, 1, &[0, 1, 2], &[]);
            w.end(&[0, 1, 2]);
            w
        };
        run(true).holds(&[Property::M13]);
        run(false).breaks(Property::M13);
    }
}

#[test]
fn m13_a_stopped_founder() {
    let stop = |w: &mut World| w.harness_says(Event::Stop { incarnation: id(1) });
    let run = |runs_again: bool| {
        let mut w = founded(stop, |w| {
            if runs_again {
                w.harness_says(Event::Cont { incarnation: id(1) });
            }
        });
        if !runs_again {
            w.harness_says(Event::Cont { incarnation: id(1) });
        }
        w.cell_view(1, 1, &[0, 1, 2], &[]);
        w.end(&[0, 1, 2]);
        w
    };
    run(true).holds(&[Property::M13]);
    run(false).breaks(Property::M13);
}
