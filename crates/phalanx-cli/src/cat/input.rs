//! Reads standard input on a thread of its own, and multicasts texts as fast as credit allows.
//!
//! Each text waits until the one before is bound to a view. So what was not sent when an incarnation ends is the last text
//! alone, and it is sent in the next one, in its place. The wait is short beside the 256 KiB that a text may have. A text to
//! one member waits until the one before has an outcome.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// The only member that gets the texts.
    pub(super) to: Option<String>,
    /// Counts the texts that are not known to have come to it.
    pub(super) undelivered: Arc<AtomicU64>,
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
            let sent = match &self.to {
                Some(to) => self.send_to(to, &text),
                None => self.send(&text),
            };
            if sent.is_err() {
                return Ok(());
            }
        };
        // Multicasts are numbered without gaps.
        number = if self.to.is_some() { 1 } else { number + 1 };
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

    /// Returns when the text has an outcome. One that does not come to its receiver is said, and counted.
    fn send_to(&self, to: &str, text: &Text<'_>) -> Result<(), SendError> {
        let mut payload = Vec::with_capacity(text.encoded_bytes());
        text.encode(&mut payload);
        let payload = Bytes::from(payload);
        let why = loop {
            let view = self.group.view();
            let receiver = view.as_ref().and_then(|view| view.members().find(|member| member.name == to));
            let Some(receiver) = receiver else { break format!("{to} is not in group {}", self.group.name()) };
            match self.group.send_bytes_to(receiver.id, payload.clone()).blocking() {
                Ok(sent) => match sent.blocking_delivered() {
                    Ok(()) => return Ok(()),
                    Err(why) => break why.to_string(),
                },
                // Nobody has it, and this process comes back or is over: the next call tells.
                Err(SendError::NotSent) => {}
                Err(over @ (SendError::Over | SendError::NotMember)) => return Err(over),
                Err(other) => break other.to_string(),
            }
        };
        self.undelivered.fetch_add(1, Ordering::Relaxed);
        say(format_args!("a piece of the input did not come to {to}: {why}"));
        Ok(())
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
