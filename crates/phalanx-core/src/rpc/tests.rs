//! Two endpoints and a network in memory. The test chooses which packets it loses, repeats, delays and reorders.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::seal::{CellKey, Security};
use crate::wire::{DropReason, Kind, PacketNumber, Space};
use crate::{Arriving, Incarnation, Instant, Origin, Packet, PartialPacket, RemainingPayload, TrafficClass, truesize};

mod absent;
mod addresses;
mod bounds;
mod flow;
mod numbers;
mod places;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 2);
/// The client's address after it moved.
const MOVED: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3);

/// The surroundings of one endpoint.
#[derive(Default)]
struct Place {
    sent: VecDeque<(SocketAddr, Vec<u8>)>,
    outcomes: BTreeMap<ClientCallId, Result<Vec<u8>, Failure>>,
    runs: Vec<(CallId, Vec<u8>)>,
    /// Requests that begin with this byte are answered later.
    later: Option<u8>,
    waiting: Vec<(CallId, Vec<u8>)>,
    /// Calls of running handlers that their caller gave up.
    given_up: Vec<CallId>,
    /// Whether long requests become their answers, and long answers are taken, without a copy.
    takes: bool,
    /// Open sessions with each peer, and what the peer offered last.
    met: BTreeMap<Incarnation, (usize, Vec<u8>)>,
    marks: Vec<(TracePoint, u64)>,
}

impl CallEffects for Place {
    fn session_opened(&mut self, peer: Incarnation, _at: SocketAddr, offer: &[u8]) {
        let (sessions, offered) = self.met.entry(peer).or_default();
        *sessions += 1;
        *offered = offer.to_vec();
    }

    fn session_closed(&mut self, peer: Incarnation) {
        self.met.get_mut(&peer).expect("a session closes after it opened").0 -= 1;
    }

    fn mark(&mut self, mark: TracePoint, of: u64) {
        self.marks.push((mark, of));
    }

    fn transmit(&mut self, _lane: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.sent.extend(to.iter().map(|to| (*to, packet.to_vec())));
    }

    fn request(&mut self, call: CallId, _from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        self.runs.push((call, request.to_vec()));
        if self.later.is_some() && self.later == request.first().copied() {
            self.waiting.push((call, request.to_vec()));
            return HandlerResult::Later;
        }
        if request == b"unknown" {
            return HandlerResult::Refused;
        }
        answer.extend_from_slice(request);
        answer.reverse();
        HandlerResult::Answered
    }

    fn long_request(
        &mut self,
        call: CallId,
        from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        if !self.takes {
            return self.request(call, from, request, answer);
        }
        std::mem::swap(request, answer);
        HandlerResult::Answered
    }

    fn given_up(&mut self, call: CallId) {
        self.given_up.push(call);
    }

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        assert!(self.outcomes.insert(call_id, outcome.to_result()).is_none(), "an outcome is reported once");
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        let answer = if self.takes { std::mem::take(answer) } else { answer.clone() };
        self.outcome(call_id, Outcome::Answer(&answer));
    }
}

/// The remaining payload of a packet that came header first.
#[derive(Default)]
struct Lying {
    rest: Vec<u8>,
    /// Number of bytes put at their place.
    in_place: usize,
}

impl Lying {
    fn split<'a>(&'a mut self, packet: &'a mut [u8], begins: Option<usize>, flipped: Option<usize>) -> Arriving<'a> {
        let len = packet.len();
        match begins {
            Some(begins) if begins < len => {
                let (head, rest) = packet.split_at_mut(begins);
                self.rest = rest.to_vec();
                if let Some(byte) = flipped.and_then(|at| self.rest.get_mut(at)) {
                    *byte ^= 1;
                }
                Arriving::HeaderFirst(PartialPacket { head, len, rest: self })
            }
            _ => Arriving::Whole(Packet::Lent(packet)),
        }
    }
}

impl RemainingPayload for Lying {
    fn take(&mut self, place: &mut [u8], tail: &mut [u8]) -> bool {
        let (first, last) = self.rest.split_at(place.len());
        place.copy_from_slice(first);
        tail.copy_from_slice(last);
        self.in_place += if tail.is_empty() { 0 } else { place.len() };
        true
    }
}

struct World {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    at_client: Place,
    at_server: Place,
    session: SessionId,
    /// Decides by number which of the next packets are lost, to the server and to the client.
    lose: fn(u64) -> bool,
    carried: u64,
    /// Number of the carried packet that is lost.
    lost: u64,
    /// Length after which a longer packet is handed in header first.
    begins: Option<usize>,
    /// Index of the byte of the remaining payload that arrives changed, if any.
    flipped: Option<usize>,
    /// Bytes that were put at their place as soon as they arrived.
    in_place: usize,
    /// Bytes that the server's receive buffer holds at once. While it is empty it takes any packet.
    buffer: u64,
    /// The client's address as the server sees it; below, the address that the server's packets come from.
    client_at: SocketAddr,
    server_at: SocketAddr,
    /// Packets of the server that wait, if it is told to let them wait.
    waits: Option<VecDeque<(SocketAddr, Vec<u8>)>>,
}

fn options(me: u64, packet_bytes_max: u32, serves: bool) -> EndpointOptions {
    EndpointOptions {
        cell: "test".to_owned(),
        me: Incarnation(me),
        packet_bytes_max,
        receive_bytes: 1 << 20,
        serves,
        offer: vec![me as u8; 5],
        limits: EndpointLimits::default(),
    }
}

fn security() -> Security {
    Security::Sealed(CellKey::from_bytes([3; 32]))
}

impl World {
    fn new() -> Self {
        Self::with(options(1, 1472, false), options(2, 1472, true))
    }

    fn with(client: EndpointOptions, server: EndpointOptions) -> Self {
        Self::sealed_by(client, server, &security())
    }

    fn sealed_by(client: EndpointOptions, server: EndpointOptions, security: &Security) -> Self {
        let now = Instant(1);
        let mut at_client = Place::default();
        let mut client = Endpoint::new(now, &client, security, 11);
        let server = Endpoint::new(now, &server, security, 12);
        let session = client.connect(now, SERVER, &mut at_client);
        Self {
            now,
            client,
            server,
            at_client,
            at_server: Place::default(),
            session,
            lose: |_| false,
            carried: 0,
            lost: 0,
            begins: None,
            flipped: None,
            in_place: 0,
            buffer: u64::MAX,
            client_at: CLIENT,
            server_at: SERVER,
            waits: None,
        }
    }

