//! Where the parts of a state stand in their group, and which messages are for each.

use phalanx_core::DomainIndex;

use crate::message::Message;
use crate::replica::Locked;

/// Where a part stands in its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// It is a tool's, or the library's: only messages that name it are for it.
    pub(super) is_tool: bool,
    /// It takes part: the group lists it, or keeps no list.
    pub(super) is_in: bool,
    /// Its place in the group's list.
    pub(super) index: Option<DomainIndex>,
}

impl Place {
    /// Whether the message is for it, if it takes part.
    pub(super) fn takes(&self, message: &Message) -> bool {
        match message.domain {
            None => !self.is_tool,
            named => self.index == named,
        }
    }

    /// The messages that are for it, in runs.
    pub(super) fn runs(self, messages: &[Message]) -> impl Iterator<Item = &[Message]> {
        let runs = messages.chunk_by(move |one, other| self.takes(one) == self.takes(other));
        runs.filter(move |run| self.takes(&run[0]))
    }

    pub(super) fn count(self, messages: &[Message]) -> u64 {
        messages.iter().filter(|message| self.takes(message)).count() as u64
    }
}

/// A part whose state is changed now.
pub(super) struct Changing<'a> {
    /// Which part it is.
    pub(super) at: usize,
    pub(super) place: Place,
    pub(super) serves: Option<usize>,
    pub(super) state: Box<dyn Locked + 'a>,
}

impl Changing<'_> {
    /// Whether it is a table of clients that takes part.
    pub(super) fn is_table(&self) -> bool {
        self.place.is_in && self.serves.is_some()
    }
}
