//! A group's state: each member holds a copy, and changes it by the group's messages alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLockWriteGuard};

use phalanx_core as core;
use phalanx_life::{Execution, Told};

use crate::error::DecodeError;
use crate::layout::Notice;
use crate::message::Message;
use crate::reading::{ReadGuard, StateLock};
use crate::shared::submits::{Handle, Submits};
use crate::snapshot::{Piece, Snapshot};
use crate::view::View;

/// A state that every member of a group holds.
///
/// ```
/// use std::collections::BTreeMap;
/// use phalanx::{DecodeError, Message, Snapshot, State};
///
/// #[derive(Clone, Default)]
/// struct Prices(BTreeMap<String, f64>);
///
/// impl State for Prices {
///     fn apply(&mut self, message: &Message) {
///         if let Ok((name, price)) = message.decode() {
///             self.0.insert(name, price);
///         }
///     }
///     fn snapshot(&self) -> Snapshot {
///         Snapshot::encode(&self.0)
///     }
///     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
///         snapshot.decode().map(Self)
///     }
/// }
/// ```
///
/// The protocol thread makes all calls, in the order that all members see. Keep them short: the process answers no other
/// process meanwhile. What they do must depend on nothing but the state and the message.
pub trait State: Send + Sync + Sized + 'static {
    /// The version of its format, and of what its messages mean. A group keeps one version of each domain: who has another
    /// one is refused ([`JoinError::LacksDomain`](crate::JoinError::LacksDomain)) before any state travels. From level 10 of
    /// the cell on.
    const VERSION: u32 = 1;

    /// Applies a message of the group.
    fn apply(&mut self, message: &Message);

    /// A view of the group was installed, at the same point between the messages at all its members.
    ///
    /// A member that joins gets the views that the others installed since the state that it takes was frozen, at their places
    /// between the messages ([`View::is_replayed`]): so a state may follow from its views as it does from its messages. It
    /// must not depend on this process ([`View::me`]), nor on [`View::is_adequate`], which differ between the members. In
    /// a cell below level 7 those views are left out (`docs/levels.md`).
    fn view(&mut self, _view: &View) {}

    /// The present state as bytes, for a member that joins. It is sent while later messages are applied here. The process
    /// answers no other process while this runs: a large state is frozen here, and encoded while it is sent; see
    /// [`Snapshot::encode_each`].
    fn snapshot(&self) -> Snapshot;

    /// The state of another member. The present state is replaced when this one is complete, so that readers never see
    /// a part of it.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense. This process then leaves the group, and is given no further message of it.
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError>;

    /// The state of a member whose program does not frame it as this crate does (`docs/interface.md`, *Format*): all bytes of
    /// the transfer. For a program that was built on another layer before, and is replaced member by member. It is a state of
    /// this crate if its first byte is 1.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense, which is the default. This process then leaves the group.
    fn restore_unframed(_bytes: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::new("it has the format of another version of this library"))
    }

    /// A state that [`State::restore_piece`] will fill with another member's, so that its bytes need not all be in memory
    /// beside it. By default there is none, and [`State::restore`] takes all pieces together. It also takes a state that
    /// is no pieces, whatever this gives: what a member of an earlier version of the program may send.
    fn restore_begin() -> Option<Self> {
        None
    }

    /// Takes the next piece of another member's state, as [`Snapshot::encode_each`] or [`Snapshot::pieces`] made it there.
    /// No reader sees this value yet.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense. This process then leaves the group.
    fn restore_piece(&mut self, _piece: Piece<'_>) -> Result<(), DecodeError> {
        Err(DecodeError::new("it came in pieces, and this state takes none"))
    }
}

/// This process's copy of a group's state, for readers in any thread. Cheap to clone.
///
/// A process that comes back after an exclusion, or takes the state of another member, shows the state it had until the
/// new one is complete; [`Replica::is_current`] tells which it is.
#[derive(Debug, Default)]
pub struct Replica<S> {
    shared: Arc<Copy<S>>,
    /// The handles of the program, and not the protocol thread, hold it.
    pub(crate) handle: Arc<Handle>,
}

impl<S> Clone for Replica<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), handle: Arc::clone(&self.handle) }
    }
}

