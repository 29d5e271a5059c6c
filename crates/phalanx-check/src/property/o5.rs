//! O5, numbering: the total messages that a process delivers in a view are numbered 1, 2, 3... in the order of
//! delivery. With O3 the number then names one message for all that go on together. A replayed total message has the
//! number that it had at the processes that delivered it and went on, and the total messages of a view are replayed in
//! the order of their numbers.
//!
//! One comparison is left out: what a process replays of the last view of a kept state. The process goes on from there
//! alone, from what it holds. Those that went on to the next view did so by a decree that no remaining process knows,
//! and are in no instance with it.
//!
//! Instances: deliveries of total messages. Source: token-holder order as in Birman, Schiper, Stephenson 1991; the
//! numbers are this system's addition.

use phalanx_trace::Order;

use super::Run;
use crate::findings::Findings;
use crate::model::intern::FastMap;
use crate::model::{EpochEnd, MessageIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (e, epoch) in model.epochs.iter().enumerate() {
        let mut last = 0u64;
        for step in model.delivered(e).filter(|s| s.order == Order::Total) {
            out.instance();
            let expected = last.saturating_add(1);
            if step.position != Some(expected) {
                let text = || {
                    let (what, who) = (model.what(step.message), model.who(epoch.proc));
                    let number = step.position.map_or_else(|| "no number".to_owned(), |p| format!("number {p}"));
                    format!("{what} has {number} in the total order at {who}, where {expected} is next")
                };
                out.violation(&[model.place(e, step.index)], text);
            }
            last = step.position.unwrap_or(expected);
        }
    }
    let wanted: FastMap<MessageIx, ()> = replays(run).map(|(_, r)| (r.step.message, ())).collect();
    if wanted.is_empty() {
        return;
    }
    let mut last = FastMap::default();
    for (e, replayed) in replays(run) {
        let view = model.stream_of(replayed.step.message).view;
        let before = last.insert((e, view), replayed.step.position);
        if before.is_some_and(|before| before > replayed.step.position) {
            out.violation(&[replayed.place], || {
                let (who, what) = (model.who(model.epochs[e].proc), model.what(replayed.step.message));
                format!("{who} replayed {what} after one with a later number in the total order")
            });
        }
    }
    let mut known = FastMap::default();
    for (e, _) in model.epochs.iter().enumerate().filter(|(_, epoch)| matches!(epoch.end, EpochEnd::Next(_))) {
        for step in model.delivered(e).filter(|s| s.order == Order::Total && wanted.contains_key(&s.message)) {
            known.entry(step.message).or_insert((step.position, model.place(e, step.index)));
        }
    }
    for (e, replayed) in replays(run) {
        let kept = model.epochs[e].transfer.as_ref().and_then(|transfer| transfer.kept);
        let view = model.views[model.stream_of(replayed.step.message).view].number;
        if kept.is_some_and(|kept| kept.view == view) {
            continue;
        }
        out.instance();
        let Some(&(position, place)) = known.get(&replayed.step.message) else { continue };
        if position != replayed.step.position {
            let text = || {
                format!(
                    "{} replayed {} under another number",
                    model.who(model.epochs[e].proc),
                    model.what(replayed.step.message)
                )
            };
            out.violation(&[place, replayed.place], text);
        }
    }
}

fn replays<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (usize, &'a crate::model::Replayed)> {
    let transfers = run.model.epochs.iter().enumerate().filter_map(|(e, epoch)| Some((e, epoch.transfer.as_ref()?)));
    let replays = transfers.flat_map(|(e, t)| t.replayed.iter().map(move |r| (e, r)));
    replays.filter(|(_, r)| r.step.order == Order::Total)
}
