//! A group's state: each member holds a copy, and changes it by the group's messages alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::message::Message;
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
    /// Applies a message of the group.
    fn apply(&mut self, message: &Message);

    /// A view of the group was installed, at the same point between the messages at all its members.
    fn view(&mut self, _view: &View) {}

    /// The present state, for a member that joins. It is sent while later messages are applied here, so it must not
    /// change with the state. To make it cheap for a large state, keep the state in a persistent map, or behind an
    /// [`Arc`] that [`State::apply`] copies on write, and encode a clone later ([`Snapshot::later`]).
    fn snapshot(&self) -> Snapshot;

    /// The state of another member. The present state is replaced when this one is complete, so that readers never see
    /// a part of it.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense. This process then leaves the group.
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError>;
}

type Encode = Box<dyn FnOnce() -> Bytes + Send>;

/// A state as bytes, frozen when it was taken.
pub struct Snapshot(Form);

enum Form {
    Bytes(Bytes),
    Later(Option<Encode>),
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Snapshot {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(Form::Bytes(bytes.into()))
    }

    /// A value, encoded now.
    ///
    /// # Panics
    /// If the value cannot be encoded, which a derived `Serialize` of plain data never is.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Self {
        Self::new(postcard::to_allocvec(value).expect("a state is plain data"))
    }

    /// A value that is encoded when its first byte is sent. Pass a clone that later changes of the state do not touch.
    ///
    /// # Panics
    /// See [`Snapshot::encode`].
    #[must_use]
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    pub fn later<T: Serialize + Send + 'static>(value: T) -> Self {
        let encode = move || Bytes::from(postcard::to_allocvec(&value).expect("a state is plain data"));
        Self(Form::Later(Some(Box::new(encode))))
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        self.bytes().clone()
    }

    /// The value that [`Snapshot::encode`] encoded.
    ///
    /// # Errors
    /// [`DecodeError`] if it is another one.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.into_bytes()).map_err(DecodeError)
    }

    fn bytes(&mut self) -> &Bytes {
        if let Form::Later(encode) = &mut self.0 {
            let bytes = encode.take().map_or_else(Bytes::new, |encode| encode());
            self.0 = Form::Bytes(bytes);
        }
        match &self.0 {
            Form::Bytes(bytes) => bytes,
            Form::Later(_) => unreachable!("it was encoded above"),
        }
    }
}

/// A snapshot as the core reads it.
pub(crate) struct Frozen {
    snapshot: Snapshot,
    len: u64,
}

impl Frozen {
    fn new(mut snapshot: Snapshot) -> Self {
        // The length is announced first, so that the other side can allocate and show progress.
        let len = snapshot.bytes().len() as u64;
        Self { snapshot, len }
    }
}

impl phalanx_core::Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let bytes = self.snapshot.bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(max_bytes).min(bytes.len());
        out.extend_from_slice(&bytes[start..end]);
    }
}

/// This process's copy of a group's state, for readers in any thread. Cheap to clone.
///
/// A process that comes back after an exclusion, or takes the state of another member, shows the state it had until the
/// new one is complete; [`Replica::is_current`] tells which it is.
#[derive(Debug, Default)]
pub struct Replica<S> {
    shared: Arc<Copy<S>>,
}

impl<S> Clone for Replica<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug, Default)]
struct Copy<S> {
    state: RwLock<S>,
    is_current: AtomicBool,
    /// The number of messages applied.
    applied: AtomicU64,
}

impl<S: State> Replica<S> {
    /// A copy that begins with `state`, if this process founds the group.
    #[must_use]
    pub fn new(state: S) -> Self {
        let (is_current, applied) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { shared: Arc::new(Copy { state: RwLock::new(state), is_current, applied }) }
    }

    /// The state now. The protocol thread waits while the guard lives, so keep that short.
    pub fn read(&self) -> RwLockReadGuard<'_, S> {
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state holds all that was delivered here, in a view of the group. While this process is excluded,
    /// joins, or takes the state of another member, it is an old one. A process that is cut off does not know it yet:
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

    pub(crate) fn for_group(&self) -> Box<dyn Replicating> {
        Box::new(Building { shared: Arc::clone(&self.shared), is_taking: false, aside: None, incoming: Vec::new() })
    }
}

/// The protocol thread's side of a replica.
pub(crate) trait Replicating: Send {
    /// Applies messages. Behind one lock, so that a run of messages costs it once.
    fn apply(&mut self, messages: &[Message]);
    fn view(&mut self, view: &View);
    fn snapshot(&mut self) -> Box<dyn phalanx_core::Snapshot>;
    /// Another member's state begins.
    fn begin(&mut self, bytes: u64);
    /// A piece of it.
    fn restore(&mut self, chunk: &[u8]);
    /// It is complete.
    fn complete(&mut self) -> Result<(), DecodeError>;
    /// The present state goes on, whatever was on its way.
    fn keep(&mut self);
    fn set_current(&mut self, is_current: bool);
}

/// The state of another member is built aside.
struct Building<S> {
    shared: Arc<Copy<S>>,
    /// The state of another member is on its way.
    is_taking: bool,
    aside: Option<Result<S, DecodeError>>,
    incoming: Vec<u8>,
}

impl<S: State> Building<S> {
    /// The state under construction, once all of its bytes came.
    fn built(&mut self) -> &mut Result<S, DecodeError> {
        let incoming = &mut self.incoming;
        self.aside.get_or_insert_with(|| S::restore(Snapshot::new(std::mem::take(incoming))))
    }
}

impl<S: State> Replicating for Building<S> {
    fn apply(&mut self, messages: &[Message]) {
        if self.is_taking {
            if let Ok(state) = self.built() {
                messages.iter().for_each(|message| state.apply(message));
            }
        } else {
            let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
            messages.iter().for_each(|message| state.apply(message));
        }
        self.shared.applied.fetch_add(messages.len() as u64, Ordering::AcqRel);
    }

    fn view(&mut self, view: &View) {
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner).view(view);
    }

    fn snapshot(&mut self) -> Box<dyn phalanx_core::Snapshot> {
        Box::new(Frozen::new(self.shared.state.read().unwrap_or_else(PoisonError::into_inner).snapshot()))
    }

    fn begin(&mut self, bytes: u64) {
        self.shared.is_current.store(false, Ordering::Release);
        self.is_taking = true;
        self.aside = None;
        // Not more than a piece at once: the number comes from another process.
        self.incoming = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(1 << 20));
    }

    fn restore(&mut self, chunk: &[u8]) {
        self.incoming.extend_from_slice(chunk);
    }

    fn complete(&mut self) -> Result<(), DecodeError> {
        self.built();
        self.is_taking = false;
        if let Some(state) = self.aside.take() {
            *self.shared.state.write().unwrap_or_else(PoisonError::into_inner) = state?;
        }
        Ok(())
    }

    fn keep(&mut self) {
        (self.is_taking, self.aside) = (false, None);
    }

    fn set_current(&mut self, is_current: bool) {
        self.shared.is_current.store(is_current, Ordering::Release);
    }
}
