//! What a program is called with by the process that it polls.

use std::time::Duration;

use phalanx_core::DomainIndex;
use phalanx_life::{AskId, Key};
use serde::de::DeserializeOwned;

use crate::answer::AskEnd;
use crate::ask::Want;
use crate::error::{AskError, DecodeError, SubmitError, Undelivered};
use crate::events::CellEvent;
use crate::id::{Guarantee, LeaveReason, MemberId, Order};
use crate::message::{Message, MessageToOne};
use crate::snapshot::Snapshot;
use crate::view::View;

/// A group of an [`Inline`](crate::Inline) process: what [`InlineJoin::join`](crate::InlineJoin::join) gives. It stands
/// for one membership, through exclusions and returns, and for nothing once that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InlineGroup(pub(super) Key);

/// A delivered message, borrowed for the length of a call. The fields are those of [`Message`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MessageRef<'a> {
    /// Its group.
    pub group: InlineGroup,
    /// The number of the view in which it was sent and is delivered.
    pub view: u64,
    /// Its sender.
    pub sender: MemberId,
    /// Its number among its sender's messages in this view, from 1.
    pub seq: u64,
    /// The order it was sent with.
    pub order: Order,
    /// Whether it was delivered only when every member had it.
    pub uniform: bool,
    /// For [`Order::Total`]: its place in the view's total order, from 1.
    pub position: Option<u64>,
    /// Part of a state transfer: it belongs to views before this process's first.
    pub replayed: bool,
    /// The payload, where it was received: no copy was made.
    pub payload: &'a [u8],
    /// The domain of the group's state to which alone it goes.
    pub(crate) domain: Option<DomainIndex>,
}

impl MessageRef<'_> {
    /// Whether its sender named one domain of the state, which is the state that this program keeps; see
    /// [`Message::is_to_domain`].
    #[must_use]
    pub fn is_to_domain(&self) -> bool {
        self.domain.is_some()
    }

    /// The payload as a value; see [`Message::decode`].
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        postcard::from_bytes(self.payload).map_err(DecodeError::of_type)
    }

    /// A copy, to be kept.
    #[must_use]
    pub fn to_message(&self) -> Message {
        Message {
            view: self.view,
            sender: self.sender,
            seq: self.seq,
            order: self.order,
            uniform: self.uniform,
            position: self.position,
            replayed: self.replayed,
            payload: bytes::Bytes::copy_from_slice(self.payload),
            domain: self.domain,
        }
    }
}

/// A message to this process alone, borrowed for the length of a call. The fields are those of [`MessageToOne`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MessageToOneRef<'a> {
    /// Its group.
    pub group: InlineGroup,
    /// The number of the view in which it was sent. A later one may be in force here.
    pub view: u64,
    /// Its sender.
    pub sender: MemberId,
    /// The payload, where it was received: no copy was made.
    pub payload: &'a [u8],
}

impl MessageToOneRef<'_> {
    /// The payload as a value; see [`MessageToOne::decode`].
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        postcard::from_bytes(self.payload).map_err(DecodeError::of_type)
    }

    /// A copy, to be kept.
    #[must_use]
    pub fn to_message(&self) -> MessageToOne {
        MessageToOne::new(self.view, self.sender, bytes::Bytes::copy_from_slice(self.payload))
    }
}

/// An ask that an [`Inline`](crate::Inline) process is to answer, for [`Inline::answer`](crate::Inline::answer). It stands for one place of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InlineAsk(pub(super) Key, pub(super) AskId);

/// An ask that this process is to answer, borrowed for the length of a call; see [`Asked`](crate::Asked).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AskedRef<'a> {
    /// What to answer, now or later.
    pub ask: InlineAsk,
    /// The message. Of one that was forwarded it has no position, and its order and guarantee are not known here (they read as fifo, and
    /// not uniform).
    pub message: MessageRef<'a>,
    /// The rank, in the view of the ask, whose place the answer fills: another one than this process's if the ask was forwarded.
    pub rank: usize,
    /// Whether another member forwarded it to this process.
    pub is_forwarded: bool,
    pub(super) expected: phalanx_core::Expected<'a>,
}

impl AskedRef<'_> {
    /// The ranks of those that are to answer, in the view of the ask.
    pub fn expected(&self) -> impl Iterator<Item = usize> {
        self.expected.ranks()
    }
}

