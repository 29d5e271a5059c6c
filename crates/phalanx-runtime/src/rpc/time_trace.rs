//! Where a call spent its time: a ring of events and their times, at about ten nanoseconds a record.
//!
//! Modelled on `TimeTrace` of `RAMCloud` (its sources): it stores the processor's raw counter, and converts it to time
//! only when it is read.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

use phalanx_core::Instant;
use phalanx_core::rpc::{ClientCallId, TracePoint};
use phalanx_driver::ticks;

use crate::clock;

/// An event at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// An event of a call. A client's record holds its call id, a server's the number there.
    Call(TracePoint),
    /// Packets were received; the record holds their number.
    Received,
    /// Queued packets were handed to the system.
    Flushed,
    /// The thread is about to sleep.
    Sleeps,
    /// The thread woke.
    Wakes,
}

#[derive(Clone, Copy)]
struct Record {
    ticks: u64,
    what: Happened,
    of: u64,
}

/// The latest records of a port.
pub struct TimeTrace {
    ring: Box<[Record]>,
    /// The number of records ever made.
    count: u64,
    /// The start, by the counter and by the clock.
    began: (u64, Instant),
}

/// A record as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The time, comparable between all processes of the machine.
    pub at: Instant,
    /// The event.
    pub what: Happened,
    /// The call, or the number of packets.
    pub of: u64,
}

impl Display for Recorded {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let of = self.of;
        match self.what {
            Happened::Call(mark) => write!(to, "call {of} {}", mark.name()),
            Happened::Received => write!(to, "{of} packets came"),
            Happened::Flushed => to.write_str("what waited was sent"),
            Happened::Sleeps => to.write_str("sleeps"),
            Happened::Wakes => to.write_str("wakes"),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "places in the ring come from the low bits, and times are short")]
impl TimeTrace {
    /// Keeps the last `records`, rounded up to a power of two: 24 bytes each.
    #[must_use]
    pub fn new(records: usize) -> Self {
        let nothing = Record { ticks: 0, what: Happened::Flushed, of: 0 };
        let ring = vec![nothing; records.clamp(2, RECORDS_MAX).next_power_of_two()].into_boxed_slice();
        Self { ring, count: 0, began: (ticks(), clock::now()) }
    }

    /// Makes a record.
    #[inline]
    pub fn note(&mut self, what: Happened, of: u64) {
        let at = self.count as usize & (self.ring.len() - 1);
        self.ring[at] = Record { ticks: ticks(), what, of };
        self.count += 1;
    }

    /// The kept records, oldest first.
    #[must_use]
    pub fn read(&self) -> Vec<Recorded> {
        let (ticks_now, now) = (ticks(), clock::now());
        let (ticks_then, then) = self.began;
        // The counter runs at a constant rate, so two moments known on both clocks give the conversion, the better the
        // further apart they are.
        let per_tick = now.since(then).as_nanos() as f64 / (ticks_now.saturating_sub(ticks_then).max(1)) as f64;
        let kept = self.count.min(self.ring.len() as u64);
        let records = (self.count - kept..self.count).map(|at| self.ring[at as usize & (self.ring.len() - 1)]);
        let time =
            |ticks: u64| then + Duration::from_nanos((ticks.saturating_sub(ticks_then) as f64 * per_tick) as u64);
        records.map(|Record { ticks, what, of }| Recorded { at: time(ticks), what, of }).collect()
    }
}

/// The slowest call that both started and ended in `records`, and its span of time.
#[must_use]
pub fn slowest(records: &[Recorded]) -> Option<(ClientCallId, RangeInclusive<Instant>)> {
    let mut begun = BTreeMap::new();
    let mut slowest: Option<(ClientCallId, RangeInclusive<Instant>)> = None;
    for record in records {
        match record.what {
            Happened::Call(TracePoint::Called) => drop(begun.insert(record.of, record.at)),
            Happened::Call(TracePoint::Ended) => {
                let Some(began) = begun.remove(&record.of) else { continue };
                if slowest.as_ref().is_none_or(|(_, time)| record.at.since(began) > time.end().since(*time.start())) {
                    slowest = Some((ClientCallId(record.of), began..=record.at));
                }
            }
            _ => {}
        }
    }
    slowest
}

/// Formats records, one per line, with the microseconds since the first and since the previous one. Each line names its
/// maker, so that records of several ports of one machine can be merged into one order.
#[must_use]
pub fn story<'a>(records: impl IntoIterator<Item = (Instant, &'a str, String)>) -> String {
    let mut records: Vec<(Instant, &str, String)> = records.into_iter().collect();
    records.sort_by_key(|record| record.0);
    let mut text = format!("{:>10} {:>9}\n", "us", "since");
    let mut times = None;
    for (at, name, what) in records {
        let (first, before) = times.unwrap_or((at, at));
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:>10.2} {:>+9.2}  {name}: {what}", us(at.since(first)), us(at.since(before)));
        times = Some((first, at));
    }
    text
}

/// Most records of a ring.
const RECORDS_MAX: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_records_are_kept_in_order_and_a_slow_call_is_found() {
        let mut trace = TimeTrace::new(8);
        for of in 0..20 {
            trace.note(Happened::Received, of);
        }
        trace.note(Happened::Call(TracePoint::Called), 7);
        std::thread::sleep(Duration::from_millis(3));
        trace.note(Happened::Call(TracePoint::Ended), 7);
        trace.note(Happened::Call(TracePoint::Called), 8);
        trace.note(Happened::Call(TracePoint::Ended), 8);
        let records = trace.read();
        assert_eq!(records.iter().map(|record| record.of).collect::<Vec<_>>(), [16, 17, 18, 19, 7, 7, 8, 8]);
        assert!(records.is_sorted_by_key(|record| record.at));
        let (call_id, time) = slowest(&records).expect("there are two");
        assert!(call_id == ClientCallId(7) && time.end().since(*time.start()) >= Duration::from_millis(3), "{time:?}");
        let of_it = records.iter().filter(|record| time.contains(&record.at));
        let told = story(of_it.map(|record| (record.at, "client", record.to_string())));
        // The record just before may have the same time.
        assert!((3..=4).contains(&told.lines().count()), "{told}");
        assert!(told.contains("client: call 7 called"), "{told}");
    }
}