    /// A world without encryption.
    fn clear() -> Self {
        Self::sealed_by(options(1, 1472, false), options(2, 1472, true), &Security::None)
    }

    fn call(&mut self, request: &[u8]) -> ClientCallId {
        let options = CallOptions::default();
        self.client.call(self.now, self.session, request, &options, &mut self.at_client).expect("accepted")
    }

    /// Carries packets until none is under way.
    fn carry(&mut self) {
        loop {
            let mut any = false;
            let mut buffered = 0;
            while let Some((_, mut packet)) = self.at_client.sent.pop_front() {
                any = true;
                self.carried += 1;
                let after = buffered + truesize(packet.len() as u64);
                let fits = buffered == 0 || after <= self.buffer;
                if fits && !(self.lose)(self.carried) && self.lost != self.carried {
                    buffered = after;
                    let origin = Origin::Network(self.client_at);
                    let mut rest = Lying::default();
                    let arriving = rest.split(&mut packet, self.begins, self.flipped);
                    self.server.handle_arriving(self.now, origin, arriving, &mut self.at_server);
                    self.in_place += rest.in_place;
                }
            }
            self.server.poll(self.now, &mut self.at_server);
            if let Some(waits) = &mut self.waits {
                waits.append(&mut self.at_server.sent);
            }
            while let Some((to, mut packet)) = self.at_server.sent.pop_front() {
                any = true;
                self.carried += 1;
                if to == self.client_at && !(self.lose)(self.carried) && self.lost != self.carried {
                    let origin = Origin::Network(self.server_at);
                    let mut rest = Lying::default();
                    let arriving = rest.split(&mut packet, self.begins, self.flipped);
                    self.client.handle_arriving(self.now, origin, arriving, &mut self.at_client);
                    self.in_place += rest.in_place;
                }
            }
            self.client.poll(self.now, &mut self.at_client);
            self.client.check_invariants();
            self.server.check_invariants();
            if !any {
                return;
            }
        }
    }

    /// Carries packets while `time` passes.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.carry();
            self.now += Duration::from_millis(1);
        }
        self.carry();
    }

    fn outcome(&self, call_id: ClientCallId) -> Option<&Result<Vec<u8>, Failure>> {
        self.at_client.outcomes.get(&call_id)
    }

    /// Compares the outcome without printing long answers.
    #[track_caller]
    fn assert_answer(&self, call_id: ClientCallId, answer: &[u8]) {
        match self.outcome(call_id) {
            Some(Ok(came)) => assert!(came == answer, "{} bytes, not {}, or others", came.len(), answer.len()),
            other => panic!("{} bytes: {other:?}", answer.len()),
        }
    }
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn long_messages_are_taken_and_given_and_come_whole() {
    let mut world = World::new();
    (world.at_server.takes, world.at_client.takes) = (true, true);
    // Longer and shorter messages in turn, in the buffers of earlier ones.
    for len in [100_000, 3_000_000, 2_000, 70_000, 3_000_000, 80_000] {
        for given in [false, true] {
            let request = pattern(len);
            let message: Cow<'_, [u8]> = if given { request.clone().into() } else { (&request).into() };
            let options = CallOptions::default();
            let called = world.client.call(world.now, world.session, message, &options, &mut world.at_client);
            world.run(Duration::from_millis(20));
            world.assert_answer(called.expect("accepted"), &request);
        }
    }
    world.run(Duration::from_millis(20));
    assert_eq!(world.server.held_bytes(), 0);
}

#[test]
fn what_comes_begun_is_as_what_comes_whole() {
    for clear in [false, true] {
        for begins in [0, 1, 23, 30, 45, 64, 128, 1_000, 1_450, 1_471] {
            let mut world = if clear { World::clear() } else { World::new() };
            world.begins = Some(begins);
            for len in [0, 1, 1_372, 2_000, 6_000, 100_000] {
                let request = pattern(len);
                let call_id = world.call(&request);
                world.run(Duration::from_millis(20));
                world.assert_answer(call_id, &reversed(&request));
            }
            let counters = [world.client.counters(), world.server.counters()];
            assert!(
                counters.iter().all(|counters| counters.drops == [0; DropReason::ALL.len()]),
                "{begins}: {counters:?}"
            );
            assert_eq!(world.client.counters().probes, 0);
        }
    }
}

#[test]
fn what_came_begun_and_was_changed_is_not_taken() {
    for flipped in [0, 700, 1_300] {
        let mut world = World::clear();
        let call_id = world.call(&pattern(20_000));
        world.run(Duration::from_millis(20));
        assert!(world.outcome(call_id).is_some());
        (world.begins, world.flipped) = (Some(128), Some(flipped));
        let call_id = world.call(&pattern(20_000));
        world.carry();
        assert!(world.outcome(call_id).is_none(), "{flipped}: nothing has come");
        let drops = world.server.counters().drops;
        assert_eq!(drops[DropReason::BadTag.index()], drops.iter().sum::<u64>(), "{drops:?}");
        assert!(drops[DropReason::BadTag.index()] > 5, "{drops:?}");
        world.flipped = None;
        world.run(Duration::from_millis(200));
        world.assert_answer(call_id, &reversed(&pattern(20_000)));
    }
}

#[test]
fn one_lost_packet_costs_one_probe() {
    for len in [100, 2_000, 2_700, 6_000, 14_000] {
        for lost in 1..=24 {
            let mut world = World::new();
            for _ in 0..3 {
                let call_id = world.call(&pattern(len));
                world.run(Duration::from_millis(15));
                assert!(world.outcome(call_id).is_some(), "{len} bytes");
            }
            (world.carried, world.lost) = (0, lost);
            let (call_id, began) = (world.call(&pattern(len)), world.now);
            while world.outcome(call_id).is_none() {
                world.run(Duration::from_millis(1));
                // The minimum of a timer is 5 ms, and round trips take no time here.
                assert!(world.now.since(began) < Duration::from_millis(8), "{len} bytes, packet {lost} lost");
            }
            assert!(world.client.counters().probes <= 1, "{len} bytes, packet {lost} lost");
        }
    }
}

