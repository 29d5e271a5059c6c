//! Frames of calls in short.

use phalanx_core::rpc::Refusal;
use phalanx_core::rpc::frames::{
    CallName, Data, FragmentAck, FragmentPosition, Frame, SessionHandshake, Side, UnreliableFrame,
};

use super::text::bytes;

pub(super) fn handshake(handshake: &SessionHandshake<'_>) -> String {
    match handshake {
        SessionHandshake::Ask { packet_bytes, .. } => format!("ask, takes packets of {packet_bytes} B"),
        // The session's secret is not shown: it opens nothing, and helps nobody.
        SessionHandshake::Opened { opened, .. } => {
            let (slots, credit) = (opened.slots, opened.credit);
            format!("opened, {slots} slots, credit {credit} B, takes packets of {} B", opened.packet_bytes)
        }
        SessionHandshake::Refused { reason, .. } => format!("refused: {}", refusal(*reason)),
    }
}

/// A frame of a session. `missing` bytes behind it are not here.
pub(super) fn frame(frame: &Frame<'_>, missing: usize) -> String {
    match frame {
        Frame::Data(data) => message(data, missing),
        Frame::FragmentAck { side, name, asks, ack } => acknowledgement(*side, *name, *asks, ack),
        Frame::Cancel(name) => format!("cancel {}", call(*name)),
        Frame::Cancelled { name, may_have_run } => {
            let how = if *may_have_run { "may have run" } else { "did not run" };
            format!("cancelled {}, {how}", call(*name))
        }
        Frame::Credit(credit) => format!("credit {credit} B"),
        Frame::Close => "close".to_owned(),
        Frame::Ready { name, message_len } => format!("ready {}, {message_len} B", call(*name)),
        Frame::Ping => "ping".to_owned(),
        Frame::Pong => "pong".to_owned(),
        Frame::Challenge(_) => "challenge".to_owned(),
        Frame::Proof(_) => "proof".to_owned(),
        Frame::Unknown => "unknown".to_owned(),
    }
}

/// A call without guarantees.
pub(super) fn plain_frame(frame: &UnreliableFrame<'_>, missing: usize) -> String {
    format!("{} {}{}", side(frame.side), frame.call, extent(frame.part, frame.bytes.len() + missing))
}

fn message(data: &Data<'_>, missing: usize) -> String {
    let name = call(data.name);
    if data.refusal {
        let code = data.bytes.first().copied();
        return format!("refusal {name}: {}", refusal(code.map_or(Refusal::Other, Refusal::from_code)));
    }
    let asks = if data.wants_ack { ", asks for ack" } else { "" };
    format!("{} {name}{}{asks}", side(data.side), extent(data.part, data.bytes.len() + missing))
}

fn acknowledgement(of: Side, name: CallName, asks: bool, ack: &FragmentAck) -> String {
    let beyond: u32 = ack.beyond.iter().map(|bits| bits.count_ones()).sum();
    let beyond = if beyond > 0 { format!(" and {beyond} beyond") } else { String::new() };
    // As a prefix, the greatest number is the whole message.
    let prefix = if ack.prefix == u32::MAX { "all".to_owned() } else { format!("{} fragments", ack.prefix) };
    let word = if asks { "query" } else { "ack" };
    format!("{word} of {} {}: has {prefix}{beyond}, may send to {}", side(of), call(name), ack.limit)
}

fn extent(part: Option<FragmentPosition>, len: usize) -> String {
    match part {
        None => format!(" {}", bytes(len)),
        Some(FragmentPosition { message_len, index }) => format!(" fragment {index}, {len} of {message_len} B"),
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Request => "request",
        Side::Answer => "answer",
    }
}

/// Slot and number.
fn call(CallName { slot, call }: CallName) -> String {
    format!("{slot}/{call}")
}

fn refusal(reason: Refusal) -> &'static str {
    match reason {
        Refusal::Busy => "busy",
        Refusal::NoService => "no such service",
        Refusal::TooLong => "too long",
        Refusal::NumbersUsedUp => "no packet numbers left",
        _ => "not known why",
    }
}
