//! Credits of one stream: a sender, its receivers, their windows, and acks and stability marks that may be lost.
//!
//! The steps are those of `link::Sending`, `link::Receiving` and `order::ViewStreams` (`send_acks`, `heartbeat`,
//! `announce_stability`, `handle_status`). There are two questions. Is a receiver ever made to hold more than its
//! window? Can the sender always finish once no packet is lost any more?

use std::hash::Hash;

use stateright::{Model, Property};

/// Most receivers.
pub const RECEIVERS: usize = 2;
/// Most packets.
pub const PACKETS: usize = 8;

/// Known to be bounded by nothing but the heartbeats' interval. Listed so that a change of that is noticed.
pub const KEPT: &str = "more than two windows are kept for other members, when marks are lost";

/// A rule of credits that is missing. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Credit counts packets that arrived, not packets that the application took.
    CreditOnArrival,
    /// The sender uses the limit of the receiver with most credit.
    FastestCounts,
    /// A sender that waits for credit sends no heartbeats.
    BlockedIsSilent,
}

impl Missing {
    /// All variants, each with the property that breaks.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::CreditOnArrival, WINDOW), (Self::FastestCounts, WINDOW), (Self::BlockedIsSilent, FINISH)];

    /// The variant's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CreditOnArrival => "credit_on_arrival",
            Self::FastestCounts => "fastest_counts",
            Self::BlockedIsSilent => "blocked_is_silent",
        }
    }
}

/// See the property.
pub const WINDOW: &str = "a receiver holds no more than a window that its application did not take";
/// The sender never waits for ever.
pub const FINISH: &str = "everything can still be sent, acknowledged and taken";

/// One bounded model.
#[derive(Clone, Debug)]
pub struct Credits {
    /// Number of receivers.
    pub receivers: usize,
    /// Number of packets to send.
    pub packets: u8,
    /// The window, in packets.
    pub window: u8,
    /// The rule that is missing, if any.
    pub missing: Option<Missing>,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct State {
    sent: u8,
    /// `ViewStreams::announced_stable`.
    announced: u8,
    /// For each packet: the stability mark in it.
    marks: [u8; PACKETS],
    receivers: [Receiver; RECEIVERS],
}

/// One receiver, and the sender's knowledge of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Receiver {
    /// `Sending`: the acknowledged prefix, and the advertised limit.
    acked: u8,
    limit: u8,
    /// Packets held or consumed, a bit each.
    has: u8,
    consumed: u8,
    advertised: u8,
    /// Whether an ack is due.
    due: bool,
    stable: u8,
}

/// One atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `ViewStreams::close_packet`, with a stability mark if that has changed.
    Send,
    /// A packet, or a retransmission of it, reaches a receiver. (`ViewStreams::handle_packet`)
    Arrive(usize, u8),
    /// The application takes a message. (`ViewStreams::consumed`)
    Consume(usize),
    /// A due ack is sent; false: it is lost. (`ViewStreams::send_acks`)
    Ack(usize, bool),
    /// The stability mark is sent by itself, and reaches the receivers in the set. (`ViewStreams::announce_stability`)
    Announce(u8),
    /// The sender's heartbeat reaches a receiver. (`ViewStreams::heartbeat`)
    Status(usize),
    /// A receiver's heartbeat: an ack that requests the mark; false: the answer is lost. (`ViewStreams::heartbeat`)
    Ask(usize, bool),
}

impl Receiver {
    fn prefix(&self) -> u8 {
        self.has.trailing_ones() as u8
    }
}

impl Credits {
    fn limit(&self, s: &State) -> u8 {
        let limits = s.receivers[..self.receivers].iter().map(|r| r.limit);
        let limit = if self.missing == Some(Missing::FastestCounts) { limits.max() } else { limits.min() };
        limit.unwrap_or(0)
    }

    fn stable(&self, s: &State) -> u8 {
        s.receivers[..self.receivers].iter().map(|r| r.acked).min().unwrap_or(0)
    }

    fn is_blocked(&self, s: &State) -> bool {
        s.sent < self.packets && s.sent >= self.limit(s)
    }

    /// The highest packet that a receiver permits.
    fn opens(&self, r: &Receiver) -> u8 {
        let taken = if self.missing == Some(Missing::CreditOnArrival) { r.prefix() } else { r.consumed };
        taken + self.window
    }

    /// `ViewStreams::handle_status`.
    fn hear_status(&self, s: &mut State, at: usize) {
        let (stable, blocked, sent) = (self.stable(s), self.is_blocked(s), s.sent);
        let r = &mut s.receivers[at];
        r.stable = r.stable.max(stable.min(r.prefix()));
        r.due |= blocked || r.prefix() < sent;
    }

