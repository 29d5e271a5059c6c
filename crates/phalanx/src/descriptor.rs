//! The readable descriptor of an inbox, for programs that wait by `poll` or `epoll`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::DescriptorError;
use crate::readiness::Readiness;

/// The side of the queue: makes the descriptor readable and unreadable, if there is one.
#[derive(Debug)]
pub(crate) struct Descriptor {
    readiness: Readiness,
    /// The inbox owns it. Once the inbox is dropped, there is nothing to write to.
    event: OnceLock<Weak<OwnedFd>>,
}

impl Descriptor {
    pub(crate) fn new() -> Self {
        Self { readiness: Readiness::new(), event: OnceLock::new() }
    }

    /// From now on `event` is readable or not. It is readable at first; the caller lowers that if nothing is there.
    pub(crate) fn attach(&self, event: &Arc<OwnedFd>) {
        if self.event.set(Arc::downgrade(event)).is_ok() {
            self.readiness.begin();
        }
    }

    /// Something was published: the descriptor is readable. One load if there is none.
    #[inline]
    pub(crate) fn raise(&self) {
        if self.readiness.raise()
            && let Some(event) = self.event()
        {
            // The only failure of a write of 1 is a full counter, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&event, &1_u64.to_ne_bytes());
        }
    }

    /// Nothing is left: the descriptor is unreadable. True: look again, and raise it if there is something.
    #[inline]
    pub(crate) fn lower(&self) -> bool {
        self.readiness.lower(|| {
            let read = |event: Arc<OwnedFd>| rustix::io::read(&event, &mut [0; 8]);
            self.event().is_some_and(|event| read(event).is_ok())
        })
    }

    fn event(&self) -> Option<Arc<OwnedFd>> {
        self.event.get()?.upgrade()
    }
}

/// The side of the reader: owns the descriptor, once it is made.
#[derive(Debug, Default)]
pub(crate) struct Event(OnceLock<Arc<OwnedFd>>);

impl Event {
    /// The descriptor. If there is none yet, it is made readable, and passed to `attach`.
    pub(crate) fn get_or_make(&self, attach: impl FnOnce(&Arc<OwnedFd>)) -> Result<BorrowedFd<'_>, DescriptorError> {
        if let Some(event) = self.0.get() {
            return Ok(event.as_fd());
        }
        let made = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let made = Arc::new(made.map_err(|error| DescriptorError::Exhausted(error.to_string()))?);
        let event = self.0.get_or_init(|| {
            attach(&made);
            made
        });
        Ok(event.as_fd())
    }
}
