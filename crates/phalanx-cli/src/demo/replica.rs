//! A member's application: its ledger, and the events it reports.

use std::collections::VecDeque;

use phalanx::{
    AnswerRef, App, AskEnd, AskError, AskedRef, CellEvent, DecodeError, InlineGroup, InlineReply, MemberId, MessageRef,
    ReplyRef, Snapshot, View,
};

use super::histogram::Histogram;
use super::ledger::{Incoming, Ledger, Transfer};
use super::report::{Report, now_ns};

/// The group of the demonstration.
pub(super) const GROUP: &str = "ledger";

/// What a member asks the group: how many updates each had applied at this place of their order, and which. No update is so
/// short.
pub(super) const QUESTION: &[u8] = b"applied?";

/// A ledger, and the unreported events of its member.
pub(super) struct Replica {
    pub(super) ledger: Ledger,
    /// Another member's state that is being received. It will replace the ledger.
    incoming: Option<Incoming>,
    /// This incarnation, once it has begun.
    me: Option<MemberId>,
    /// Whether this incarnation is a member of the group.
    pub(super) in_view: bool,
    /// Send times of own updates that were not yet delivered here, oldest first.
    pub(super) under_way: VecDeque<u64>,
    returned: u64,
    /// Whether an ask of this process has no end yet, and the first answer to it.
    pub(super) is_asking: bool,
    first: Option<Vec<u8>>,
    agreed: u64,
    latency: Histogram,
    last_delivery_ns: Option<u64>,
    pause_ns_max: u64,
    /// The time of the present poll.
    pub(super) now_ns: u64,
    /// A flush was reported, and no view since.
    flush_told: bool,
    pub(super) reports: Vec<Report>,
}

impl Replica {
    pub(super) fn new() -> Self {
        Self {
            ledger: Ledger::new(),
            incoming: None,
            me: None,
            in_view: false,
            under_way: VecDeque::new(),
            returned: 0,
            is_asking: false,
            first: None,
            agreed: 0,
            latency: Histogram::default(),
            last_delivery_ns: None,
            pause_ns_max: 0,
            now_ns: 0,
            flush_told: false,
            reports: Vec::new(),
        }
    }

    /// A report of progress. Resets the measurements since the last call.
    pub(super) fn progress(&mut self) -> Report {
        Report::Progress {
            at_ns: now_ns(),
            applied: self.ledger.applied(),
            returned: self.returned,
            agreed: std::mem::take(&mut self.agreed),
            latency: std::mem::take(&mut self.latency),
            pause_ns_max: std::mem::take(&mut self.pause_ns_max),
        }
    }

    /// Notes which incarnation this is: the first, or one that comes back after an exclusion.
    pub(super) fn note_incarnation(&mut self, me: MemberId) {
        if self.me.replace(me) == Some(me) {
            return;
        }
        // The ledger stays: after an exclusion the group may go on with it.
        self.incoming = None;
        self.in_view = false;
        self.under_way.clear();
        self.returned = 0;
        self.last_delivery_ns = None;
        self.flush_told = false;
        self.reports.push(Report::Begin { incarnation: me.bits() });
    }

    /// Notes whether streams are stopped by a flush.
    pub(super) fn note_flush(&mut self, flushing: bool) {
        if flushing && !self.flush_told {
            self.flush_told = true;
            self.reports.push(Report::Flush { at_ns: now_ns() });
        }
    }

    fn failed(&mut self, why: impl Into<String>) {
        self.reports.push(Report::Failed { why: why.into() });
    }
}

