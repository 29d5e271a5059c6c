//! O1, FIFO and gap-freedom: if `p` sent `m` before `m'` in `v`, whatever their orders, and `q` delivers `m'` in `v`,
//! then `q` delivered `m` before. As sends are numbered from 1 (E1), `q` delivers 1, 2, 3... of each sender.
//!
//! Replayed messages of one sender and view are consecutive too, from wherever the snapshot ended. Point-to-point
//! messages are delivered in the order of sending.
//!
//! Instances: deliveries of a message that is not its sender's first. Source: Hadzilacos and Toueg 1994, FIFO order;
//! Birman, Schiper and Stephenson, "Lightweight Causal and Atomic Group Multicast" (TOCS 9:3, 1991), fbcast.

use std::collections::HashMap;

use super::{Run, peer};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut last: HashMap<u32, u64> = HashMap::new();
    for (e, epoch) in model.epochs.iter().enumerate() {
        // Counting by rank is fast. A sender that is no member (S5) is counted by its stream.
        let mut by_rank = vec![0u64; model.views[epoch.view].members.len()];
        last.clear();
        for step in model.delivered(e) {
            let message = &model.messages[step.message as usize];
            let stream = model.stream_of(step.message);
            let last = match stream.rank.and_then(|r| by_rank.get_mut(r)) {
                Some(last) => last,
                None => last.entry(message.stream).or_default(),
            };
            out.instances += u64::from(message.seq > 1);
            // A number seen before is a duplicate (I2), or was reported as a gap when it was skipped.
            if message.seq > last.saturating_add(1) {
                let missing = *last + 1;
                let text = || {
                    format!("{} delivered {} without number {missing}", model.who(epoch.proc), model.what(step.message))
                };
                out.violation(&[model.place(e, step.index)], text);
            }
            *last = (*last).max(message.seq);
        }
        last.clear();
        let mut first: HashMap<u32, u64> = HashMap::new();
        for replayed in epoch.transfer.iter().flat_map(|t| &t.replayed) {
            let message = &model.messages[replayed.step.message as usize];
            let before = last.insert(message.stream, message.seq);
            out.instances += u64::from(before.is_some());
            if before.is_some_and(|b| message.seq > b.saturating_add(1)) {
                let text = || {
                    format!(
                        "{} replayed {} with a gap before it",
                        model.who(epoch.proc),
                        model.what(replayed.step.message)
                    )
                };
                out.violation(&[replayed.place], text);
            }
            // A later one is a duplicate (I2), or was reported as a gap when it was skipped.
            let first = first.entry(message.stream).or_insert(message.seq);
            if message.seq < *first {
                let text =
                    || format!("{} replayed {} too late", model.who(epoch.proc), model.what(replayed.step.message));
                out.violation(&[replayed.place], text);
            }
        }
    }
    for (from, to, messages) in peer::channels(model) {
        let sent = peer::sent_to(model, from, to);
        for m in messages {
            let Some((hash, place)) = m.sent else { continue };
            out.instances += u64::from(m.k > 1);
            // A body that was never sent under any number is reported by I3.
            if hash != m.delivered.0 && sent.iter().any(|s| s.0 == m.delivered.0) {
                let text =
                    || format!("messages from {} to {} change places at {}", model.who(from), model.who(to), m.k);
                out.violation(&[place, m.delivered.1], text);
            }
        }
    }
}