    /// Whether everything is sent, acknowledged and consumed.
    #[must_use]
    pub fn is_finished(&self, s: &State) -> bool {
        s.receivers[..self.receivers].iter().all(|r| r.acked == self.packets && r.consumed == self.packets)
    }
}

impl Model for Credits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!((1..=RECEIVERS).contains(&self.receivers), "1 to {RECEIVERS} receivers");
        assert!(usize::from(self.packets) <= PACKETS, "at most {PACKETS} packets");
        let mut s = State::default();
        for r in &mut s.receivers[..self.receivers] {
            (r.limit, r.advertised) = (self.window, self.window);
        }
        vec![s]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Send);
        actions.extend((0..1 << self.receivers).map(Action::Announce));
        for at in 0..self.receivers {
            actions.extend((s.receivers[at].acked + 1..=s.sent).map(|packet| Action::Arrive(at, packet)));
            actions.extend([Action::Consume(at), Action::Status(at)]);
            actions.extend([true, false].into_iter().flat_map(|l| [Action::Ack(at, l), Action::Ask(at, l)]));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut s = state.clone();
        match action {
            Action::Send => {
                if s.sent >= self.packets || self.is_blocked(&s) {
                    return None;
                }
                let stable = self.stable(&s);
                s.marks[usize::from(s.sent)] = if stable > s.announced { stable } else { 0 };
                s.announced = s.announced.max(stable);
                s.sent += 1;
            }
            Action::Arrive(at, packet) => {
                let marks = s.marks;
                let r = &mut s.receivers[at];
                if r.has & 1 << (packet - 1) != 0 {
                    r.due = true; // its ack was lost
                } else {
                    // `Receiving::accept`: a packet beyond the window is not kept.
                    if packet > r.prefix() + self.window {
                        return None;
                    }
                    r.has |= 1 << (packet - 1);
                    let mark = marks[..usize::from(r.prefix())].iter().max().copied().unwrap_or(0);
                    r.stable = r.stable.max(mark);
                    r.due = true;
                }
            }
            Action::Consume(at) => {
                let r = &mut s.receivers[at];
                if r.consumed == r.prefix() {
                    return None;
                }
                r.consumed += 1;
            }
            Action::Ack(at, arrives) => {
                let opens = self.opens(&s.receivers[at]);
                let r = &mut s.receivers[at];
                if !r.due && opens < r.advertised + self.window.div_ceil(2) {
                    return None;
                }
                r.due = false;
                r.advertised = r.advertised.max(opens);
                if arrives {
                    (r.acked, r.limit) = (r.prefix(), r.limit.max(opens));
                }
            }
            Action::Announce(reaches) => {
                let stable = self.stable(&s);
                if stable <= s.announced || s.sent > stable {
                    return None; // nothing new, or not idle: the next packet or heartbeat brings it
                }
                s.announced = stable;
                (0..self.receivers).filter(|at| reaches & 1 << at != 0).for_each(|at| self.hear_status(&mut s, at));
            }
            Action::Status(at) => {
                let waits = self.is_blocked(&s) && self.missing != Some(Missing::BlockedIsSilent);
                if s.sent == self.stable(&s) && !waits {
                    return None;
                }
                self.hear_status(&mut s, at);
            }
            Action::Ask(at, answered) => {
                let opens = self.opens(&s.receivers[at]);
                let r = &mut s.receivers[at];
                if r.stable == r.prefix() {
                    return None; // nothing is kept for others
                }
                (r.acked, r.limit) = (r.prefix(), r.limit.max(opens));
                if answered {
                    self.hear_status(&mut s, at);
                }
            }
        }
        (s != *state).then_some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(WINDOW, |m: &Self, s: &State| {
                s.receivers[..m.receivers].iter().all(|r| r.has.count_ones() as u8 - r.consumed <= m.window)
            }),
            Property::sometimes("the sender waits for credit", |m: &Self, s: &State| m.is_blocked(s)),
            Property::sometimes("everything is sent, acknowledged and taken", Self::is_finished),
        ];
        if self.packets >= 3 * self.window {
            // A mark that was sent by itself is not repeated in the next packet. If each is lost, the packets kept for
            // other members accumulate until a heartbeat is answered.
            all.push(Property::sometimes(KEPT, |m: &Self, s: &State| {
                s.receivers[..m.receivers].iter().any(|r| r.prefix() - r.stable > 2 * m.window)
            }));
        }
        all
    }
}
