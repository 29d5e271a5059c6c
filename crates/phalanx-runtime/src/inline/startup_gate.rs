//! Holds events between a node and its handler until the process's first view is known to count.

use std::collections::VecDeque;

use phalanx_core::member::{Directory, FounderRecord};
use phalanx_core::{
    Decree, Delivery, Event, GroupId, InboxId, Incarnation, Instant, MemberInfo, MessageToOne, Order, Sequence,
    Snapshot, ToOneOutcome, Uniformity, ViewNumber,
};
use phalanx_driver::fork::Home;

use crate::handler::{Command, Handler};
use crate::local::Founder;

/// The gate's state, and what it holds.
#[derive(Debug)]
pub(super) struct StartupGate {
    pub(super) pass: Pass,
    /// Events held back while that is undecided.
    pub(super) held: VecDeque<Event>,
    /// A decided view does not hold this incarnation.
    pub(super) excluded: bool,
    /// The last reported state, for the counters file.
    pub(super) state: &'static str,
    pub(super) why: String,
    /// Why a requested reform is refused.
    pub(super) reform_refused: Option<String>,
    /// The counters file does not show the last state yet.
    pub(super) unwritten: bool,
    /// The record of a process with a name of its own.
    pub(super) founder: Option<Box<Founder>>,
    pub(super) notices: Vec<String>,
    home: Home,
}

/// Whether effects reach the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// All effects pass.
    Open,
    /// All effects pass until the first cell view of this incarnation.
    UntilView,
    /// The first view has arrived, and whether it counts is being decided.
    Asking,
}

impl StartupGate {
    pub(super) fn new(pass: Pass, founder: Option<Box<Founder>>) -> Self {
        Self {
            pass,
            held: VecDeque::new(),
            excluded: false,
            state: "searching",
            why: String::new(),
            reform_refused: None,
            unwritten: false,
            founder,
            notices: Vec::new(),
            home: Home::here(),
        }
    }

    /// Begins an incarnation.
    pub(super) fn reset(&mut self, pass: Pass) {
        self.pass = pass;
        self.held.clear();
        self.excluded = false;
        self.state = "searching";
        self.why.clear();
    }

    fn note(&mut self, event: &Event) {
        let (state, why) = match event {
            Event::CellView(_) | Event::Primary => ("primary", String::new()),
            Event::NonPrimary { why, .. } => ("non-primary", why.clone()),
            Event::Searching { why, .. } => ("searching", why.clone()),
            Event::Excluded { .. } => {
                self.excluded = true;
                ("excluded", "a decided view does not hold this process".to_owned())
            }
            Event::Renounced { .. } => {
                self.excluded = true;
                ("excluded", "this process gave up its cell instance for a later one".to_owned())
            }
            Event::ReformRefused { why } => {
                self.reform_refused = Some(why.clone());
                return;
            }
            Event::Left => ("left", String::new()),
            _ => return,
        };
        self.state = state;
        self.why = why;
        self.unwritten = true;
    }
}

/// A handler behind the start-up gate.
pub(super) struct GatedHandler<'a, H> {
    pub(super) inner: &'a mut H,
    pub(super) startup_gate: &'a mut StartupGate,
}

#[deny(clippy::missing_trait_methods, reason = "a decorator forwards every method, those with a default too")]
impl<H: Handler> Handler for GatedHandler<'_, H> {
    fn begin(&mut self, me: &MemberInfo) {
        self.inner.begin(me);
    }

    fn at(&mut self, now: Instant) {
        self.inner.at(now);
    }

    fn installed(&mut self, directory: &Directory, decree: &Decree<'_>) {
        self.inner.installed(directory, decree);
    }

    fn command(&mut self, command: &Command<'_>) {
        self.inner.command(command);
    }

    fn silent(&mut self, silent: bool) {
        self.inner.silent(silent);
    }

    fn before_transmit(&mut self) {
        self.inner.before_transmit();
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        self.startup_gate.pass != Pass::Asking && self.inner.ready(inbox)
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
        self.inner.sent(group, view, seq, order, uniformity, payload);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.inner.stable(group, view, seq);
    }

    fn keep_record(&mut self, record: &FounderRecord) -> bool {
        // In a child that a handler forked during a poll, the record belongs to the parent.
        if !self.startup_gate.home.is_here() {
            return false;
        }
        let kept = self.startup_gate.founder.as_mut().map_or(Ok(()), |founder| founder.keep(record));
        if let Err(error) = &kept {
            let known = self.startup_gate.founder.as_ref().map(|founder| founder.record());
            let what = if known.is_some_and(|known| known.end != record.end && known.mark == record.mark) {
                "this process leaves, and cannot write that down"
            } else {
                "the cell is neither founded nor joined"
            };
            let notice = format!("{what}: {error}");
            if !self.startup_gate.notices.contains(&notice) {
                self.startup_gate.notices.push(notice);
            }
        }
        kept.is_ok() && self.inner.keep_record(record)
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.inner.deliver(delivery);
    }

    fn event(&mut self, event: Event) {
        self.startup_gate.note(&event);
        if self.startup_gate.pass == Pass::UntilView && matches!(event, Event::CellView(_)) {
            self.startup_gate.pass = Pass::Asking;
        }
        match self.startup_gate.pass {
            Pass::Asking => self.startup_gate.held.push_back(event),
            Pass::Open | Pass::UntilView => self.inner.event(event),
        }
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.inner.message(from, payload);
    }

    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.inner.to_one(message);
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.inner.settled(group, to, outcome, messages);
    }

    fn snapshot(&mut self, group: GroupId) -> Option<Box<dyn Snapshot>> {
        self.inner.snapshot(group)
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

    fn told(&mut self) -> Vec<phalanx_trace::Event> {
        self.inner.told()
    }
}
