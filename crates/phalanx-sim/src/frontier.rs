//! Frontier plans: ordinary plans with one class of faults that is known to break a promise today. Every property is
//! evaluated as usual.

use phalanx_core::rng::Rng;

use crate::draw::index;
use crate::late::make_late;
use crate::plan::{Class, Plan};
use crate::unequal::{break_rules, draw_all};

/// Adds one class to `plan`.
pub(crate) fn add_class(rng: &mut Rng, plan: &mut Plan) {
    let class = Class::ALL[index(rng, Class::ALL.len())];
    plan.class = Some(class);
    match class {
        Class::Unequal => {
            plan.unequal = draw_all(rng, plan.members);
            break_rules(rng, &mut plan.unequal, plan.window_bytes, plan.founders);
        }
        Class::Late => make_late(rng, plan),
    }
}
