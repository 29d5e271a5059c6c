//! Where a call spent its time: a ring of what happened and when, at about ten nanoseconds a record.
//!
//! After `TimeTrace` of `RAMCloud` (its sources): the processor's count is noted as it is, and turned into time when it is read.

use std::fmt::Write;
use std::time::Duration;

use phalanx_core::Instant;
use phalanx_core::rpc::{Mark, Ticket};
use phalanx_driver::ticks;

use crate::clock;

/// What happened at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happened {
    /// To a call: of its client its ticket, of its server its number there.
    Call(Mark),
    /// So many packets were taken.
    Received,
    /// What waited to be sent was handed to the system.
    Flushed,
    /// The thread was to sleep.
    Sleeps,
    /// It woke.
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
    /// Records ever made.
    count: u64,
    /// One moment in both terms.
    began: (u64, Instant),
}

/// A record as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When, as all processes of the machine would say it.
    pub at: Instant,
    /// What.
    pub what: Happened,
    /// Of which call, or how many.
    pub of: u64,
}

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

    /// What is kept, the oldest first.
    #[must_use]
    pub fn read(&self) -> Vec<Recorded> {
        let (ticks_now, now) = (ticks(), clock::now());
        let (ticks_then, then) = self.began;
        // The count runs evenly: two moments known in both terms are enough, and the further apart the better.
        let per_tick = now.since(then).as_nanos() as f64 / (ticks_now.saturating_sub(ticks_then).max(1)) as f64;
        let kept = self.count.min(self.ring.len() as u64);
        let records = (self.count - kept..self.count).map(|at| self.ring[at as usize & (self.ring.len() - 1)]);
        let time =
            |ticks: u64| then + Duration::from_nanos((ticks.saturating_sub(ticks_then) as f64 * per_tick) as u64);
        records.map(|Record { ticks, what, of }| Recorded { at: time(ticks), what, of }).collect()
    }
}

/// The call that took longest of those that began and ended in `records`: its ticket, and how long.
#[must_use]
pub fn slowest(records: &[Recorded]) -> Option<(Ticket, Duration)> {
    let mut begun = std::collections::BTreeMap::new();
    let mut slowest = None;
    for record in records {
        match record.what {
            Happened::Call(Mark::Called) => drop(begun.insert(record.of, record.at)),
            Happened::Call(Mark::Ended) => {
                if let Some(began) = begun.remove(&record.of) {
                    slowest = slowest.max(Some((record.at.since(began), Ticket(record.of))));
                }
            }
            _ => {}
        }
    }
    slowest.map(|(took, ticket)| (ticket, took))
}

/// What happened from the beginning of a call to its end, one line for each record: microseconds since the beginning and since the
/// line before. `others`: ports of the same machine, such as the server's, with their names.
#[must_use]
pub fn story(ticket: Ticket, mine: &[Recorded], others: &[(&str, &[Recorded])]) -> String {
    let of_call = |mark: Mark| mine.iter().find(|r| r.what == Happened::Call(mark) && r.of == ticket.0);
    let (Some(began), Some(ended)) = (of_call(Mark::Called), of_call(Mark::Ended)) else {
        return format!("call {} is not in the trace: it keeps the latest records only\n", ticket.0);
    };
    let told = |at: Instant| at >= began.at && at <= ended.at;
    let mut lines: Vec<(Instant, &str, &Recorded)> =
        mine.iter().filter(|record| told(record.at)).map(|record| (record.at, "client", record)).collect();
    for (name, records) in others {
        lines.extend(records.iter().filter(|record| told(record.at)).map(|record| (record.at, *name, record)));
    }
    lines.sort_by_key(|line| line.0);
    let mut text = format!("{:>10} {:>9}\n", "us", "since");
    let mut before = began.at;
    for (at, name, Recorded { what, of, .. }) in lines {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let what = match what {
            Happened::Call(mark) => format!("call {of} {}", mark.name()),
            Happened::Received => format!("{of} packets came"),
            Happened::Flushed => "what waited was sent".to_owned(),
            Happened::Sleeps => "sleeps".to_owned(),
            Happened::Wakes => "wakes".to_owned(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:>10.2} {:>+9.2}  {name}: {what}", us(at.since(began.at)), us(at.since(before)));
        before = at;
    }
    text
}

/// Of a ring.
const RECORDS_MAX: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_in_order_and_a_slow_call_is_told() {
        let mut trace = TimeTrace::new(8);
        for of in 0..20 {
            trace.note(Happened::Received, of);
        }
        trace.note(Happened::Call(Mark::Called), 7);
        std::thread::sleep(Duration::from_millis(3));
        trace.note(Happened::Call(Mark::Ended), 7);
        trace.note(Happened::Call(Mark::Called), 8);
        trace.note(Happened::Call(Mark::Ended), 8);
        let records = trace.read();
        assert_eq!(records.iter().map(|record| record.of).collect::<Vec<_>>(), [16, 17, 18, 19, 7, 7, 8, 8]);
        assert!(records.is_sorted_by_key(|record| record.at));
        let (ticket, took) = slowest(&records).expect("there are two");
        assert!(ticket == Ticket(7) && took >= Duration::from_millis(3), "{took:?}");
        let told = story(ticket, &records, &[]);
        assert_eq!(told.lines().count(), 3, "{told}");
        assert!(told.contains("client: call 7 called"), "{told}");
        assert!(story(Ticket(1), &records, &[]).contains("not in the trace"));
    }
}