#[derive(Debug, Default)]
struct Copy<S> {
    state: StateLock<S>,
    is_current: AtomicBool,
    /// The number of messages applied.
    applied: AtomicU64,
    /// The transfer under way: bytes taken, and bytes in all. 0 in all: there is none.
    taken: AtomicU64,
    bytes: AtomicU64,
    /// Executes a submitted message.
    execute: OnceLock<ExecuteOf<S>>,
    /// Answers an ask.
    answer: OnceLock<AnswerOf<S>>,
}

/// Executes a submitted message, and encodes its result.
pub(crate) type ExecuteOf<S> = fn(&mut S, &Message) -> Vec<u8>;

/// Answers an ask that the state has applied, with an encoded value.
pub(crate) type AnswerOf<S> = fn(&S, &Message) -> Option<Vec<u8>>;

/// How a state takes the commands of clients, if it is a table of them.
pub(crate) struct TableOf<S> {
    /// Those of this process, which are told.
    pub(crate) submits: Arc<Submits>,
    /// Takes a command. `Ok(Some(..))`: the state that the table serves is to execute it.
    pub(crate) take: TakeOf<S>,
    /// That state executed it.
    pub(crate) executed: fn(&mut S, Execution<'_>, Vec<u8>) -> Told,
}

type TakeOf<S> = for<'m> fn(&mut S, &'m Message) -> Result<Option<Execution<'m>>, Told>;

/// How far another member's state has come; see [`Replica::progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// The bytes that are here.
    pub taken: u64,
    /// All of them, as [`Next::Taking`](crate::Next::Taking) says.
    pub bytes: u64,
}

impl<S: State> Replica<S> {
    /// A copy that begins with `state`, if this process founds the group. Of processes that ask for a new group at once one founds
    /// it, with what its copy holds, and the others take that.
    ///
    /// A process that comes back after an exclusion may find that the group is over. If it founds the group again, that begins
    /// with what this copy has by then, not with `state`. [`State::view`] can tell by the view's number, which is 1 then.
    #[must_use]
    pub fn new(state: S) -> Self {
        let (is_current, applied) = (AtomicBool::new(false), AtomicU64::new(0));
        let (taken, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (execute, answer) = (OnceLock::new(), OnceLock::new());
        let shared = Copy { state: StateLock::new(state), is_current, applied, taken, bytes, execute, answer };
        Self { shared: Arc::new(shared), handle: Arc::default() }
    }

    /// The state now. The protocol thread waits while the guard lives, so keep that short: meanwhile this process answers no
    /// other process, and the others may exclude it. [`Replica::read_with`] gives it back in time. A notice
    /// ([`CellEvent::Notice`](crate::CellEvent::Notice)) says if the protocol thread was held up for a second.
    ///
    /// A thread that holds a guard must not wait for anything that comes by the protocol thread: it would wait for itself. So calls
    /// of this crate that wait in a thread fail at once there, with the error `Reading`, whether or not they would have had to wait.
    /// Those whose result cannot say it, as [`Inbox::blocking_next`](crate::Inbox::blocking_next), panic. A future that is polled
    /// there is not refused, because another thread may poll it on. Neither is noticed what else a program waits for, as a lock or
    /// another thread: that the notice tells.
    ///
    /// A thread may hold several guards, also of one replica. A group's state may have several domains; see
    /// [`GroupBuilder::domain`](crate::GroupBuilder::domain). Who holds the guards of several sees them at the same point between the
    /// messages.
    pub fn read(&self) -> ReadGuard<'_, S> {
        self.shared.state.read()
    }

