//! Records what an application observes, in order, for the checker.

mod directory;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;

use phalanx_core::member::{Directory, FounderRecord};
use phalanx_core::{
    Decree, Delivery, Event, GroupId, InboxId, Incarnation, Instant, MemberInfo, MessageToOne, Order, Sent, Sequence,
    Snapshot, ToOneOutcome, Uniformity, ViewNumber,
};
use phalanx_driver::fork::Home;
use phalanx_trace::{Event as Record, TraceError, TraceWriter, payload_hash};

use crate::handler::{Command, Handler};
pub(crate) use directory::create;
pub use records::{
    delivered_to, group_domains, group_incomplete, group_observers, group_view_replayed, left, listed, lost, order,
    own_domains, reason, sent, sent_to_one, settled, snapshot_view, to_one,
};

/// Opens the trace of one incarnation. Called with each new one.
pub type OpenTrace<W> = Box<dyn FnMut(&MemberInfo) -> Result<TraceWriter<W>, TraceError> + Send>;

/// Called, once per incarnation, with the reason why tracing stopped.
pub type TraceFailed = Box<dyn FnMut(&TraceError) + Send>;

/// Writes the trace of a process: what passes through the handlers that it makes ([`Recorder::around`]).
///
/// A trace that cannot be written (a full disk) is given up: the reason is reported once, and the process continues
/// without a trace. A forked child writes nothing to its parent's trace; a process started there begins a trace of its
/// own.
pub struct Recorder<W: Write = File> {
    cell: String,
    /// `None`: nothing is recorded.
    open: Option<OpenTrace<W>>,
    failed: TraceFailed,
    write_ahead: bool,
    writer: Option<TraceWriter<W>>,
    /// The process in which the writer was opened.
    home: Home,
    now: Instant,
    /// Whether the last record on this says that a view change keeps the process from sending.
    silent: bool,
    views: BTreeMap<GroupId, ViewNumber>,
    /// Groups whose state came whole, and whose first view is still to come.
    whole: BTreeSet<GroupId>,
    /// Point-to-point messages of this incarnation, by peer; one entry per peer.
    messages: BTreeMap<Incarnation, Messages>,
    /// Groups with an inbox of their own, through all incarnations.
    inboxes: BTreeMap<String, InboxId>,
}

/// A [`Handler`] that records what passes to the handler inside it; see [`Recorder::around`].
pub struct Traced<'a, H, W: Write = File> {
    inner: &'a mut H,
    recorder: &'a mut Recorder<W>,
}

#[derive(Debug, Default)]
struct Messages {
    sent: u64,
    got: u64,
}

impl Recorder {
    /// Records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self::with(String::new(), false, None, Box::new(|_| {}))
    }
}

impl<W: Write> Recorder<W> {
    /// Records in the traces that `open` opens.
    ///
    /// With `write_ahead` every record is written to the trace's file before any packet that may reveal the event. So
    /// records survive a kill of the process. Otherwise records are buffered, which is faster. The header that `open`
    /// writes must say the same.
    pub fn new(cell: &str, write_ahead: bool, open: OpenTrace<W>, failed: TraceFailed) -> Self {
        Self::with(cell.to_owned(), write_ahead, Some(open), failed)
    }

    fn with(cell: String, write_ahead: bool, open: Option<OpenTrace<W>>, failed: TraceFailed) -> Self {
        Self {
            cell,
            open,
            failed,
            write_ahead,
            writer: None,
            home: Home::here(),
            now: Instant::ZERO,
            silent: false,
            views: BTreeMap::new(),
            whole: BTreeSet::new(),
            messages: BTreeMap::new(),
            inboxes: BTreeMap::new(),
        }
    }

    /// A handler that passes everything on to `inner`, and records it. All handlers of a recorder record in one trace, so
    /// one may be made for each call.
    #[inline]
    pub fn around<'a, H: Handler>(&'a mut self, inner: &'a mut H) -> Traced<'a, H, W> {
        Traced { inner, recorder: self }
    }

