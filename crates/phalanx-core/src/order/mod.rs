//! The streams of one group view at one member: FIFO, causal, total and uniform delivery inside the view,
//! stability, and the cut that ends it.
//!
//! Read [`Flow`] first. Each member has one numbered packet stream; a stream is parsed strictly in order, so
//! FIFO is the ground everything stands on. Causal order adds the entries of the sender's vector time that
//! changed since its previous message (Birman, Schiper and Stephenson 1991, section 5; delta-coded). Total order
//! adds the token holder's announcements (the same, section 6), batched. Uniform delivery waits for the stability
//! of the message, of its causal past and of its announcement. `order` does not know who is suspected.

mod behind;
mod deliver;
mod deps;
mod finish;
mod flow;
mod frame;
mod full;
mod outbox;
mod pack;
mod place;
mod reading;
mod stream;
mod total;

pub use flow::{Flow, FlowSettings, Hold, Outgoing, Status, TokenCounts};
pub use frame::{Pairs, Part, StreamFrame, read_frame};
pub use full::Full;
pub use stream::Deliverable;

#[cfg(test)]
mod tests;
