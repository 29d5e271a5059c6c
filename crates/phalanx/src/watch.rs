//! Watches: what becomes of a member, a host, a group or the cell, for a program that asks for one of them.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use phalanx_driver::fork::Home;

use crate::cell_group::CellGroup;
use crate::cell_view::CellView;
use crate::departure::Departure;
use crate::end::End;
use crate::error::LimitError;
use crate::id::{LeaveReason, Member, MemberId};
use crate::waiting::{Place, Waiters, block_value, wait_for};

/// What becomes of a member; see [`Cell::watch_member`](crate::Cell::watch_member).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChange {
    /// It is not in the cell's view, and nothing is known of its leaving. Only the first item is this.
    Absent,
    /// It is in the cell's view.
    Here(Member),
    /// It left the cell. The watch of an incarnation ends after this.
    Gone(Departure),
    /// The reader was too slow: so many items before the next one are no longer kept.
    Missed {
        /// How many.
        changes: u64,
    },
}

/// What becomes of a host; see [`Cell::watch_host`](crate::Cell::watch_host).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostChange {
    /// No process of it is in the cell's view. Only the first item is this.
    Absent,
    /// Processes of it are in the cell's view.
    Here {
        /// They, by rank.
        members: Vec<Member>,
        /// Those that left since the item before.
        gone: Vec<Departure>,
    },
    /// No process of it is in the cell's view any more. That they all died or fell silent together suggests that the host did;
    /// a cell knows of processes only.
    Gone {
        /// Those that left since the item before.
        gone: Vec<Departure>,
    },
    /// The reader was too slow: so many items before the next one are no longer kept.
    Missed {
        /// How many.
        changes: u64,
    },
}

/// What becomes of a group of some name, whether or not this process is in it; see
/// [`Cell::watch_group`](crate::Cell::watch_group).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupChange {
    /// There is no group of that name. Only the first item is this.
    Absent,
    /// It has members. After [`GroupChange::Absent`], [`GroupChange::Gone`] and [`GroupChange::Waiting`] these are the first.
    Members {
        /// The group.
        group: CellGroup,
        /// Those that entered since the item before.
        joined: Vec<MemberId>,
        /// Those that left it since the item before, and why. `None`: this process was not in the cell meanwhile.
        left: Vec<(MemberId, Option<LeaveReason>)>,
    },
    /// It has no member any more, and waits for those that have its state and are cut off ([`CellGroup::waits_for`]).
    Waiting {
        /// The group.
        group: CellGroup,
        /// Its last members, and why they left.
        left: Vec<(MemberId, Option<LeaveReason>)>,
    },
    /// It is over for good. A group that is made under its name is another one, with another number.
    Gone {
        /// Its number.
        number: u32,
        /// Its last members, and why they left. Empty if it waited, and was given up.
        left: Vec<(MemberId, Option<LeaveReason>)>,
    },
    /// The reader was too slow: so many items before the next one are no longer kept.
    Missed {
        /// How many.
        changes: u64,
    },
}

/// What becomes of the cell, as this process knows it; see [`Cell::watch_cell`](crate::Cell::watch_cell).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CellChange {
    /// A view. This process takes itself for primary in it, until it is told otherwise.
    View(CellView),
    /// No quorum of the view is heard, so that nothing is decided.
    NonPrimary {
        /// How many members this process hears, itself included.
        heard: usize,
        /// How many it needs.
        needed: usize,
    },
    /// A quorum is heard again.
    Primary,
    /// This incarnation is over, and the process is not: it was excluded, or gave its instance of the cell up, and looks for
    /// the cell as another incarnation. A view follows when it found it.
    Excluded {
        /// The incarnation that is over.
        was: MemberId,
    },
    /// This process is over. Nothing follows.
    Over(End),
    /// The reader was too slow: so many items before the next one are no longer kept.
    Missed {
        /// How many.
        changes: u64,
    },
}

impl MemberChange {
    pub(crate) const fn missed(changes: u64) -> Self {
        Self::Missed { changes }
    }
}

impl HostChange {
    pub(crate) const fn missed(changes: u64) -> Self {
        Self::Missed { changes }
    }
}

impl GroupChange {
    pub(crate) const fn missed(changes: u64) -> Self {
        Self::Missed { changes }
    }
}

impl CellChange {
    pub(crate) const fn missed(changes: u64) -> Self {
        Self::Missed { changes }
    }
}

