//! BANK: money is neither made nor lost. In every copy of a bank, whenever its accounts are summed up (when a view is
//! installed, when a state transfer is complete, at the end), they hold together what they held when the first copy was
//! first summed up.
//!
//! Only banks are judged in which a transfer was asked for; instances: sums compared with the first. Source: the bank
//! workload of Jepsen; a transfer is one totally ordered multicast, so a sum that changes tells of a copy that took part
//! of a message, a message twice, or a torn snapshot.

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
