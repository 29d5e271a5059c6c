//! The application of a member: what it does with deliveries.

use std::collections::VecDeque;

use bytes::Bytes;
use phalanx_runtime::core::{Delivery, Event, GroupId, InboxId, Incarnation, Instant, MessageToOne, Snapshot};
use phalanx_runtime::{Frozen, Handler};

use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{Answer, Pauses, Report};

/// Kinds of messages, by their first byte.
pub(super) const LOAD: u8 = 0;
pub(super) const PROBE: u8 = 1;
pub(super) const PING: u8 = 2;
pub(super) const PONG: u8 = 3;

/// Head of a message that is not load: its kind, then the sender's clock.
pub(super) const STAMPED_BYTES: usize = 9;

pub(super) struct App {
    me: Incarnation,
    /// The first group it is in.
    pub(super) group: Option<GroupId>,
    pub(super) delivered: u64,
    /// Messages sent to it alone.
    pub(super) messages: u64,
    pub(super) accepted: u64,
    pub(super) reports: Vec<Report>,
    pub(super) times: Times,
    pub(super) answer: Answer,
    /// Pings to be answered: the sender, and the stamp.
    pub(super) asked: VecDeque<(Incarnation, [u8; 8])>,
    /// Answers that its own ping still awaits, and that ping's stamp.
    pub(super) awaited: usize,
    pub(super) awaited_stamp: [u8; 8],
    /// The member to which messages are handed on, and how many of them wait.
    pub(super) forward: Option<Incarnation>,
    pub(super) to_forward: u64,
    pub(super) forwarded_size: usize,
    slow: Option<Slow>,
    state: Bytes,
    /// The clock as read by the last poll.
    now: Instant,
    seen: u64,
    last_delivery: Instant,
    last_acceptance: Instant,
    pauses: Pauses,
    taken_bytes: u64,
}

/// Limits the rate at which messages are taken.
struct Slow {
    per_second: f64,
    since: Instant,
    taken: u64,
}

impl App {
    pub(super) fn new(me: Incarnation, state_bytes: usize) -> Self {
        Self {
            me,
            group: None,
            delivered: 0,
            messages: 0,
            accepted: 0,
            reports: Vec::new(),
            times: Times::new(),
            answer: Answer::No,
            asked: VecDeque::new(),
            awaited: 0,
            awaited_stamp: [0; 8],
            forward: None,
            to_forward: 0,
            forwarded_size: 0,
            slow: None,
            state: vec![7; state_bytes].into(),
            now: Instant::ZERO,
            seen: 0,
            last_delivery: Instant::ZERO,
            last_acceptance: Instant::ZERO,
            pauses: Pauses::default(),
            taken_bytes: 0,
        }
    }

    /// Called after each poll; measures how long nothing was accepted and nothing delivered.
    pub(super) fn note_turn(&mut self, accepted: u64) {
        self.accepted += accepted;
        if accepted > 0 {
            let pause = self.now.since(self.last_acceptance).as_nanos();
            self.pauses.send_ns = self.pauses.send_ns.max(u64::try_from(pause).unwrap_or(u64::MAX));
            self.last_acceptance = self.now;
        }
        if self.delivered != self.seen {
            let pause = self.now.since(self.last_delivery).as_nanos();
            self.pauses.delivery_ns = self.pauses.delivery_ns.max(u64::try_from(pause).unwrap_or(u64::MAX));
            self.last_delivery = self.now;
            self.seen = self.delivered;
        }
    }

    /// Returns the longest pauses since the last call, including those that still last.
    pub(super) fn take_pauses(&mut self) -> Pauses {
        let now = phalanx_runtime::clock::now();
        let since = |then: Instant| u64::try_from(now.since(then).as_nanos()).unwrap_or(u64::MAX);
        let pauses = Pauses {
            send_ns: self.pauses.send_ns.max(since(self.last_acceptance)),
            delivery_ns: self.pauses.delivery_ns.max(since(self.last_delivery)),
        };
        self.pauses = Pauses::default();
        (self.last_acceptance, self.last_delivery) = (now, now);
        pauses
    }

    pub(super) fn take_slowly(&mut self, per_second: Option<f64>) {
        let since = phalanx_runtime::clock::now();
        self.slow = per_second.map(|per_second| Slow { per_second, since, taken: self.delivered });
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    pub(super) fn has_to_answer(&self) -> bool {
        !self.asked.is_empty()
    }

    fn stamped(&mut self, sender: Incarnation, kind: u8, stamp: [u8; 8]) {
        match kind {
            PROBE if sender != self.me => self.times.note(now_ns().saturating_sub(u64::from_le_bytes(stamp))),
            PING if sender != self.me && self.answer != Answer::No => self.asked.push_back((sender, stamp)),
            PONG if sender != self.me && self.awaited > 0 && stamp == self.awaited_stamp => {
                self.awaited -= 1;
                if self.awaited == 0 {
                    self.times.note(now_ns().saturating_sub(u64::from_le_bytes(stamp)));
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn take(&mut self, sender: Incarnation, payload: &[u8]) {
        let Some((&kind, rest)) = payload.split_first() else { return };
        if kind != LOAD
            && let Some(&stamp) = rest.first_chunk::<8>()
        {
            self.stamped(sender, kind, stamp);
        }
    }
}

impl Handler for App {
    fn at(&mut self, now: Instant) {
        self.now = now;
    }

    fn begin(&mut self, me: &phalanx_runtime::core::MemberInfo) {
        self.me = me.incarnation;
        self.group = None;
    }

    fn ready(&mut self, _inbox: InboxId) -> bool {
        if self.to_forward >= FORWARD_MAX {
            return false;
        }
        let Some(slow) = &self.slow else { return true };
        let elapsed = phalanx_runtime::clock::now().since(slow.since).as_secs_f64();
        ((self.delivered - slow.taken) as f64) < elapsed * slow.per_second
    }

    #[inline]
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.delivered += 1;
        self.take(delivery.sender, delivery.payload);
    }

    #[inline]
    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.messages += 1;
        self.take(message.sender, message.payload);
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.messages += 1;
        self.take(from, payload);
        if self.forward.is_some() {
            self.to_forward += 1;
            self.forwarded_size = payload.len();
        }
    }

    fn event(&mut self, event: Event) {
        let at_ns = now_ns();
        match event {
            Event::GroupView(view) => {
                self.group.get_or_insert(view.group);
                let (group, members) = (view.name.to_string(), view.members.len());
                self.reports.push(Report::View { group, view: view.view, members, at_ns });
            }
            Event::StateBegin { bytes, .. } => self.taken_bytes = bytes,
            Event::StateEnd { .. } => self.reports.push(Report::State { at_ns, bytes: self.taken_bytes }),
            _ => {}
        }
    }

    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        (!self.state.is_empty()).then(|| Box::new(Frozen::new(self.state.clone())) as Box<dyn Snapshot>)
    }
}

/// Messages that may wait to be handed on. Beyond this no more are taken.
const FORWARD_MAX: u64 = 1_024;
