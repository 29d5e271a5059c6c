//! L2, fencing: a resource that let in token `t` lets in no smaller one afterwards.
//!
//! "Afterwards" is the resource's own count of its uses. Instances: uses that came after one with a larger token, or
//! after one with the same or a smaller token and were let in. Source: Chubby's sequencers (Burrows, "The Chubby lock
//! service for loosely-coupled distributed systems", OSDI 2006, section 2.4).

use std::collections::BTreeMap;

use super::Run;
use crate::findings::Findings;
use crate::model::object::Use;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let mut uses: Vec<&Use> = run.model.objects.uses.iter().collect();
    // One count is used once; damaged records that share one stand in an order that is not that of the traces.
    uses.sort_by_key(|one| (one.resource, one.serial, one.token, one.accepted));
    let mut newest: BTreeMap<u32, &Use> = BTreeMap::new();
    for one in uses {
        let Some(before) = newest.get(&one.resource) else {
            if one.accepted {
                newest.insert(one.resource, one);
            }
            continue;
        };
        out.instance_when(one.token < before.token);
        if one.accepted && one.token < before.token {
            out.violation(&[before.place, one.place], || {
                let (resource, token, larger) = (one.resource, one.token, before.token);
                format!("resource {resource} let in token {token:#x} after {larger:#x}")
            });
        } else if one.accepted {
            newest.insert(one.resource, one);
        }
    }
}
