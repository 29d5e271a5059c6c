//! Multicasts that name a view: one in eight does, and is sent in that view or refused.

use phalanx_core::{Accepted, CommandError, DomainIndex, GroupId, Order, ViewNumber};

use super::App;
use crate::oracle::hash_bytes;

/// One in this many multicasts names a view.
const NAMED_EVERY: u64 = 8;
/// Fewer bytes than this fit into any packet, whatever else a message carries.
const ALWAYS_FITS: usize = 256;

impl App {
    /// The view that a multicast shall name, if any: the latest of the group that was handed over. The payload decides,
    /// so that no other draw of the seed changes.
    pub(crate) fn names_view(&self, group: GroupId, payload: &[u8]) -> Option<ViewNumber> {
        let view = self.groups.get(&group)?.view;
        (view > ViewNumber::NONE && hash_bytes(payload).is_multiple_of(NAMED_EVERY)).then_some(view)
    }

    /// Notes what became of a multicast of `len` bytes that names a view. `packet_max`: the longest packet of the run.
    pub(crate) fn note_named(
        &mut self,
        (group, view): (GroupId, ViewNumber),
        len: usize,
        packet_max: usize,
        outcome: &Result<Accepted, CommandError>,
    ) {
        self.counts.named_too_long += u64::from(*outcome == Err(CommandError::TooLong(len)));
        match outcome {
            Ok(Accepted { sent: Some(sent), .. }) if sent.view == view => self.counts.named_sent += 1,
            Ok(Accepted { sent, .. }) => {
                let text =
                    format!("a multicast to group {} that names {view} was accepted, and sent as {sent:?}", group.0);
                self.faults.push(("sent_elsewhere", text));
            }
            // Whoever is told that there is no room tries again, for ever.
            Err(CommandError::NoCredit) if len > packet_max => {
                let text = format!("{len} bytes that name a view of group {} were refused for lack of room", group.0);
                self.faults.push(("no_packet_holds", text));
            }
            Err(CommandError::TooLong(said)) if *said != len || len < ALWAYS_FITS => {
                let text = format!("{len} bytes that name a view of group {} were refused as {said}", group.0);
                self.faults.push(("no_packet_holds", text));
            }
            Err(CommandError::OtherView) => self.counts.named_refused += 1,
            Err(_) => self.counts.named_later += 1,
        }
    }
}

impl App {
    /// The domain that a multicast to a group names, by its place in the list, if it names one.
    pub(crate) fn domain_of(&self, group: GroupId, order: Order, payload: &[u8]) -> Option<DomainIndex> {
        // A user's machine names its own.
        if order != Order::Total || self.maker.is_some() {
            return None;
        }
        let list = self.groups.get(&group)?.list.as_ref()?;
        DomainIndex::of(list, self.program.names(payload)?)
    }
}
