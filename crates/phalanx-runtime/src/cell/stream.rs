//! The items of a cell as an asynchronous stream, bound to no executor.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::items::Item;
use super::{CallError, Shared};
use crate::belief::Belief;

/// Yields each item once, and ends after the last. In a forked child it yields [`CallError::Forked`], and ends.
pub struct CellStream {
    pub(super) shared: Arc<Shared>,
    /// The end has been reported.
    pub(super) over: bool,
}

impl CellStream {
    /// What the protocol thread believes of its membership now; see [`Cell::belief`](super::Cell::belief).
    #[must_use]
    pub fn belief(&self) -> Belief {
        self.shared.belief.clone()
    }
}

impl Stream for CellStream {
    type Item = Result<Item, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.shared.check() {
            let over = std::mem::replace(&mut self.over, true);
            return Poll::Ready((!over).then_some(Err(error)));
        }
        let items = &self.shared.items;
        if let Some(item) = items.pop() {
            return Poll::Ready(Some(Ok(item)));
        }
        items.register(context.waker());
        // Read before the queue is checked again, so that an item pushed before the end is not missed.
        let over = items.is_over();
        match items.pop() {
            Some(item) => Poll::Ready(Some(Ok(item))),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
