//! What a process believes of its place in the cell, beside everything that waits in inboxes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx_core::Membership;
use phalanx_runtime::belief::{self, Belief, Believed};

use crate::id::MemberId;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// It looks for its cell.
    Searching,
    /// It is in a view and hears a quorum of it: more than half of its members, or half with the oldest.
    Primary,
    /// It is in a view and hears no quorum of it: the others may go on without it. Nothing uniform is sent.
    NonPrimary,
    /// A decided view does not hold it. This incarnation is over.
    Excluded,
    /// It left, or does not come back.
    Over,
}

/// What a process believed at its last poll, and how long ago that was.
///
/// It is no lease: a process that was cut off believes to be primary until it notices, and the others may have gone on
/// meanwhile. `docs/fencing.md` says what may rely on it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Where it stands.
    pub place: Place,
    /// Its incarnation.
    pub me: MemberId,
    /// The number of its cell view; 0 before the first.
    pub view: u64,
    /// The generation of the cell: it grows each time the cell is founded again. With the view it is a fencing token.
    pub generation: u16,
    /// The time since its last poll.
    pub age: Duration,
    believed: Believed,
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, me, view, generation, age, .. } = self;
        write!(f, "Standing {{ {place:?}, me: {me}, generation: {generation}, view: {view}, age: {age:?} }}")
    }
}

impl Standing {
    pub(crate) fn of(believed: Believed) -> Self {
        let place = match believed.membership {
            Membership::Searching => Place::Searching,
            Membership::Primary => Place::Primary,
            Membership::NonPrimary => Place::NonPrimary,
            Membership::Excluded => Place::Excluded,
            Membership::Over => Place::Over,
        };
        Self {
            place,
            me: MemberId::of(believed.incarnation),
            view: believed.view.0,
            generation: believed.instance.generation(),
            age: believed.age,
            believed,
        }
    }

    /// Whether it believed to be in the primary partition, at most `age_max` ago. An idle process polls about once a
    /// heartbeat (`timing.heartbeat`, 100 ms), so some heartbeats are a fair bound.
    #[must_use]
    pub fn is_primary(&self, age_max: Duration) -> bool {
        self.believed.is_primary(age_max)
    }
}

/// A change of what a process believes; see [`Cell::changed`](crate::Cell::changed).
#[must_use = "it waits when it is awaited"]
#[derive(Debug)]
pub struct Changed {
    belief: Belief,
    inner: belief::Changed,
}

impl Changed {
    pub(crate) fn new(belief: &Belief, seen: &Standing) -> Self {
        Self { belief: belief.clone(), inner: belief.changed(&seen.believed) }
    }
}

impl Future for Changed {
    type Output = Standing;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Standing> {
        // An error says that nothing changes any more: the process is over.
        Pin::new(&mut self.inner)
            .poll(context)
            .map(|news| Standing::of(news.unwrap_or_else(|_over| self.belief.look())))
    }
}
