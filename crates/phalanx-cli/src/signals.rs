//! Signals that end a command which only looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, While};

/// What came to end the command.
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let came = Arc::new(AtomicUsize::new(0));
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            signal_hook::flag::register_usize(signal, Arc::clone(&came), number).when("cannot watch for signals")?;
        }
        Ok(Self(came))
    }

    /// The exit code that a signal asks for.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            2 => Some(Exit::Interrupted),
            _ => Some(Exit::Good),
        }
    }
}
