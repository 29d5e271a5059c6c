//! What a member of one group is told: of its cell, of its join, and in the group.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use phalanx::{CellEvent, Events, Group, JoinError, Merged, Next};

/// Where a member learns what happens.
pub(crate) struct News<J> {
    events: Events,
    /// The group on its way.
    joining: Option<Pin<Box<J>>>,
    pub(crate) inbox: Merged,
}

pub(crate) enum Piece {
    Joined(Result<Group, JoinError>),
    Event(CellEvent),
    Item(Next),
}

impl<J: Future<Output = Result<Group, JoinError>>> News<J> {
    /// `joining` is into `inbox`.
    pub(crate) fn new(events: Events, joining: J, inbox: Merged) -> Self {
        Self { events, joining: Some(Box::pin(joining)), inbox }
    }

    /// What comes next; `None` when this process is over and all was taken. Events first, so that who is in a view is said
    /// before what they sent is taken.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Some(joining) = &mut self.joining
            && let Poll::Ready(outcome) = joining.as_mut().poll(context)
        {
            self.joining = None;
            return Poll::Ready(Some(Piece::Joined(outcome)));
        }
        let event = pin!(self.events.next()).poll(context);
        if let Poll::Ready(Some(event)) = event {
            return Poll::Ready(Some(Piece::Event(event)));
        }
        match pin!(self.inbox.next()).poll(context) {
            Poll::Ready(Some((_, next))) => Poll::Ready(Some(Piece::Item(next))),
            // The inbox ends with the process, and so do the events.
            Poll::Ready(None) if event.is_ready() => Poll::Ready(None),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
