//! The streams of the group's view at its members: the gate, stability, delivery, the cut.

use super::config::Config;
use super::state::{BROKE_GATE, State};
use crate::rules::Mutant;

/// Whether a member is in the view whose streams are modelled, with its gate open.
fn is_open(config: &Config, s: &State, at: usize) -> bool {
    let m = &s.members[at];
    m.lives && config.rules.gate_is_open(!left(s, at), m.wedged)
}

/// Whether a member has left the group's view: it installed one that ends it.
fn left(s: &State, at: usize) -> bool {
    let m = &s.members[at];
    m.installed && m.decided != 0 && s.ballot(m.decided).proposal.ends
}

/// `Flow::close_packet`: the packet is the sender's own at once.
pub(super) fn send(config: &Config, s: &mut State, stream: usize) -> bool {
    let at = config.senders[stream];
    if !is_open(config, s, at) {
        return false;
    }
    let packet = s.sent[stream];
    s.sent[stream] += 1;
    let other = 1 - stream;
    s.past[stream][usize::from(packet)] = s.members[at].delivered[other];
    let m = &mut s.members[at];
    m.held[stream] |= 1 << packet;
    m.parsed[stream] = packet + 1;
    m.acked[stream] = packet + 1; // `Flow::acknowledge_self`
    settle(config, s, at);
    true
}

/// `Flow::handle_packet`, `Flow::handle_recovered`: kept; parsed while the gate is open.
pub(super) fn arrive(config: &Config, s: &mut State, at: usize, stream: usize, packet: u8) -> bool {
    if left(s, at) {
        return false;
    }
    let wanted = |s: &State| {
        let decided = s.members[at].decided;
        decided != 0 && s.ballot(decided).proposal.cut[stream] >= packet
    };
    let filling = |s: &State| {
        let promised = s.members[at].promised;
        promised != 0 && s.ballot(promised).proposal.origin != 0 && s.ballot(promised).proposal.cut[stream] >= packet
    };
    let discards = config.rules.lacks(Mutant::DiscardInsteadOfKeep);
    if discards && s.members[at].wedged && !wanted(s) && !filling(s) {
        return false;
    }
    let m = &mut s.members[at];
    if m.held[stream] & 1 << (packet - 1) != 0 {
        return false;
    }
    m.held[stream] |= 1 << (packet - 1);
    if is_open(config, s, at) {
        settle(config, s, at);
    }
    true
}

/// `Flow::send_receipts` at the receiver and `Flow::handle_receipt` at the sender, in one: the sender may use what it
/// was told at any later time.
pub(super) fn acknowledge(config: &Config, s: &mut State, at: usize, stream: usize) -> bool {
    let open = is_open(config, s, at);
    let forced = config.rules.lacks(Mutant::AckAfterReport);
    if !s.members[config.senders[stream]].lives || !(open || forced) || left(s, at) {
        return false;
    }
    let m = &mut s.members[at];
    let prefix = if open { m.parsed[stream] } else { m.prefix(stream) };
    let counts = config.rules.acknowledged(prefix, m.highest(stream));
    if counts <= m.acked[stream] {
        return false;
    }
    m.acked[stream] = counts;
    if !open {
        s.broken |= BROKE_GATE;
    }
    settle(config, s, config.senders[stream]);
    true
}

/// `Sending::stable`: every member of the view has acknowledged it.
fn stable(config: &Config, s: &State, stream: usize) -> u8 {
    (0..config.processes).filter(|&r| config.is_member(r)).map(|r| s.members[r].acked[stream]).min().unwrap_or(0)
}

/// `Flow::announce_stability` at the sender and `Flow::handle_status` at the receiver.
pub(super) fn tell_stable(config: &Config, s: &mut State, at: usize, stream: usize) -> bool {
    let sender = config.senders[stream];
    if !s.members[sender].lives || left(s, sender) || left(s, at) {
        return false;
    }
    let told = stable(config, s, stream).min(s.members[at].parsed[stream]);
    if told <= s.members[at].stable[stream] {
        return false;
    }
    s.members[at].stable[stream] = told;
    settle(config, s, at);
    true
}

/// `Flow::wedge`: stops, and gives the prefixes held.
pub(super) fn wedge(s: &mut State, at: usize) -> [u8; super::config::STREAMS] {
    let m = &mut s.members[at];
    let held = [m.prefix(0), m.prefix(1)];
    if !m.wedged {
        m.wedged = true;
        m.told = held;
    }
    held
}

/// `Flow::parse` and `Flow::deliver_ready`: parses what the gate lets in, delivers what may be delivered.
pub(super) fn settle(config: &Config, s: &mut State, at: usize) {
    if !s.members[at].lives || left(s, at) {
        return;
    }
    if is_open(config, s, at) {
        let m = &mut s.members[at];
        m.parsed = [m.prefix(0), m.prefix(1)];
    }
    for (stream, &sender) in config.senders.iter().enumerate() {
        if sender == at {
            s.members[at].stable[stream] = stable(config, s, stream);
        }
    }
    while (0..config.senders.len()).any(|stream| deliver(config, s, at, stream, s.members[at].parsed[stream], false)) {}
}

/// Delivers the next message of a stream, if it may be; once the cut is decided, stability is not waited for.
fn deliver(config: &Config, s: &mut State, at: usize, stream: usize, up_to: u8, decided: bool) -> bool {
    let m = &s.members[at];
    let message = usize::from(m.delivered[stream]);
    if m.delivered[stream] >= up_to {
        return false;
    }
    let (other, past) = (1 - stream, s.past[stream][message]);
    if m.delivered[other] < past {
        return false; // `Flow::deps_met`
    }
    if config.uniform[stream][message] && !decided {
        let stable = usize::from(m.stable[stream]) > message;
        if !config.rules.may_deliver_uniform(stable, m.stable[other] >= past) {
            return false;
        }
    }
    s.members[at].delivered[stream] += 1;
    true
}

/// `Flow::finish`: delivers to the cut. What has a predecessor outside it is discarded, by all.
pub(super) fn finish(config: &Config, s: &mut State, at: usize, cut: [u8; super::config::STREAMS]) {
    while (0..config.senders.len()).any(|stream| deliver(config, s, at, stream, cut[stream], true)) {}
    let m = &mut s.members[at];
    // The view is over here: what else was known of it has no further use.
    if m.decided != 0 {
        (m.held, m.parsed, m.stable, m.told) = Default::default();
        m.wedged = false;
    }
}
