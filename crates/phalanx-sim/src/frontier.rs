//! Plans beyond what the core stands today: ordinary plans, each with one class of faults that is known to break a promise.
//! Every property is judged as ever.

use phalanx_core::rng::Rng;

use crate::fault::{Aim, Fault, Kind, Role};
use crate::late::make_late;
use crate::leaving::{leave_beside_silence, leave_in_transfer};
use crate::plan::{MS, Plan, SECOND};
use crate::swarm::index;
use crate::unequal::{break_rules, draw_all};

/// A class of faults that today's core does not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All members of a group are cut off from the majority, or stopped, and come back.
    Stranded,
    /// The only process with a group's state leaves while it gives it, and several leave while another is silent.
    Leaving,
    /// Two processes on two hosts bear one founder's name and start at once.
    Twins,
    /// What must be the same at all members is not.
    Unequal,
    /// A minority of the processes, or all of them, are late with every turn.
    Late,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stranded, Self::Leaving, Self::Twins, Self::Unequal, Self::Late];

    /// Its name in the counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stranded => "stranded",
            Self::Leaving => "leaving",
            Self::Twins => "twins",
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
        Class::Stranded => add_stranded(rng, plan),
        Class::Leaving => {
            for _ in 0..2 + rng.below(2) {
                let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 6 * SECOND);
                if rng.chance_ppm(500_000) {
                    leave_in_transfer(rng, plan, at_ns, Role::Donor);
                } else {
                    let leavers = 2 + index(rng, 2);
                    leave_beside_silence(rng, plan, at_ns, leavers);
                }
            }
        }
        Class::Twins => {
            let twin = plan.members - 1;
            plan.founders = (1 + index(rng, 3)).min(twin);
            plan.twin = Some((twin, index(rng, plan.founders)));
            plan.hosts = (1..=plan.members as u64).collect();
            plan.memory = None;
            plan.sealed = true;
            plan.herd = true;
        }
        Class::Unequal => {
            plan.unequal = draw_all(rng, plan.members);
            break_rules(rng, plan);
        }
        Class::Late => make_late(rng, plan),
    }
}

/// A group of a minority of the processes is cut off or stopped as a whole, for longer than suspicion; in some seeds one
/// of the others founds a group of its name meanwhile.
fn add_stranded(rng: &mut Rng, plan: &mut Plan) {
    let first = index(rng, plan.members);
    let count = 1 + index(rng, (plan.members - 1) / 2);
    plan.minority = (0..count).map(|step| (first + step) % plan.members).collect();
    for _ in 0..1 + rng.below(2) {
        let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 8 * SECOND);
        let lasts_ns = 1_500 * MS + rng.below(3_500) * MS;
        let kind = Kind::Strand { stops: rng.chance_ppm(400_000) };
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind, lasts_ns });
        if rng.chance_ppm(600_000) {
            let aim = Aim::At(at_ns + lasts_ns / 2 + rng.below(lasts_ns / 2));
            plan.faults.push(Fault { aim, kind: Kind::FoundAgain, lasts_ns: 0 });
        }
    }
}