    /// What `look` makes of the state now. The same holds in it as for one who holds the guard of [`Replica::read`].
    ///
    /// ```no_run
    /// # use phalanx::{DecodeError, Message, Snapshot, State};
    /// # struct Prices(std::collections::BTreeMap<String, u64>);
    /// # impl State for Prices {
    /// #     fn apply(&mut self, _: &Message) {}
    /// #     fn snapshot(&self) -> Snapshot { Snapshot::encode(&self.0) }
    /// #     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> { snapshot.decode().map(Self) }
    /// # }
    /// # fn example(prices: &phalanx::Replica<Prices>, group: &phalanx::Group) -> Result<(), phalanx::SendError> {
    /// let dearest = prices.read_with(|prices| prices.0.values().max().copied());
    /// // The state is read no more, so this may wait.
    /// group.send_value(&("limit", dearest)).blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_with<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.read())
    }

    /// Whether the state holds all that was delivered here, in a view of the group. While this process is excluded,
    /// joins, or takes the state of another member, and after it left, it is an old one. It may be ahead of what was read
    /// from the inbox. A process that is cut off does not know it yet:
    /// see [`Cell::standing`](crate::Cell::standing).
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shared.is_current.load(Ordering::Acquire)
    }

    /// The number of messages that were applied to it since it was made.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.shared.applied.load(Ordering::Acquire)
    }

    /// How far the transfer of another member's state has come; `None` while there is none. It is that of the group's
    /// whole state, with all its domains. After the last byte follow the messages that belong to it.
    #[must_use]
    pub fn progress(&self) -> Option<Transfer> {
        let bytes = self.shared.bytes.load(Ordering::Acquire);
        // Read one after the other, the two may be of two transfers.
        (bytes > 0).then(|| Transfer { taken: self.shared.taken.load(Ordering::Acquire).min(bytes), bytes })
    }

    /// Whether no reader gets in.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.shared.state.is_locked()
    }

    /// The protocol thread's side of it. `initial`: what it begins with if the donor has no such domain.
    pub(crate) fn for_group(&self, initial: Option<fn() -> S>) -> Box<dyn Domain> {
        Box::new(Building { shared: Arc::clone(&self.shared), initial, aside: Aside::Nothing, table: None })
    }

    /// The same of a table of clients, which begins with `initial` where it is new.
    pub(crate) fn for_clients(&self, initial: fn() -> S, table: TableOf<S>) -> Box<dyn Domain> {
        let (shared, initial) = (Arc::clone(&self.shared), Some(initial));
        Box::new(Building { shared, initial, aside: Aside::Nothing, table: Some(table) })
    }

    /// Messages may be submitted to it.
    pub(crate) fn set_execute(&self, execute: ExecuteOf<S>) {
        self.shared.execute.get_or_init(|| execute);
    }

    /// It answers asks of its group.
    pub(crate) fn set_answer(&self, answer: AnswerOf<S>) {
        self.shared.answer.get_or_init(|| answer);
    }

    /// See [`Domain::address`].
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

/// The protocol thread's side of a group's state.
pub(crate) trait Replicating: Send {
    /// Applies messages. Behind one lock, so that a run of messages costs it once.
    fn apply(&mut self, messages: &[Message]);
    /// Applies an ask, and returns the state's answer. `None`: it has none.
    fn apply_asked(&mut self, asked: &Message) -> Option<Vec<u8>>;
    fn view(&mut self, view: &View);
    /// A view that belongs to the state on its way, as messages before its end do.
    fn view_replayed(&mut self, view: &View);
    /// The present state. `notice` is told if it cannot be sent.
    fn snapshot(&mut self, notice: Notice) -> Box<dyn phalanx_core::Snapshot>;
    /// Another member's state begins. `listed`: the domains that the group lists in the view in which it was frozen.
    fn begin(&mut self, bytes: u64, listed: Option<&Arc<[core::Domain]>>);
    /// A piece of it. An error says that the state makes no sense.
    fn restore(&mut self, chunk: &[u8]) -> Result<(), DecodeError>;
    /// It is complete.
    fn complete(&mut self) -> Result<(), DecodeError>;
    /// The present state goes on, whatever was on its way.
    fn keep(&mut self);
    /// Whether the state is the group's: false if the latest one that was taken made no sense.
    fn is_sound(&self) -> bool;
    fn set_current(&mut self, is_current: bool);
}

