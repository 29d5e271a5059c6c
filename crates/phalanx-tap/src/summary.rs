//! What filters see of the frames of a packet in clear.

use phalanx_core::Order;
use phalanx_core::order::StreamFrame;
use phalanx_core::process::best_effort::{BestEffortFrame, Target};
use phalanx_core::rpc::frames::{Frame as CallFrame, Side};
use phalanx_core::wire::{Kind, Space};

use crate::contents::{Content, Contents};
use crate::layout::FrameKind;

/// What the frames of a packet are, for filters on them.
///
/// ```
/// use phalanx_core::wire::Kind;
/// use phalanx_tap::{FrameKind, Summary};
///
/// // A stability frame, and a fifo message of two bytes.
/// let summary = Summary::of(Kind::Multicast, &[3, 9, 0x80, 2, b'h', b'i']);
/// assert!(summary.has(FrameKind::Stability) && summary.has(FrameKind::Message));
/// assert!(!summary.has(FrameKind::Ack));
/// ```
///
/// Whoever knows the frames without decoding them fills it in:
///
/// ```
/// use phalanx_core::Order;
/// use phalanx_core::wire::Space;
/// use phalanx_tap::{FrameKind, Summary};
///
/// let mut summary = Summary::new();
/// summary.message(Order::Total, true);
/// summary.frame(FrameKind::Stability);
/// summary.ack(Some(Space(7)), 1_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub(crate) frames: u32,
    pub(crate) orders: u8,
    /// Of the first acknowledgement of a stream. None: there was none.
    pub(crate) acked_space: Option<Space>,
    pub(crate) acked: u64,
}

impl Summary {
    pub(crate) const FIFO: u8 = 1;
    pub(crate) const CAUSAL: u8 = 2;
    pub(crate) const TOTAL: u8 = 4;
    pub(crate) const UNIFORM: u8 = 8;

    /// Of a packet without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a packet in clear of this kind: what stands behind its header. Frames that cannot be read, because they are
    /// nonsense or cut off, count as [`FrameKind::Unknown`], and so does what a later build sent.
    #[must_use]
    pub fn of(kind: Kind, frames: &[u8]) -> Self {
        let mut summary = Self::new();
        Contents::new(kind, frames).for_each(|content| summary.content(&content));
        summary
    }

    /// Whether the packet holds such a frame.
    #[inline]
    #[must_use]
    pub fn has(&self, kind: FrameKind) -> bool {
        self.frames & kind.bit() != 0
    }

    /// The packet holds such a frame.
    #[inline]
    pub fn frame(&mut self, kind: FrameKind) {
        self.frames |= kind.bit();
    }

    /// The packet holds a multicast, or a piece of one.
    #[inline]
    pub fn message(&mut self, order: Order, is_uniform: bool) {
        self.frame(FrameKind::Message);
        self.orders |= match order {
            Order::Fifo => Self::FIFO,
            Order::Causal => Self::CAUSAL,
            Order::Total => Self::TOTAL,
        };
        if is_uniform {
            self.orders |= Self::UNIFORM;
        }
    }

    /// The packet holds an acknowledgement up to `prefix`: of the stream in `space`, or of a channel or a call. Filters
    /// see the first of a stream, or if there is none the first.
    #[inline]
    pub fn ack(&mut self, space: Option<Space>, prefix: u64) {
        let is_first = self.frames & FrameKind::Ack.bit() == 0;
        if is_first || self.acked_space.is_none() && space.is_some() {
            (self.acked_space, self.acked) = (space, prefix);
        }
        self.frame(FrameKind::Ack);
    }

    fn content(&mut self, content: &Content<'_>) {
        match content {
            Content::Stream(frame) => self.stream(frame),
            Content::BestEffort(frame) => self.best_effort(frame),
            Content::Call(frame) => self.call(frame),
            Content::Piece(_) => self.frame(FrameKind::Piece),
            Content::Greeting(_) => self.frame(FrameKind::Greeting),
            Content::Session(_) => self.frame(FrameKind::Session),
            Content::Plain(frame) => self.frame(side(frame.side)),
            Content::Skipped | Content::Malformed => self.frame(FrameKind::Unknown),
        }
    }

    fn stream(&mut self, frame: &StreamFrame<'_>) {
        match frame {
            StreamFrame::Message { kind, .. } => self.message(kind.order, kind.uniformity.is_uniform()),
            StreamFrame::Announce { .. } => self.frame(FrameKind::Announcement),
            StreamFrame::Pass { .. } => self.frame(FrameKind::Token),
            StreamFrame::Stable { .. } => self.frame(FrameKind::Stability),
            StreamFrame::Past { .. } => self.frame(FrameKind::Past),
        }
    }

    fn best_effort(&mut self, frame: &BestEffortFrame) {
        let kind = match frame {
            BestEffortFrame::Ack(target, ack) => {
                let space = match target {
                    Target::Stream { space, .. } => Some(*space),
                    Target::Control | Target::Data | Target::ToOne => None,
                };
                return self.ack(space, ack.prefix);
            }
            BestEffortFrame::Status { .. } => FrameKind::Status,
            BestEffortFrame::Heartbeat { .. } | BestEffortFrame::WatchHeartbeat(_) => FrameKind::Heartbeat,
            BestEffortFrame::LinkReport { .. } => FrameKind::Links,
            BestEffortFrame::SlowReport { .. } => FrameKind::Slow,
            BestEffortFrame::Probe(_) => FrameKind::Probe,
            BestEffortFrame::Findings { .. } => FrameKind::Findings,
            BestEffortFrame::Excluded { .. } => FrameKind::Exclusion,
        };
        self.frame(kind);
    }

    fn call(&mut self, frame: &CallFrame<'_>) {
        let kind = match frame {
            CallFrame::Data(data) => side(data.side),
            CallFrame::FragmentAck { asks, ack, .. } => {
                self.ack(None, u64::from(ack.prefix));
                if *asks { FrameKind::Query } else { FrameKind::Ack }
            }
            CallFrame::Cancel(_) | CallFrame::Cancelled { .. } => FrameKind::Cancel,
            CallFrame::Credit(_) => FrameKind::Credit,
            CallFrame::Close => FrameKind::Close,
            CallFrame::Ready { .. } => FrameKind::Ready,
            CallFrame::Ping | CallFrame::Pong => FrameKind::Ping,
            CallFrame::Challenge(_) | CallFrame::Proof(_) => FrameKind::Challenge,
            CallFrame::Unknown => FrameKind::Unknown,
        };
        self.frame(kind);
    }
}

fn side(side: Side) -> FrameKind {
    match side {
        Side::Request => FrameKind::Request,
        Side::Answer => FrameKind::Answer,
    }
}
