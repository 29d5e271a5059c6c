//! X11, messages to a domain: let a process deliver a message as one to a domain of the group's state.
//!
//! - Each process that delivers it, also as part of a state transfer, delivers it as one to that domain.
//! - It is in total order, and the list of its view has the domain.
//!
//! Instances: such deliveries; *under failure*: those of a state transfer. Source: the definition of a message with an address
//! within its group (`docs/domains.md`).

use std::collections::BTreeMap;

use phalanx_trace::Order;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::domains::Named;
use crate::model::{MessageIx, Model};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut first: BTreeMap<MessageIx, (u8, Place)> = BTreeMap::new();
    let mut lengths: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for listed in &model.domains.lists {
        lengths.entry((listed.group, listed.view)).or_insert(listed.list.len());
    }
    for Named { proc, message, domain, moment } in &model.domains.named {
        let view = &model.views[model.stream_of(*message).view];
        let in_force =
            model.procs[*proc].epochs.iter().any(|&e| std::ptr::eq(&model.views[model.epochs[e].view], view));
        out.instance_when(!in_force);
        let (other, at) = *first.entry(*message).or_insert((*domain, moment.place));
        if other != *domain {
            out.violation(&[at, moment.place], || {
                format!("{} as one to domain {domain}, and another process to {other}", shown(model, *proc, *message))
            });
        }
        if model.messages[*message as usize].order != Order::Total {
            out.violation(&[moment.place], || {
                format!("{} as one to domain {domain}, and it is in no total order", shown(model, *proc, *message))
            });
        }
        let length = lengths.get(&(view.group, view.number));
        if length.is_some_and(|length| usize::from(*domain) >= *length) {
            out.violation(&[moment.place], || {
                format!("{} as one to domain {domain}, which its view does not list", shown(model, *proc, *message))
            });
        }
    }
    // Who delivers it as one to all of the group.
    let named: BTreeMap<(usize, MessageIx), ()> =
        model.domains.named.iter().map(|named| ((named.proc, named.message), ())).collect();
    for epoch in &model.epochs {
        let replayed = epoch
            .transfer
            .iter()
            .flat_map(|transfer| &transfer.replayed)
            .map(|replayed| (&replayed.step, replayed.place));
        let own = epoch.steps.iter().filter(|step| !step.sent);
        let own = own.map(|step| (step, Place { index: step.index, ..epoch.install.place }));
        for (step, place) in own.chain(replayed) {
            if let Some((domain, at)) = first.get(&step.message)
                && !named.contains_key(&(epoch.proc, step.message))
            {
                out.violation(&[*at, place], || {
                    format!(
                        "{} as one to the whole group, and another process to domain {domain}",
                        shown(model, epoch.proc, step.message)
                    )
                });
            }
        }
    }
}

fn shown(model: &Model, proc: usize, message: MessageIx) -> String {
    format!("{} delivered {}", model.who(proc), model.what(message))
}
