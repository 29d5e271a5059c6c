//! Waiting until an incarnation has left the cell.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::departure::Departure;
use crate::error::WatchError;
use crate::id::MemberId;
use crate::shared::cell::CellShared;
use crate::shared::watches::Fate;
use crate::waiting::Place;

/// Ready when an incarnation has left the cell; see [`Cell::left`](crate::Cell::left).
#[must_use = "it waits when it is awaited"]
pub struct Left {
    cell: Arc<CellShared>,
    who: MemberId,
    place: Place,
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Left").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Left {
    pub(crate) fn new(cell: Arc<CellShared>, who: MemberId) -> Self {
        Self { cell, who, place: Place::default() }
    }
}

/// What is known of a member, if it does not go on: all that ends by the view is ended by this.
pub(crate) fn look(cell: &CellShared, who: MemberId) -> Option<Result<Departure, WatchError>> {
    // First: a view that is installed later than what is told may hold it, and its end is told later.
    let is_in = {
        let facts = cell.facts();
        facts.view.as_ref().map(|view| view.members.iter().any(|member| member.incarnation == who.incarnation()))
    };
    match cell.watches.fate(who) {
        Fate::Over => Some(Err(WatchError::Over)),
        Fate::Gone(departure) if departure.why.is_some() || is_in == Some(false) => Some(Ok(departure)),
        Fate::Gone(_) | Fate::Open => None,
    }
}

impl Future for Left {
    type Output = Result<Departure, WatchError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { cell, who, place } = &mut *self;
        if !cell.home.is_here() {
            return Poll::Ready(Err(WatchError::Forked));
        }
        cell.watches.told.poll(place, context, || look(cell, *who))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // A thread that held the lock at a fork does not exist in the child.
        if self.cell.home.is_here() {
            self.cell.watches.told.forget(&mut self.place);
        }
    }
}