/// The protocol thread's side of one replica, which is a domain of a group's state.
pub(crate) trait Domain: Send {
    /// Which replica it is: where that is in memory.
    fn address(&self) -> usize;
    /// Whether it is a table of clients.
    fn is_table(&self) -> bool;
    /// The answer to an ask that it has applied, if it answers asks and has one.
    fn answer(&self, asked: &Message) -> Option<Vec<u8>>;
    /// See [`State::VERSION`].
    fn version(&self) -> u32;
    fn snapshot(&self) -> Snapshot;
    /// Another member's state begins. `is_whole`: its pieces are the parts of one.
    fn begin(&mut self, is_whole: bool);
    /// Bytes of a piece of it. `is_end`: they are its last ones.
    fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError>;
    /// It is here.
    fn end(&mut self) -> Result<(), DecodeError>;
    /// A state without a frame is here.
    fn end_unframed(&mut self) -> Result<(), DecodeError>;
    /// It begins aside as it does where nobody has it yet. False: it does not, because this process needs a donor's.
    fn begin_anew(&mut self) -> bool;
    /// Whether a donor may lack it.
    fn is_optional(&self) -> bool;
    /// The state that came and is not shown yet.
    fn aside(&mut self) -> Option<Box<dyn Locked + '_>>;
    /// Drops what is aside.
    fn clear(&mut self);
    /// Counts messages as applied.
    fn count(&self, messages: u64);
    fn set_current(&self, is_current: bool);
    /// `bytes` is 0 if nothing is under way.
    fn set_progress(&self, taken: u64, bytes: u64);
    /// Takes the lock of the readers' state. It waits for readers if it is to say when they hold it up (`held_up`); else it
    /// gives `None` if there is one.
    fn lock(&mut self, held_up: Option<&dyn Fn()>) -> Option<Box<dyn Locked + '_>>;
    /// The same, waiting, without an allocation.
    fn with_lock(&mut self, held_up: &dyn Fn(), act: &mut dyn FnMut(&mut dyn Locked));
}

/// A domain that no reader sees now.
pub(crate) trait Locked {
    fn apply(&mut self, messages: &[Message]);
    fn view(&mut self, view: &View);
    /// Takes a command of a client, if this is a table of clients. `Some`: the state is to execute it.
    fn take<'m>(&mut self, message: &'m Message) -> Option<Execution<'m>>;
    /// Executes a submitted message, if messages may be submitted to it.
    fn execute(&mut self, message: &Message) -> Option<Vec<u8>>;
    /// The state executed what this table gave it, which came as that message.
    fn executed(&mut self, message: &Message, execution: Execution<'_>, result: Vec<u8>);
    /// Puts the state that came in the place of the present one, which is aside then.
    fn swap(&mut self);
}

/// The state of another member is built aside.
struct Building<S> {
    shared: Arc<Copy<S>>,
    initial: Option<fn() -> S>,
    aside: Aside<S>,
    table: Option<TableOf<S>>,
}

enum Aside<S> {
    Nothing,
    /// Bytes, and where each piece ends, for [`State::restore`].
    Bytes {
        bytes: Vec<u8>,
        ends: Vec<usize>,
        is_whole: bool,
    },
    /// A state that takes pieces, and what is here of the next one.
    Pieces {
        state: S,
        piece: Vec<u8>,
    },
    Built(S),
}

impl<S: State> Domain for Building<S> {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn is_table(&self) -> bool {
        self.table.is_some()
    }

    fn answer(&self, asked: &Message) -> Option<Vec<u8>> {
        let answer = self.shared.answer.get()?;
        answer(&self.shared.state.look(), asked)
    }

    fn version(&self) -> u32 {
        S::VERSION
    }

    fn snapshot(&self) -> Snapshot {
        self.shared.state.look().snapshot()
    }

    fn begin(&mut self, is_whole: bool) {
        self.aside = match S::restore_begin().filter(|_| !is_whole) {
            Some(state) => Aside::Pieces { state, piece: Vec::new() },
            None => Aside::Bytes { bytes: Vec::new(), ends: Vec::new(), is_whole },
        };
    }

    fn bytes(&mut self, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        match &mut self.aside {
            Aside::Pieces { state, piece } if is_end && piece.is_empty() => state.restore_piece(Piece(part))?,
            Aside::Pieces { state, piece } => {
                piece.extend_from_slice(part);
                if is_end {
                    state.restore_piece(Piece(piece))?;
                    // One long piece among short ones holds no memory.
                    *piece = Vec::new();
                }
            }
            Aside::Bytes { bytes, ends, is_whole } => {
                bytes.extend_from_slice(part);
                if is_end && !*is_whole {
                    ends.push(bytes.len());
                }
            }
            Aside::Nothing | Aside::Built(_) => debug_assert!(false, "a piece belongs to a state that has begun"),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        let built = match std::mem::replace(&mut self.aside, Aside::Nothing) {
            Aside::Bytes { bytes, is_whole: true, .. } => S::restore(Snapshot::new(bytes))?,
            Aside::Bytes { bytes, ends, is_whole: false } => S::restore(Snapshot::taken(bytes, ends))?,
            Aside::Pieces { state, .. } | Aside::Built(state) => state,
            Aside::Nothing => return Ok(()),
        };
        self.aside = Aside::Built(built);
        Ok(())
    }

    fn end_unframed(&mut self) -> Result<(), DecodeError> {
        if let Aside::Bytes { bytes, .. } = std::mem::replace(&mut self.aside, Aside::Nothing) {
            self.aside = Aside::Built(S::restore_unframed(&bytes)?);
        }
        Ok(())
    }

    fn begin_anew(&mut self) -> bool {
        self.aside = self.initial.map_or(Aside::Nothing, |initial| Aside::Built(initial()));
        self.is_optional()
    }

    fn is_optional(&self) -> bool {
        self.initial.is_some()
    }

    fn aside(&mut self) -> Option<Box<dyn Locked + '_>> {
        let execute = self.shared.execute.get().copied();
        match &mut self.aside {
            Aside::Built(state) => Some(Box::new(Apart { state, execute, table: self.table.as_ref() })),
            _ => None,
        }
    }

