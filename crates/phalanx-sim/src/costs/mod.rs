//! The cost of one fault to the other members. A cell with steady traffic suffers one fault that stays. The run
//! measures how long members on no faulty path were without new messages, against the bound that the settings promise
//! ([`FaultKind::costs_at_most`]). If the fault stays for minutes, it also counts view changes. Another run overloads a
//! cell in which no process is faulty.

mod bottleneck;
mod lab;
mod measure;
mod overload;
#[cfg(test)]
mod tests;

use phalanx_core::member::FaultKind;
use phalanx_core::{Limits, Timing};
use serde::Serialize;

use self::lab::{Lab, Trouble, guarded, judged};
use crate::clock::{MS, SECOND};
use crate::result::Violation;

pub use self::bottleneck::{Bottleneck, TIMES};
pub use self::measure::Changes;
pub use self::overload::{Overload, overload};

/// The kinds that are simulated. Disks and descriptors are not.
pub const SIMULATED: [FaultKind; 14] = [
    FaultKind::Dead,
    FaultKind::Stopped,
    FaultKind::Deaf,
    FaultKind::Mute,
    FaultKind::DataPort,
    FaultKind::ControlPort,
    FaultKind::LongPackets,
    FaultKind::Link,
    FaultKind::OneWay,
    FaultKind::LateTurns,
    FaultKind::HangingApplication,
    FaultKind::HangingJoiner,
    FaultKind::FlappingLink,
    FaultKind::FlappingHost,
];

/// The kinds for which view changes are counted.
pub const CHURNING: [FaultKind; 3] = [FaultKind::Link, FaultKind::FlappingLink, FaultKind::FlappingHost];

/// Result of one run of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The seed.
    pub seed: u64,
    /// The fault's name; see [`FaultKind::name`].
    pub kind: &'static str,
    /// Members of the cell when the fault began.
    pub members: usize,
    /// The affected processes, for people.
    pub place: String,
    /// The promised bound, in milliseconds.
    pub bound_ms: Option<u64>,
    /// The longest time for which a member on no faulty path was without a new message of another one, in milliseconds.
    pub waited_ms: u64,
    /// The member that waited.
    pub who: String,
    /// Begin of that wait, in milliseconds after the fault.
    pub since_ms: u64,
    /// Members that views excluded without a reason in the fault, one name for each time.
    pub left_out: Vec<String>,
    /// Changes, by whole minute since the fault.
    pub minutes: Vec<Changes>,
    /// Findings of the checker, or of the run itself.
    pub violations: Vec<Violation>,
    /// The story of a run with violations.
    #[serde(skip)]
    pub story: Option<String>,
}

impl Cost {
    /// Whether a member waited for longer than promised.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.bound_ms.is_some_and(|bound_ms| self.waited_ms > bound_ms)
    }

    /// Whether all promises were kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        !self.is_exceeded() && self.left_out.is_empty() && self.violations.is_empty()
    }

    /// The highest counts in any minute but the first.
    #[must_use]
    pub fn worst_minute(&self) -> Changes {
        let later = self.minutes.iter().skip(1);
        later.fold(Changes::default(), |most, minute| Changes {
            views: most.views.max(minute.views),
            exclusions: most.exclusions.max(minute.exclusions),
            transfers: most.transfers.max(minute.transfers),
        })
    }
}

/// Runs `seed` with a fault of this kind, which stays for `stays_s` seconds. With `members` 0 the seed decides on three
/// to seven.
#[must_use]
pub fn cost(kind: FaultKind, seed: u64, members: usize, stays_s: u64) -> Cost {
    run(Trouble::Fault(kind), kind.name(), seed, members, stays_s)
}

fn run(trouble: Trouble, name: &'static str, seed: u64, members: usize, stays_s: u64) -> Cost {
    let mut lab = Lab::new(trouble, seed, members);
    guarded(&mut lab, |lab| lab.run(stays_s * SECOND));
    let kind = trouble.fault();
    let bound = kind.and_then(|kind| kind.costs_at_most(&Timing::default(), &Limits::default()));
    let waited = measure::longest_wait(&lab);
    let cost = Cost {
        seed,
        kind: name,
        members: lab.members,
        place: lab.place(),
        bound_ms: bound.map(|bound| u64::try_from(bound.as_millis()).unwrap_or(u64::MAX)),
        waited_ms: waited.for_ns / MS,
        who: lab.world.slots[waited.slot].name.clone(),
        since_ms: waited.since_ns.saturating_sub(lab.begun_ns) / MS,
        left_out: measure::left_out(&lab),
        minutes: measure::changes(&lab),
        violations: Vec::new(),
        story: None,
    };
    let result = judged(lab, seed, members, &format!("--costs {name}"));
    Cost { violations: result.violations, story: result.story, ..cost }
}
