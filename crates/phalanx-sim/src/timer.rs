//! The timers of faults: their numbers, and what each is for.

use crate::world::Event;

/// Purposes of a fault's timer. A timer's number combines the fault's index and one of these.
pub(crate) const STRIKE: u32 = 0;

pub(crate) const UNDO: u32 = 1;

pub(crate) const FLAP: u32 = 2;

pub(crate) const RUIN: u32 = 3;

/// The timer of a group that changes all the time. No fault has this number.
pub(crate) const CHURN: u32 = u32::MAX;

pub(crate) fn churn_timer() -> Event {
    Event::Timer(CHURN)
}

/// The timer with which links of the ruins change again.
pub(crate) fn ruin_timer() -> Event {
    timer(0, RUIN)
}

pub(crate) fn timer(fault: usize, what: u32) -> Event {
    let fault = u32::try_from(fault).expect("a plan has few faults");
    Event::Timer(fault * 4 + what)
}
