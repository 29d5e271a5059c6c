//! The measurement: only the call of the tap stands between two readings of the counter.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::cycles::{after, before};
use super::fit::Draw;
use super::linkage::{Frame, Linkage, Side};
use super::paper::SetUp;
use super::times::TimesByLength;
use crate::crew::Interrupt;
use crate::error::BenchError;

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) lengths: Vec<usize>,
    pub(crate) side: Side,
    pub(crate) set_up: SetUp,
    /// Whether a packet is out of the caches. Otherwise it was just copied to where it lies.
    pub(crate) is_evicted: bool,
    pub(crate) time: Duration,
    /// Steps of the counter from which on a sample is discarded.
    pub(crate) bound: u64,
}

/// Shows packets to a linkage until the time is over: each sweep has one of each length, in an order that no predictor
/// knows beforehand, and one bracket around nothing for each.
///
/// # Errors
/// If the user asked to stop, or if the linkage has not kept what it should.
pub(crate) fn measure(
    linkage: &mut impl Linkage,
    plan: &Plan,
    interrupt: &Interrupt,
) -> Result<TimesByLength, BenchError> {
    let mut times = TimesByLength::new(plan.lengths.len(), plan.bound);
    let (mut order, mut draw) = ((0..plan.lengths.len()).collect::<Vec<usize>>(), Draw(7));
    let mut frame = Frame::new();
    // What grows, grows before it is timed.
    for sweep in 0..WARM_SWEEPS {
        one_sweep(linkage, plan, &order, &mut frame, &mut |_, _| {});
        shuffle(&mut order, &mut draw);
        if sweep % 16 == 0 {
            interrupt.check()?;
        }
    }
    let (first, start) = (linkage.kept(), Instant::now());
    while start.elapsed() < plan.time {
        interrupt.check()?;
        for _ in 0..SWEEPS {
            one_sweep(linkage, plan, &order, &mut frame, &mut |length, steps| times.note(length, steps));
            for _ in &order {
                let start = before();
                let end = after();
                times.note_empty(end.wrapping_sub(start));
            }
            shuffle(&mut order, &mut draw);
        }
    }
    let last = linkage.kept();
    let sweeps = times.count() / plan.lengths.len().max(1) as u64;
    let expected = match plan.set_up {
        SetUp::Accept => (times.count(), sweeps * plan.lengths.iter().sum::<usize>() as u64),
        SetUp::Reject => (0, 0),
    };
    let kept = (last.0 - first.0, last.1 - first.1);
    if kept != expected {
        return Err(BenchError::Child(format!("packets and bytes kept: {kept:?}; it should be {expected:?}")));
    }
    Ok(times)
}

#[inline]
fn one_sweep(
    linkage: &mut impl Linkage,
    plan: &Plan,
    order: &[usize],
    frame: &mut Frame,
    note: &mut impl FnMut(usize, u64),
) {
    for &length in order {
        frame.fill(plan.lengths[length]);
        linkage.arrive(frame);
        if plan.is_evicted {
            linkage.evict(frame);
        }
        let parts = black_box(frame.parts(plan.side));
        let start = before();
        linkage.tap(parts);
        let end = after();
        note(length, end.wrapping_sub(start));
        linkage.settle();
    }
}

fn shuffle(order: &mut [usize], draw: &mut Draw) {
    for at in (1..order.len()).rev() {
        order.swap(at, draw.below(at + 1));
    }
}

const WARM_SWEEPS: usize = 32;
/// Sweeps between two looks at the clock.
const SWEEPS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tap::in_place::InPlace;
    use crate::tap::linkage::{Parts, lengths};

    fn plan(set_up: SetUp) -> Plan {
        let (side, time) = (Side::Write, Duration::from_millis(5));
        Plan { lengths: lengths(), side, set_up, is_evicted: true, time, bound: 1 << 20 }
    }

    #[test]
    fn every_length_is_sampled_as_often() {
        for set_up in SetUp::ALL {
            let plan = plan(set_up);
            let times =
                measure(&mut InPlace::new(set_up), &plan, &Interrupt::default()).expect("it keeps what it should");
            assert!(times.count() > 0 && times.count().is_multiple_of(plan.lengths.len() as u64));
        }
    }

    #[test]
    fn a_linkage_that_loses_packets_gives_no_figure() {
        struct Deaf;
        impl Linkage for Deaf {
            fn tap(&mut self, _parts: Parts<'_>) {}

            fn kept(&self) -> (u64, u64) {
                (0, 0)
            }
        }
        let error = measure(&mut Deaf, &plan(SetUp::Accept), &Interrupt::default()).err().expect("it keeps nothing");
        assert!(error.to_string().contains("kept"), "{error}");
        let asked = Interrupt::default();
        asked.0.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(measure(&mut Deaf, &plan(SetUp::Reject), &asked), Err(BenchError::Interrupted)));
    }
}
