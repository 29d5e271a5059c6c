//! What a process knows of its messages to one, and of those of others to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::api::{GroupView, ToOneKind};
use crate::frames::{Frames, Pool};
use crate::id::{GroupId, Incarnation, Rank, ViewNumber};
use crate::link::{ChannelMessage, SHORT_BYTES};
use crate::order::{Position, entry_of};
use crate::wire::Malformed;

/// Bytes that a member may have under way to another one in a group, beyond what that one's application has taken. One
/// message of any length goes when nothing is under way.
const WINDOW_BYTES: u64 = 256 * 1024;
/// What a message costs beside its bytes, so that empty messages are bounded, too.
pub(in crate::process) const MESSAGE_COSTS: u64 = 64;

/// This process and another one, for as long as both are in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::process) struct Pair {
    pub(in crate::process) group: GroupId,
    /// The other one. A process is a partner of its own, too.
    pub(in crate::process) partner: Incarnation,
    /// The first view that holds both, without a break since.
    pub(in crate::process) since: ViewNumber,
}

/// The messages of this process to a partner. Answers do not count.
#[derive(Debug)]
pub(in crate::process) struct Outgoing {
    since: ViewNumber,
    /// The view of the latest message, and the position that it told, by rank.
    view: ViewNumber,
    told: Vec<u64>,
    sent: u64,
    settled: u64,
    /// The position of the last byte sent, and the one up to which more may be sent.
    position: u64,
    granted: u64,
}

impl Outgoing {
    pub(in crate::process) fn new(since: ViewNumber) -> Self {
        let view = ViewNumber::NONE;
        Self { since, view, told: Vec::new(), sent: 0, settled: 0, position: 0, granted: WINDOW_BYTES }
    }

    /// By how much a position in a view grew since the latest message in it.
    pub(in crate::process) fn growth(
        &self,
        view: ViewNumber,
        position: impl Iterator<Item = (Rank, u64)>,
    ) -> Vec<(Rank, u64)> {
        let told = |rank: Rank| if self.view == view { self.told.get(rank.index()).copied().unwrap_or(0) } else { 0 };
        let grown = position.map(|(rank, count)| (rank, count.saturating_sub(told(rank))));
        grown.filter(|(_, growth)| *growth > 0).collect()
    }

    /// Counts what a message tells as told.
    pub(in crate::process) fn tell(&mut self, view: ViewNumber, growth: &[(Rank, u64)]) {
        if self.view != view {
            self.view = view;
            self.told.clear();
        }
        for (rank, growth) in growth {
            *entry_of(&mut self.told, *rank) += growth;
        }
    }

    /// Number of messages without an outcome.
    fn owed(&self) -> u64 {
        self.sent - self.settled
    }

    /// Whether there is room for a message.
    pub(in crate::process) fn has_room(&self, costs: u64) -> bool {
        has_room(self.position, costs, self.granted)
    }

    /// Takes room for a message. False if there is none.
    pub(in crate::process) fn take_room(&mut self, costs: u64) -> bool {
        let has_room = self.has_room(costs);
        if has_room {
            self.position += costs;
            self.sent += 1;
        }
        has_room
    }
}

/// Whether a message goes behind `position`: what is granted holds it, or nothing is under way.
fn has_room(position: u64, costs: u64, granted: u64) -> bool {
    position + costs <= granted || position + WINDOW_BYTES <= granted
}

/// The messages of a partner to this process.
#[derive(Debug)]
pub(in crate::process) struct Incoming {
    /// The view of the latest message, and what it comes after, by rank.
    view: ViewNumber,
    past: BTreeMap<Rank, u64>,
    waiting: VecDeque<Waiting>,
    /// Messages handed on, without answers.
    delivered: u64,
    /// The position of the last byte that came, and of the last one that the application took. Answers do not count.
    position: u64,
    taken: u64,
    /// What the latest report granted.
    granted: u64,
}

/// A message that waits for its past.
#[derive(Debug)]
pub(in crate::process) struct Waiting {
    pub(in crate::process) view: ViewNumber,
    /// What it comes after beyond the message before it: counts of messages by rank.
    pub(in crate::process) past: Vec<(Rank, u64)>,
    pub(in crate::process) kind: ToOneKind,
    pub(in crate::process) payload: Frames,
    pub(in crate::process) costs: u64,
}

impl Waiting {
    /// Whether what it comes after is delivered, where the view of that number is `here`. What an earlier view lacked came
    /// with its cut.
    pub(in crate::process) fn is_due(&self, view: ViewNumber, here: Position<'_>) -> bool {
        self.view < view || self.view == view && self.has_past(here)
    }