#[test]
fn a_hole_before_the_last_fragment_costs_no_probe() {
    for (len, fragments) in [(2_700, 2), (4_000, 3), (6_000, 5), (14_000, 10)] {
        for lost in 1..fragments {
            let mut world = World::new();
            let call_id = world.call(&pattern(len));
            world.run(Duration::from_millis(15));
            assert!(world.outcome(call_id).is_some(), "{len} bytes");
            (world.carried, world.lost) = (0, lost);
            let call_id = world.call(&pattern(len));
            world.run(Duration::from_millis(1));
            assert!(world.outcome(call_id).is_some(), "{len} bytes, packet {lost} lost");
            assert_eq!(world.client.counters().lost, 1, "{len} bytes, packet {lost} lost");
            assert_eq!(world.client.counters().probes, 0, "{len} bytes, packet {lost} lost");
        }
    }
}

#[test]
fn messages_of_any_length_come_back() {
    let mut world = World::new();
    for len in [0, 1, 100, 1300, 1372, 1373, 1400, 5_000, 100_000, 3_000_000] {
        let request = pattern(len);
        let call_id = world.call(&request);
        world.run(Duration::from_millis(20));
        world.assert_answer(call_id, &reversed(&request));
    }
    let probes = world.client.counters().probes;
    assert_eq!(probes, 0, "nothing was lost, so nothing had to be asked for");
    world.run(Duration::from_millis(20));
    assert!(world.server.held_bytes() <= 1372, "only short answers are kept: {}", world.server.held_bytes());
}

#[test]
fn a_call_of_one_packet_costs_two() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    let before = world.carried;
    for _ in 0..10 {
        let call_id = world.call(b"x");
        world.carry();
        assert!(world.outcome(call_id).is_some());
    }
    assert_eq!(world.carried - before, 20);
}

#[test]
fn more_calls_than_slots_wait_and_all_are_answered() {
    let mut world = World::new();
    let call_ids: Vec<(ClientCallId, Vec<u8>)> =
        (0..100_usize).map(|n| (world.call(&pattern(n * 40)), pattern(n * 40))).collect();
    world.run(Duration::from_millis(10));
    for (call_id, request) in call_ids {
        world.assert_answer(call_id, &reversed(&request));
    }
}

#[test]
fn a_quarter_of_all_packets_lost_and_each_call_runs_once() {
    let mut world = World::new();
    world.lose = |n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 4 == 0;
    let call_ids: Vec<(ClientCallId, Vec<u8>)> =
        (0..24_usize).map(|n| (world.call(&pattern(n * 700)), pattern(n * 700))).collect();
    world.run(Duration::from_secs(8));
    for (call_id, request) in call_ids {
        world.assert_answer(call_id, &reversed(&request));
    }
    assert_eq!(world.at_server.runs.len(), 24);
}

#[test]
fn a_burst_lost_is_retransmitted_within_round_trips() {
    let mut world = World::new();
    let first = world.call(&pattern(200_000));
    world.run(Duration::from_millis(30));
    assert!(world.outcome(first).is_some());
    let before = world.carried;
    world.lose = |n| n % 10 < 3;
    let second = world.call(&pattern(200_000));
    // No timer expires: acks show all gaps except those of the tail.
    world.carry();
    let lost = world.client.counters().lost;
    assert!(lost > 0, "{before}");
    world.lose = |_| false;
    world.run(Duration::from_millis(300));
    world.assert_answer(second, &reversed(&pattern(200_000)));
}

#[test]
fn a_refused_call_did_not_run() {
    let mut world = World::new();
    let call_id = world.call(b"unknown");
    world.run(Duration::from_millis(1));
    let refused = Failure::NotExecuted(Reason::Refused(Refusal::NoService));
    assert_eq!(world.outcome(call_id), Some(&Err(refused)));
}

#[test]
fn nobody_serves_and_the_caller_is_told() {
    let mut world = World::with(options(1, 1472, false), options(2, 1472, false));
    let call_id = world.call(b"hello");
    world.run(Duration::from_millis(1));
    let refused = Failure::NotExecuted(Reason::Refused(Refusal::NoService));
    assert_eq!(world.outcome(call_id), Some(&Err(refused)));
}

#[test]
fn a_deadline_says_what_is_known() {
    let mut world = World::new();
    world.lose = |_| true;
    let never_sent = world.call(b"a");
    world.run(Duration::from_secs(11));
    assert_eq!(world.outcome(never_sent), Some(&Err(Failure::NotExecuted(Reason::NoAnswer))));
    world.lose = |_| false;
    let fine = world.call(b"b");
    world.run(Duration::from_secs(1));
    assert!(matches!(world.outcome(fine), Some(Ok(_))));
    world.lose = |_| true;
    let in_doubt = world.call(b"c");
    world.run(Duration::from_secs(11));
    assert_eq!(world.outcome(in_doubt), Some(&Err(Failure::Unknown(Reason::Deadline))));
    world.lose = |_| false;
    let after = world.call(b"d");
    world.run(Duration::from_millis(300));
    assert_eq!(world.outcome(after), Some(&Ok(b"d".to_vec())), "the slot goes on");
}

// The eight hazards of the original design, by number: docs/rpc.md.

#[test]
fn hazard_1_a_cancel_wedges_no_slot_and_frees_no_running_call() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    world.run(Duration::from_millis(1));
    // A request that never reached the server.
    world.lose = |_| true;
    let lost = world.call(b"lost");
    assert!(world.client.cancel(world.now, world.session, lost, &mut world.at_client));
    world.carry();
    world.lose = |_| false;
    world.run(Duration::from_millis(300));
    assert_eq!(world.outcome(lost), Some(&Err(Failure::NotExecuted(Reason::Cancelled))));
    // Requests whose handlers run.
    for _ in 0..16 {
        let running = world.call(b"L");
        world.carry();
        assert!(world.client.cancel(world.now, world.session, running, &mut world.at_client));
        assert!(!world.client.cancel(world.now, world.session, running, &mut world.at_client), "once");
        world.carry();
        assert_eq!(world.outcome(running), Some(&Err(Failure::Unknown(Reason::Cancelled))));
    }
    // Their number is bounded: sixteen run that no caller waits for.
    let busy = world.call(b"next");
    world.carry();
    assert_eq!(world.outcome(busy), Some(&Err(Failure::NotExecuted(Reason::Refused(Refusal::Busy)))));
    let waiting = std::mem::take(&mut world.at_server.waiting);
    for (call, _) in waiting {
        let late = world.server.answer(world.now, call, Some(b"late".into()), &mut world.at_server);
        assert_eq!(late, Err(AnswerError::NotWanted));
    }
    let next = world.call(b"next");
    world.carry();
    assert_eq!(world.outcome(next), Some(&Ok(b"txen".to_vec())));
}