/// A reader of what becomes of one subject: a member, a host, a group or the cell.
///
/// The first item says how it stands, as soon as this process is in a view. A reader holds nobody back: of items that it does
/// not take, the latest 64 are kept, so the latest state and the end are always among them. It is a [`Stream`] for any
/// executor, and ends when nothing can follow: with the process, or when the subject is gone for good. It keeps no process
/// alive.
///
/// What it tells of a view is in this process's inboxes already, with the messages that belong before it, unless an inbox had no
/// room for a second.
pub struct Watch<T> {
    slot: Arc<Slot<T>>,
    place: Place,
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl<T> Watch<T> {
    pub(crate) fn new(slot: Arc<Slot<T>>) -> Self {
        Self { slot, place: Place::default() }
    }

    /// The next item; `None` after the last.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: an item is taken when the future is ready, and not before.
    #[expect(clippy::should_implement_trait, reason = "it is the name that streams have for it")]
    pub fn next(&mut self) -> impl Future<Output = Option<T>> {
        poll_fn(|context| self.poll(context))
    }

    /// Like [`Watch::next`], for a thread.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[track_caller]
    pub fn blocking_next(&mut self) -> Option<T> {
        block_value(self.next())
    }

    /// Like [`Watch::blocking_next`], for at most `patience`.
    ///
    /// # Errors
    /// [`LimitError::Timeout`] if nothing came. Nothing is lost.
    pub fn blocking_next_timeout(&mut self, patience: Duration) -> Result<Option<T>, LimitError> {
        wait_for(self.next(), patience)
    }

    /// The next item, if one is here.
    pub fn try_next(&mut self) -> Option<T> {
        if self.slot.home.is_here() { self.slot.items().take(self.slot.missed).flatten() } else { None }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        let Self { slot, place } = self;
        // Nothing comes in a forked child.
        if !slot.home.is_here() {
            return Poll::Ready(None);
        }
        slot.told.poll(place, context, || slot.items().take(slot.missed))
    }
}

impl<T> Stream for Watch<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll(context)
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        if self.slot.home.is_here() {
            self.slot.told.forget(&mut self.place);
        }
    }
}

/// The items of one watch, shared by its reader and by those who tell it.
pub(crate) struct Slot<T> {
    items: Mutex<Items<T>>,
    told: Waiters,
    home: Home,
    /// The item that says how many were dropped.
    missed: fn(u64) -> T,
}

struct Items<T> {
    waiting: VecDeque<T>,
    /// Dropped before the first that waits.
    missed: u64,
    is_over: bool,
}

impl<T> Items<T> {
    /// The next item, or `None` in it after the last. `None`: wait.
    fn take(&mut self, missed: fn(u64) -> T) -> Option<Option<T>> {
        match std::mem::take(&mut self.missed) {
            0 => match self.waiting.pop_front() {
                None if !self.is_over => None,
                next => Some(next),
            },
            changes => Some(Some(missed(changes))),
        }
    }
}

impl<T> Slot<T> {
    pub(crate) fn new(home: Home, missed: fn(u64) -> T) -> Arc<Self> {
        let items = Items { waiting: VecDeque::new(), missed: 0, is_over: false };
        Arc::new(Self { items: Mutex::new(items), told: Waiters::default(), home, missed })
    }

    /// Not to be called in a forked child: the lock may be held by a thread that does not exist there.
    fn items(&self) -> MutexGuard<'_, Items<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, item: T) {
        {
            let mut items = self.items();
            if items.waiting.len() == ITEMS_MAX {
                // The latest says how the subject stands.
                items.waiting.pop_front();
                items.missed += 1;
            }
            items.waiting.push_back(item);
        }
        self.told.wake();
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        self.items().is_over = true;
        self.told.wake();
    }
}

/// The most items that are kept for a reader.
const ITEMS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_learns_how_much_it_missed_and_gets_the_latest_and_the_end() {
        let slot = Slot::new(Home::here(), MemberChange::missed);
        let mut watch = Watch::new(Arc::clone(&slot));
        assert!(watch.try_next().is_none() && watch.blocking_next_timeout(Duration::ZERO).is_err());
        let gone = |view| MemberChange::Gone(Departure::unexplained(member(), view));
        (1..=ITEMS_MAX as u64 + 3).for_each(|view| slot.tell(gone(view)));
        slot.end();
        assert_eq!(watch.blocking_next(), Some(MemberChange::Missed { changes: 3 }));
        for view in 4..=ITEMS_MAX as u64 + 3 {
            assert_eq!(watch.blocking_next(), Some(gone(view)));
        }
        assert_eq!((watch.blocking_next(), watch.blocking_next()), (None, None));
    }

    fn member() -> Member {
        Member::of(&crate::departure::tests::info(1))
    }
}
