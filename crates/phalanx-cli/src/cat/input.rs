//! Reads standard input on a thread of its own, and multicasts texts as fast as credit allows.
//!
//! Each text waits until the one before is bound to a view. So what was not sent when an incarnation ends is the last text
//! alone, and it is sent in the next one, in its place. The wait is short beside the 256 KiB that a text may have.

use std::io;
use std::sync::mpsc::Receiver;

use phalanx::{Bytes, Group, Guarantee, Order, SendError};

use super::text::{Splitter, Text};
use crate::notice::say;

/// Messages from the printing thread to the reading thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// The expected members are there: begin to read.
    Begin,
    /// This process came back after an exclusion: if the input has ended, announce that again.
    Again,
}

/// Parameters of the sending thread.
pub(super) struct Sending {
    pub(super) group: Group,
    pub(super) order: Order,
    pub(super) guarantee: Guarantee,
    pub(super) name: String,
    pub(super) start: u64,
}

/// Starts the thread; it waits for [`Go::Begin`] before it reads.
pub(super) fn begin(sending: Sending, told: Receiver<Go>) -> io::Result<()> {
    let work = move || {
        if let Err(error) = sending.run(&told) {
            say(format_args!("standard input: {error}"));
        }
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(work).map(drop)
}

impl Sending {
    fn run(&self, told: &Receiver<Go>) -> io::Result<()> {
        if !told.iter().any(|go| go == Go::Begin) {
            return Ok(());
        }
        let mut stdin = io::stdin().lock();
        let mut splitter = Splitter::new();
        let mut number = 0;
        let mut said_split = false;
        let outcome = loop {
            let cutting = match splitter.next(&mut stdin) {
                Ok(Some(cutting)) => cutting,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if cutting.continues && !said_split {
                said_split = true;
                say("a line longer than 16 MiB goes in pieces; lines of others may come between them");
            }
            number += 1;
            let text = Text { bytes: cutting.bytes, continues: cutting.continues, ends: false, ..self.empty(number) };
            if self.send(&text).is_err() {
                return Ok(());
            }
        };
        number += 1;
        loop {
            let end = Text { ends: true, ..self.empty(number) };
            if self.send(&end).is_err() || !told.iter().any(|go| go == Go::Again) {
                return outcome;
            }
        }
    }

    fn empty(&self, number: u64) -> Text<'_> {
        Text { from: &self.name, start: self.start, number, continues: false, ends: false, bytes: b"" }
    }

    /// Returns when the text is bound to a view.
    fn send(&self, text: &Text<'_>) -> Result<(), SendError> {
        let mut payload = Vec::with_capacity(text.encoded_bytes());
        text.encode(&mut payload);
        let payload = Bytes::from(payload);
        loop {
            let message = self.group.send_bytes(payload.clone()).order(self.order).guarantee(self.guarantee);
            match message.blocking() {
                // Nobody has it, and this process comes back or is over: the next call tells.
                Err(SendError::NotSent) => {}
                outcome => return outcome.map(drop),
            }
        }
    }
}