#[test]
fn hazard_2_messages_without_bytes_are_sent_and_asked_for() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    world.lose = |n| n % 2 == 1;
    let call_ids: Vec<ClientCallId> = (0..5).map(|_| world.call(b"")).collect();
    world.run(Duration::from_secs(3));
    assert!(call_ids.iter().all(|call_id| world.outcome(*call_id) == Some(&Ok(Vec::new()))));
}

#[test]
fn hazard_3_a_window_is_of_the_session_and_within_the_servers_buffer() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    for _ in 0..8 {
        world.call(&pattern(400_000));
    }
    // Nothing is carried, so this is what goes out at first.
    let charged: u64 = world.at_client.sent.iter().map(|(_, packet)| truesize(packet.len() as u64)).sum();
    assert!(charged <= (1 << 20) * 3 / 8, "{charged} bytes under way");
    assert!(world.at_client.sent.len() >= 8, "and no less than a round trip's worth: {}", world.at_client.sent.len());
    world.run(Duration::from_millis(50));
    assert_eq!(world.at_server.runs.len(), 8);
}

#[test]
fn hazard_4_probes_follow_the_round_trip_and_back_off() {
    let mut world = World::new();
    for _ in 0..20 {
        world.call(b"x");
        world.run(Duration::from_millis(1));
    }
    world.lose = |_| true;
    world.call(b"y");
    world.run(Duration::from_millis(1000));
    let probes = world.client.counters().probes;
    assert!((8..=16).contains(&probes), "{probes} probes in a second of silence");
}

#[test]
fn hazard_5_all_holes_are_sent_again_at_once() {
    let mut world = World::new();
    let warm = world.call(&pattern(600_000));
    world.run(Duration::from_millis(50));
    assert!(world.outcome(warm).is_some());
    let call_id = world.call(&pattern(300_000));
    // Every second packet of the first window is lost.
    let mut at = 0;
    world.at_client.sent.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    world.run(Duration::from_millis(2));
    world.assert_answer(call_id, &reversed(&pattern(300_000)));
    assert_eq!(world.client.counters().probes, 0, "no timer was needed");
}

#[test]
fn hazard_6_a_server_answers_every_probe_and_keeps_no_timer() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    let call_id = world.call(b"L");
    world.run(Duration::from_millis(2));
    assert!(world.server.deadline().is_none_or(|due| due > world.now + Duration::from_millis(400)));
    world.run(Duration::from_secs(3));
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    assert!(world.client.counters().probes > 5, "the client asks on");
    world.lose = |_| true;
    world.server.answer(world.now, call, Some(b"done".into()), &mut world.at_server).expect("wanted");
    world.carry();
    world.lose = |_| false;
    world.run(Duration::from_millis(400));
    assert_eq!(world.outcome(call_id), Some(&Ok(b"done".to_vec())), "a lost answer is asked for");
    assert_eq!(world.at_server.runs.len(), 1);
}

#[test]
fn hazard_8_sessions_are_bounded_and_asks_repeat_without_harm() {
    let mut limits = EndpointLimits { sessions: 4, sessions_of_client: 3, ..EndpointLimits::default() };
    limits.idle_max = Duration::from_secs(2);
    let server = EndpointOptions { limits, ..options(2, 1472, true) };
    let mut world = World::with(options(1, 1472, false), server);
    // The session request arrives three times.
    let ask = world.at_client.sent[0].clone();
    world.at_client.sent.extend([ask.clone(), ask]);
    world.carry();
    assert_eq!(world.server.sessions_taken(), 1);
    let more: Vec<SessionId> = (0..5).map(|_| world.client.connect(world.now, SERVER, &mut world.at_client)).collect();
    world.carry();
    assert_eq!(world.server.sessions_taken(), 3, "of one client");
    assert_eq!(more.iter().filter(|session| world.client.is_open(**session)).count(), 2);
    // Sessions of silent clients go.
    world.run(Duration::from_secs(10));
    assert_eq!(world.server.sessions_taken(), 0);
    let lost = world.call(b"x");
    world.run(Duration::from_secs(1));
    assert_eq!(world.outcome(lost), Some(&Err(Failure::Unknown(Reason::SessionLost))));
    let fine = world.call(b"x");
    world.run(Duration::from_millis(50));
    assert!(matches!(world.outcome(fine), Some(Ok(_))));
}

#[test]
fn a_server_started_anew_leaves_calls_in_doubt_and_idempotent_ones_run_again() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    let doubt = world.call(b"L");
    let options_again = CallOptions { idempotent: true, ..CallOptions::default() };
    let again =
        world.client.call(world.now, world.session, b"Laa", &options_again, &mut world.at_client).expect("accepted");
    world.run(Duration::from_millis(5));
    assert_eq!(world.at_server.runs.len(), 2);
    world.server = Endpoint::new(world.now, &options(3, 1472, true), &security(), 99);
    world.at_server.later = None;
    world.run(Duration::from_secs(2));
    assert_eq!(world.outcome(doubt), Some(&Err(Failure::Unknown(Reason::SessionLost))));
    assert_eq!(world.outcome(again), Some(&Ok(b"aaL".to_vec())));
    assert_eq!(world.at_server.runs.len(), 3);
}

/// A server with a short receive buffer restarts. The buffer holds only the client's request.
#[test]
fn what_a_client_repeats_does_not_hide_that_it_asks_for_its_session() {
    for (first_len, idempotent) in [(0, false), (0, true), (20_000, false), (20_000, true)] {
        let mut world = World::with(options(1, 65_507, false), options(2, 65_507, true));
        let first = world.call(&pattern(first_len));
        world.run(Duration::from_millis(15));
        assert!(world.outcome(first).is_some());
        let anew = EndpointOptions { receive_bytes: 20_000, ..options(3, 65_507, true) };
        world.server = Endpoint::new(world.now, &anew, &security(), 99);
        world.buffer = 20_000;
        let options = CallOptions { idempotent, ..CallOptions::default() };
        let request = pattern(20_000);
        let call_id = world.client.call(world.now, world.session, &request, &options, &mut world.at_client);
        let call_id = call_id.expect("accepted");
        world.run(Duration::from_millis(500));
        if idempotent {
            world.assert_answer(call_id, &reversed(&request));
        } else {
            assert_eq!(world.outcome(call_id), Some(&Err(Failure::Unknown(Reason::SessionLost))));
        }
    }
}

