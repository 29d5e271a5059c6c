//! Messages to one member of a group: those on their way from here, and those that wait here for their past. See
//! `docs/to-one.md`.

mod frames;

use std::sync::Arc;

use super::app::{AppQueue, Item};
use super::counters::ProcessCounters;
use super::group_streams::GroupStreams;
use super::partners::{Incoming, MESSAGE_COSTS, Outgoing, Pair, Waiting};
use super::peers::Peers;
use super::transfer::Transfers;
use crate::api::{CommandError, GroupView, MESSAGE_BYTES_MAX, ToOneKind, ToOneOutcome};
use crate::frames::Frames;
use crate::id::{GroupId, Incarnation, LEVEL, ViewNumber};
use crate::link::ChannelMessage;
use crate::member::Directory;
use crate::order::{Position, ViewStreams};
use crate::sorted::SortedMap;
use crate::wire::{DropReason, Space};
use frames::{put_message, put_report};

pub use frames::ToOneFrame;

/// The level from which on there are messages to one member.
pub const TO_ONE_LEVEL: u16 = 8;
/// Room for the headers of the longest message.
const HEADERS_BYTES: usize = 64 * 1024;

const _: () = assert!(TO_ONE_LEVEL <= LEVEL, "a build knows the levels that it has rules for");

/// Where a pair stands at this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The view that brings the two together is not installed here.
    Early,
    /// They are together.
    Together,
    /// They are together no more.
    Over,
}

/// Borrows of `$process` what messages to one need of it.
macro_rules! to_one_port {
    ($process:ident) => {
        $crate::process::to_one::ToOnePort {
            me: $process.set.me.incarnation,
            app: &mut $process.app,
            transfers: &mut $process.transfers,
            peers: &mut $process.peers,
            counters: &mut $process.counters,
            directory: &$process.directory,
            group_streams: &$process.group_streams,
        }
    };
}
pub(super) use to_one_port;

/// What messages to one need of their process.
pub(super) struct ToOnePort<'a> {
    pub(super) me: Incarnation,
    pub(super) app: &'a mut AppQueue,
    pub(super) transfers: &'a mut Transfers,
    pub(super) peers: &'a mut Peers,
    pub(super) counters: &'a mut ProcessCounters,
    pub(super) directory: &'a Directory,
    pub(super) group_streams: &'a SortedMap<Space, GroupStreams>,
}

