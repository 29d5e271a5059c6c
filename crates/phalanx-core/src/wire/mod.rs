//! The wire format: the packet header, the primitives of frames, and the reasons to drop a packet.
//!
//! Nothing here knows peers, views or time. `docs/wire.md` specifies the format for other implementations.

pub(crate) mod blob;
pub mod codec;
pub mod drop;
pub mod header;
pub mod numbers;
pub mod tags;

pub use codec::{Malformed, Reader};
pub use drop::DropReason;
pub use header::{Header, Kind, cell_tag};
pub use numbers::{PacketNumber, SessionIndex, SessionSecret, Space};
pub use tags::{TAGS_BYTES_MAX, Tags, put_with_tail, read_with_tail};