    fn clear(&mut self) {
        self.aside = Aside::Nothing;
    }

    fn count(&self, messages: u64) {
        self.shared.applied.fetch_add(messages, Ordering::AcqRel);
    }

    fn set_current(&self, is_current: bool) {
        self.shared.is_current.store(is_current, Ordering::Release);
    }

    fn set_progress(&self, taken: u64, bytes: u64) {
        self.shared.taken.store(taken, Ordering::Release);
        self.shared.bytes.store(bytes, Ordering::Release);
    }

    fn lock(&mut self, held_up: Option<&dyn Fn()>) -> Option<Box<dyn Locked + '_>> {
        let state = match held_up {
            Some(held_up) => self.shared.state.write(held_up),
            None => self.shared.state.try_write()?,
        };
        let execute = self.shared.execute.get().copied();
        Some(Box::new(Holding { state, aside: &mut self.aside, execute, table: self.table.as_ref() }))
    }

    fn with_lock(&mut self, held_up: &dyn Fn(), act: &mut dyn FnMut(&mut dyn Locked)) {
        let state = self.shared.state.write(held_up);
        let execute = self.shared.execute.get().copied();
        act(&mut Holding { state, aside: &mut self.aside, execute, table: self.table.as_ref() });
    }
}

/// The state that is shown.
struct Holding<'a, S> {
    state: RwLockWriteGuard<'a, S>,
    aside: &'a mut Aside<S>,
    execute: Option<ExecuteOf<S>>,
    table: Option<&'a TableOf<S>>,
}

impl<S: State> Locked for Holding<'_, S> {
    fn apply(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.state.apply(message));
    }

    fn view(&mut self, view: &View) {
        self.state.view(view);
    }

    fn take<'m>(&mut self, message: &'m Message) -> Option<Execution<'m>> {
        let table = self.table?;
        (table.take)(&mut self.state, message).unwrap_or_else(|told| {
            table.submits.applied(&told);
            None
        })
    }

    fn execute(&mut self, message: &Message) -> Option<Vec<u8>> {
        self.execute.map(|execute| execute(&mut *self.state, message))
    }

    fn executed(&mut self, message: &Message, execution: Execution<'_>, result: Vec<u8>) {
        if let Some(table) = self.table {
            table.submits.record(&execution, (message.view, message.position), &result);
            table.submits.applied(&(table.executed)(&mut self.state, execution, result));
        }
    }

    fn swap(&mut self) {
        if let Aside::Built(state) = self.aside {
            std::mem::swap(&mut *self.state, state);
        }
    }
}

/// A state that came and is not shown yet: what it executes is told to nobody.
struct Apart<'a, S> {
    state: &'a mut S,
    execute: Option<ExecuteOf<S>>,
    table: Option<&'a TableOf<S>>,
}

impl<S: State> Locked for Apart<'_, S> {
    fn apply(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.state.apply(message));
    }

    fn view(&mut self, view: &View) {
        self.state.view(view);
    }

    fn take<'m>(&mut self, message: &'m Message) -> Option<Execution<'m>> {
        (self.table?.take)(self.state, message).unwrap_or_default()
    }

    fn execute(&mut self, message: &Message) -> Option<Vec<u8>> {
        self.execute.map(|execute| execute(self.state, message))
    }

    fn executed(&mut self, message: &Message, execution: Execution<'_>, result: Vec<u8>) {
        if let Some(table) = self.table {
            table.submits.record(&execution, (message.view, message.position), &result);
            (table.executed)(self.state, execution, result);
        }
    }

    fn swap(&mut self) {}
}
