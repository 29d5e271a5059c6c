//! The application of a torture member: keeps a state for each group, and reports what it observes.

use std::collections::BTreeMap;

use phalanx::{
    AnswerRef, App, AskEnd, AskError, AskedRef, CellEvent, DecodeError, InlineAsk, InlineGroup, InlineReply,
    LeaveReason, MemberId, MessageRef, MessageToOneRef, Order, Snapshot, Undelivered, View,
};
use rustix::process::{Signal, getpid, kill_process};

use super::asks::Asks;
use super::payload::word;
use super::report::Report;
use super::tally::Tally;

/// The group of all members.
pub(super) const WORK: &str = "work";
/// The group of every other member.
pub(super) const SIDE: &str = "side";

#[derive(Debug, Default)]
pub(super) struct Worker {
    /// This incarnation, once it has begun.
    me: Option<MemberId>,
    /// The other members of the cell view, for messages to one process.
    pub(super) peers: Vec<MemberId>,
    /// Groups of this process. Their states outlive an incarnation: a group may go on with one.
    groups: BTreeMap<InlineGroup, Group>,
    /// Number of the last message from each sender in [`WORK`].
    pub(super) heard: BTreeMap<MemberId, u64>,
    /// The same for uniform abcasts only.
    pub(super) uniform: BTreeMap<MemberId, u64>,
    /// Whether it stops taking events of groups.
    pub(super) hangs: bool,
    /// Whether it stops its own process as soon as a transfer has begun.
    pub(super) stops_in_transfer: bool,
    /// Whether it left [`WORK`] on order and is to join it again.
    pub(super) to_join: bool,
    /// Groups with deliveries to which it may send an answer.
    pub(super) answerable: Vec<InlineGroup>,
    pub(super) asks: Asks,
    pub(super) reports: Vec<Report>,
}

#[derive(Debug, Default)]
struct Group {
    /// Its name, while this incarnation is a member.
    name: Option<String>,
    /// The members of its view, this process among them, for messages to one.
    members: Vec<MemberId>,
    /// Number of the last message to this process alone from each sender, while both are in the group.
    to_me: BTreeMap<MemberId, u64>,
    /// Number of messages to one that have no outcome yet, by receiver.
    open: BTreeMap<MemberId, u64>,
    tally: Tally,
    /// What came of another member's state, until it is whole.
    incoming: Option<Vec<u8>>,
}

impl Group {
    fn is_work(&self) -> bool {
        self.name.as_deref() == Some(WORK)
    }

    /// Takes the next part of another member's state.
    ///
    /// # Errors
    /// It is damaged; how many bytes there are.
    fn restore(&mut self, part: &[u8], is_end: bool) -> Result<(), usize> {
        let incoming = self.incoming.get_or_insert_default();
        incoming.extend_from_slice(part);
        if is_end {
            self.tally = Tally::restore(incoming).ok_or(incoming.len())?;
            self.incoming = None;
        }
        Ok(())
    }

    /// This incarnation is no member any more.
    fn leave_view(&mut self) {
        self.name = None;
        self.members.clear();
        self.to_me.clear();
        self.open.clear();
    }

    /// Begins as a new group does.
    fn forget(&mut self) {
        (self.tally, self.incoming) = (Tally::default(), None);
    }
}

impl Worker {
    /// Groups it is a member of, and whether each is [`WORK`].
    pub(super) fn joined(&self) -> impl Iterator<Item = (InlineGroup, bool)> {
        self.groups.iter().filter(|(_, group)| group.name.is_some()).map(|(id, group)| (*id, group.is_work()))
    }

    /// The members of the view of a group, this process among them.
    pub(super) fn members(&self, group: InlineGroup) -> &[MemberId] {
        self.groups.get(&group).map_or(&[], |group| &group.members)
    }

    /// A message to one member was accepted. Its outcome is to come.
    pub(super) fn sent_to_one(&mut self, group: InlineGroup, to: MemberId) {
        *self.groups.entry(group).or_default().open.entry(to).or_default() += 1;
    }

    /// [`WORK`], while this incarnation is a member.
    pub(super) fn work(&self) -> Option<InlineGroup> {
        self.joined().find(|(_, is_work)| *is_work).map(|(group, _)| group)
    }

    /// Notes which incarnation this is: the first, or one that comes back after an exclusion.
    pub(super) fn note_incarnation(&mut self, me: MemberId) {
        if self.me.replace(me) == Some(me) {
            return;
        }
        self.peers.clear();
        self.heard.clear();
        self.uniform.clear();
        self.answerable.clear();
        self.leave_views();
        if let Err(open) = self.asks.begin() {
            self.wrong(format!("{open} asks of an earlier incarnation did not end"));
        }
        self.reports.push(Report::Begin { incarnation: me.bits() });
    }

    fn leave_views(&mut self) {
        self.groups.values_mut().for_each(Group::leave_view);
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.reports.push(Report::Wrong { what: what.into() });
    }

