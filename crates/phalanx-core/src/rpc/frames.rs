//! The frames of call packets, for those who show packets.

pub use super::unreliable::UnreliableFrame;
pub use super::wire::{
    CallName, Data, FragmentAck, FragmentPosition, Frame, Opened, SessionHandshake, Side, read_frame,
};
