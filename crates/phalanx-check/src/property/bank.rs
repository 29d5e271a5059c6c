//! BANK: money is neither made nor lost. Every copy of a bank sums up its accounts when a view is installed, when a
//! state transfer is complete, and at the end. The sum must always equal the first one of the first copy.
//!
//! Only banks are evaluated in which a transfer was requested. Instances: sums compared with the first. Source: the
//! bank workload of Jepsen. A transfer is one totally ordered multicast, so another sum shows that a copy took part of
//! a message, a message twice, or a torn snapshot.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_trace::Action;

use super::Run;
use crate::findings::Findings;
use crate::model::object::Balance;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let transfers = model.calls().filter(|call| matches!(call.action, Action::Transfer { .. }));
    let used: BTreeSet<usize> = transfers.map(|call| call.group).collect();
    let mut first: BTreeMap<usize, Balance> = BTreeMap::new();
    for balance in model.objects.balances.iter().filter(|balance| used.contains(&balance.group)) {
        let Some(opening) = first.get(&balance.group) else {
            first.insert(balance.group, *balance);
            continue;
        };
        out.instance();
        if opening.sum != balance.sum {
            let (was, is, id) = (opening.sum, balance.sum, model.groups[balance.group].id);
            out.violation(&[opening.place, balance.place], || {
                format!("the accounts of group {id} held {was} together, and then {is}")
            });
        }
    }
}