/// How an [`Inline`](crate::Inline) process answers an ask. The value of the first, and the reason of the third, stand beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InlineReply {
    /// With a value.
    Value,
    /// It has no answer.
    Null,
    /// It ends the ask, for a reason.
    Abort,
    /// The member of that rank, in the view of the ask, answers in its place: one of [`AskedRef::expected`]. The asker takes any other as
    /// [`InlineReply::Null`].
    Forward(usize),
}

/// How an [`Inline`](crate::Inline) process asks; see [`Ask`](crate::Ask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskOptions {
    /// The order. Default [`Order::Total`].
    pub order: Order,
    /// The guarantee.
    pub guarantee: Guarantee,
    /// How many answers end it. `None`: as many as [`App::answered`] takes until it says so. Default all.
    pub want: Option<Want>,
    /// Whether this process is to answer, too. Default true.
    pub with_self: bool,
    /// When it ends in any case. Default never.
    pub within: Option<Duration>,
    /// The only view in which it may be sent, by number; see [`Multicast::in_view`](crate::Multicast::in_view).
    pub in_view: Option<u64>,
}

impl Default for AskOptions {
    fn default() -> Self {
        let (order, guarantee, want) = (Order::Total, Guarantee::GroupDefault, Some(Want::All));
        Self { order, guarantee, want, with_self: true, within: None, in_view: None }
    }
}

/// One answer of an ask, borrowed for the length of a call. The fields are those of [`Answer`](crate::Answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerRef<'a> {
    /// The number of the view in which the ask was sent.
    pub view: u64,
    /// The rank, in that view, of the member whose place it fills.
    pub rank: usize,
    /// That member.
    pub member: MemberId,
    /// The member that answered, or left.
    pub by: MemberId,
    /// What came.
    pub reply: ReplyRef<'a>,
}

