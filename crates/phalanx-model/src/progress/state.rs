//! What a state of the model holds.

use super::fault::{Fault, Kind};
use super::{MEMBERS, Progress};

/// What a member says with its heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whom it suspects, by kind.
    pub suspects: [u8; 5],
    /// To whom its last probe failed, by kind.
    pub failed: [u8; 5],
    /// Which suspicions of others it has answered, by kind: bit `suspecter * MEMBERS + suspected`. What it found is in `failed`.
    pub answered: [u32; 5],
}

impl Record {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it answered a suspicion.
    #[must_use]
    pub fn answers(&self, by: usize, whom: usize, kind: Kind) -> bool {
        self.answered[kind as usize] & bit(by, whom) != 0
    }
}

/// The place of a suspicion among the answered ones.
pub(super) fn bit(by: usize, whom: usize) -> u32 {
    1 << (by * MEMBERS + whom)
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is broken, or will be.
    pub fault: Fault,
    /// It is over.
    pub is_over: bool,
    /// Suspicions that may still be made without a probe for another's.
    pub suspicions: u8,
    /// Suspicions without a reason that may still be made.
    pub alarms: u8,
    /// What each member says.
    pub records: [Record; MEMBERS],
    /// Who was removed, and by whom.
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

    /// What is broken now.
    #[must_use]
    pub fn now(&self) -> Fault {
        if self.is_over { Fault::None } else { self.fault }
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A member suspects another for lack of progress in a kind, and probes it.
    Suspect(u8, u8, Kind),
    /// It does so though nothing is wrong.
    Alarm(u8, u8, Kind),
    /// The probe is answered: it takes the suspicion back.
    TakeBack(u8, u8, Kind),
    /// A member answers all that it knows of.
    Answer(u8),
    /// The fault is over.
    Heal,
    /// A coordinator's ballot removes a set.
    Remove(u8, u8),
}