    /// The number of a message. `None`: its head is not its sender's.
    fn number_of(&mut self, sender: MemberId, payload: &[u8]) -> Option<u64> {
        let Some((head, rest)) = payload.split_at_checked(8) else {
            self.wrong("a message without its head was delivered");
            return None;
        };
        if word(head) != sender.bits() {
            self.wrong(format!("a message of {:016x} was delivered as {sender}", word(head)));
            return None;
        }
        Some(word(rest))
    }

    fn note_sender(&mut self, message: &MessageRef<'_>) {
        let Some(number) = self.number_of(message.sender, message.payload) else { return };
        if message.uniform && message.order == Order::Total {
            self.uniform.insert(message.sender, number);
        }
        // Plain messages may overtake uniform messages of another order. The checker verifies the order.
        let last = self.heard.entry(message.sender).or_default();
        *last = number.max(*last);
    }
}

impl App for Worker {
    fn message(&mut self, message: &MessageRef<'_>) {
        let Some(group) = self.groups.get_mut(&message.group) else {
            return self.wrong(format!("a message for {:?} was delivered, which was not joined", message.group));
        };
        group.tally.apply(message.order, message.sender.bits(), message.payload);
        if message.replayed {
            return;
        }
        let is_work = group.is_work();
        self.answerable.push(message.group);
        if is_work {
            self.note_sender(message);
        }
    }

    fn ready(&mut self, _group: InlineGroup) -> bool {
        !self.hangs
    }

    fn view(&mut self, group: InlineGroup, view: &View) {
        if view.is_replayed() {
            return;
        }
        let known = self.groups.entry(group).or_default();
        known.name = Some(view.group().to_owned());
        known.members = view.members().map(|member| member.id).collect();
        known.to_me.retain(|who, _| view.rank_of(*who).is_some());
        if view.group() == WORK {
            let is_in = |who: &MemberId| view.rank_of(*who).is_some();
            self.heard.retain(|who, _| is_in(who));
            self.uniform.retain(|who, _| is_in(who));
            let members = view.members().map(|member| member.name).collect();
            self.reports.push(Report::Work { view: view.number(), members });
        }
    }

    fn to_one(&mut self, message: &MessageToOneRef<'_>) {
        let sender = message.sender;
        let Some(number) = self.number_of(sender, message.payload) else { return };
        let group = self.groups.entry(message.group).or_default();
        if !group.members.contains(&sender) {
            self.wrong(format!("a message to one came from {sender}, which is not in the view"));
        } else if group.to_me.insert(sender, number).is_some_and(|last| last >= number) {
            self.wrong(format!("message {number} to one from {sender} came twice, or out of order"));
        }
    }

    fn settled(&mut self, group: InlineGroup, to: MemberId, _outcome: Result<(), Undelivered>, messages: u64) {
        let open = self.groups.entry(group).or_default().open.entry(to).or_default();
        match open.checked_sub(messages) {
            Some(left) => *open = left,
            None => self.wrong(format!("{messages} messages to {to} have an outcome, more than were sent")),
        }
    }

    fn asked(&mut self, asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        if !asked.is_forwarded {
            self.message(&asked.message);
        }
        let Some(me) = self.me else { return Some(InlineReply::Null) };
        self.asks.asked(me, asked, value)
    }

    fn ask_given_up(&mut self, ask: InlineAsk) {
        self.asks.given_up(ask);
    }

    fn answered(&mut self, group: InlineGroup, number: u64, answer: &AnswerRef<'_>) -> bool {
        let is_enough = self.asks.answered(group, number, answer);
        is_enough.unwrap_or_else(|what| {
            self.wrong(what);
            false
        })
    }

    fn ask_ended(&mut self, group: InlineGroup, number: u64, _end: Result<AskEnd, AskError>) {
        if let Err(what) = self.asks.ended(group, number) {
            self.wrong(what);
        }
    }

    fn unicast(&mut self, from: MemberId, payload: &[u8]) {
        self.number_of(from, payload);
    }

    fn event(&mut self, event: &CellEvent) {
        match event {
            CellEvent::View(view) => {
                self.note_incarnation(view.me());
                self.peers = view.members().map(|member| member.id).filter(|who| *who != view.me()).collect();
                let members = view.members().map(|member| member.name).collect();
                self.reports.push(Report::Cell { view: view.number(), members });
            }
            CellEvent::NonPrimary { .. } => self.reports.push(Report::Primary { primary: false }),
            CellEvent::Primary => self.reports.push(Report::Primary { primary: true }),
            CellEvent::Excluded { .. } => self.reports.push(Report::Excluded),
            _ => {}
        }
    }

    fn excluded(&mut self, _was: MemberId) {
        self.leave_views();
    }

    fn left(&mut self, group: InlineGroup, reason: LeaveReason) {
        if reason == LeaveReason::Anew {
            self.groups.entry(group).or_default().leave_view();
            return;
        }
        self.groups.remove(&group);
        self.to_join = true;
    }

