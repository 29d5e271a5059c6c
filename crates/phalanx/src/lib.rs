//! Process groups: sets of processes that see the same members, the same messages and the same failures, in the same
//! order.
//!
//! # A tour
//!
//! A **cell** is a set of processes under one membership. A process enters it by starting, here as a thread would:
//!
//! ```no_run
//! use phalanx::Cell;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cell = Cell::builder("orders").blocking_start()?;
//! # Ok(())
//! # }
//! ```
//!
//! Processes of one user on one host find each other. Across hosts, name the same key file, the founders and some
//! addresses: [`CellBuilder::cell_key`], [`CellBuilder::founders`], [`CellBuilder::seeds`].
//!
//! A **group** is a named set of processes of the cell. Joining gives a handle for sending and an inbox with all that
//! happens in the group, in the one order that all members see. Every waiting call is a future of no particular runtime,
//! and has a `blocking_` twin:
//!
//! ```no_run
//! # async fn tour(cell: phalanx::Cell) -> Result<(), Box<dyn std::error::Error>> {
//! use phalanx::Next;
//!
//! let (stock, mut inbox) = cell.group("stock").join().await?;
//! let sent = stock.send(b"ACME 12.50").await?;
//! println!("message {} of this process in view {}", sent.seq(), sent.view());
//! sent.stable().await?; // every member has it
//!
//! while let Some(next) = inbox.next().await {
//!     match next {
//!         Next::Message(message) => println!("{}: {:?}", message.sender, message.payload),
//!         Next::View(view) => println!("{} members; this one has rank {}", view.len(), view.my_rank()),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Views** are the agreed lists of members. All members that go from one view to the next together have delivered the
//! same messages in between. Ranks are equal everywhere, so each member computes its role without a message: rank 0
//! leads, and takes over between the same two messages at all members.
//!
//! **Each message** chooses its order and guarantee: [`Multicast::fifo`], [`Multicast::causal`], [`Multicast::total`]
//! (the default); [`Multicast::plain`], [`Multicast::uniform`] (the default unless the group's founder chose otherwise).
//! A uniform message is delivered only when every member has it: if any member delivers it, every survivor does.
//!
//! **Each message has an outcome.** It ends as *sent* (a [`Sent`], with view and number) or as *not sent*
//! ([`SendError::NotSent`]). What was sent becomes *stable*: every member has it ([`Sent::stable`]). If this incarnation
//! ends first it is *in doubt* ([`InDoubt`]): the survivors may have it or not. [`Group::flush`] waits until all of this
//! process's messages are stable. Call it before an action that others see outside the group.
//!
//! **To one member.** [`Group::send_to`] sends to one member of the group alone, after all that this process had delivered or sent
//! there. It comes as [`Next::ToOne`], and [`SentTo::delivered`] tells what became of it: delivered, not delivered or in doubt
//! ([`Undelivered`]).
//!
//! **State** is what all members of a group hold, changed by its messages alone. A [`Replica`] keeps this process's copy,
//! and takes that of another member when it joins. Messages continue meanwhile, and no reader sees a part of it:
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use phalanx::{Cell, DecodeError, Message, Replica, Snapshot, State};
//!
//! #[derive(Default)]
//! struct Prices(BTreeMap<String, u32>);
//!
//! impl State for Prices {
//!     fn apply(&mut self, message: &Message) {
//!         if let Ok((name, cents)) = message.decode() {
//!             self.0.insert(name, cents);
//!         }
//!     }
//!     fn snapshot(&self) -> Snapshot {
//!         Snapshot::encode(&self.0)
//!     }
//!     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
//!         snapshot.decode().map(Self)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cell = Cell::builder("orders").blocking_start()?;
//! let prices = Replica::new(Prices::default());
//! let (stock, inbox) = cell.group("stock").state(&prices).blocking_join()?;
//! drop(inbox); // the state is all this program needs
//!
//! let sent = stock.send_value(&("ACME", 1_250_u32)).blocking()?;
//! sent.blocking_delivered()?; // read your writes
//! assert_eq!(prices.read().0.get("ACME"), Some(&1_250));
//! # Ok(())
//! # }
//! ```
//!
//! A large state is frozen, and encoded piece by piece while it is sent ([`Snapshot::encode_each`]). A state may have several
//! named parts ([`GroupBuilder::domain`]). [`Replica::progress`] says how far a transfer has come.
//!
//! **Results.** [`Replica::submit`] sends a message to the state and is told what this process's copy computed for it ([`Execute`]): once in
//! effect, also if this process is excluded meanwhile and comes back ([`GroupBuilder::submits`], [`SubmitError`]). So does
//! [`Inline::submit`] ([`App::execute`]).
//!
//! **Calls** go to one process and bring an answer, at most once. Servers are found by the group that they serve, by
//! member, or by address:
//!
//! ```no_run
//! # async fn calls(cell: phalanx::Cell, stock: phalanx::Group) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use phalanx::{CallError, Server};
//!
//! let server: Server<String, u32> = stock.server().start()?;
//! std::thread::spawn(move || server.run(4, |request| request.value().len() as u32));
//!
//! let client = cell.client()?;
//! let answer: Result<u32, CallError> =
//!     client.call("stock", &"ACME").deadline(Duration::from_millis(200)).wait_for_server().await;
//! match answer {
//!     Ok(length) => println!("{length}"),
//!     Err(CallError::NotExecuted(why)) => println!("it did not run: {why}"),
//!     Err(other) => println!("{other}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The book's chapter *A replicated service* (`docs/book/src/service.md`) joins group, state and calls in one program.
//!
//! **Failures.** A process that was cut off or stopped for too long is excluded by a decided view. It learns of that
//! ([`Next::Excluded`]), comes back as a new incarnation with a new [`MemberId`], and takes the state of the others.
//! [`Replica::is_current`] is false meanwhile. [`Cell::standing`] tells beside all inboxes whether the process believes to
//! be in the primary partition; outside of it no uniform message is sent.
//!
//! **Who is there.** A watch tells what becomes of one member, host or group, or of the cell, with the reason and what is known
//! of it: [`Cell::watch_member`], [`Cell::watch_host`], [`Cell::watch_group`], [`Cell::watch_cell`]. [`Cell::left`] is ready when an
//! incarnation has left, for programs that call it by another system.
//!
//! **Ending.** [`Cell::leave`] leaves in order and waits. Dropping the last handle of a cell and its groups leaves, too, and waits for
//! at most two seconds; while its thread panics it ends the process at once, as a death. The book's chapter *Starting and stopping*
//! (`docs/book/src/ending.md`) says what each end loses. A panic of the protocol thread, which only a panic in a [`State`] can cause, ends the process as a
//! death: waits end with errors, and the others go on.
//!
//! **Fork.** In a forked child all handles are dead: calls fail with a `Forked` error, and the parent's process goes on.
//!
//! # Threads and tasks
//!
//! | who | calls |
//! |---|---|
//! | any thread or task | [`Cell`], [`Group`], [`Replica::read`], [`Sent`], [`SentTo`], [`Client`], [`Server`], all through `&self` |
//! | any one thread or task | a [`Request`], which it may pass on |
//! | one at a time | [`Inbox`], through `&mut self`; it may move between threads |
//! | the protocol thread | the methods of [`State`], one at a time |
//! | the thread that started it | [`Inline`] and its [`App`] |
//!
//! A `blocking_` call must not be made on a thread that runs an async executor: it would stop the executor's tasks.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// The examples of the book (`docs/book`), compiled with those of this documentation.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/book/src/first.md")]
    struct First;
    #[doc = include_str!("../../../docs/book/src/ending.md")]
    struct Ending;
    #[doc = include_str!("../../../docs/book/src/inline.md")]
    struct Inline;
    #[doc = include_str!("../../../docs/book/src/state.md")]
    struct State;
    #[doc = include_str!("../../../docs/book/src/results.md")]
    struct Results;
    #[doc = include_str!("../../../docs/book/src/failures.md")]
    struct Failures;
    #[doc = include_str!("../../../docs/book/src/watching.md")]
    struct Watching;
    #[doc = include_str!("../../../docs/book/src/calls.md")]
    struct Calls;
    #[doc = include_str!("../../../docs/book/src/asking.md")]
    struct Asking;
    #[doc = include_str!("../../../docs/book/src/service.md")]
    struct Service;
    #[doc = include_str!("../../../docs/book/src/deployment.md")]
    struct Deployment;
    #[doc = include_str!("../../../docs/book/src/testing.md")]
    struct Testing;
}