    fn has_past(&self, here: Position<'_>) -> bool {
        self.past.iter().all(|(rank, count)| here.has_delivered(*rank, *count))
    }
}

impl Incoming {
    pub(in crate::process) fn new() -> Self {
        Self {
            view: ViewNumber::NONE,
            past: BTreeMap::new(),
            waiting: VecDeque::new(),
            delivered: 0,
            position: 0,
            taken: 0,
            granted: WINDOW_BYTES,
        }
    }

    /// Takes the room of a message. False if it was not granted.
    pub(in crate::process) fn take_room(&mut self, costs: u64) -> bool {
        let has_room = has_room(self.position, costs, self.granted);
        self.position += if has_room { costs } else { 0 };
        has_room
    }

    /// Turns the growth in a message into counts.
    ///
    /// # Errors
    /// [`Malformed`] for a view before that of the message before, or counts beyond all numbers.
    pub(in crate::process) fn read_past(
        &mut self,
        view: ViewNumber,
        growth: impl Iterator<Item = (Rank, u64)>,
    ) -> Result<Vec<(Rank, u64)>, Malformed> {
        if view < self.view {
            return Err(Malformed);
        }
        if view > self.view {
            self.view = view;
            self.past.clear();
        }
        let counts = growth.map(|(rank, growth)| {
            let count = self.past.entry(rank).or_default();
            *count = count.checked_add(growth).ok_or(Malformed)?;
            Ok((rank, *count))
        });
        counts.collect()
    }

    pub(in crate::process) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Number of messages that wait.
    pub(in crate::process) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// All messages to one of a process.
#[derive(Debug, Default)]
pub(in crate::process) struct ToOne {
    /// For each group that this process is in, its members and the first view that held both.
    together: BTreeMap<GroupId, BTreeMap<Incarnation, ViewNumber>>,
    pub(in crate::process) outgoing: BTreeMap<(GroupId, Incarnation), Outgoing>,
    /// Messages without an outcome to those that left the group and not the cell: their last report is to come.
    closing: BTreeMap<Pair, Outgoing>,
    pub(in crate::process) incoming: BTreeMap<Pair, Incoming>,
    /// Pairs with messages that wait.
    waiting: BTreeSet<Pair>,
    /// Bytes that wait for their past.
    waiting_bytes: u64,
    /// Pairs for which a report is due.
    reports: BTreeSet<Pair>,
    /// Pairs that are over, with the number of messages that were delivered if a state that is on its way comes.
    last_reports: Vec<(Pair, u64)>,
    /// Where the messages of a packet that came are put. Empty meanwhile.
    pub(in crate::process) came: Vec<Frames>,
    /// Buffers of short messages that came.
    buffers: Pool,
    /// Where the next message that goes out is written. Empty meanwhile.
    pub(in crate::process) blank: Vec<u8>,
}

impl ToOne {
    /// Bytes that wait for their past.
    pub(in crate::process) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// The first view that held this process and `who`.
    pub(in crate::process) fn since(&self, group: GroupId, who: Incarnation) -> Option<ViewNumber> {
        self.together.get(&group)?.get(&who).copied()
    }

    pub(in crate::process) fn waiting_pairs(&self) -> Vec<Pair> {
        self.waiting.iter().copied().collect()
    }

    /// The message that waits first.
    pub(in crate::process) fn first(&self, pair: Pair) -> Option<&Waiting> {
        self.incoming.get(&pair)?.waiting.front()
    }

    pub(in crate::process) fn wait(&mut self, pair: Pair, message: Waiting) {
        if let Some(incoming) = self.incoming.get_mut(&pair) {
            self.waiting_bytes += message.costs;
            incoming.waiting.push_back(message);
            self.waiting.insert(pair);
        }
    }

    /// Takes the message that waits first, to be delivered.
    pub(in crate::process) fn take_first(&mut self, pair: Pair) -> Option<Waiting> {
        let incoming = self.incoming.get_mut(&pair)?;
        let message = incoming.waiting.pop_front()?;
        self.waiting_bytes -= message.costs;
        if incoming.waiting.is_empty() {
            self.waiting.remove(&pair);
        }
        if !message.kind.is_answer() {
            incoming.delivered += 1;
            self.reports.insert(pair);
        }
        Some(message)
    }