/// What came for a member's place; see [`Reply`](crate::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyRef<'a> {
    /// A value.
    Value(&'a [u8]),
    /// It has no answer.
    Null,
    /// It ends the ask, for this reason.
    Abort(&'a [u8]),
    /// It left the group without an answer.
    Left,
}

/// A program's side of an [`Inline`](crate::Inline) process. All calls are made from inside the process's methods, on the
/// caller's thread, in the one order that all members see. A call cannot reach the process: keep what it wants to send,
/// and send it between two polls. All methods but [`App::message`] do nothing by default.
pub trait App {
    /// A message was delivered.
    fn message(&mut self, message: &MessageRef<'_>);

    /// Executes a message that a member submitted to the state ([`Inline::submit`](crate::Inline::submit),
    /// [`Replica::submit`](crate::Replica::submit)), at its place among the others, and puts what it gives into `result`, which is
    /// empty: up to 256 KiB, which members keep until the submitter has it. Every member executes it, and each must compute the same
    /// bytes from nothing but the state and the message. [`App::message`] is not called of it. Called only for groups that were joined with
    /// [`InlineJoin::submits`](crate::InlineJoin::submits), and also, as messages are, while another member's state comes
    /// ([`MessageRef::replayed`]).
    ///
    /// What the bytes mean is the program's. Beside members that are no `Inline` they are the postcard encoding of
    /// [`Execute::Output`](crate::Execute::Output), because those decode them as that.
    ///
    /// By default the message goes to [`App::message`], and the result is empty: a program that changes its state by messages
    /// alone submits the same ones, and is told that they were executed.
    fn execute(&mut self, message: &MessageRef<'_>, _result: &mut Vec<u8>) {
        self.message(message);
    }

    /// What this process submitted under that number ([`Inline::submit`](crate::Inline::submit)) gave, or why there is no result. Of
    /// each submit it is told once: a result when all members have the message, and not while fewer have the group's state than its terms ask for
    /// ([`InlineJoin::members_min`](crate::InlineJoin::members_min)), and what is left at the end of the membership before [`App::left`]
    /// is called. Several that are under way at once may be told in any order.
    fn submitted(&mut self, _group: InlineGroup, _number: u64, _result: Result<&[u8], SubmitError>) {}

    /// Whether the program takes a message or an event of this group now. While not, nothing more of the group is handed
    /// over, and its senders are held back once their windows are full; other groups go on. It is asked before each item,
    /// so keep it cheap. At the end of an incarnation all is handed over, whatever it answers. By default it always does.
    fn ready(&mut self, _group: InlineGroup) -> bool {
        true
    }

    /// A view was installed. All members that install it delivered the same messages before it. Multicasts are accepted
    /// from the first on.
    ///
    /// While another member's state comes, between [`App::taking`] and [`App::current`], it is one of the views that the
    /// members installed since that state was frozen, at its place between the messages ([`View::is_replayed`]): it belongs to
    /// the state as they do. Only a group that was joined [with state](crate::InlineJoin::with_state) gets them.
    fn view(&mut self, _group: InlineGroup, _view: &View) {}

    /// Enough members of the view have the group's state now, or too few; see [`View::is_adequate`].
    fn adequate(&mut self, _group: InlineGroup, _adequate: bool) {}

    /// The next accepted multicast of this process was bound to a view, as its message `seq`: each member that goes on
    /// from this view delivers it, or none does. Multicasts are bound in the order in which they were accepted. Sometimes
    /// called before the multicast returns. Not called of what is sent for submits, which has numbers among them.
    fn sent(&mut self, _group: InlineGroup, _view: u64, _seq: u64) {}

    /// Every member of that view has this process's messages up to `seq`, or the view ended and each that goes on has
    /// them. What it sent in earlier views of this incarnation is stable then, too, whether or not that was told. Called at
    /// the end of a poll; not while fewer members have the group's state than its terms ask for, nor for what is in doubt
    /// then ([`InlineJoin::members_min`](crate::InlineJoin::members_min)).
    fn stable(&mut self, _group: InlineGroup, _view: u64, _seq: u64) {}

    /// Accepted multicasts came to nothing, because this incarnation or this membership ended: the last of them. The
    /// reason follows. What was sent for submits counts, too, although it is sent again ([`App::submitted`]).
    fn lost(&mut self, _group: InlineGroup, _not_sent: u64, _in_doubt: u64) {}

    /// A member asks the group, and this process is to answer ([`Inline::ask`](crate::Inline::ask), [`Group::ask`](crate::Group::ask)): a
    /// message at its place among the others, or one that was forwarded. To answer at once, put the value, or the reason of an abort, into
    /// `value`, which is empty. `None`: [`Inline::answer`](crate::Inline::answer) follows. It must, sooner or later.
    ///
    /// By default the message goes to [`App::message`], unless it was forwarded, and there is no answer.
    fn asked(&mut self, asked: &AskedRef<'_>, _value: &mut Vec<u8>) -> Option<InlineReply> {
        if !asked.is_forwarded {
            self.message(&asked.message);
        }
        Some(InlineReply::Null)
    }

    /// Nobody waits any more for the answer to this ask, which was not answered.
    fn ask_given_up(&mut self, _ask: InlineAsk) {}

    /// An answer came for an ask of this process, which [`Inline::ask`](crate::Inline::ask) gave that number. True: it is enough, where
    /// [`AskOptions::want`] leaves that to this call.
    fn answered(&mut self, _group: InlineGroup, _number: u64, _answer: &AnswerRef<'_>) -> bool {
        false
    }

    /// An ask of this process ended. Called at the end of a poll, as [`App::stable`] is, or at the end of an incarnation.
    fn ask_ended(&mut self, _group: InlineGroup, _number: u64, _end: Result<AskEnd, AskError>) {}

    /// A member of the group sent this to this process alone ([`Inline::send_to`](crate::Inline::send_to)), after all multicasts
    /// that it had delivered or sent before. It is no part of the group's state.
    fn to_one(&mut self, _message: &MessageToOneRef<'_>) {}

    /// The next messages of this process to that member in the group ([`Inline::send_to`](crate::Inline::send_to)), so many, were
    /// delivered, or not. Told in the order in which they were sent. What is open when this incarnation or this membership ends is in
    /// doubt; that is told before the end is.
    fn settled(&mut self, _group: InlineGroup, _to: MemberId, _outcome: Result<(), Undelivered>, _messages: u64) {}

    /// Another member sent this to this process alone ([`Inline::unicast`](crate::Inline::unicast)). What one member sends to
    /// another comes in its order, and once; between these messages and those of groups there is no order. Nothing comes
    /// of a member after the view of the cell without it. [`App::ready`] is not asked.
    fn unicast(&mut self, _from: MemberId, _payload: &[u8]) {}

    /// This incarnation is over, and that member has not acknowledged the last unicasts to it, so many: it may have them
    /// or not. It has all before them, unless it is gone itself. Called before [`App::excluded`], or at the end of a leave,
    /// which waits for the acknowledgements for 10 s at most. Of a receiver that the cell lost meanwhile nothing is told.
    fn unicasts_in_doubt(&mut self, _to: MemberId, _messages: u64) {}

    /// What happens to the process in its cell, for a log or an operator; what follows from it for a group is told by the
    /// other methods. In its place among the messages; what the host refuses comes at the end of a poll.
    fn event(&mut self, _event: &CellEvent) {}

    /// This incarnation is over: the process was excluded from the cell. Unless it [stays
    /// out](crate::CellBuilder::stay_out) it comes back as another one in all its groups, and their states follow.
    fn excluded(&mut self, _was: MemberId) {}

    /// This process is no longer in the group. Unless the reason is [`LeaveReason::Anew`], its [`InlineGroup`] stands for
    /// nothing any more.
    fn left(&mut self, _group: InlineGroup, _reason: LeaveReason) {}

    /// The group cannot be made, because the cell's numbers of groups are used up; or it has a state and was joined
    /// without one, or it has none and was joined with one. Its [`InlineGroup`] stands for nothing any
    /// more. Existing groups go on.
    fn refused(&mut self, _group: InlineGroup) {}

    /// Nobody in the cell has the group's state, and these members that have it are cut off. The join waits for one of
    /// them; [`Inline::give_up_group`](crate::Inline::give_up_group) ends the wait.
    fn waiting(&mut self, _group: InlineGroup, _for_members: &[String]) {}

    /// What only this process had of the group's state is lost to the others.
    fn forgotten(&mut self, _group: InlineGroup) {}

    /// The present state, for a member that joins. It is sent while later messages are delivered here. Called only for
    /// groups that were joined with [`InlineJoin::with_state`](crate::InlineJoin::with_state). `None`: there is none now,
    /// and the other member asks again.
    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        None
    }

    /// Another member's state of `_bytes` bytes begins. What was kept of the group is replaced by it. Its
    /// pieces follow, then [`App::message`] and [`App::view`] with the messages and views that belong to it, then
    /// [`App::current`]. If the members that have it die before, it begins again with another one's, or
    /// [`App::founded_anew`] is called.
    fn taking(&mut self, _group: InlineGroup, _bytes: u64) {}

    /// The next part of a piece of it, as the other member's [`Snapshot`] made its pieces; a snapshot that is a whole is one
    /// piece. `is_end`: the piece is complete.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense. This process then leaves the group, and is told of no further multicast of it.
    fn restore(&mut self, _group: InlineGroup, _part: &[u8], _is_end: bool) -> Result<(), DecodeError> {
        Ok(())
    }

    /// The state is complete. A view follows.
    fn current(&mut self, _group: InlineGroup) {}

    /// The members that had the group's state are gone, and it with them, while this process asked for it or took it: this
    /// process founds the group anew. Drop what came of their state; the group begins with what the program has then. A view
    /// follows.
    ///
    /// By default it is told as an empty state: [`App::taking`] with 0 bytes, which drops what came, and [`App::current`]. Of
    /// those that submit the group knows nobody any more.
    fn founded_anew(&mut self, group: InlineGroup) {
        self.taking(group, 0);
        self.current(group);
    }

    /// The group continues with the state that this process kept since an earlier incarnation.
    fn kept(&mut self, _group: InlineGroup) {}

    /// After an exclusion: whether the program keeps the group's state as it was delivered, until it learns what became of
    /// the group. By default it does. If not, this process cannot bring the group back when no other has its state.
    fn keeps_state(&mut self, _group: InlineGroup) -> bool {
        true
    }

    /// A digest of the group's state as it is now, for the trace ([`CellBuilder::trace`](crate::CellBuilder::trace)):
    /// `phalanx check` compares the digests that members record at the same point. Called only while a trace is written, for
    /// a group that was joined with state: after [`App::snapshot`] and each [`App::view`] that is not replayed, and before
    /// [`App::kept`]. It may depend on the views, on which messages were delivered, and for messages in total order on their
    /// order: members deliver others in different orders.
    ///
    /// Each process of a group that writes a trace gives digests, or none does. `None`, as by default: nothing is compared.
    fn digest(&mut self, _group: InlineGroup) -> Option<u64> {
        None
    }
}
