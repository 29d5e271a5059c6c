//! What an application gives a node: the places its deliveries and events go.

use phalanx_core::member::FounderRecord;
use phalanx_core::{Delivery, Event, GroupId, Incarnation, Instant, MemberInfo, Order, Snapshot};

/// A command that the core accepted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Command<'a> {
    /// Asks to become a member of a group. Also given when the node asks again after an exclusion.
    JoinGroup {
        /// The group's name.
        name: &'a str,
        /// Whether the state of a member is taken first.
        with_state: bool,
    },
    /// Asks to leave a group.
    LeaveGroup {
        /// The group.
        group: GroupId,
    },
    /// Multicasts to a group. It may have gone out already: then [`Handler::sent`] was called right before.
    Multicast {
        /// The group.
        group: GroupId,
        /// The order asked for.
        order: Order,
        /// Whether it is to be uniform.
        uniform: bool,
        /// The bytes, one part after the other.
        parts: &'a [&'a [u8]],
    },
    /// Sends a point-to-point message.
    Send {
        /// To whom.
        to: Incarnation,
        /// The bytes.
        payload: &'a [u8],
    },
    /// Asks the cell to rise to a level.
    RaiseLevel {
        /// The level.
        level: u16,
    },
    /// Asks to found the next instance of the cell from here, as its quorum is gone for good.
    Reform,
    /// Asks to found the cell again: no member of it lives anywhere, as the operator says.
    FoundAnew,
    /// Asks that a group waits no more for members that are cut off.
    GiveUpGroup {
        /// Its name.
        name: &'a str,
    },
    /// Asks to leave the cell.
    Leave,
}

/// The application's side of a [`Node`](crate::node::Node): [`phalanx_core::Effects`] without the packets.
///
/// Calls come in the order the core decided, on the thread that turns the node. A handler cannot reach the node
/// from inside a call: what it wants to send it keeps, and sends between turns.
pub trait Handler {
    /// A life of this process begins; everything that follows belongs to it. Called before the first effect, and
    /// again after an exclusion when the process comes back as a new incarnation. It keeps the states of its groups, see
    /// [`Handler::keeps_state`].
    fn begin(&mut self, _me: &MemberInfo) {}

    /// It is `now`: said before each turn and command, and never going back within a life.
    fn at(&mut self, _now: Instant) {}

    /// A command was accepted; what it leads to comes later (a multicast may have gone out already).
    fn command(&mut self, _command: &Command<'_>) {}

    /// Whether a view change keeps this process from sending, said after each turn.
    fn silent(&mut self, _silent: bool) {}

    /// A packet is about to be queued for the network: what an observer keeps must be safe from here on, because
    /// others may now learn of it.
    fn before_transmit(&mut self) {}

    /// Whether the application takes a delivery or event now; see [`phalanx_core::Effects::ready`].
    fn ready(&mut self) -> bool {
        true
    }

    /// A multicast went on its way; see [`phalanx_core::Effects::sent`].
    fn sent(&mut self, _group: GroupId, _view: u64, _seq: u64, _order: Order, _uniform: bool, _payload: &[u8]) {}

    /// What keeps a later process of this name from founding its cell a second time must be on disk when this returns true; see
    /// [`phalanx_core::Effects::keep_record`]. [`crate::Inline`] and [`crate::Cell`] write it to the state directory themselves.
    fn keep_record(&mut self, _record: &FounderRecord) -> bool {
        true
    }

    /// A message for the application.
    fn deliver(&mut self, delivery: &Delivery<'_>);

    /// An event for the application.
    fn event(&mut self, event: Event);

    /// A point-to-point message from a member.
    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {}

    /// A joiner needs this process's state as of now; see [`phalanx_core::Effects::snapshot`].
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        None
    }

    /// A piece of a donor's snapshot, in order.
    fn restore(&mut self, _group: GroupId, _chunk: &[u8]) {}

    /// This life was excluded: whether the application still has the state of the group as it was delivered, and keeps it until it
    /// is told what became of the group: [`Event::StateKept`] goes on with it, [`Event::StateBegin`] asks to forget it.
    /// False where it threw it away: then it cannot bring the group back if nobody else has its state. Default true.
    fn keeps_state(&mut self, _group: GroupId) -> bool {
        true
    }

    /// A digest of the application's state of the group now, for an observer that compares members. At the start
    /// of a group view it must be a function of the set of messages delivered so far. `None`: there is none.
    fn digest(&mut self, _group: GroupId) -> Option<u64> {
        None
    }
}
