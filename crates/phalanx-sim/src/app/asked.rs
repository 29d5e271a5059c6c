//! The messages that an application asked for in one membership, and what became of each: exactly one outcome, whether or
//! not anybody awaits it.

use std::collections::BTreeSet;

/// The messages that the application sent in the present life, what became of them, and the receipts that it still awaits.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The number of the life.
    pub(super) life: u64,
    messages: u64,
    bound: u64,
    unsent: u64,
    /// The number of receipts requested so far.
    receipts: u64,
    open: BTreeSet<u64>,
}

impl Asked {
    /// The application sends a message. Returns the number of the message's receipt, if it awaits one.
    pub(super) fn ask(&mut self, awaits: bool) -> Option<u64> {
        self.messages += 1;
        awaits.then(|| self.receipt())
    }

    /// The application requests a receipt for all its messages so far. Returns the receipt's number.
    pub(super) fn receipt(&mut self) -> u64 {
        self.receipts += 1;
        self.open.insert(self.receipts);
        self.receipts
    }

    /// A message is bound to a view.
    pub(super) fn bind(&mut self) {
        self.bound += 1;
    }

    /// Messages are told not to be sent.
    pub(super) fn refuse(&mut self, messages: u64) {
        self.unsent += messages;
    }

    /// The application gets a receipt. `number`: the last message that the receipt covers, if that message is bound to a
    /// view. Returns what is wrong.
    pub(super) fn answer(&mut self, receipt: u64, number: Option<u64>) -> Option<String> {
        if !self.open.remove(&receipt) {
            return Some(format!("receipt {receipt} is given twice"));
        }
        let early = number.filter(|number| *number > self.bound)?;
        Some(format!("receipt {receipt} says that message {early} is bound, and {} are", self.bound))
    }

    /// A life ends, and its application is told of `not_sent` messages that nobody has. Returns what is wrong.
    pub(super) fn end_life(&mut self, not_sent: u64) -> Option<String> {
        let Self { messages, bound, unsent, open, .. } = self;
        let decided = *bound + *unsent + not_sent;
        let text = || {
            format!(
                "{messages} messages were asked for: {bound} bound, {unsent} and {not_sent} not sent, receipts {open:?} open"
            )
        };
        let wrong = (decided != *messages || !open.is_empty()).then(text);
        *self = Self { life: self.life + 1, receipts: self.receipts, ..Self::default() };
        wrong
    }
}