/// Losses repeat at the same place of what the client repeats.
#[test]
fn losses_that_repeat_themselves_starve_no_call() {
    type Loses = fn(u64) -> bool;
    let losses: [(&str, Loses); 7] = [
        ("the first of three", |n| n % 3 == 1),
        ("the second of three", |n| n % 3 == 2),
        ("the third of three", |n| n % 3 == 0),
        ("the first two of four", |n| n % 4 == 1 || n % 4 == 2),
        ("the second two of four", |n| n % 4 == 2 || n % 4 == 3),
        ("the last two of four", |n| n % 4 == 3 || n % 4 == 0),
        ("the last and the first of four", |n| n % 4 < 2),
    ];
    for (name, lose) in losses {
        for (started_anew, buffer) in [(false, u64::MAX), (false, 20_000), (true, u64::MAX), (true, 20_000)] {
            for len in [0, 20_000] {
                let mut world = World::with(options(1, 65_507, false), options(2, 65_507, true));
                world.run(Duration::from_millis(1));
                if started_anew {
                    world.server = Endpoint::new(world.now, &options(3, 65_507, true), &security(), 99);
                }
                (world.carried, world.buffer, world.lose) = (0, buffer, lose);
                let options = CallOptions { idempotent: true, ..CallOptions::default() };
                let request = pattern(len);
                let call_ids: Vec<ClientCallId> = (0..5)
                    .map(|_| world.client.call(world.now, world.session, &request, &options, &mut world.at_client))
                    .map(|call_id| call_id.expect("accepted"))
                    .collect();
                world.run(Duration::from_secs(8));
                let answered =
                    call_ids.iter().filter(|call_id| matches!(world.outcome(**call_id), Some(Ok(_)))).count();
                assert_eq!(answered, 5, "{name} lost, {len} bytes, buffer of {buffer}, started anew: {started_anew}");
            }
        }
    }
}

#[test]
fn both_sides_are_told_what_the_other_offers_and_when_the_session_is_over() {
    let mut world = World::new();
    let call_id = world.call(b"abc");
    world.run(Duration::from_millis(1));
    world.assert_answer(call_id, b"cba");
    let met = |sessions, peer: u8| BTreeMap::from([(Incarnation(u64::from(peer)), (sessions, vec![peer; 5]))]);
    assert_eq!((&world.at_client.met, &world.at_server.met), (&met(1, 2), &met(1, 1)));
    world.client.close(world.now, world.session, &mut world.at_client);
    world.run(Duration::from_millis(1));
    assert_eq!((&world.at_client.met, &world.at_server.met), (&met(0, 2), &met(0, 1)));
    // A server that comes back as another incarnation is met anew.
    world.session = world.client.connect(world.now, SERVER, &mut world.at_client);
    world.run(Duration::from_millis(1));
    world.server = Endpoint::new(world.now, &options(3, 1472, true), &security(), 99);
    world.call(b"abc");
    world.run(Duration::from_secs(2));
    assert_eq!(world.at_client.met[&Incarnation(2)].0, 0);
    assert_eq!(world.at_client.met[&Incarnation(3)].0, 1);
}

#[test]
fn long_messages_of_many_calls_wait_for_no_timer() {
    // Two packets each, more than the window: first answers, then requests whose handlers answer late.
    let narrow = |me, packet_bytes_max, serves| EndpointOptions {
        limits: EndpointLimits { window_packets: 4, ..EndpointLimits::default() },
        receive_bytes: 8 << 20,
        ..options(me, packet_bytes_max, serves)
    };
    let mut world = World::with(narrow(1, 40_000, false), narrow(2, 40_000, true));
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(b'L');
    let answers: Vec<ClientCallId> = (0..8).map(|_| world.call(b"L")).collect();
    world.carry();
    for (call, _) in std::mem::take(&mut world.at_server.waiting) {
        world.server.answer(world.now, call, Some(pattern(64_000).into()), &mut world.at_server).expect("wanted");
    }
    world.carry();
    assert!(answers.iter().all(|call_id| world.outcome(*call_id).is_some()));
    let mut world = World::with(narrow(1, 40_000, false), narrow(2, 40_000, true));
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(0);
    let requests: Vec<ClientCallId> = (0..8).map(|_| world.call(&pattern(64_000))).collect();
    world.carry();
    assert_eq!(world.at_server.waiting.len(), requests.len());
    // Short messages as well.
    let mut world = World::with(narrow(1, 1472, false), narrow(2, 1472, true));
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(b'L');
    for _ in 0..8 {
        world.call(b"L");
    }
    world.carry();
    assert_eq!(world.at_server.waiting.len(), 8);
}

#[test]
fn whoever_waits_for_room_is_not_overtaken_for_ever() {
    // The server's buffer holds two requests at once.
    let server = EndpointOptions { receive_bytes: 16 << 10, ..options(2, 1472, true) };
    let mut world = World::with(options(1, 1472, false), server);
    world.run(Duration::from_millis(1));
    let mut call_ids: Vec<ClientCallId> = (0..8).map(|_| world.call(b"x")).collect();
    for _ in 0..400 {
        // One exchange at a time, as between polled processes.
        for (_, mut packet) in std::mem::take(&mut world.at_client.sent) {
            let packet = Packet::Lent(&mut packet);
            world.server.handle_packet(world.now, Origin::Network(CLIENT), packet, &mut world.at_server);
        }
        world.server.poll(world.now, &mut world.at_server);
        for (_, mut packet) in std::mem::take(&mut world.at_server.sent) {
            let packet = Packet::Lent(&mut packet);
            world.client.handle_packet(world.now, Origin::Network(SERVER), packet, &mut world.at_client);
            let open = call_ids.iter().filter(|call_id| world.outcome(**call_id).is_none()).count();
            if open < 8 {
                call_ids.push(world.call(b"x"));
            }
        }
        world.client.poll(world.now, &mut world.at_client);
    }
    let waits = call_ids.iter().position(|call_id| world.outcome(*call_id).is_none()).expect("some are under way");
    assert!(call_ids.len() > 200 && waits + 24 > call_ids.len(), "the {waits}th of {} waits", call_ids.len());
}

