//! The state that a process keeps of groups through an exclusion, and its notes on groups that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::deaths::Deaths;
use crate::api::{Order, Uniformity};
use crate::id::{CellInstance, GroupId, Incarnation, Rank, Sequence, ViewNumber};
use crate::link::Ack;
use crate::member::{Directory, GroupEntry, Orphan, ReturnPoint};
use crate::order::{Backpressure, Deliverable, Status, StreamOutput};
use crate::process::app::OwnedDelivery;
use crate::process::group_streams::{GroupStreams, ViewMeta};
use crate::process::orphans::gathering::Gatherings;
use crate::time::Instant;
use crate::wire::{PacketNumber, Space};

/// Inventory for the next incarnation of a process: the states of groups that its application keeps.
#[derive(Default)]
pub struct Kept {
    /// The cell instance that they belong to.
    pub(super) instance: CellInstance,
    /// Earlier incarnations of the process, oldest first.
    pub(super) lives: Vec<Incarnation>,
    pub(super) groups: Vec<KeptGroup>,
    /// Processes that are proved dead.
    pub(super) deaths: Deaths,
}

impl Kept {
    /// Whether this was kept in the cell instance `instance`, or in one that it continues.
    pub(super) fn is_of(&self, instance: CellInstance, directory: &Directory) -> bool {
        self.instance == instance || directory.ancestors().contains(&self.instance)
    }
}

/// One group as an earlier incarnation of this process left it.
pub(in crate::process) struct KeptGroup {
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    /// The incarnation that was in it.
    pub(super) was: Incarnation,
    /// The last installed view; its members are in `members`.
    pub(super) view: ViewNumber,
    pub(super) members: Vec<Incarnation>,
    pub(super) place: KeptPosition,
    /// Deliveries that belong to the state and were not handed to the application.
    pub(super) rest: Vec<OwnedDelivery>,
}

/// Where a kept group stands.
pub(super) enum KeptPosition {
    /// In the middle of its view.
    Within(Box<GroupStreams>),
    /// At the end of everything that is held of it.
    At(ReturnPoint),
    /// The held packets make no sense, so the group cannot continue from this state.
    Lost,
}

/// Output of the streams of an ended view: nothing is sent, deliveries are collected.
pub(super) struct Shelf<'a> {
    pub(super) meta: &'a ViewMeta,
    pub(super) rest: &'a mut Vec<OwnedDelivery>,
}

impl StreamOutput for Shelf<'_> {
    fn multicast(&mut self, _space: Space, _number: PacketNumber, _frames: &[u8]) {}

    fn is_congested(&mut self) -> bool {
        false
    }

    fn retransmit(&mut self, _rank: Rank, _space: Space, _number: PacketNumber, _frames: &[u8]) {}

    fn ack(&mut self, _space: Space, _rank: Rank, _receipt: &Ack, _wants_stable: bool) {}

    fn status(&mut self, _space: Space, _rank: Option<Rank>, _status: &Status) {}

    fn deliver(&mut self, d: Deliverable<'_>) -> bool {
        let delivery = self.meta.delivery(d, true);
        self.rest.push(OwnedDelivery::of(&delivery, self.meta.space, d.rank));
        false
    }

    fn sent(&mut self, _seq: Sequence, _order: Order, _uniformity: Uniformity, _payload: &[u8]) {}

    /// These are messages of an earlier incarnation, which was told that they are in doubt.
    fn stable(&mut self, _seq: Sequence) {}

    fn stable_at_end(&mut self, _seq: Sequence) {}

    fn backpressure(&mut self, _bound: Backpressure) {}

    fn can_read(&mut self, _space: Space, _rank: Rank, _number: PacketNumber) -> bool {
        true
    }

    fn nonsense(&mut self, _rank: Rank) {}
}

impl KeptGroup {
    pub(super) fn new(was: Incarnation, view_streams: GroupStreams, rest: Vec<OwnedDelivery>) -> Self {
        let ViewMeta { group, name, view, members, .. } = &view_streams.meta;
        let (group, name, view, members) = (*group, name.clone(), *view, members.clone());
        Self { group, name, was, view, members, place: KeptPosition::Within(Box::new(view_streams)), rest }
    }

    /// Appends to `rest` what is held of its view: all of it, or up to the cut at which the view is known to have
    /// ended.
    pub(super) fn finish(&mut self, now: Instant, cut: Option<&[u64]>) {
        let KeptPosition::Within(kept) = &mut self.place else { return };
        let GroupStreams { view_streams, meta, .. } = kept.as_mut();
        let mut shelf = Shelf { meta, rest: &mut self.rest };
        let own: Vec<u64> = view_streams.wedge(now, &mut shelf).into_iter().map(|said| said.prefix).collect();
        let prefixes = cut.map_or(own, <[u64]>::to_vec);
        let done = view_streams.holds(&prefixes)
            && !view_streams.is_past(&prefixes)
            && view_streams.finish(&prefixes, &mut shelf).is_some();
        self.place = match done {
            true => {
                KeptPosition::At(ReturnPoint { view: self.view, prefixes, counts: view_streams.delivered_counts() })
            }
            false => KeptPosition::Lost,
        };
    }

    /// Moves to the position from which the group can continue, if it is in the entry's last view or in the one before.
    pub(super) fn come_up(&mut self, now: Instant, entry: &GroupEntry, orphan: &Orphan, stayed: bool) {
        if self.view == entry.view {
            return self.finish(now, None);
        }
        let Some(cut) = entry.begun_at().filter(|_| stayed && entry.follows(self.view)) else {
            self.place = KeptPosition::Lost;
            return;
        };
        self.finish(now, Some(&cut));
        // It has thereby installed the entry's view, with nothing received in it.
        let streams = usize::try_from(orphan.members).unwrap_or(0);
        let nothing = ReturnPoint { view: entry.view, prefixes: vec![0; streams], counts: vec![0; streams] };
        self.place = match &self.place {
            KeptPosition::At(point) if point.prefixes == cut => KeptPosition::At(nothing),
            _ => KeptPosition::Lost,
        };
        self.view = entry.view;
    }
}

/// Notes of a process on orphans, and the states that it kept.
#[derive(Default)]
pub(in crate::process) struct OrphanRecovery {
    /// Groups that its own earlier incarnations kept.
    pub(super) kept: Kept,
    /// Streams of the views in which it was excluded.
    pub(super) frozen: Vec<KeptGroup>,
    /// Coordinator's note of what the holders of a group's state say that are back.
    pub(in crate::process) gathering: Gatherings,
    /// Processes outside the cell that are proved dead, and for which a group waits.
    pub(super) dead: BTreeSet<Incarnation>,
    /// New groups of which the application was told that they are put off.
    pub(super) put_off: BTreeSet<String>,
    /// Groups to observe of which the application was told that they do not exist.
    pub(super) absent: BTreeSet<String>,
    /// Groups that an operator gave up at this process.
    pub(super) given_up: BTreeSet<GroupId>,
    /// The holders that the application was last notified of, for each wanted group that waits.
    pub(super) told: BTreeMap<GroupId, Vec<Incarnation>>,
}
