//! The streams of one group view at one member: FIFO, causal, total and uniform delivery inside the view,
//! stability, and the cut that ends it.
//!
//! Read [`ViewStreams`] first. Each member has one numbered packet stream; a stream is parsed strictly in order, so
//! FIFO is the ground everything stands on. Causal order adds the entries of the sender's vector time that
//! changed since its previous message (Birman, Schiper and Stephenson 1991, section 5; delta-coded). Total order
//! adds the token holder's announcements (the same, section 6), batched. Uniform delivery waits for the stability
//! of the message, of its causal past and of its announcement. `order` does not know who is suspected.

mod backpressure;
mod deliver;
mod deps;
mod flow_control_lag;
mod frame;
mod outbox;
mod output;
mod pack;
mod packer;
mod packet_reader;
mod position;
mod receipts;
mod sequencer;
mod stream;
mod token;
mod total_order;
mod view_end;
mod view_streams;

pub use frame::{
    FragmentKind, MessageHead, MessageKind, Pairs, StreamFrame, put_pairs, read_frame, read_head, read_pairs,
};
pub use output::{Backpressure, Hold, Status, StreamOutput};
pub use pack::Packing;
pub(crate) use packer::AskHead;
pub(crate) use packet_reader::entry_of;
pub use position::Position;
pub use stream::{Deliverable, HeldPackets};
pub use view_streams::{Backlog, MessageCounts, StreamPrefixes, TokenCounts, ViewStreams, ViewStreamsSettings};

#[cfg(test)]
mod tests;