impl App for Replica {
    fn message(&mut self, message: &MessageRef<'_>) {
        if message.payload == QUESTION {
            return;
        }
        match Transfer::decode(message.payload) {
            Some(transfer) => self.ledger.apply(&transfer),
            None => self.failed("a message that is no update was delivered"),
        }
        if message.replayed {
            return;
        }
        if Some(message.sender) == self.me {
            self.returned += 1;
            if let Some(sent_ns) = self.under_way.pop_front() {
                self.latency.add(now_ns().saturating_sub(sent_ns));
            }
        }
        if let Some(last_ns) = self.last_delivery_ns.replace(self.now_ns) {
            self.pause_ns_max = self.pause_ns_max.max(self.now_ns.saturating_sub(last_ns));
        }
    }

    fn asked(&mut self, _asked: &AskedRef<'_>, value: &mut Vec<u8>) -> Option<InlineReply> {
        value.extend_from_slice(&self.ledger.applied().to_le_bytes());
        value.extend_from_slice(&self.ledger.digest().to_le_bytes());
        Some(InlineReply::Value)
    }

    fn answered(&mut self, _group: InlineGroup, _number: u64, answer: &AnswerRef<'_>) -> bool {
        if let ReplyRef::Value(value) = answer.reply
            && *self.first.get_or_insert_with(|| value.to_vec()) != value
        {
            self.failed(format!("{} has applied other updates than another member", answer.by));
        }
        false
    }

    fn ask_ended(&mut self, _group: InlineGroup, _number: u64, end: Result<AskEnd, AskError>) {
        (self.is_asking, self.first) = (false, None);
        self.agreed += u64::from(end == Ok(AskEnd::Met));
    }

    fn view(&mut self, _group: InlineGroup, view: &View) {
        if view.is_replayed() {
            return;
        }
        self.in_view = true;
        // A flush that began and ended within one poll was not observed; it is reported here.
        self.note_flush(true);
        self.flush_told = false;
        let members = view.members().map(|member| member.name).collect();
        self.reports.push(Report::View { at_ns: now_ns(), view: view.number(), members });
    }

    fn event(&mut self, event: &CellEvent) {
        match event {
            CellEvent::View(view) => {
                self.note_incarnation(view.me());
                self.reports.push(Report::Cell { members: view.members().map(|member| member.name).collect() });
            }
            CellEvent::Excluded { view } => self.reports.push(Report::Excluded { at_ns: now_ns(), view: *view }),
            CellEvent::NonPrimary { .. } => self.reports.push(Report::Primary { primary: false }),
            CellEvent::Primary => self.reports.push(Report::Primary { primary: true }),
            // Without a trace it proves nothing.
            CellEvent::TraceLost { why } => self.failed(format!("the trace cannot be written: {why}")),
            _ => {}
        }
    }

    fn excluded(&mut self, _was: MemberId) {
        self.in_view = false;
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        Some(self.ledger.freeze())
    }

    fn taking(&mut self, _group: InlineGroup, bytes: u64) {
        self.incoming = Some(Incoming::default());
        self.reports.push(Report::StateBegin { at_ns: now_ns(), bytes });
    }

    fn restore(&mut self, _group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        let Some(incoming) = &mut self.incoming else { return Ok(()) };
        match incoming.take(part, is_end) {
            Ok(None) => Ok(()),
            Ok(Some(ledger)) => {
                (self.ledger, self.incoming) = (ledger, None);
                Ok(())
            }
            Err(error) => {
                self.failed("the state of another member makes no sense");
                Err(error)
            }
        }
    }

    fn current(&mut self, _group: InlineGroup) {
        let whole = self.incoming.take().is_none();
        self.reports.push(Report::StateEnd { at_ns: now_ns(), whole });
        if !whole {
            self.failed("the state of another member came incomplete");
        }
    }

    fn founded_anew(&mut self, group: InlineGroup) {
        self.incoming = None;
        self.forgotten(group);
    }

    // The group begins anew, with a new ledger, or another member's state follows.
    fn forgotten(&mut self, _group: InlineGroup) {
        self.ledger = Ledger::new();
    }

    fn digest(&mut self, _group: InlineGroup) -> Option<u64> {
        Some(self.ledger.digest())
    }
}
