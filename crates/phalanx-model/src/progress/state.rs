//! A state of the model of progress.

use super::fault::{Fault, Kind};
use super::{MEMBERS, Progress};

/// The suspicions and answers that a member sends with its heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The members that it suspects, by kind.
    pub suspects: [u8; 5],
    /// The members to which its last probe failed, by kind.
    pub failed: [u8; 5],
    /// The suspicions of others that it has answered, by kind: bit `suspecter * MEMBERS + suspected`. Its finding is in
    /// `failed`.
    pub answered: [u32; 5],
}

impl Record {
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it answers a suspicion.
    #[must_use]
    pub fn answers(&self, by: usize, whom: usize, kind: Kind) -> bool {
        self.answered[kind as usize] & bit(by, whom) != 0
    }
}

/// The bit of a suspicion in `answered`.
pub(super) fn bit(by: usize, whom: usize) -> u32 {
    1 << (by * MEMBERS + whom)
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The fault of this run.
    pub fault: Fault,
    /// The fault has healed.
    pub is_over: bool,
    /// Suspicions left that are made without a probe for another member's.
    pub suspicions: u8,
    /// Suspicions left that are made without a reason.
    pub alarms: u8,
    /// Each member's record.
    pub records: [Record; MEMBERS],
    /// The coordinator that removed members, and the removed set.
    pub removed: Option<(u8, u8)>,
}

impl State {
    pub(super) fn new(model: &Progress, fault: Fault) -> Self {
        Self {
            fault,
            is_over: false,
            suspicions: model.suspicions,
            alarms: model.alarms,
            records: [Record::default(); MEMBERS],
            removed: None,
        }
    }

    /// The fault that exists now.
    #[must_use]
    pub fn now(&self) -> Fault {
        if self.is_over { Fault::None } else { self.fault }
    }
}

/// One atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A member suspects another for lack of progress in a kind, and probes it.
    Suspect(u8, u8, Kind),
    /// A member does so although nothing is wrong.
    Alarm(u8, u8, Kind),
    /// The probe is answered: the member withdraws the suspicion.
    TakeBack(u8, u8, Kind),
    /// A member answers all suspicions that it knows.
    Answer(u8),
    /// The fault heals.
    Heal,
    /// A coordinator's ballot removes a set.
    Remove(u8, u8),
}