    /// Whether records are being written.
    pub fn is_tracing(&self) -> bool {
        self.writer.is_some() && self.home.is_here()
    }

    /// Whether a trace is asked for.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.open.is_some()
    }

    /// Records that a group is taken from this inbox from here on, as [`crate::Node::set_inbox`] has it. Items of different
    /// inboxes have no order, which the checker has to know.
    pub fn set_inbox(&mut self, name: &str, inbox: InboxId) {
        if !self.is_on() {
            return;
        }
        if inbox == InboxId::MAIN {
            self.inboxes.remove(name);
        } else {
            self.inboxes.insert(name.to_owned(), inbox);
        }
        self.record(&Record::Inbox { name: name.to_owned(), inbox: inbox.0 });
    }

    /// Records what the application was told between two calls of its handler.
    pub fn told(&mut self, told: &[Record]) {
        told.iter().for_each(|told| self.record(told));
    }

    /// Writes buffered records to the file.
    pub fn flush(&mut self) {
        let outcome = self.writer().map_or(Ok(()), TraceWriter::flush);
        self.settle(outcome);
    }

    /// Ends the trace of this incarnation, because the application is about to stop. Nothing is recorded afterwards.
    pub fn finish(&mut self) {
        self.record(&Record::End);
        self.flush();
        self.writer = None;
    }

    fn writer(&mut self) -> Option<&mut TraceWriter<W>> {
        if !self.home.is_here()
            && let Some(mut inherited) = self.writer.take()
        {
            inherited.abandon();
        }
        self.writer.as_mut()
    }

    fn record(&mut self, event: &Record) {
        let now = self.now.nanos();
        let Some(writer) = self.writer() else { return };
        let outcome = writer.write(now, event);
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Result<(), TraceError>) {
        if let Err(error) = outcome {
            (self.failed)(&error);
            self.writer = None;
        }
    }

    /// Begins the trace of an incarnation.
    fn begin(&mut self, me: &MemberInfo) {
        // An incarnation that was given up before its first view has no ending event of its own.
        self.finish();
        self.silent = false;
        self.views.clear();
        self.whole.clear();
        self.messages.clear();
        let Some(open) = &mut self.open else { return };
        match open(me) {
            Ok(writer) => (self.writer, self.home) = (Some(writer), Home::here()),
            Err(error) => self.settle(Err(error)),
        }
        self.record(&Record::Start);
        let cell = self.cell.clone();
        self.record(&Record::JoinAsked { cell });
        for (name, inbox) in self.inboxes.clone() {
            self.record(&Record::Inbox { name, inbox: inbox.0 });
        }
    }

    fn command(&mut self, command: &Command<'_>) {
        match *command {
            Command::JoinGroup { name, with_state, observes, domains } => {
                self.record(&Record::GroupJoinAsked { name: name.to_owned(), with_state });
                own_domains(name, with_state, domains).iter().for_each(|record| self.record(record));
                if observes {
                    self.record(&Record::Observes { name: name.to_owned() });
                }
            }
            Command::LeaveGroup { group } => self.record(&Record::GroupLeaveAsked { group: group.0 }),
            Command::GiveUpGroup { name } => self.record(&Record::GivenUp { name: name.to_owned() }),
            Command::Reform => self.record(&Record::ReformAsked),
            Command::FoundAnew => self.record(&Record::FoundAnew),
            Command::RaiseLevel { level } => self.record(&Record::RiseAsked { level }),
            Command::Leave => self.record(&Record::LeaveAsked),
            Command::Multicast { group, order, accepted, parts } => {
                let hash = hash_of(parts);
                if let Some(place) = accepted.sent {
                    self.record(&sent(group, place, order, accepted.uniformity, hash));
                }
                let uniform = accepted.uniformity.is_uniform();
                self.record(&Record::Accept { group: group.0, order: records::order(order), uniform, hash });
            }
            Command::SendTo { group, view, to, kind, parts } => {
                self.record(&sent_to_one(group, view, to, kind, hash_of(parts)));
            }
            Command::Send { to, payload } => {
                let messages = self.messages.entry(to).or_default();
                messages.sent += 1;
                let k = messages.sent;
                self.record(&Record::P2pSend { to: to.0, k, hash: payload_hash(payload) });
            }
        }
    }

    /// Records an event, before the handler takes it.
    fn event(&mut self, event: &Event) {
        if let Event::GroupView(view) = event {
            self.views.insert(view.group, view.view);
        }
        if let Event::GroupLeft { group, why } = *event
            && let Some(lost) = lost(group, why)
        {
            self.record(&lost);
        }
        if let Some(record) = records::event(event) {
            self.record(&record);
        }
        match event {
            Event::CellView(view) => {
                if !view.ancestors.is_empty() {
                    self.record(&Record::Ancestors {
                        instances: view.ancestors.iter().map(|ancestor| ancestor.0).collect(),
                    });
                }
                self.record(&records::level(view));
                self.record(&records::cell_minimum(view));
            }
            Event::StateBegin { group, view: Some(view), domains, .. } => {
                self.record(&snapshot_view(*group, *view));
                domains.iter().for_each(|list| self.record(&listed(*group, *view, list)));
            }
            Event::GroupViewReplayed(view) => group_domains(view).iter().for_each(|record| self.record(record)),
            Event::GroupView(view) => {
                self.record(&records::group_terms(view));
                let lists = [group_incomplete(view), group_observers(view), group_domains(view)];
                for record in lists.into_iter().flatten() {
                    self.record(&record);
                }
            }
            _ => {}
        }
    }
}

