//! Frontier plans: ordinary plans with one class of faults that is known to break a promise today. Every property is
//! evaluated as usual.

use phalanx_core::rng::Rng;

use crate::late::make_late;
use crate::plan::Plan;
use crate::swarm::index;
use crate::unequal::{break_rules, draw_all};

/// A class of faults that today's core does not survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Settings that must be equal at all members are not.
    Unequal,
    /// A minority of the processes, or all of them, are late in every event-loop iteration.
    Late,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 2] = [Self::Unequal, Self::Late];

    /// Its name in the counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unequal => "unequal",
            Self::Late => "late",
        }
    }
}

/// Adds one class to `plan`.
pub(crate) fn add_class(rng: &mut Rng, plan: &mut Plan) {
    let class = Class::ALL[index(rng, Class::ALL.len())];
    plan.class = Some(class);
    match class {
        Class::Unequal => {
            plan.unequal = draw_all(rng, plan.members);
            break_rules(rng, plan);
        }
        Class::Late => make_late(rng, plan),
    }
}