#[test]
fn round_trips_are_no_pauses() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(b'L');
    for n in 0..20_usize {
        // Probes and acks that wait do not make a call look slow.
        let call_id = world.call(if n % 2 == 0 { b"L" } else { b"short" });
        world.run(Duration::from_millis(60));
        for (call, _) in std::mem::take(&mut world.at_server.waiting) {
            world.server.answer(world.now, call, Some(pattern(20_000).into()), &mut world.at_server).expect("wanted");
        }
        world.run(Duration::from_millis(60));
        assert!(world.outcome(call_id).is_some());
    }
    world.lose = |_| true;
    let call_id = world.call(b"lost");
    world.carry();
    world.lose = |_| false;
    // It is probed after the minimum of a timer.
    world.run(Duration::from_millis(6));
    world.assert_answer(call_id, b"tsol");
}

#[test]
fn nothing_is_kept_for_long_of_what_is_over() {
    let mut world = World::with(options(1, 9000, false), options(2, 9000, true));
    world.run(Duration::from_millis(1));
    // The server soon learns of a long answer's arrival, even if no other call follows.
    for len in [0, 100, 3_000, 100_000] {
        world.call(&pattern(len));
        world.run(Duration::from_millis(20));
        assert!(world.server.held_bytes() <= 2048, "{len} bytes: {} are held", world.server.held_bytes());
    }
    // The handler answers late, and neither the answer nor the cancel arrives.
    world.at_server.later = Some(b'L');
    let call_id = world.call(b"L");
    world.carry();
    world.lose = |_| true;
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(pattern(100_000).into()), &mut world.at_server).expect("wanted");
    world.run(Duration::from_secs(11));
    assert_eq!(world.outcome(call_id), Some(&Err(Failure::Unknown(Reason::Deadline))));
    assert!(world.server.held_bytes() >= 100_000);
    world.lose = |_| false;
    world.run(Duration::from_secs(45));
    assert!(world.server.held_bytes() <= 2048, "{} are held", world.server.held_bytes());
    assert!(world.client.is_open(world.session) && world.server.sessions_taken() == 1);
}

#[test]
fn a_client_at_another_address_is_answered_there() {
    let mut world = World::new();
    let call_id = world.call(b"abc");
    world.run(Duration::from_millis(1));
    world.assert_answer(call_id, b"cba");
    let old = world.at_client.sent.len();
    assert_eq!(old, 0);
    let hand = |world: &mut World, mut packet: Vec<u8>, from: SocketAddr| {
        world.server.handle_packet(world.now, Origin::Network(from), Packet::Lent(&mut packet), &mut world.at_server);
        world.server.poll(world.now, &mut world.at_server);
        world.at_server.sent.drain(..).map(|(to, _)| to).collect::<Vec<_>>()
    };
    world.call(b"def");
    let (_, first) = world.at_client.sent.pop_front().expect("it calls");
    world.call(b"ghi");
    let (_, second) = world.at_client.sent.pop_front().expect("it calls");
    // Its answer, and a challenge.
    assert_eq!(hand(&mut world, second.clone(), MOVED), [MOVED; 2]);
    // Packets from before the move, and an old packet that was replayed, do not show where it is now.
    let again = [hand(&mut world, first, CLIENT), hand(&mut world, second, CLIENT)].concat();
    assert!(again.iter().all(|to| *to == MOVED), "{again:?}");
}

#[test]
fn a_session_has_more_packets_than_are_told_apart() {
    let mut world = World::new();
    let first = world.call(b"first");
    let (_, old) = world.at_client.sent.front().cloned().expect("it asks for a session");
    world.carry();
    world.assert_answer(first, b"tsrif");
    world.call(b"an early one");
    let (_, early) = world.at_client.sent.front().cloned().expect("it calls");
    world.carry();
    let runs = world.server.counters().served;
    const CALLS: u64 = 70_000;
    for call in 0..CALLS {
        let request = call.to_le_bytes();
        let call_id = world.call(&request);
        world.carry();
        world.assert_answer(call_id, &reversed(&request));
        world.at_client.outcomes.clear();
        world.now += Duration::from_micros(10);
    }
    assert_eq!(world.server.counters().served, runs + CALLS);
    for mut packet in [old, early] {
        let origin = Origin::Network(CLIENT);
        world.server.handle_packet(world.now, origin, Packet::Lent(&mut packet), &mut world.at_server);
    }
    world.carry();
    assert_eq!(world.server.counters().served, runs + CALLS, "an old packet ran again");
    assert_eq!(world.server.counters().drops[DropReason::Replayed.index()], 1);
    assert_eq!(world.server.sessions_taken(), 1);
}

#[test]
fn an_answer_longer_than_is_taken_is_given_up_at_its_server() {
    let mut client = options(1, 1472, false);
    client.limits.message_bytes = 10_000;
    let mut world = World::with(client, options(2, 1472, true));
    world.at_server.later = Some(b'L');
    world.run(Duration::from_millis(1));
    let call_id = world.call(b"L");
    world.carry();
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(pattern(50_000).into()), &mut world.at_server).expect("wanted");
    world.run(Duration::from_millis(20));
    assert_eq!(world.outcome(call_id), Some(&Err(Failure::Unknown(Reason::AnswerTooLong))));
    assert_eq!(world.server.held_bytes(), 0, "it counts as under way, and other answers wait");
}

#[test]
fn a_full_server_that_forgot_a_session_says_so_before_the_deadline() {
    let mut world = World::new();
    let call_id = world.call(b"abc");
    world.run(Duration::from_millis(1));
    world.assert_answer(call_id, b"cba");
    let full = EndpointLimits { sessions: 0, ..EndpointLimits::default() };
    world.server =
        Endpoint::new(world.now, &EndpointOptions { limits: full, ..options(3, 1472, true) }, &security(), 9);
    let (in_doubt, again) = (world.call(b"abc"), world.call(b"def"));
    world.run(Duration::from_secs(2));
    assert_eq!(world.outcome(in_doubt), Some(&Err(Failure::Unknown(Reason::SessionLost))));
    assert!(world.outcome(again).is_some());
    let late = world.call(b"ghi");
    world.run(Duration::from_secs(2));
    assert_eq!(world.outcome(late), Some(&Err(Failure::NotExecuted(Reason::Refused(Refusal::Busy)))));
}

