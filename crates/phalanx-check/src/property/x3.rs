//! X3, one transfer: for each join at most one state transfer is completed, before the first view, and it was begun; a
//! member takes none. (A snapshot that begins anew replaces what came before, so partial transfers leave nothing.)
//! Instead of a transfer there may be the state of an earlier incarnation of the process, if the group waited for it.
//! That state is the one of its last stay in the group, unchanged, followed by messages of the same view that it had
//! not delivered, each once. Among these, or delivered before, are all that the earlier incarnation had sent in that view:
//! a process holds its own messages, and all that they rest on.
//!
//! Instances: joins with a completed transfer, or with such a state; *under failure*: kept states whose digest the
//! earlier incarnation recorded at its end. Source: as X1.

use std::collections::HashSet;

use super::{Run, x1};
use crate::findings::Findings;
use crate::model::{EpochIx, Kept, MessageIx, Model, Replayed};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    out.instances += x1::joiners(model).count() as u64;
    for (ix, epoch) in model.epochs.iter().enumerate() {
        let Some(transfer) = &epoch.transfer else { continue };
        if let Some(kept) = &transfer.kept {
            out.instance_when(last_digest(model, ix, kept).is_some());
            if let Some(wrong) = wrong_of_kept(model, ix, kept) {
                let who = model.who(epoch.proc);
                out.violation(&[kept.place, epoch.install.place], || {
                    format!("{who} goes on with a kept state, {wrong}")
                });
            }
        }
        if let [(_, first), (_, second), ..] = transfer.ends.as_slice() {
            let text = || format!("{} completed two state transfers for one join", model.who(epoch.proc));
            out.violation(&[*first, *second], text);
        }
        if let (None, Some((_, end))) = (transfer.snapshot, transfer.ends.first()) {
            let text = || format!("{} completed a state transfer that it had not begun", model.who(epoch.proc));
            out.violation(&[*end, epoch.install.place], text);
        }
        for &place in &transfer.misplaced {
            let text = || {
                format!("{} takes state while it is a member of {}", model.who(epoch.proc), model.view_name(epoch.view))
            };
            out.violation(&[epoch.install.place, place], text);
        }
    }
}

/// What is wrong with a state kept from an earlier incarnation, if anything. It must be the complete state of that
/// incarnation's last stay in the group, and the replay must continue from it.
fn wrong_of_kept(model: &Model, stay: EpochIx, kept: &Kept) -> Option<&'static str> {
    let epoch = &model.epochs[stay];
    let transfer = epoch.transfer.as_ref()?;
    if transfer.snapshot.is_some() || !transfer.ends.is_empty() {
        return Some("and takes another one");
    }
    let Some(left) = model.last_stay(kept.was, model.views[epoch.view].group) else {
        return Some("of a life that was not in the group");
    };
    if model.procs[kept.was].name != model.procs[epoch.proc].name {
        return Some("of another process");
    }
    if !(model.number(left)..model.number(stay)).contains(&kept.view) {
        return Some("of views that it was not in");
    }
    if last_digest(model, stay, kept).is_some_and(|last| last != kept.digest) {
        return Some("which is not the one that the earlier life had");
    }
    let mut had: HashSet<MessageIx> = model.delivered(left).map(|step| step.message).collect();
    let follows = |replayed: &Replayed| {
        let message = replayed.step.message;
        had.insert(message) && model.views[model.stream_of(message).view].number == model.number(left)
    };
    if !transfer.replayed.iter().all(follows) {
        return Some("to which it replays what does not follow on it");
    }
    let has_all = model.sent(left).all(|step| had.contains(&step.message));
    (!has_all).then_some("without what its earlier life had sent in its last view")
}

/// The digest that the earlier incarnation recorded after all that it delivered, if it did.
fn last_digest(model: &Model, stay: EpochIx, kept: &Kept) -> Option<u64> {
    let left = &model.epochs[model.last_stay(kept.was, model.views[model.epochs[stay].view].group)?];
    left.digests.iter().rfind(|digest| digest.delivered == left.deliveries).map(|digest| digest.digest)
}