    fn snapshot(&mut self, group: InlineGroup) -> Option<Snapshot> {
        self.groups.get(&group).map(|group| Snapshot::new(group.tally.snapshot()))
    }

    fn taking(&mut self, group: InlineGroup, _bytes: u64) {
        if std::mem::take(&mut self.stops_in_transfer) {
            // No system refuses this to a process for itself. The harness waits for the stop, and continues the process
            // later.
            let _ = kill_process(getpid(), Signal::STOP);
        }
        self.groups.entry(group).or_default().incoming = Some(Vec::new());
    }

    fn restore(&mut self, group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        let Err(bytes) = self.groups.entry(group).or_default().restore(part, is_end) else { return Ok(()) };
        self.wrong(format!("the state of {group:?} came damaged, {bytes} bytes of it"));
        Err(DecodeError::new("it is damaged"))
    }

    fn current(&mut self, group: InlineGroup) {
        if self.groups.entry(group).or_default().incoming.take().is_some() {
            self.wrong(format!("the state of {group:?} came incomplete"));
        }
    }

    fn founded_anew(&mut self, group: InlineGroup) {
        self.groups.entry(group).or_default().forget();
    }

    fn kept(&mut self, group: InlineGroup) {
        if !self.groups.contains_key(&group) {
            self.wrong(format!("{group:?} goes on with a state that is not kept"));
        }
    }

    // The group begins anew, as one without messages, or another member's state follows.
    fn forgotten(&mut self, group: InlineGroup) {
        self.groups.entry(group).or_default().forget();
    }

    fn digest(&mut self, group: InlineGroup) -> Option<u64> {
        self.groups.get(&group).map(|group| group.tally.digest())
    }
}

#[cfg(test)]
mod tests {
    use phalanx::{Cell, Guarantee};

    use super::*;

    /// A group of which one message is known.
    fn group() -> Group {
        let mut group = Group::default();
        group.tally.apply(Order::Total, 1, b"first");
        group
    }

    #[test]
    fn a_state_replaces_the_one_that_was_kept_when_it_is_whole() {
        let (mut giver, mut taker) = (group(), Group::default());
        taker.tally.apply(Order::Total, 1, b"another");
        giver.tally.apply(Order::Fifo, 2, b"second");
        let bytes = giver.tally.snapshot();
        let (first, last) = bytes.split_at(1_000);
        assert_eq!(taker.restore(first, false), Ok(()));
        assert!(taker.tally != giver.tally && taker.incoming.is_some(), "a part of it is none");
        assert_eq!(taker.restore(last, true), Ok(()));
        assert!(taker.tally == giver.tally && taker.incoming.is_none());
    }

    #[test]
    fn a_damaged_state_is_seen_and_taken_by_nobody() {
        let (giver, mut taker) = (group(), group());
        let mut bytes = giver.tally.snapshot();
        bytes[2_000] ^= 1;
        taker.tally.apply(Order::Total, 1, b"second");
        let before = taker.tally;
        assert_eq!(taker.restore(&bytes, true), Err(bytes.len()));
        assert_eq!(taker.tally, before);
    }

    #[test]
    fn a_group_that_is_made_anew_begins_with_no_state() {
        let mut group = group();
        group.incoming = Some(vec![1]);
        group.forget();
        assert_eq!((group.tally, group.incoming), (Tally::default(), None));
    }

    /// Who comes back has left all views, and may go on with its states.
    #[test]
    fn another_incarnation_keeps_states_and_no_views() {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Cell::builder("test");
        let builder = builder.directories(directory.path().join("run"), directory.path().join("state"));
        let mut process = builder.inline().expect("starts");
        let mut worker = Worker::default();
        worker.note_incarnation(process.me().id);
        process.group(WORK).with_state().join(&mut worker).expect("joins");
        let work = loop {
            process.poll(&mut worker);
            if let Some(work) = worker.work() {
                break work;
            }
        };
        let message = [&process.me().id.bits().to_le_bytes()[..], &7_u64.to_le_bytes()].concat();
        let accepted = process.multicast(work, Order::Total, Guarantee::Uniform, &message, &mut worker);
        accepted.expect("there is credit");
        while worker.heard.is_empty() {
            process.poll(&mut worker);
        }
        let digest = worker.digest(work);
        assert_eq!(worker.uniform.values().collect::<Vec<_>>(), [&7]);
        assert_ne!(digest, Some(Tally::default().digest()));

        worker.excluded(process.me().id);
        assert_eq!(worker.joined().count(), 0);
        assert_eq!(worker.digest(work), digest, "it is kept");
        worker.kept(work);
        worker.forgotten(work);
        assert_eq!(worker.digest(work), Some(Tally::default().digest()));
        assert!(!worker.reports.iter().any(|report| matches!(report, Report::Wrong { .. })), "{:?}", worker.reports);
    }
}
