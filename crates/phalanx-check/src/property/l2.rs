//! L2, fencing: a resource that let in token `t` lets in no smaller one afterwards.
//!
//! "Afterwards" refers to the resource's own count of its uses. Instances: uses after one with a larger token, and uses
//! that were let in after one with the same or a smaller token. Source: Chubby's sequencers (Burrows, "The Chubby lock
//! service for loosely-coupled distributed systems", OSDI 2006, section 2.4).

use std::collections::BTreeMap;

use super::Run;
use crate::findings::Findings;
use crate::model::object::Use;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let mut uses: Vec<&Use> = run.model.objects.uses.iter().collect();
    // Each count is used once. Damaged records may share one; the sort makes their order independent of that of the
    // traces.
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