mod answer;
mod answering;
mod ask;
mod asked;
mod calls;
mod cell;
mod cell_group;
mod cell_view;
mod departure;
mod descriptor;
mod domain_name;
mod domains;
mod end;
mod error;
mod events;
mod group;
mod health;
mod id;
mod inbox;
mod inline;
mod layout;
mod left;
mod message;
mod names;
mod next;
mod readiness;
mod reading;
mod replica;
mod send;
mod send_to;
mod sent;
mod sent_to;
mod shared;
#[cfg(feature = "simulate")]
pub mod simulate;
mod snapshot;
mod standing;
mod submit;
mod sync;
mod thread;
mod trace;
mod view;
mod waiting;
mod watch;

pub use answer::{Answer, AskEnd, Reply};
pub use answering::Answering;
pub use ask::{AnswerStream, Answers, Ask, Asking, Want};
pub use asked::Asked;
pub use bytes::Bytes;
pub use calls::client::{Call, Calling, Client, To};
pub use calls::server::{Request, Server, ServerBuilder};
pub use cell::{Cell, CellBuilder, Starting};
pub use cell_group::CellGroup;
pub use cell_view::CellView;
pub use departure::{Departure, Proof};
pub use end::End;
pub use error::{
    AnswerError, AskError, CallError, DecodeError, DescriptorError, FlushError, InDoubt, JoinError, LeaveError,
    LimitError, OutcomeError, Reason, SendError, StartError, SubmitError, Undelivered, WaitError, WatchError,
};
pub use events::{CellEvent, Events};
pub use group::{Group, GroupBuilder, Joining};
pub use id::{Guarantee, Host, Instance, LeaveReason, Member, MemberId, Order};
pub use inbox::{Inbox, Merged};
pub use inline::{
    AnswerRef, App, AskOptions, AskedRef, Inline, InlineAsk, InlineGroup, InlineJoin, InlineReply, MessageRef,
    MessageToOneRef, Polled, ReplyRef,
};
pub use left::Left;
pub use message::{Message, MessageToOne};
pub use next::Next;
pub use reading::ReadGuard;
pub use replica::{Replica, State, Transfer};
pub use send::{Multicast, Sending};
pub use send_to::{SendTo, SendingTo};
pub use sent::{Outcome, Sent};
pub use sent_to::{Arrival, SentTo};
pub use snapshot::{Piece, Snapshot};
pub use standing::{Changed, Place, Standing};
pub use submit::{Execute, Submit, SubmitClient, Submitting};
pub use view::View;
pub use waiting::wait_for;
pub use watch::{CellChange, GroupChange, HostChange, MemberChange, Watch};