#[test]
fn forged_and_foreign_packets_change_nothing() {
    let mut world = World::new();
    let call_id = world.call(b"x");
    world.run(Duration::from_millis(1));
    assert!(world.outcome(call_id).is_some());
    world.call(b"y");
    let (_, packet) = world.at_client.sent.pop_back().expect("it went out");
    let at_server = |world: &mut World, mut bytes: Vec<u8>| {
        let packet = Packet::Lent(&mut bytes);
        world.server.handle_packet(world.now, Origin::Network(CLIENT), packet, &mut world.at_server);
    };
    // Every bit counts: header, frames and tag.
    for bit in 0..packet.len() * 8 {
        let mut bad = packet.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        at_server(&mut world, bad);
    }
    // Sealed by a member of the cell, for a session secret other than this session's.
    let key = security();
    let mut sealer = crate::seal::Sealer::new(&key, "test", Incarnation(1));
    for (number, session_secret) in (1 << 40..).zip([1, 2, u64::MAX]) {
        let mut forged = Vec::new();
        sealer.header(Kind::Session, Space(0), PacketNumber(number)).write(&mut forged);
        forged.extend_from_slice(&packet[24..packet.len() - 16]);
        sealer.seal(Incarnation(session_secret), &mut forged);
        at_server(&mut world, forged);
    }
    assert_eq!(world.at_server.runs.len(), 1, "only the packet that was sent");
    assert!(world.server.counters().drops[DropReason::BadTag.index()] > 0);
    at_server(&mut world, packet);
    assert_eq!(world.at_server.runs.len(), 2);
}

#[test]
fn a_handler_that_answers_twice_is_told() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    let call_id = world.call(b"L");
    world.run(Duration::from_millis(1));
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(b"1".into()), &mut world.at_server).expect("wanted");
    let again = world.server.answer(world.now, call, Some(b"2".into()), &mut world.at_server);
    assert_eq!(again, Err(AnswerError::NotWanted));
    world.run(Duration::from_millis(1));
    assert_eq!(world.outcome(call_id), Some(&Ok(b"1".to_vec())));
}

#[test]
fn what_waits_on_its_way_is_not_sent_again() {
    let mut world = World::new();
    world.call(&pattern(100_000));
    world.run(Duration::from_millis(20));
    world.at_server.later = Some(b'L');
    let call_id = world.call(b"L");
    world.carry();
    let (call, _) = world.at_server.waiting.pop().expect("it runs");
    world.server.answer(world.now, call, Some(pattern(100_000).into()), &mut world.at_server).expect("wanted");
    world.waits = Some(VecDeque::new());
    world.run(Duration::from_millis(40));
    let probes = world.client.counters().probes;
    assert!(probes > 0, "it is asked for");
    let waited = world.waits.take().expect("it waits");
    world.at_server.sent.extend(waited);
    world.run(Duration::from_millis(10));
    world.assert_answer(call_id, &pattern(100_000));
    assert_eq!(world.server.counters().lost, 0);
    assert!(world.client.counters().duplicates <= probes, "one fragment goes again for each question");
}

#[test]
fn answers_from_many_keep_within_the_clients_buffer() {
    let mut world = World::new();
    world.run(Duration::from_millis(1));
    world.at_server.later = Some(b'L');
    let call_ids: Vec<ClientCallId> = (0..8).map(|_| world.call(b"L")).collect();
    world.carry();
    for (call, _) in std::mem::take(&mut world.at_server.waiting) {
        world.server.answer(world.now, call, Some(pattern(300_000).into()), &mut world.at_server).expect("wanted");
    }
    world.server.poll(world.now, &mut world.at_server);
    let charged: u64 = world.at_server.sent.iter().map(|(_, packet)| truesize(packet.len() as u64)).sum();
    assert!(charged <= 1 << 20, "{charged} bytes unasked");
    world.run(Duration::from_millis(100));
    for call_id in call_ids {
        world.assert_answer(call_id, &pattern(300_000));
    }
}

#[test]
fn a_session_has_as_many_slots_as_an_ack_has_room_for() {
    for asked in [context::SLOTS_MAX, context::SLOTS_MAX + 1, u8::MAX] {
        let limits = EndpointLimits { slots: asked, ..EndpointLimits::default() };
        let server = EndpointOptions { limits: limits.clone(), ..options(2, 576, true) };
        let mut world = World::with(EndpointOptions { limits, ..options(1, 576, false) }, server);
        world.at_server.later = Some(b'L');
        world.run(Duration::from_millis(1));
        let calls: Vec<ClientCallId> = (0..=usize::from(context::SLOTS_MAX)).map(|_| world.call(b"L")).collect();
        world.run(Duration::from_millis(2));
        assert_eq!(world.at_server.waiting.len(), usize::from(context::SLOTS_MAX), "one call waits for a slot");
        for (call, _) in std::mem::take(&mut world.at_server.waiting) {
            world.server.answer(world.now, call, Some(b"done".into()), &mut world.at_server).expect("wanted");
        }
        world.run(Duration::from_millis(5));
        let last = world.at_server.waiting.pop().expect("it got a slot").0;
        world.server.answer(world.now, last, Some(b"done".into()), &mut world.at_server).expect("wanted");
        world.run(Duration::from_millis(5));
        assert!(calls.iter().all(|call| world.outcome(*call) == Some(&Ok(b"done".to_vec()))));
    }
}

/// Probes for all slots at once exceed one packet of the minimum length.
#[test]
fn frames_of_all_slots_go_out_in_packets_of_the_least_length() {
    let limits = EndpointLimits { slots: context::SLOTS_MAX, ..EndpointLimits::default() };
    let server = EndpointOptions { limits: limits.clone(), ..options(2, 576, true) };
    let mut world = World::with(EndpointOptions { limits, ..options(1, 576, false) }, server);
    world.at_server.later = Some(b'L');
    world.run(Duration::from_millis(1));
    let calls: Vec<ClientCallId> = (0..context::SLOTS_MAX).map(|_| world.call(b"L")).collect();
    world.run(Duration::from_millis(2));
    let mut most = 0;
    for _ in 0..1000 {
        world.now += Duration::from_millis(1);
        world.client.poll(world.now, &mut world.at_client);
        let lengths = || world.at_client.sent.iter().map(|(_, packet)| packet.len());
        assert!(lengths().all(|len| len <= 576), "{:?}", lengths().max());
        most = most.max(lengths().sum());
        world.carry();
    }
    assert!(most > 576, "{most} bytes of probes at once");
    for (call, _) in std::mem::take(&mut world.at_server.waiting) {
        world.server.answer(world.now, call, Some(b"done".into()), &mut world.at_server).expect("wanted");
    }
    world.run(Duration::from_millis(5));
    assert!(calls.iter().all(|call| world.outcome(*call) == Some(&Ok(b"done".to_vec()))));
}

