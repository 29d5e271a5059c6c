//! Reads standard input on a thread of its own, and multicasts texts as fast as credit allows.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use phalanx_runtime::core::{Order, Stability};
use phalanx_runtime::{CallError, Group};

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
#[derive(Clone)]
pub(super) struct Sending {
    pub(super) group: Group,
    pub(super) order: Order,
    pub(super) stability: Stability,
    pub(super) name: String,
    pub(super) start: u64,
}

/// Starts the thread; it waits for [`Go::Begin`] before it reads.
pub(super) fn begin(sending: Sending) -> io::Result<Sender<Go>> {
    let (tell, told) = channel();
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        if let Err(error) = sending.run(&told) {
            say(format_args!("standard input: {error}"));
        }
    })?;
    Ok(tell)
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

    fn send(&self, text: &Text<'_>) -> Result<(), CallError> {
        let mut payload = Vec::with_capacity(text.bytes.len() + text.from.len() + HEAD_BYTES);
        text.encode(&mut payload);
        self.group.cast(self.order, self.stability, &payload)
    }
}

/// Upper bound of a text's head without the name.
const HEAD_BYTES: usize = 32;
