//! A member's application: its ledger, and the events it reports.

use std::collections::{BTreeMap, VecDeque};

use phalanx_runtime::Handler;
use phalanx_runtime::core::{Delivery, Event, GroupId, GroupView, Incarnation, Instant, MemberInfo, Snapshot};

use super::histogram::Histogram;
use super::ledger::{Incoming, Ledger, Transfer};
use super::report::{Report, now_ns};

/// The group of the demonstration.
pub(super) const GROUP: &str = "ledger";

/// A ledger, and the unreported events of its member.
pub(super) struct Replica {
    pub(super) ledger: Ledger,
    /// A donor's state that is being received. It will replace the ledger.
    incoming: Option<Incoming>,
    me: Incarnation,
    names: BTreeMap<Incarnation, String>,
    /// The group, once this incarnation is a member.
    pub(super) group: Option<GroupId>,
    /// Send times of own updates that were not yet delivered here, oldest first.
    pub(super) under_way: VecDeque<u64>,
    pub(super) returned: u64,
    latency: Histogram,
    last_delivery: Option<Instant>,
    pause_ns_max: u64,
    now: Instant,
    /// A flush was reported, and no view since.
    pub(super) flush_told: bool,
    pub(super) reports: Vec<Report>,
    pub(super) left: bool,
}

impl Replica {
    pub(super) fn new() -> Self {
        Self {
            ledger: Ledger::new(),
            incoming: None,
            me: Incarnation::NONE,
            names: BTreeMap::new(),
            group: None,
            under_way: VecDeque::new(),
            returned: 0,
            latency: Histogram::default(),
            last_delivery: None,
            pause_ns_max: 0,
            now: Instant::ZERO,
            flush_told: false,
            reports: Vec::new(),
            left: false,
        }
    }

    /// A report of progress. Resets the measurements since the last call.
    pub(super) fn progress(&mut self) -> Report {
        Report::Progress {
            at_ns: now_ns(),
            applied: self.ledger.applied(),
            returned: self.returned,
            latency: std::mem::take(&mut self.latency),
            pause_ns_max: std::mem::take(&mut self.pause_ns_max),
        }
    }

    /// Notes whether streams are stopped by a flush.
    pub(super) fn note_flush(&mut self, flushing: bool) {
        if flushing && !self.flush_told {
            self.flush_told = true;
            self.reports.push(Report::Flush { at_ns: now_ns() });
        }
    }

    /// Completes a state transfer. The donor's state is complete as soon as any other event follows it.
    fn take_over(&mut self) -> bool {
        let Some(incoming) = self.incoming.take() else { return true };
        match incoming.finish() {
            Some(ledger) => {
                self.ledger = ledger;
                true
            }
            None => {
                let why = "the state of another member came incomplete".to_owned();
                self.reports.push(Report::Failed { why });
                false
            }
        }
    }

    fn install(&mut self, view: &GroupView) {
        if &*view.name != GROUP {
            return;
        }
        self.group = Some(view.group);
        // A flush that began and ended within one poll was not observed; it is reported here.
        self.note_flush(true);
        self.flush_told = false;
        let name = |who: &Incarnation| self.names.get(who).cloned().unwrap_or_else(|| who.to_string());
        let members = view.members.iter().map(name).collect();
        self.reports.push(Report::View { at_ns: now_ns(), view: view.view, members });
    }
}

impl Handler for Replica {
    fn begin(&mut self, me: &MemberInfo) {
        self.me = me.incarnation;
        // The ledger stays: after an exclusion the group may go on with it.
        self.incoming = None;
        self.group = None;
        self.under_way.clear();
        self.returned = 0;
        self.last_delivery = None;
        self.flush_told = false;
        self.reports.push(Report::Begin { incarnation: me.incarnation.0 });
    }

    fn at(&mut self, now: Instant) {
        self.now = now;
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        if !self.take_over() {
            return;
        }
        match Transfer::decode(delivery.payload) {
            Some(transfer) => self.ledger.apply(&transfer),
            None => self.reports.push(Report::Failed { why: "a message that is no update was delivered".to_owned() }),
        }
        if delivery.sender == self.me && !delivery.replayed {
            self.returned += 1;
            if let Some(sent_ns) = self.under_way.pop_front() {
                self.latency.add(now_ns().saturating_sub(sent_ns));
            }
        }
        if !delivery.replayed
            && let Some(last) = self.last_delivery.replace(self.now)
        {
            let pause = u64::try_from(self.now.since(last).as_nanos()).unwrap_or(u64::MAX);
            self.pause_ns_max = self.pause_ns_max.max(pause);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::CellView(view) => {
                self.names.extend(view.members.iter().map(|m| (m.incarnation, m.name.clone())));
                let members = view.members.iter().map(|m| m.name.clone()).collect();
                self.reports.push(Report::Cell { members });
            }
            Event::GroupView(view) => self.install(&view),
            Event::StateBegin { bytes, .. } => {
                self.incoming = Some(Incoming::default());
                self.reports.push(Report::StateBegin { at_ns: now_ns(), bytes });
            }
            // If the group is founded anew, it begins with a new ledger.
            Event::GroupForgotten { .. } => self.ledger = Ledger::new(),
            Event::StateEnd { .. } => {
                let whole = self.take_over();
                self.reports.push(Report::StateEnd { at_ns: now_ns(), whole });
            }
            Event::Excluded { view } => {
                self.group = None;
                self.reports.push(Report::Excluded { at_ns: now_ns(), view });
            }
            Event::NonPrimary { .. } => self.reports.push(Report::Primary { primary: false }),
            Event::Primary => self.reports.push(Report::Primary { primary: true }),
            Event::Left => self.left = true,
            _ => {}
        }
    }

    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        Some(Box::new(self.ledger.freeze()))
    }

    fn restore(&mut self, _group: GroupId, chunk: &[u8]) {
        if let Some(incoming) = &mut self.incoming {
            incoming.push(chunk);
        }
    }

    fn digest(&mut self, _group: GroupId) -> Option<u64> {
        if self.take_over() { Some(self.ledger.digest()) } else { None }
    }
}