    /// Notes that the application took a message, so that its sender may send more.
    pub(in crate::process) fn taken(&mut self, pair: Pair, costs: u64) {
        let Some(incoming) = self.incoming.get_mut(&pair) else { return };
        incoming.taken += costs;
        debug_assert!(incoming.taken <= incoming.position, "more was taken than came");
        if incoming.taken + WINDOW_BYTES / 2 >= incoming.granted {
            self.reports.insert(pair);
        }
    }

    /// The messages of which a partner may still report.
    fn open(&mut self, pair: Pair) -> Option<&mut Outgoing> {
        let current = self.outgoing.get_mut(&(pair.group, pair.partner)).filter(|out| out.since == pair.since);
        current.or_else(|| self.closing.get_mut(&pair))
    }

    /// Notes a report. Returns the number of messages that it says are delivered beyond the reports before.
    ///
    /// # Errors
    /// [`Malformed`] if it reports what was not sent.
    pub(in crate::process) fn note_report(
        &mut self,
        pair: Pair,
        delivered: u64,
        granted: u64,
    ) -> Result<u64, Malformed> {
        let Some(out) = self.open(pair) else { return Ok(0) };
        if granted > out.position + WINDOW_BYTES || !(out.settled..=out.sent).contains(&delivered) {
            return Err(Malformed);
        }
        out.granted = out.granted.max(granted);
        Ok(delivered - std::mem::replace(&mut out.settled, delivered))
    }

    /// Notes the last report. Returns the number of further messages that were delivered, and of those that were not.
    ///
    /// # Errors
    /// [`Malformed`] if it reports what was not sent.
    pub(in crate::process) fn note_last(&mut self, pair: Pair, delivered: u64) -> Result<(u64, u64), Malformed> {
        // A partner that is in a later view answers each message that came too late so.
        let Some(out) = self.open(pair) else { return Ok((0, 0)) };
        if delivered > out.sent {
            return Err(Malformed);
        }
        let delivered = delivered.max(out.settled);
        let outcomes = (delivered - out.settled, out.sent - delivered);
        out.settled = out.sent;
        self.closing.remove(&pair);
        Ok(outcomes)
    }

    /// Enters a group's view. Returns the pairs that are together no more.
    pub(in crate::process) fn enter(&mut self, view: &GroupView) -> Vec<Pair> {
        let came = view.prev.is_none();
        let group = view.group;
        let former = self.together.remove(&group).unwrap_or_default();
        let since = |who: &Incarnation| match former.get(who) {
            Some(since) if !came && !view.joined.contains(who) => *since,
            _ => view.view,
        };
        let together: BTreeMap<_, _> = view.members.iter().map(|who| (*who, since(who))).collect();
        let over = former.into_iter().filter(|(who, since)| together.get(who) != Some(since));
        let over = over.map(|(partner, since)| Pair { group, partner, since }).collect();
        self.together.insert(group, together);
        over
    }

    /// Leaves a group. Returns the pairs that are together no more.
    pub(in crate::process) fn leave(&mut self, group: GroupId) -> Vec<Pair> {
        let former = self.together.remove(&group).unwrap_or_default();
        former.into_iter().map(|(partner, since)| Pair { group, partner, since }).collect()
    }

    /// Sends no more to a partner. Returns the number of messages whose outcome nobody will report. `awaits`: its last
    /// report is to come.
    pub(in crate::process) fn part_from(&mut self, pair: Pair, awaits: bool) -> u64 {
        let Some(out) = self.outgoing.remove(&(pair.group, pair.partner)) else { return 0 };
        debug_assert_eq!(out.since, pair.since, "messages go to a partner that is together with this process");
        let owed = out.owed();
        if !awaits || owed == 0 {
            return owed;
        }
        self.closing.insert(pair, out);
        0
    }

    /// Gives up the last reports of these pairs. Returns the number of messages of each that are in doubt.
    pub(in crate::process) fn give_up_closing(&mut self, is_over: impl Fn(Pair) -> bool) -> Vec<(Pair, u64)> {
        let over = self.closing.iter().filter(|(pair, _)| is_over(**pair));
        let over: Vec<_> = over.map(|(pair, out)| (*pair, out.owed())).collect();
        for (pair, _) in &over {
            self.closing.remove(pair);
        }
        over
    }

    /// Forgets what came from a partner, with what waits.
    pub(in crate::process) fn forget(&mut self, pair: Pair) -> Option<Incoming> {
        let incoming = self.incoming.remove(&pair)?;
        self.waiting.remove(&pair);
        self.reports.remove(&pair);
        self.waiting_bytes -= incoming.waiting.iter().map(|message| message.costs).sum::<u64>();
        Some(incoming)
    }

