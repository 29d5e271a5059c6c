//! Point-to-point channels: deliveries beside sends, by number.

use crate::findings::Place;
use crate::model::{Model, ProcIx};

/// A delivered message and the sent one of the same number.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerMessage {
    /// From 1.
    pub(super) k: usize,
    /// Its hash and the place of its delivery.
    pub(super) delivered: (u64, Place),
    /// The hash and place of the send.
    pub(super) sent: Option<(u64, Place)>,
}

/// All channels whose sender has a trace: sender, receiver, delivered messages.
pub(super) fn channels(model: &Model) -> impl Iterator<Item = (ProcIx, ProcIx, impl Iterator<Item = PeerMessage>)> {
    let by_receiver = model.procs.iter().enumerate();
    let channels = by_receiver.flat_map(|(to, p)| p.p2p.delivered.iter().map(move |(&from, d)| (from, to, d)));
    channels.filter(|&(from, ..)| model.procs[from].trace.is_some()).map(|(from, to, delivered)| {
        let sent = sent_to(model, from, to);
        let messages = delivered.iter().enumerate();
        (from, to, messages.map(move |(i, &delivered)| PeerMessage { k: i + 1, delivered, sent: sent.get(i).copied() }))
    })
}

/// The messages that a process sent to another, in order.
pub(super) fn sent_to(model: &Model, from: ProcIx, to: ProcIx) -> &[(u64, Place)] {
    model.procs[from].p2p.sent.get(&to).map_or(&[], Vec::as_slice)
}