impl ToOnePort<'_> {
    /// Sends a message while this process may; see [`Process::send_to`](crate::process::Process::send_to). `may`: a quorum is
    /// heard.
    pub(super) fn send(
        &mut self,
        (group, to): (GroupId, Incarnation),
        kind: ToOneKind,
        parts: &[&[u8]],
        may: bool,
    ) -> Result<ViewNumber, CommandError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > MESSAGE_BYTES_MAX - HEADERS_BYTES {
            return Err(CommandError::TooLong(len));
        }
        let in_group = |streams: &&GroupStreams| streams.meta.group == group && streams.meta.told.is_some();
        let streams = self.group_streams.values().find(in_group).ok_or(CommandError::NotMember)?;
        if self.directory.level < TO_ONE_LEVEL {
            return Err(CommandError::BelowLevel { level: self.directory.level, needed: TO_ONE_LEVEL });
        }
        let view = streams.meta.view;
        let since = self.app.to_one.since(group, to).ok_or(CommandError::NoSuchMember { view })?;
        let out = self.app.to_one.outgoing.entry((group, to)).or_insert_with(|| Outgoing::new(since));
        // First, so that it is known of what waits for its receiver alone. The headers that are not counted here count below.
        if !kind.is_answer() && !out.has_room(len as u64 + MESSAGE_COSTS) {
            self.counters.to_one_refused += 1;
            return Err(CommandError::NoWindow);
        }
        // What was accepted before is its past, too, and has no place yet.
        if !may || streams.view_streams.queued().messages > 0 {
            self.counters.to_one_refused += 1;
            return Err(CommandError::NoCredit);
        }
        let growth = out.growth(view, Position::of(&streams.view_streams).counts());
        let mut message = std::mem::take(&mut self.app.to_one.blank);
        put_message(&mut message, (group, since), view, kind, &growth, parts);
        if !kind.is_answer() && !out.take_room(message.len() as u64 + MESSAGE_COSTS) {
            self.app.to_one.clear_blank(message);
            self.counters.to_one_refused += 1;
            return Err(CommandError::NoWindow);
        }
        out.tell(view, &growth);
        self.counters.to_one_sent += 1;
        self.pass_on(to, message);
        Ok(view)
    }

    /// Queues a message of the channel for messages to one.
    fn pass_on(&mut self, to: Incarnation, mut message: Vec<u8>) {
        let taken = if to == self.me {
            let own = self.app.to_one.keep(ChannelMessage::Whole(&message));
            self.handle(to, own).is_ok()
        } else {
            self.peers.get_mut(to).is_none_or(|peer| peer.to_one_channel.send_filled(&mut message).is_ok())
        };
        self.app.to_one.clear_blank(message);
        debug_assert!(taken, "it is not too long, and makes sense");
    }

    /// Takes a message of the channel for messages to one.
    pub(super) fn handle(&mut self, from: Incarnation, message: Frames) -> Result<(), DropReason> {
        let read = self.read(from, &message);
        self.app.to_one.give(message);
        read
    }

    fn read(&mut self, from: Incarnation, message: &Frames) -> Result<(), DropReason> {
        match ToOneFrame::read(message)? {
            ToOneFrame::Message { group, since, view, kind, past, payload } => {
                let pair = Pair { group, partner: from, since };
                let standing = self.standing(pair);
                if standing == Standing::Over {
                    self.counters.to_one_late += 1;
                    // Who is out of the cell is told nothing, and counts it as in doubt.
                    if !kind.is_answer()
                        && self.directory.rank(from).is_some()
                        && !self.app.to_one.incoming.contains_key(&pair)
                    {
                        self.report(pair, 0, None);
                    }
                    return Ok(());
                }
                let costs = message.len() as u64 + MESSAGE_COSTS;
                let start = message.len() - payload.len();
                let incoming = self.app.to_one.incoming.entry(pair).or_insert_with(Incoming::new);
                if !kind.is_answer() && !incoming.take_room(costs) {
                    return Err(DropReason::Malformed); // more than was granted
                }
                let past = incoming.read_past(view, past.iter())?;
                let waiting = Waiting { view, past, kind, payload: message.behind(start), costs };
                self.app.to_one.wait(pair, waiting);
                self.deliver_from(pair);
                if standing == Standing::Early {
                    self.counters.to_one_early += 1;
                } else if self.app.to_one.first(pair).is_some() {
                    self.counters.to_one_waited += 1;
                }
            }
            ToOneFrame::Report { group, since, delivered, granted } => {
                let pair = Pair { group, partner: from, since };
                let settled = self.app.to_one.note_report(pair, delivered, granted)?;
                self.settle(pair, ToOneOutcome::Delivered, settled);
            }
            ToOneFrame::Last { group, since, delivered } => {
                let pair = Pair { group, partner: from, since };
                let (settled, lost) = self.app.to_one.note_last(pair, delivered)?;
                self.settle(pair, ToOneOutcome::Delivered, settled);
                self.settle(pair, ToOneOutcome::NotDelivered, lost);
            }
        }
        Ok(())
    }

    fn settle(&mut self, Pair { group, partner, .. }: Pair, outcome: ToOneOutcome, messages: u64) {
        if messages > 0 {
            self.app.push(Item::Settled { group, to: partner, outcome, messages });
        }
    }

    /// So many messages to each of these partners are in doubt.
    fn doubt(&mut self, doubtful: impl IntoIterator<Item = (Pair, u64)>) {
        for (pair, messages) in doubtful {
            self.settle(pair, ToOneOutcome::InDoubt, messages);
        }
    }

    /// Delivers the messages that wait, as far as their past has come.
    pub(super) fn deliver(&mut self) {
        for pair in self.app.to_one.waiting_pairs() {
            self.deliver_from(pair);
        }
    }

    fn deliver_from(&mut self, pair: Pair) {
        while let Some(first) = self.app.to_one.first(pair) {
            let Some(streams) = self.group_streams.values().find(|streams| streams.meta.group == pair.group) else {
                return;
            };
            if !first.is_due(streams.meta.view, Position::of(&streams.view_streams))
                || self.standing(pair) != Standing::Together
            {
                return;
            }
            self.hand_on(pair);
        }
    }

    fn standing(&self, pair: Pair) -> Standing {
        let Pair { group, partner, since } = pair;
        if self.app.to_one.since(group, partner) == Some(since) {
            return Standing::Together;
        }
        let has_come = match self.directory.groups.get(&group) {
            Some(entry) => entry.view >= since,
            None => group.0 < self.directory.next_group,
        };
        if has_come { Standing::Over } else { Standing::Early }
    }

    /// Delivers the first message that waits of a partner.
    fn hand_on(&mut self, pair: Pair) {
        let Some(message) = self.app.to_one.take_first(pair) else { return };
        let Waiting { view, kind, payload, costs, .. } = message;
        let item = Item::ToOne { pair, view, kind, payload, costs };
        self.transfers.hold(self.app, item, pair.group);
    }

    /// The view of a group ends here, with all that its cut brings delivered. What waited for that is delivered before the
    /// next view.
    pub(super) fn end_view(&mut self, group: GroupId, ended: ViewNumber, streams: &ViewStreams) {
        for pair in self.app.to_one.waiting_pairs() {
            let is_together = pair.group == group && self.app.to_one.since(group, pair.partner) == Some(pair.since);
            while is_together
                && let Some(first) = self.app.to_one.first(pair)
                && first.is_due(ended, Position::of(streams))
            {
                self.counters.to_one_at_end += 1;
                self.hand_on(pair);
            }
        }
    }

    /// Enters a group's view, the first one that this process is in if it `came`.
    pub(super) fn enter(&mut self, view: &Arc<GroupView>) {
        for pair in self.app.to_one.enter(view) {
            self.part(pair, false);
        }
    }

    /// This process is out of the group.
    pub(super) fn leave(&mut self, group: GroupId) {
        for pair in self.app.to_one.leave(group) {
            self.part(pair, true);
        }
        let is_lost = self.transfers.holds_back(group);
        for (pair, delivered) in self.app.to_one.take_last_reports(|of| of == group) {
            self.report(pair, if is_lost { 0 } else { delivered }, None);
        }
        let doubtful = self.app.to_one.give_up_closing(|pair| pair.group == group);
        self.doubt(doubtful);
    }

    /// The two are together in the group no more. `leaves`: because this process is out of it.
    fn part(&mut self, pair: Pair, leaves: bool) {
        let lives = pair.partner != self.me && self.directory.rank(pair.partner).is_some();
        let doubtful = self.app.to_one.part_from(pair, lives && !leaves);
        self.settle(pair, ToOneOutcome::InDoubt, doubtful);
        let Some(incoming) = self.app.to_one.forget(pair) else { return };
        self.counters.to_one_dropped += incoming.waiting() as u64;
        let delivered = incoming.delivered();
        match self.transfers.holds_back(pair.group) {
            _ if !lives => {}
            // What waits behind a state that does not come is lost with it.
            true if leaves => self.report(pair, 0, None),
            true => self.app.to_one.await_state(pair, delivered),
            false => self.report(pair, delivered, None),
        }
    }

    /// After a decree: what comes of pairs that are over, or of processes that are out of the cell, comes to nothing.
    pub(super) fn sweep(&mut self) {
        let directory = &self.directory;
        let doubtful = self.app.to_one.give_up_closing(|pair| directory.rank(pair.partner).is_none());
        self.doubt(doubtful);
        let over = self.app.to_one.incoming.keys().filter(|pair| self.standing(**pair) == Standing::Over);
        for pair in over.copied().collect::<Vec<_>>() {
            self.part(pair, false);
        }
    }

    /// Ends all messages to one with this incarnation.
    pub(super) fn end_all(&mut self) {
        let doubtful = std::mem::take(&mut self.app.to_one).into_doubtful();
        self.doubt(doubtful);
    }

    /// Reports to partners what was delivered of theirs. A state that is on its way may come to nothing, and what waits
    /// behind it, too.
    pub(super) fn send_reports(&mut self) {
        if !self.app.to_one.owes_reports() {
            return;
        }
        let last = self.app.to_one.take_last_reports(|group| !self.transfers.holds_back(group));
        last.into_iter().for_each(|(pair, delivered)| self.report(pair, delivered, None));
        while let Some((pair, delivered, granted)) =
            self.app.to_one.take_report(|group| !self.transfers.holds_back(group))
        {
            self.report(pair, delivered, Some(granted));
        }
    }

    fn report(&mut self, pair: Pair, delivered: u64, granted: Option<u64>) {
        let mut report = std::mem::take(&mut self.app.to_one.blank);
        put_report(&mut report, (pair.group, pair.since), delivered, granted);
        self.pass_on(pair.partner, report);
    }
}