    /// All messages without an outcome, at the end of the incarnation.
    pub(in crate::process) fn into_doubtful(self) -> impl Iterator<Item = (Pair, u64)> {
        let pair = |((group, partner), out): ((GroupId, Incarnation), Outgoing)| {
            (Pair { group, partner, since: out.since }, out)
        };
        let all = self.outgoing.into_iter().map(pair).chain(self.closing);
        all.map(|(pair, out)| (pair, out.owed()))
    }

    /// Whether some message of this process, in that group if one is given, has no outcome yet.
    pub(in crate::process) fn is_owed(&self, group: Option<GroupId>) -> bool {
        let outgoing = self.outgoing.iter().map(|((of, _), out)| (*of, out));
        let closing = self.closing.iter().map(|(pair, out)| (pair.group, out));
        let mut all = outgoing.chain(closing).filter(|(of, _)| group.is_none_or(|group| *of == group));
        all.any(|(_, out)| out.owed() > 0)
    }

    pub(in crate::process) fn owes_reports(&self) -> bool {
        !(self.reports.is_empty() && self.last_reports.is_empty())
    }

    /// Puts a last report off until it is known whether the state comes behind which the messages wait.
    pub(in crate::process) fn await_state(&mut self, pair: Pair, delivered: u64) {
        self.last_reports.push((pair, delivered));
    }

    /// The last reports of these groups that were put off.
    pub(in crate::process) fn take_last_reports(&mut self, is_due: impl Fn(GroupId) -> bool) -> Vec<(Pair, u64)> {
        let (due, rest) = std::mem::take(&mut self.last_reports).into_iter().partition(|(pair, _)| is_due(pair.group));
        self.last_reports = rest;
        due
    }

    /// The first report that is due and may be sent: messages delivered, and the position that is granted.
    pub(in crate::process) fn take_report(&mut self, may: impl Fn(GroupId) -> bool) -> Option<(Pair, u64, u64)> {
        loop {
            let pair = *self.reports.iter().find(|pair| may(pair.group))?;
            self.reports.remove(&pair);
            if let Some(incoming) = self.incoming.get_mut(&pair) {
                incoming.granted = incoming.taken + WINDOW_BYTES;
                return Some((pair, incoming.delivered, incoming.granted));
            }
        }
    }

    /// Keeps a message that arrived. A short one costs no allocation.
    pub(in crate::process) fn keep(&mut self, message: ChannelMessage<'_>) -> Frames {
        match message {
            ChannelMessage::Whole(bytes) if bytes.len() <= SHORT_BYTES => self.buffers.copy(bytes),
            ChannelMessage::Whole(bytes) => Frames::from(bytes.to_vec()),
            ChannelMessage::Assembled(bytes) => Frames::from(bytes),
        }
    }

    /// Takes back a message that nobody needs any more. Only the buffers of short ones are used again.
    pub(in crate::process) fn give(&mut self, message: Frames) {
        // A buffer that grew has up to twice the room.
        if message.buffer_bytes() <= 2 * SHORT_BYTES {
            self.buffers.give(message);
        }
    }

    /// Puts back what was taken of [`Self::blank`].
    pub(in crate::process) fn clear_blank(&mut self, mut blank: Vec<u8>) {
        blank.clear();
        self.blank = blank;
    }

    /// Checks what must always hold.
    pub(in crate::process) fn check_invariants(&self) {
        for ((group, partner), out) in &self.outgoing {
            assert_eq!(
                self.since(*group, *partner),
                Some(out.since),
                "messages go to one that is together with this process"
            );
        }
        for out in self.outgoing.values().chain(self.closing.values()) {
            assert!(out.settled <= out.sent, "more messages have an outcome than were sent");
        }
        let mut bytes = 0;
        for (pair, incoming) in &self.incoming {
            assert_eq!(self.waiting.contains(pair), !incoming.waiting.is_empty(), "a message waits and is never tried");
            assert!(incoming.taken <= incoming.position, "more was taken than came");
            bytes += incoming.waiting.iter().map(|message| message.costs).sum::<u64>();
        }
        assert_eq!(bytes, self.waiting_bytes, "bytes that wait are miscounted");
        assert!(
            self.reports.iter().all(|pair| self.incoming.contains_key(pair)),
            "a report is due of nothing that came"
        );
    }
}
