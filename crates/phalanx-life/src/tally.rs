//! What became of this process's messages in a group, counted.

use phalanx_core::{Sequence, ViewNumber};

/// Messages of one membership in one incarnation, over all of its views.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Accepted by the core.
    pub(crate) accepted: u64,
    /// Bound to a view.
    pub(crate) sent: u64,
    /// Held by every member.
    pub(crate) stable: u64,
    /// Delivered here.
    pub(crate) delivered: u64,
    /// Those that were told as stable, and as delivered.
    pub(crate) told_stable: u64,
    pub(crate) told_delivered: u64,
    /// The view of the latest message bound to one, and how many were bound in earlier views.
    base: (ViewNumber, u64),
    /// The same of the view before: what ended with it may be reported when messages are bound to the next one already.
    before: (ViewNumber, u64),
}

impl Tally {
    /// A message was bound to a view.
    #[inline]
    pub(crate) fn bind(&mut self, view: ViewNumber, seq: Sequence) {
        if self.base.0 != view {
            self.before = self.base;
            self.base = (view, self.sent);
        }
        self.sent += 1;
        debug_assert_eq!(self.base.1 + seq.0, self.sent, "messages are bound in the order in which they were accepted");
        debug_assert!(self.sent <= self.accepted, "a message was bound that nobody sent");
    }

    /// Every member has the messages of a view up to `seq`.
    pub(crate) fn stabilize(&mut self, view: ViewNumber, seq: Sequence) {
        let known = [self.base, self.before].into_iter().find(|(known, _)| *known == view);
        if let Some((_, earlier)) = known {
            let stable = earlier + seq.0;
            debug_assert!(stable <= self.sent, "a receipt for a message that was not sent");
            self.stable = self.stable.max(stable);
        }
    }

    /// A message of this process was delivered here.
    #[inline]
    pub(crate) fn deliver(&mut self) {
        self.delivered += 1;
        debug_assert!(self.delivered <= self.sent, "a message of ours is delivered that was not sent");
    }

    /// Whether something is to be told.
    pub(crate) fn has_news(&self) -> bool {
        self.stable > self.told_stable || self.delivered > self.told_delivered
    }

    /// The view of the latest message that was bound, and the message's number in it.
    pub(crate) fn latest(&self) -> (ViewNumber, Sequence) {
        (self.base.0, Sequence(self.sent - self.base.1))
    }
}
