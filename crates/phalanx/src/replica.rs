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

    /// A view of the group was installed, at the same point between the messages at all its members. At a member that
    /// joins, the first is called when the state is complete; earlier views are not repeated.
    fn view(&mut self, _view: &View) {}

    /// The present state as bytes, for a member that joins. It is sent while later messages are applied here. The process
    /// answers no other process while it is encoded: a large state that is kept as bytes, in blocks that never change
    /// once written, needs no encoding.
    fn snapshot(&self) -> Snapshot;

    /// The state of another member. The present state is replaced when this one is complete, so that readers never see
    /// a part of it.
    ///
    /// # Errors
    /// [`DecodeError`] if it makes no sense. This process then leaves the group.
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError>;
}

/// A state as bytes, frozen when it was taken.
#[derive(Clone, Debug)]
pub struct Snapshot(Bytes);

impl Snapshot {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
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

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The value that [`Snapshot::encode`] encoded.
    ///
    /// # Errors
    /// [`DecodeError`] if it is another one.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, DecodeError> {
        postcard::from_bytes(&self.into_bytes()).map_err(DecodeError)
    }
}

/// A snapshot as the core reads it.
struct Frozen(Bytes);

impl phalanx_core::Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let end = start.saturating_add(max_bytes).min(self.0.len());
        out.extend_from_slice(&self.0[start..end]);
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
        Box::new(Frozen(self.shared.state.read().unwrap_or_else(PoisonError::into_inner).snapshot().0))
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