impl<H: Handler, W: Write> Traced<'_, H, W> {
    fn record_told(&mut self) {
        let told = self.inner.told();
        self.recorder.told(&told);
    }

    fn digest_or_zero(&mut self, group: GroupId) -> u64 {
        self.inner.digest(group).unwrap_or(0)
    }
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<H: Handler, W: Write> Handler for Traced<'_, H, W> {
    fn begin(&mut self, me: &MemberInfo) {
        // The incarnation before may have been given up without an event. The handler tells of its end now, and that belongs
        // to its trace.
        self.inner.begin(me);
        self.record_told();
        self.recorder.begin(me);
    }

    fn at(&mut self, now: Instant) {
        self.recorder.now = now;
        self.inner.at(now);
    }

    fn installed(&mut self, directory: &Directory, decree: &Decree<'_>) {
        self.inner.installed(directory, decree);
    }

    fn command(&mut self, command: &Command<'_>) {
        if self.recorder.writer.is_some() {
            self.recorder.command(command);
        }
        self.inner.command(command);
    }

    fn silent(&mut self, silent: bool) {
        if std::mem::replace(&mut self.recorder.silent, silent) != silent {
            self.recorder.record(if silent { &Record::Block } else { &Record::Unblock });
        }
        self.inner.silent(silent);
    }

    fn before_transmit(&mut self) {
        if self.recorder.write_ahead && self.recorder.writer.is_some() {
            // An answer to an ask may be in the packet.
            self.record_told();
            if self.recorder.writer.as_ref().is_some_and(TraceWriter::has_unflushed) {
                self.recorder.flush();
            }
        }
        self.inner.before_transmit();
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        self.inner.ready(inbox)
    }

    fn sent(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        order: Order,
        uniformity: Uniformity,
        payload: &[u8],
    ) {
        if self.recorder.writer.is_some() {
            self.recorder.record(&sent(group, Sent { view, seq }, order, uniformity, payload_hash(payload)));
        }
        self.inner.sent(group, view, seq, order, uniformity, payload);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.recorder.record(&Record::Stable { group: group.0, view: view.0, seq: seq.0 });
        self.inner.stable(group, view, seq);
    }

    fn keep_record(&mut self, record: &FounderRecord) -> bool {
        self.inner.keep_record(record)
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        if self.recorder.writer.is_some() {
            self.recorder.record(&records::delivery(delivery));
            delivered_to(delivery).iter().for_each(|record| self.recorder.record(record));
        }
        self.inner.deliver(delivery);
    }

    fn event(&mut self, event: Event) {
        if self.recorder.writer.is_none() {
            self.inner.event(event);
            self.inner.told(); // nowhere to write it
            return;
        }
        // The checker compares states after the application has taken a view, not before.
        let compare = match &event {
            Event::GroupView(view) => Some((view.group, view.view)),
            _ => None,
        };
        // A state is complete with the first view, which may be part of it as earlier ones are.
        let completed = compare.filter(|(group, _)| self.recorder.whole.remove(group));
        if let Event::StateEnd { group } = &event {
            self.recorder.whole.insert(*group);
        }
        if let Event::StateKept { group, was, view, .. } = &event {
            // Taken before the application learns of it: the digest of the state as it was kept.
            let digest = self.digest_or_zero(*group);
            self.recorder.record(&Record::StateKept { group: group.0, was: was.0, view: view.0, digest });
        }
        let over = matches!(event, Event::Excluded { .. } | Event::Renounced { .. } | Event::Left);
        let is_end = over || matches!(event, Event::GroupLeft { .. });
        if is_end {
            // What an end leaves behind is told before the end is.
            self.inner.event(event.clone());
            self.record_told();
            self.recorder.event(&event);
        } else if let Some((group, _)) = completed {
            self.inner.event(event.clone());
            let digest = self.digest_or_zero(group);
            self.recorder.record(&Record::StateEnd { group: group.0, digest });
            self.recorder.event(&event);
            self.record_told();
        } else {
            self.recorder.event(&event);
            self.inner.event(event);
            self.record_told();
        }
        if let Some((group, view)) = compare
            && let Some(digest) = self.inner.digest(group)
        {
            self.recorder.record(&Record::Digest { group: group.0, view: view.0, delivered: 0, digest });
        }
        if over {
            self.recorder.finish();
        }
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        if self.recorder.writer.is_some() {
            let messages = self.recorder.messages.entry(from).or_default();
            messages.got += 1;
            let k = messages.got;
            self.recorder.record(&Record::P2pDeliver { from: from.0, k, hash: payload_hash(payload) });
        }
        self.inner.message(from, payload);
    }

    fn to_one(&mut self, message: &MessageToOne<'_>) {
        if self.recorder.writer.is_some() {
            self.recorder.record(&to_one(message));
        }
        self.inner.to_one(message);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.recorder.record(&settled(group, to, outcome, messages));
        self.inner.settled(group, to, outcome, messages);
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        let snapshot = self.inner.snapshot(group)?;
        if self.recorder.writer.is_none() {
            return Some(snapshot);
        }
        let view = self.recorder.views.get(&group).copied().unwrap_or(ViewNumber::NONE);
        let digest = self.digest_or_zero(group);
        self.recorder.record(&Record::SnapshotOut { group: group.0, view: view.0, digest });
        Some(snapshot)
    }

    fn restore(&mut self, group: GroupId, chunk: &[u8]) {
        self.inner.restore(group, chunk);
    }

    fn keeps_state(&mut self, group: GroupId) -> bool {
        self.inner.keeps_state(group)
    }

    fn digest(&mut self, group: GroupId) -> Option<u64> {
        self.inner.digest(group)
    }

    fn told(&mut self) -> Vec<Record> {
        self.inner.told()
    }
}

/// The hash of a payload that is the concatenation of these parts. Most have one.
fn hash_of(parts: &[&[u8]]) -> u64 {
    match parts {
        [payload] => payload_hash(payload),
        _ => payload_hash(&parts.concat()),
    }
}

impl<W: Write> Drop for Recorder<W> {
    fn drop(&mut self) {
        if !self.home.is_here()
            && let Some(inherited) = &mut self.writer
        {
            inherited.abandon();
        }
    }
}

#[cfg(test)]
mod tests;
