//! The frames of a packet in clear, one after the other, as the decoders of the core read them.

use phalanx_core::link::ChannelFrame;
use phalanx_core::order::{self, StreamFrame};
use phalanx_core::process::JoinHandshake;
use phalanx_core::process::best_effort::{BestEffortFrame, read_best_effort};
use phalanx_core::rpc::frames::{self, Frame as CallFrame, SessionHandshake, UnreliableFrame};
use phalanx_core::wire::{Kind, Malformed, Reader, read_with_tail};

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Of a multicast packet.
    Stream(StreamFrame<'a>),
    /// Of a direct or spread packet.
    BestEffort(BestEffortFrame),
    /// Of a packet of a channel.
    Piece(ChannelFrame<'a>),
    /// All of a greeting.
    Greeting(JoinHandshake),
    /// All of an open packet.
    Session(SessionHandshake<'a>),
    /// Of a session packet.
    Call(CallFrame<'a>),
    /// All of a plain packet.
    Plain(UnreliableFrame<'a>),
    /// A frame of a later build, which carries its length.
    Skipped,
    /// What follows cannot be read: it is nonsense, or cut off. It is the last.
    Malformed,
}

/// Reads frames. Each takes a byte or more, so it ends.
#[derive(Clone, Debug)]
pub(crate) struct Contents<'a> {
    kind: Kind,
    rest: Reader<'a>,
}

impl<'a> Contents<'a> {
    pub(crate) fn new(kind: Kind, frames: &'a [u8]) -> Self {
        Self { kind, rest: Reader::new(frames) }
    }

    fn read(&mut self) -> Result<Content<'a>, Malformed> {
        let rest = &mut self.rest;
        Ok(match self.kind {
            Kind::Handshake => Content::Greeting(read_with_tail(rest.rest())?.0),
            Kind::Direct | Kind::BestEffortMulticast => {
                read_best_effort(rest)?.map_or(Content::Skipped, Content::BestEffort)
            }
            Kind::Control | Kind::Data | Kind::ToOne => Content::Piece(ChannelFrame::read(rest)?),
            Kind::Multicast => order::read_frame(rest)?.map_or(Content::Skipped, Content::Stream),
            Kind::Open => Content::Session(SessionHandshake::read(rest.rest())?),
            Kind::Session => match frames::read_frame(rest)? {
                CallFrame::Unknown => Content::Skipped,
                frame => Content::Call(frame),
            },
            Kind::Unreliable => Content::Plain(UnreliableFrame::read(rest.rest())?),
        })
    }
}

impl<'a> Iterator for Contents<'a> {
    type Item = Content<'a>;

    fn next(&mut self) -> Option<Content<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.read().unwrap_or_else(|Malformed| {
            self.rest = Reader::new(&[]);
            Content::Malformed
        }))
    }
}
