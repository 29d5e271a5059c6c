//! The application's side of a node: the receiver of its deliveries and events.

use phalanx_core::member::{Directory, FounderRecord};
use phalanx_core::{
    Accepted, Decree, Delivery, Event, GroupId, InboxId, Incarnation, Instant, MemberInfo, MessageToOne, Order,
    OwnDomain, Sequence, Snapshot, ToOneKind, ToOneOutcome, Uniformity, ViewNumber,
};

/// A command that the core accepted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Command<'a> {
    /// Requests membership of a group. Also reported when the node repeats the request after an exclusion.
    JoinGroup {
        /// The group's name.
        name: &'a str,
        /// Whether the process takes a member's state first.
        with_state: bool,
        /// Whether it asks as an observer.
        observes: bool,
        /// What it has for the group's state, if it takes that.
        domains: &'a [OwnDomain],
    },
    /// Requests to leave a group.
    LeaveGroup {
        /// The group.
        group: GroupId,
    },
    /// Multicasts to a group.
    Multicast {
        /// The group.
        group: GroupId,
        /// The requested order.
        order: Order,
        /// What it is, and where it belongs if it is sent at once.
        accepted: Accepted,
        /// The payload, as the concatenation of these parts.
        parts: &'a [&'a [u8]],
    },
    /// Sends a point-to-point message.
    Send {
        /// The receiver.
        to: Incarnation,
        /// The payload.
        payload: &'a [u8],
    },
    /// Sends a message to one member of a group.
    SendTo {
        /// The group.
        group: GroupId,
        /// The view in which it is sent.
        view: ViewNumber,
        /// The receiver.
        to: Incarnation,
        /// Whether it is an answer.
        kind: ToOneKind,
        /// The payload, as the concatenation of these parts.
        parts: &'a [&'a [u8]],
    },
    /// Requests that the cell rises to a level.
    RaiseLevel {
        /// The level.
        level: u16,
    },
    /// Requests to found the next instance of the cell from here, because its quorum is gone for good.
    Reform,
    /// Requests to found the cell again: by the operator's word, no member of it lives anywhere.
    FoundAnew,
    /// Requests that a group stops waiting for members that are cut off.
    GiveUpGroup {
        /// Its name.
        name: &'a str,
    },
    /// Requests to leave the cell.
    Leave,
}

/// The application's side of a [`Node`](crate::node::Node): [`phalanx_core::Effects`] without the packets.
///
/// Calls come in the order the core decided, on the thread that polls the node. A handler cannot reach the node from
/// inside a call. It keeps what it wants to send, and sends it between two polls.
pub trait Handler {
    /// An incarnation of this process begins; all later calls belong to it. Called before the first effect, and again
    /// after an exclusion when the process comes back as a new incarnation. The handler keeps the states of its groups;
    /// see [`Handler::keeps_state`].
    fn begin(&mut self, _me: &MemberInfo) {}

    /// Reports the time, before each poll and command. It never decreases within an incarnation.
    fn at(&mut self, _now: Instant) {}

    /// A decree was installed, and this is the directory of the cell after it. The events that it brings follow; those of
    /// groups wait for their inboxes.
    fn installed(&mut self, _directory: &Directory, _decree: &Decree<'_>) {}

    /// A command was accepted; its effects come later.
    fn command(&mut self, _command: &Command<'_>) {}

    /// Reports after each poll whether a view change keeps this process from sending.
    fn silent(&mut self, _silent: bool) {}

    /// A packet is about to be queued for the network. An observer must have made its records safe before it returns,
    /// because others may learn of the recorded events from this packet.
    fn before_transmit(&mut self) {}

    /// Whether the application accepts a delivery or event for this inbox now; see [`phalanx_core::Effects::ready`].
    fn ready(&mut self, _inbox: InboxId) -> bool {
        true
    }

    /// A multicast that waited was assigned to a view and is being sent; see [`phalanx_core::Effects::sent`].
    fn sent(
        &mut self,
        _group: GroupId,
        _view: ViewNumber,
        _seq: Sequence,
        _order: Order,
        _uniformity: Uniformity,
        _payload: &[u8],
    ) {
    }

    /// Multicasts of this process are stable; see [`phalanx_core::Effects::stable`].
    fn stable(&mut self, _group: GroupId, _view: ViewNumber, _seq: Sequence) {}

    /// Stores the record that keeps a later process of this name from founding its cell a second time. It must be on
    /// disk when this returns true; see [`phalanx_core::Effects::keep_record`]. [`crate::Inline`] writes
    /// it to the state directory itself.
    fn keep_record(&mut self, _record: &FounderRecord) -> bool {
        true
    }

    /// A multicast is delivered.
    fn deliver(&mut self, delivery: &Delivery<'_>);

    /// An event is delivered.
    fn event(&mut self, event: Event);

    /// A point-to-point message from a member.
    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {}

    /// A message to this member of a group alone; see [`phalanx_core::Effects::to_one`].
    fn to_one(&mut self, _message: &MessageToOne<'_>) {}

    /// What became of this process's next messages to one member of a group; see [`phalanx_core::Effects::settled`].
    fn settled(&mut self, _group: GroupId, _to: Incarnation, _outcome: ToOneOutcome, _messages: u64) {}

    /// A joiner needs this process's present state; see [`phalanx_core::Effects::snapshot`].
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        None
    }

    /// A piece of a donor's snapshot, in order.
    fn restore(&mut self, _group: GroupId, _chunk: &[u8]) {}

    /// Asks, after this incarnation was excluded, whether the application still has the group's state as it was
    /// delivered. If true, it keeps the state until it learns what became of the group: [`Event::StateKept`] continues
    /// with it, [`Event::StateBegin`] asks to forget it. If false, this process cannot bring the group back when no
    /// other has its state. Default true.
    fn keeps_state(&mut self, _group: GroupId) -> bool {
        true
    }

    /// A digest of the application's present state of the group, for an observer that compares members. At the start of
    /// a group view it must depend only on that and earlier views, on the set of messages delivered so far, and on the order
    /// of those in total order. `None`: there is none.
    fn digest(&mut self, _group: GroupId) -> Option<u64> {
        None
    }

    /// What the application was told of its messages and memberships since the last call, for an observer that records
    /// it. Default: nothing.
    fn told(&mut self) -> Vec<phalanx_trace::Event> {
        Vec::new()
    }
}
