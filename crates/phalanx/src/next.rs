//! What happens in a group, item by item: what the protocol thread queues, and inboxes give.

use crate::asked::Asked;
use crate::id::{LeaveReason, MemberId};
use crate::message::{Message, MessageToOne};
use crate::view::View;

/// What happened next in a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Next {
    /// A message was delivered.
    Message(Message),
    /// A member asks the group, and this process is to answer ([`Group::ask`](crate::Group::ask)). It is a message at its place among
    /// the others, or one that another member [forwarded](Asked::forward). Members that are not to answer get it as
    /// [`Next::Message`].
    Asked(Asked),
    /// A member sent this to this process alone ([`Group::send_to`](crate::Group::send_to)). It comes after all multicasts
    /// that its sender had delivered or sent before, and before the view without its sender. Other members do not get it.
    ToOne(MessageToOne),
    /// A view was installed. All members that install it delivered the same messages before it.
    View(View),
    /// Within the view, [`members_min`](crate::GroupBuilder::members_min) members have the group's state now (`true`), or fewer
    /// do. The same as [`View::is_adequate`] of [`Group::view`](crate::Group::view), which changed with it.
    Adequate(bool),
    /// This process takes the group's state from another member: so many bytes, then the messages that belong to it.
    /// Readers of a [`Replica`](crate::Replica) see the old state until [`Next::Current`]. If the members that have it die
    /// before it is complete, it is taken from another one, which begins with this item again, or [`Next::FoundedAnew`]
    /// follows.
    Taking {
        /// The length of the state.
        bytes: u64,
    },
    /// The state is complete. A view follows.
    Current,
    /// The members that had the group's state are gone, and it with them, while this process asked for it or took it: this
    /// process founds the group anew. What came of their state is dropped, and the group begins with what this process's
    /// [`Replica`](crate::Replica) shows. It takes the place of [`Next::Current`], also if no [`Next::Taking`] came before. A
    /// view follows.
    FoundedAnew,
    /// The group continues with the state that this process kept since an earlier incarnation.
    Kept,
    /// Nobody in the cell has the group's state, and these members that have it are cut off. The join waits for one of
    /// them; [`Cell::give_up_group`](crate::Cell::give_up_group) ends the wait.
    Waiting {
        /// The names of the members for which it waits.
        for_members: Vec<String>,
    },
    /// Messages of this process came to nothing, because its incarnation ended or it left; or messages to one member
    /// ([`Group::send_to`](crate::Group::send_to)) did, whose receiver is gone. Those that were sent one by one have told their
    /// senders, too.
    Lost {
        /// How many nobody has: they were not sent, or, to one member, not delivered.
        not_sent: u64,
        /// How many the others may have or not.
        in_doubt: u64,
    },
    /// This incarnation is over: the process was excluded from the cell. It comes back as another one, and the group's
    /// next item says with which state; if it [stays out](crate::CellBuilder::stay_out), [`Next::Left`] follows.
    Excluded {
        /// The incarnation that is over.
        was: MemberId,
    },
    /// The group went on without this process, or is over: what only this process had of its state is lost to the others.
    /// It comes after every ordinary exclusion, and is no alarm then: [`Next::Taking`] follows.
    ///
    /// If the group is over, because its last members died, it is founded again by those that ask for it. If this process does
    /// so first, the group begins with the old state that its replica shows, and view numbers begin at 1.
    Forgotten,
    /// This process is no longer in the group. Nothing follows, unless the reason is [`LeaveReason::Anew`].
    Left(LeaveReason),
}
