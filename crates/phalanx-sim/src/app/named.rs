//! Multicasts that name a view: one in eight does, and is sent in that view or refused.

use phalanx_core::{CommandError, GroupId, ViewNumber};

use super::App;
use crate::oracle::hash_bytes;

/// One in this many multicasts names a view.
const NAMED_EVERY: u64 = 8;

impl App {
    /// The view that a multicast shall name, if any: the latest of the group that was handed over. The payload decides,
    /// so that no other draw of the seed changes.
    pub(crate) fn names_view(&mut self, group: GroupId, payload: &[u8]) -> Option<ViewNumber> {
        self.sent_in = None;
        let view = self.groups.get(&group)?.view;
        (view > ViewNumber::NONE && hash_bytes(payload).is_multiple_of(NAMED_EVERY)).then_some(view)
    }

    /// Notes what became of a multicast that names a view.
    pub(crate) fn note_named(&mut self, group: GroupId, view: ViewNumber, outcome: &Result<(), CommandError>) {
        match (outcome, self.sent_in) {
            (Ok(()), Some(sent)) if sent == (group, view) => self.counts.named_sent += 1,
            (Ok(()), sent) => {
                let text =
                    format!("a multicast to group {} that names {view} was accepted, and sent in {sent:?}", group.0);
                self.faults.push(("sent_elsewhere", text));
            }
            (Err(_), Some(sent)) => {
                let text =
                    format!("a multicast to group {} that names {view} was refused, and sent in {sent:?}", group.0);
                self.faults.push(("sent_elsewhere", text));
            }
            (Err(CommandError::OtherView), None) => self.counts.named_refused += 1,
            (Err(_), None) => self.counts.named_later += 1,
        }
    }
}