#[test]
fn probes_are_never_farther_apart_than_the_longest_patience() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    world.call(b"L");
    world.run(Duration::from_secs(2));
    let before = world.client.counters().probes;
    world.run(Duration::from_secs(5));
    let asked = world.client.counters().probes - before;
    assert!((49..=51).contains(&asked), "every 100 ms: {asked} in five seconds");
}

#[test]
fn a_cancel_that_nobody_confirms_is_given_up_after_its_last_repeat() {
    let mut world = World::new();
    world.at_server.later = Some(b'L');
    let call = world.call(b"L");
    world.run(Duration::from_millis(2));
    world.lose = |_| true;
    assert!(world.client.cancel(world.now, world.session, call, &mut world.at_client));
    let mut gone = 0;
    while world.outcome(call).is_none() {
        world.run(Duration::from_millis(1));
        gone += 1;
        assert!(gone < 2_000, "it must end");
    }
    assert_eq!(world.outcome(call), Some(&Err(Failure::Unknown(Reason::Cancelled))));
}

#[test]
fn a_cancel_is_given_up_in_time_whatever_else_waits_for_a_silent_server() {
    for (before, after) in [(7, 0), (0, 7), (3, 4)] {
        let mut world = World::new();
        world.at_server.later = Some(b'L');
        let mut call_ids: Vec<ClientCallId> = (0..=before + after).map(|_| world.call(b"L")).collect();
        world.run(Duration::from_millis(2));
        world.lose = |_| true;
        world.run(Duration::from_millis(500));
        let call = call_ids.swap_remove(before);
        assert!(world.client.cancel(world.now, world.session, call, &mut world.at_client));
        world.run(Duration::from_secs(2));
        assert_eq!(
            world.outcome(call),
            Some(&Err(Failure::Unknown(Reason::Cancelled))),
            "{before} before, {after} after"
        );
        assert!(call_ids.iter().all(|call_id| world.outcome(*call_id).is_none()), "the others have ten seconds");
    }
}

#[test]
fn calls_that_a_silent_server_does_not_answer_are_asked_for_in_turn() {
    let mut world = World::new();
    world.carry();
    // Calls, and the session request, are told apart by their lengths.
    for len in [300, 400, 500, 600] {
        world.call(&pattern(len));
    }
    let mut sent = [0; 7];
    for _ in 0..5_000 {
        for (_, packet) in world.at_client.sent.drain(..) {
            sent[packet.len() / 100] += 1;
        }
        world.now += Duration::from_millis(1);
        world.client.poll(world.now, &mut world.at_client);
    }
    assert!(sent[3..].iter().all(|times| (6..=12).contains(times)), "{sent:?}");
}

#[test]
fn a_session_in_which_nobody_spoke_goes_after_the_time_it_may_be_unused() {
    let mut world = World::new();
    world.carry();
    assert_eq!(world.server.sessions_taken(), 1);
    world.lose = |_| true;
    world.run(Duration::from_millis(4_500));
    assert_eq!(world.server.sessions_taken(), 1);
    world.run(Duration::from_secs(2));
    assert_eq!(world.server.sessions_taken(), 0);
}

#[test]
fn an_offer_is_told_up_to_its_bound_and_not_beyond() {
    for (len, told) in [(OFFER_BYTES_MAX, OFFER_BYTES_MAX), (OFFER_BYTES_MAX + 1, 0)] {
        let client = EndpointOptions { offer: vec![7; len], ..options(1, 1472, false) };
        let mut world = World::with(client, options(2, 1472, true));
        let call = world.call(b"abc");
        world.run(Duration::from_millis(1));
        world.assert_answer(call, b"cba");
        assert_eq!(world.at_server.met.get(&Incarnation(1)).map_or(0, |(_, offer)| offer.len()), told);
    }
}

#[test]
fn a_plain_endpoint_forgets_the_calls_it_has_no_room_for_and_serves_the_next() {
    let plain = |me| {
        let options =
            UnreliableOptions { cell: "test".into(), me: Incarnation(me), packet_bytes: 1472, message_bytes: 1 << 20 };
        UnreliableEndpoint::new(&options, &security())
    };
    let (mut client, mut server) = (plain(1), plain(2));
    let (mut at_client, mut at_server) = (Place::default(), Place::default());
    let mut early = Vec::new();
    for _ in 0..=unreliable::ENTRIES_MAX {
        early.push(client.call(SERVER, b"ab", &mut at_client));
    }
    let mut carry = |client: &mut UnreliableEndpoint, at_client: &mut Place| {
        while let Some((_, mut packet)) = at_client.sent.pop_front() {
            server.handle_packet(Origin::Network(CLIENT), Packet::Lent(&mut packet), &mut at_server);
        }
        while let Some((_, mut packet)) = at_server.sent.pop_front() {
            client.handle_packet(Origin::Network(SERVER), Packet::Lent(&mut packet), at_client);
        }
    };
    carry(&mut client, &mut at_client);
    let answered = early.iter().filter(|call| at_client.outcomes.contains_key(call)).count();
    assert_eq!(answered, 1, "all but the last were forgotten");
    let next = client.call(SERVER, b"ab", &mut at_client);
    carry(&mut client, &mut at_client);
    assert_eq!(at_client.outcomes.get(&next), Some(&Ok(b"ba".to_vec())));
}

#[test]
fn the_longest_head_of_a_plain_frame_is_not_longer_than_reckoned() {
    let mut out = vec![0];
    (0..3).for_each(|_| crate::wire::codec::put_varint(&mut out, u64::MAX));
    assert!(out.len() <= unreliable::HEAD_MAX, "{}", out.len());
}
