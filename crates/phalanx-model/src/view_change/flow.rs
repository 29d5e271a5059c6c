//! The streams of the group's view at its members: gate, stability, delivery, cut.

use super::config::Config;
use super::state::{BROKE_GATE, State};
use crate::rules::Mutant;

/// Whether a member is in the modelled view with its gate open.
fn is_open(config: &Config, s: &State, at: usize) -> bool {
    let m = &s.members[at];
    m.lives && config.rules.gate_is_open(!left(s, at), m.wedged)
}

/// Whether a member has left the group's view, by installing one that ends it.
fn left(s: &State, at: usize) -> bool {
    let m = &s.members[at];
    m.installed && m.decided != 0 && s.ballot(m.decided).proposal.ends
}

/// `ViewStreams::close_packet`: the sender holds its own packet at once.
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
    m.acked[stream] = packet + 1; // `ViewStreams::acknowledge_self`
    settle(config, s, at);
    true
}

/// `ViewStreams::handle_packet`, `ViewStreams::handle_recovered`: the packet is kept, and parsed while the gate is
/// open.
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
    } else if config.rules.looks_at_fetched() {
        look(s, at);
    }
    true
}

/// `ViewStreams::send_acks` at the receiver and `ViewStreams::handle_ack` at the sender, in one step. That is sound,
/// because the sender may use the ack at any later time.
pub(super) fn acknowledge(config: &Config, s: &mut State, at: usize, stream: usize) -> bool {
    let open = is_open(config, s, at);
    let forced = config.rules.lacks(Mutant::AckAfterReport);
    if !s.members[config.senders[stream]].lives || !(open || forced) || left(s, at) {
        return false;
    }
    let prefix = match (open, config.rules.lacks(Mutant::AcknowledgeNonsense)) {
        (true, false) => s.members[at].parsed[stream],
        (true, true) => s.members[at].prefix(stream),
        (false, _) => held(config, s, at, stream),
    };
    let m = &mut s.members[at];
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

/// `Sending::stable`: the prefix that every member of the view has acknowledged.
fn stable(config: &Config, s: &State, stream: usize) -> u8 {
    (0..config.processes).filter(|&r| config.is_member(r)).map(|r| s.members[r].acked[stream]).min().unwrap_or(0)
}

/// `ViewStreams::announce_stability` at the sender and `ViewStreams::handle_status` at the receiver.
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

/// Records the streams in which the next held packet makes no sense.
fn look(s: &mut State, at: usize) {
    for stream in 0..super::config::STREAMS {
        if s.readable(at, stream) < s.members[at].prefix(stream) {
            s.members[at].found |= 1 << stream;
        }
    }
}

/// The prefix that a member reports as held: the part that makes sense to it, or all that it holds where it did not
/// look.
pub(super) fn held(config: &Config, s: &State, at: usize, stream: usize) -> u8 {
    let m = &s.members[at];
    let looked = config.rules.looks_at_fetched() || m.found & 1 << stream != 0;
    let stops = looked && config.rules.stops_at_nonsense() && !config.rules.lacks(Mutant::ReportNonsenseAsHeld);
    if stops { s.readable(at, stream) } else { m.prefix(stream) }
}

/// Whether a member holds a cut. (`ViewStreams::holds`)
pub(super) fn holds(config: &Config, s: &State, at: usize, cut: [u8; super::config::STREAMS]) -> bool {
    (0..super::config::STREAMS).all(|stream| held(config, s, at, stream) >= cut[stream])
}

/// `ViewStreams::wedge`: stops the member and returns its held prefixes.
pub(super) fn wedge(config: &Config, s: &mut State, at: usize) -> [u8; super::config::STREAMS] {
    let held = [held(config, s, at, 0), held(config, s, at, 1)];
    let m = &mut s.members[at];
    if !m.wedged {
        m.wedged = true;
        m.told = held;
    }
    held
}

/// `ViewStreams::parse` and `ViewStreams::deliver_ready`: parses as far as the gate allows, and delivers as far as the
/// rules allow.
pub(super) fn settle(config: &Config, s: &mut State, at: usize) {
    if !s.members[at].lives || left(s, at) {
        return;
    }
    if is_open(config, s, at) {
        look(s, at);
        let up_to = |stream| match config.rules.stops_at_nonsense() {
            true => s.readable(at, stream),
            false => s.members[at].prefix(stream),
        };
        s.members[at].parsed = [up_to(0), up_to(1)];
    }
    for (stream, &sender) in config.senders.iter().enumerate() {
        if sender == at {
            s.members[at].stable[stream] = stable(config, s, stream);
        }
    }
    let up_to = |s: &State, stream: usize| {
        let m = &s.members[at];
        let half = m.found & 1 << stream != 0 && config.rules.lacks(Mutant::ActOnHalfPacket);
        m.parsed[stream] + u8::from(half)
    };
    while (0..config.senders.len()).any(|stream| deliver(config, s, at, stream, up_to(s, stream), false)) {}
}

/// Delivers the next message of a stream, if allowed. Once the cut is decided, it does not wait for stability.
fn deliver(config: &Config, s: &mut State, at: usize, stream: usize, up_to: u8, decided: bool) -> bool {
    let m = &s.members[at];
    let message = usize::from(m.delivered[stream]);
    if m.delivered[stream] >= up_to {
        return false;
    }
    let (other, past) = (1 - stream, s.past[stream][message]);
    if m.delivered[other] < past {
        return false; // `ViewStreams::deps_met`
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

/// `ViewStreams::finish`: delivers to the cut. A message with a causal predecessor outside the cut is discarded, by all
/// members.
pub(super) fn finish(config: &Config, s: &mut State, at: usize, cut: [u8; super::config::STREAMS]) {
    let up_to = |s: &State, stream: usize| match config.rules.stops_at_nonsense() {
        true => cut[stream].min(s.readable(at, stream)),
        false => cut[stream],
    };
    let anew = |stream: usize| {
        let unread = config.rules.lacks(Mutant::AnewAtTheEnd) && s.readable(at, stream) < cut[stream];
        let past = s.members[at].parsed[stream] > cut[stream];
        unread || (past && config.rules.lacks(Mutant::PastTheCutGoesByItself))
    };
    s.members[at].anew = (0..config.senders.len()).any(anew);
    while (0..config.senders.len()).any(|stream| deliver(config, s, at, stream, up_to(s, stream), true)) {}
    if s.members[at].decided != 0 {
        leave(s, at);
    }
}

/// Ends the view at a member; other knowledge of it has no further use.
pub(super) fn leave(s: &mut State, at: usize) {
    let m = &mut s.members[at];
    (m.held, m.parsed, m.stable, m.told, m.found) = Default::default();
    m.wedged = false;
}
