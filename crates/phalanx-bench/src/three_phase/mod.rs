//! A fault-tolerant broadcast in three phases, as a program of 1991 had to build it where it had calls and no multicast.
//!
//! A message to n members takes 3n calls. The n calls of a phase are made at once, and the next phase begins when all are
//! answered:
//!
//! 1. *Offer*: each member keeps the message as pending.
//! 2. *Deliver*: each delivers it, and answers it. It knows now that all have it.
//! 3. *Forget*: each learns that all have delivered it, so that nobody has to end it for its sender.
//!
//! If the sender leaves before that, the member of the lowest rank takes over ([`TakeOver`]). It asks all others what they
//! have of those that left, gives what it learns of to the members that lack it, has them deliver it, and has them forget it.
//! From the question on a member refuses all that those that left may still ask for, so a message that nobody has by then
//! is delivered nowhere. If the member that takes over leaves, too, the next one begins again.
//!
//! So each survivor delivers a message once, or none does, and if any member delivers it, every survivor does. Messages of
//! different senders have no order. A sender has one message under way.
//!
//! [`Member`], [`Broadcast`] and [`TakeOver`] are machines without calls; [`Node`] runs them over calls of the crate `phalanx`.

mod broadcast;
mod member;
mod message;
mod node;
mod phases;
mod take_over;
#[cfg(test)]
mod tests;

pub(crate) use message::Payload;
pub(crate) use node::Node;

#[cfg(doc)]
use {broadcast::Broadcast, member::Member, take_over::TakeOver};
