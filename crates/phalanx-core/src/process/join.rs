//! Joining a cell.
//!
//! A joiner probes its seed addresses. A member answers with a challenge: a cookie, for which it keeps no memory. Only
//! the answer to a fresh challenge of the coordinator becomes a join, so a replayed packet creates no phantom member.
//! Handshakes are not retransmitted: the joiner repeats its probes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::founding::Foundation;
use super::packets::CHANNEL_WINDOW_MIN;
use super::path_probes::SILENCE_LEVEL;
use super::port::Peer;
use super::{Process, Stage};
use crate::api::{Effects, Event, Founding, GroupTerms};
use crate::id::{CellInstance, Incarnation, MemberInfo, Rank, TrafficClass, ViewNumber, fits_name};
use crate::member::{Directory, Mismatch, SUSPECTERS_MAX, mismatch, read_requested_terms, requested_terms};
use crate::rng::Rng;
use crate::time::Instant;
use crate::wire::{DropReason, Tags, put_with_tail, read_with_tail};

/// Where this process asks for its cell.
pub(super) struct Probing {
    seed_turn: usize,
    /// Nonces of the last two probes. Answers with other nonces are replays.
    nonces: [u64; 2],
    /// When a member last asked around.
    asked_at: Instant,
    /// The coordinator's address as last reported. A process that is not in the cell's newest view asks there first.
    pub(super) coordinator: Option<SocketAddr>,
}

/// The search for a cell.
pub(super) struct Search {
    next_probe: Instant,
    probes: u64,
    answers: u64,
    pub(super) refused: Option<String>,
    /// Whether it was refused for a setting, which only a restart of some process changes.
    differs: bool,
    /// Set while it is held back after an exclusion: when it was notified, and the members that it must be able to talk
    /// with first.
    held_back: Option<(Instant, Vec<SocketAddr>)>,
    next_report: Instant,
    pub(super) founding: Foundation,
}

/// Agreed terms of groups, by name and by the joiner that would found the group.
type RequestedTerms = BTreeMap<(String, Incarnation), GroupTerms>;

/// A process that asks to come in.
pub(super) struct Joiner {
    pub(super) info: MemberInfo,
    pub(super) groups: Vec<String>,
    /// Terms of each group if the joiner founds it.
    pub(super) terms: Vec<Option<GroupTerms>>,
    pub(super) first: Instant,
    pub(super) last: Instant,
}

/// Contents of handshake packets.
#[derive(Serialize, Deserialize)]
enum JoinHandshake {
    /// Asks whether there is a cell. Padded, so that the answer is never longer and no sender can use members to
    /// amplify traffic.
    ///
    /// A member names its instance and view. It may have been left out by processes that are gone, if it hears no
    /// quorum; a coordinator may be the only one that knows where such a member is. View 0 stands for a founder of an
    /// earlier build that was in that instance.
    Probe { info: MemberInfo, nonce: u64, member_of: Option<(CellInstance, ViewNumber)>, padding: Vec<u8> },
    /// Asks for a proof of address: the joiner sends the cookie back.
    Challenge {
        nonce: u64,
        stamp: u64,
        cookie: [u8; 16],
        view: ViewNumber,
        coordinator: SocketAddr,
        is_coordinator: bool,
    },
    /// The proof, with the request to be taken in.
    Join { info: MemberInfo, nonce: u64, stamp: u64, cookie: [u8; 16], groups: Vec<String> },
    /// The request is refused.
    Refused { nonce: u64, why: JoinRefusal },
}

/// Why a joiner is not taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum JoinRefusal {
    /// A living member has that name.
    NameTaken,
    /// The cell has as many members as it may.
    Full,
    /// A decided view took this incarnation in, and the view with this number or an earlier one left it out.
    Excluded(ViewNumber),
    /// A setting differs, or the joiner does not know the level in force.
    Differs(Mismatch),
    /// The process was excluded recently and has to wait. Exists from level 5 on.
    HeldBack {
        /// Minimum time to wait, in milliseconds.
        wait_ms: u64,
        /// Members that it must be able to talk with first, because they did not hear it or were not heard by it: names
        /// and control sockets.
        away: Vec<(String, SocketAddr)>,
    },
}

/// Time for which a challenge is valid, beside the joiner's longest interval between polls.
const COOKIE_TTL: Duration = Duration::from_secs(4);
/// Time for which a process that was notified to wait does so, unless it is notified again.
const HELD_BACK_FOR: Duration = Duration::from_secs(3);
/// Upper bound on used cookies that are remembered. More joins within a cookie's validity are refused.
const USED_MAX: usize = 4096;

/// Cookies that were already used. Each is valid for one join.
#[derive(Debug, Default)]
pub(super) struct UsedCookies(VecDeque<(Instant, [u8; 16])>);

impl UsedCookies {
    /// Uses up a cookie that is valid until `end`. Fails if it was used before, or if too many valid ones were.
    fn take(&mut self, now: Instant, end: Instant, cookie: [u8; 16]) -> Result<(), DropReason> {
        self.0.retain(|(end, _)| now < *end);
        if self.0.iter().any(|(_, used)| *used == cookie) {
            return Err(DropReason::Replayed);
        }
        if self.0.len() >= USED_MAX {
            return Err(DropReason::Overload);
        }
        debug_assert!(now < end, "a challenge that is met is not stale");
        self.0.push_back((end, cookie));
        Ok(())
    }
}

/// Time without a request after which a joiner is not proposed.
pub(super) const JOINER_TTL: Duration = Duration::from_millis(800);
/// Joiners gather for this time after the last one came, and at most for [`GATHER_MAX`] after the first.
const GATHER_QUIET: Duration = Duration::from_millis(100);
const GATHER_MAX: Duration = Duration::from_millis(600);
/// Interval between reports of a search without result.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// Tag in a member's challenge: its cell instance, 8 bytes.
const INSTANCE: u64 = 2;
/// Tag in a probe: the sender is about to found the instance after this one, 8 bytes. Earlier builds leave the number
/// out: then it is the instance that the sender is a member of.
const REFORMING: u64 = 3;
/// Tag in a member's challenge: the asking process was excluded recently and is held back. Any member then tells it why
/// if it asks to join.
const HELD: u64 = 5;
/// Length of the padding of a probe: about that of the longest answer.
const PROBE_PADDING: usize = 160;
const GROUPS_MAX: usize = 64;
/// Number of seeds asked with one probe, in turn.
const SEEDS_AT_ONCE: usize = 4;
/// A member that hears no quorum asks around once in this many probe intervals.
const LONE_PROBE_EVERY: u32 = 5;
/// A coordinator asks at seeds where no member is once in this many probe intervals.
const STRANGER_PROBE_EVERY: u32 = 20;
/// A process that was refused for a setting asks once in this many probe intervals.
const DIFFERING_PROBE_EVERY: u32 = 10;
/// Upper bound on unheard members asked at a time: half of a large cell may ask about the other half.
const LONE_TARGETS_MAX: usize = 64;
const _: () = assert!(GATHER_QUIET.as_nanos() <= GATHER_MAX.as_nanos(), "joiners gather for a time");
const _: () =
    assert!(GATHER_MAX.as_nanos() < JOINER_TTL.as_nanos(), "a joiner that waits for others is still proposed");
const _: () =
    assert!(JOINER_TTL.as_nanos() < COOKIE_TTL.as_nanos(), "a proposed joiner has proved recently that it lives");
const _: () = assert!(SEEDS_AT_ONCE > 0, "a probe goes somewhere");
const _: () = assert!(INSTANCE != REFORMING && REFORMING != HELD && INSTANCE != HELD, "a tag means one thing");
const _: () = assert!(LONE_PROBE_EVERY < STRANGER_PROBE_EVERY, "a lone member looks for others more often");

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Keeps as many random targets as may be asked at a time.
fn keep_some(targets: &mut Vec<SocketAddr>, rng: &mut Rng) {
    if targets.len() > LONE_TARGETS_MAX {
        let first = usize::try_from(rng.below(targets.len() as u64)).unwrap_or(0);
        targets.rotate_left(first);
        targets.truncate(LONE_TARGETS_MAX);
    }
}

impl Probing {
    pub(super) fn new(now: Instant) -> Self {
        Self { seed_turn: 0, nonces: [0; 2], asked_at: now, coordinator: None }
    }
}

impl Search {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next_probe: now,
            probes: 0,
            answers: 0,
            refused: None,
            differs: false,
            held_back: None,
            next_report: now + REPORT_EVERY,
            founding: Foundation::default(),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.next_probe
    }

    /// Addresses of the members that it must be able to talk with, while it is held back.
    fn away_at(&self, now: Instant) -> Option<&[SocketAddr]> {
        let (told, away) = self.held_back.as_ref()?;
        (now.since(*told) < HELD_BACK_FOR).then_some(away)
    }
}

/// Statements about the sender of a challenge and the process that probed.
#[derive(Clone, Copy)]
struct Answerer {
    is_coordinator: bool,
    /// Whether the process that probed is held back: any member tells it why if it asks to join.
    is_held: bool,
}

impl Process {
    /// Takes one step of the search.
    pub(super) fn search(&mut self, now: Instant, fx: &mut impl Effects) {
        if let Some(since) = self.leaving
            && now.since(since) > Duration::ZERO
        {
            return self.end(Event::Left);
        }
        let mut targets = match self.set.founding {
            Founding::Alone => return self.found_alone(now, fx),
            Founding::Reform(_) => self.found_next(now, fx),
            Founding::Join | Founding::Named(_) => Vec::new(),
        };
        let Stage::Searching(search) = &mut self.stage else { return };
        if now < search.next_probe {
            return;
        }
        // Jitter keeps processes that start together from probing in step.
        let every = if search.differs { DIFFERING_PROBE_EVERY } else { 1 };
        search.next_probe = now + self.set.timing.probe * every + Duration::from_micros(self.rng.below(20_000));
        // Members that suspected it have to hear it first. It asks them, and they report with their heartbeats that
        // they can talk with it.
        targets.extend_from_slice(search.away_at(now).unwrap_or_default());
        targets.extend(self.probing.coordinator.filter(|told| !targets.contains(told)));
        let asked = self.probe(targets, None, fx);
        if let Stage::Searching(search) = &mut self.stage {
            search.probes += asked;
        }
        self.lead_founding(now, fx);
        self.report_search(now);
    }

    /// Asks `targets` and the next few seeds whether they are in the cell. Returns the number of addresses asked.
    pub(super) fn probe(
        &mut self,
        mut targets: Vec<SocketAddr>,
        member_of: Option<(CellInstance, ViewNumber)>,
        fx: &mut impl Effects,
    ) -> u64 {
        for _ in 0..self.set.seeds.len().min(SEEDS_AT_ONCE) {
            let seed = self.set.seeds[self.probing.seed_turn % self.set.seeds.len()];
            self.probing.seed_turn += 1;
            // In the primary only addresses without a member are asked: a process that lost sight of the cell may be
            // there.
            let is_member = self.primary && self.directory.members.iter().any(|m| m.control == seed);
            if !targets.contains(&seed) && seed != self.set.me.control && !is_member {
                targets.push(seed);
            }
        }
        if targets.is_empty() {
            return 0;
        }
        let asked = targets.len() as u64;
        self.counters.probes += asked;
        let mut tail = Tags::default();
        if let Some((instance, _)) = self.reformed() {
            tail.put(REFORMING, &instance.0.to_le_bytes());
        }
        self.announce_end(&mut tail);
        let nonce = self.rng.next_u64();
        self.probing.nonces = [self.probing.nonces[1], nonce];
        let info = self.set.me.clone();
        let probe = JoinHandshake::Probe { info, nonce, member_of, padding: vec![0; PROBE_PADDING] };
        self.send_handshake_with(&targets, &probe, &tail, fx);
        asked
    }

    /// Looks for members that lost sight of the cell, and for the cell if this member did.
    ///
    /// A member that hears no quorum asks whether the cell went on without it. The members that left it out, and would
    /// have notified it, may be gone. A coordinator asks at seeds where no member is: a process that lost sight of the
    /// cell may be there, and may look for it at addresses where nobody is any more.
    pub(super) fn ask_around(&mut self, now: Instant, fx: &mut impl Effects) {
        let every = if self.primary { STRANGER_PROBE_EVERY } else { LONE_PROBE_EVERY };
        if now.since(self.probing.asked_at) < self.set.timing.probe * every {
            return;
        }
        self.probing.asked_at = now;
        let member_of = Some((self.instance, self.directory.view));
        if !self.primary {
            let targets = self.lone_targets(now);
            self.probe(targets, member_of, fx);
        } else if self.lowest_eligible(now) == Some(self.my_rank()) {
            self.probe(Vec::new(), member_of, fx);
        }
    }

    /// Addresses to ask as a member without a quorum: those of unheard members, where another process may run now, and
    /// that of a process that reported a later view.
    fn lone_targets(&mut self, now: Instant) -> Vec<SocketAddr> {
        let me = self.me();
        let unheard = Rank::enumerate(&self.directory.members)
            .filter(|(rank, m)| m.incarnation != me && !self.failure_detector.hears(now, *rank));
        let mut targets: Vec<SocketAddr> = unheard.map(|(_, m)| m.control).collect();
        keep_some(&mut targets, &mut self.rng);
        targets.extend(self.probing.coordinator.filter(|told| !targets.contains(told)));
        targets
    }

    /// Whether this process looks for its cell and was recently notified that it was excluded and has to wait.
    #[must_use]
    pub fn must_wait_to_rejoin(&self) -> bool {
        matches!(&self.stage, Stage::Searching(search) if search.away_at(self.last_poll).is_some())
    }

    fn report_search(&mut self, now: Instant) {
        let Stage::Searching(search) = &mut self.stage else { return };
        if now < search.next_report {
            return;
        }
        search.next_report = now + REPORT_EVERY;
        let (refused, answers, probes) = (search.refused.clone(), search.answers, search.probes);
        let why = match (refused.or_else(|| self.founding_hindrance()), answers) {
            (Some(why), _) => why,
            (None, 0) if self.set.seeds.is_empty() => "no address of a member is known: name seeds".to_owned(),
            (None, 0) => format!(
                "none of {} addresses answers: no member runs there, or its cell name, cell key or version differs",
                self.set.seeds.len()
            ),
            (None, _) => "a member answers, and the cell has not taken this process in yet".to_owned(),
        };
        self.app.event(Event::Searching { probes, why });
    }

    fn send_handshake(&mut self, to: &[SocketAddr], handshake: &JoinHandshake, fx: &mut impl Effects) {
        self.send_handshake_with(to, handshake, &Tags::default(), fx);
    }

    fn send_handshake_with(
        &mut self,
        to: &[SocketAddr],
        handshake: &JoinHandshake,
        tail: &Tags,
        fx: &mut impl Effects,
    ) {
        let Ok(frames) = put_with_tail(handshake, tail, Vec::new()) else { return };
        if !to.is_empty() {
            let label = self.net.handshake();
            self.net.send(label, TrafficClass::Control, to, &frames, &mut self.counters, fx);
        }
    }

    pub(super) fn handle_handshake(
        &mut self,
        now: Instant,
        from: SocketAddr,
        sender: Incarnation,
        frames: &[u8],
        fx: &mut impl Effects,
    ) {
        let Ok((handshake, tail)) = read_with_tail::<JoinHandshake>(frames) else {
            return self.counters.drop(DropReason::Malformed);
        };
        match handshake {
            JoinHandshake::Probe { info, nonce, member_of, padding } => {
                // A shorter probe could be answered with more bytes than it has.
                if info.incarnation != sender || padding.len() < PROBE_PADDING || !fits_name(&info.name) {
                    return self.counters.drop(DropReason::Malformed);
                }
                self.hear_end(&tail, fx);
                if let Some(told) = tail.get(REFORMING)
                    && let Some(instance) = number(told).map(CellInstance).or(member_of.map(|(instance, _)| instance))
                {
                    self.hear_reformer(&info.name, instance);
                }
                match member_of {
                    None | Some((_, ViewNumber::NONE)) => self.answer_probe(now, from, &info, nonce, fx),
                    Some(member_of) => self.answer_member(now, &info, from, member_of, nonce, fx),
                }
            }
            JoinHandshake::Challenge { nonce, stamp, cookie, view, coordinator, is_coordinator } => {
                // Only the answer to a fresh probe shows a living member. A replayed one must not make a founder
                // believe that the cell exists, or a process renounce its instance.
                if view > ViewNumber::NONE && self.probing.nonces.contains(&nonce) {
                    let instance = tail.get(INSTANCE).and_then(number).map_or(CellInstance::NONE, CellInstance);
                    self.hear_member(instance, from, fx);
                    self.meet_instance(instance, from, true);
                    if matches!(self.stage, Stage::Over) {
                        return;
                    }
                }
                let is_held = tail.get(HELD).is_some();
                self.answer_challenge(
                    from,
                    nonce,
                    stamp,
                    cookie,
                    view,
                    coordinator,
                    Answerer { is_coordinator, is_held },
                    fx,
                );
            }
            JoinHandshake::Join { info, nonce, stamp, cookie, groups } => {
                if info.incarnation != sender || groups.len() > GROUPS_MAX || !fits_name(&info.name) {
                    return self.counters.drop(DropReason::Malformed);
                }
                let mut terms = vec![None; groups.len()];
                if read_requested_terms(&tail, terms.iter_mut()).is_err() {
                    return self.counters.drop(DropReason::Malformed);
                }
                self.take_join(now, from, info, nonce, stamp, cookie, (groups, terms), fx);
            }
            JoinHandshake::Refused { nonce, why } => {
                if !self.probing.nonces.contains(&nonce) {
                    return self.counters.drop(DropReason::Replayed);
                }
                self.handle_refusal(now, why);
            }
        }
    }

    fn handle_refusal(&mut self, now: Instant, why: JoinRefusal) {
        let why = match (why, &mut self.stage) {
            (_, Stage::Over) => return,
            (JoinRefusal::Excluded(view), _) => return self.be_excluded(view),
            (JoinRefusal::NameTaken, _) => {
                "a living member has this process's name: give each process a name of its own".to_owned()
            }
            (JoinRefusal::Full, _) => "the cell has as many members as its limit allows".to_owned(),
            (JoinRefusal::HeldBack { wait_ms, away }, stage) => {
                if away.len() > SUSPECTERS_MAX || !away.iter().all(|(name, _)| fits_name(name)) {
                    return self.counters.drop(DropReason::Malformed);
                }
                let why = held_back(wait_ms, &away);
                if let Stage::Searching(search) = stage {
                    search.held_back = Some((now, away.into_iter().map(|(_, address)| address).collect()));
                }
                why
            }
            (JoinRefusal::Differs(differs), _) if !differs.is_sound() => {
                return self.counters.drop(DropReason::Malformed);
            }
            (JoinRefusal::Differs(Mismatch { name, cell, other }), stage) => {
                let why = format!("{name} is {cell} in the cell and {other} here: it must be the same at all members");
                let differs = Event::Differs { setting: name, cell, own: other };
                if let Stage::Searching(search) = stage {
                    search.differs = true;
                    if search.refused.as_ref() != Some(&why) {
                        self.app.event(differs);
                    }
                }
                why
            }
        };
        if let Stage::Searching(search) = &mut self.stage {
            search.refused = Some(why);
        }
    }

    /// Answers a member that asks around. A later view of its instance without it is its exclusion; a later view with
    /// it means that it is behind. If it is itself in a later view, it knows the cell.
    fn answer_member(
        &mut self,
        now: Instant,
        info: &MemberInfo,
        from: SocketAddr,
        (instance, view): (CellInstance, ViewNumber),
        nonce: u64,
        fx: &mut impl Effects,
    ) {
        let (who, control) = (info.incarnation, info.control);
        if let Some(view) = self.view_of_nobody(instance).filter(|_| matches!(self.stage, Stage::Searching(_))) {
            return self.send_handshake(
                &[from],
                &JoinHandshake::Refused { nonce, why: JoinRefusal::Excluded(view) },
                fx,
            );
        }
        if matches!(self.stage, Stage::Member) && instance != self.instance {
            // Each of the two instances is to learn of the other.
            self.meet_instance(instance, from, false);
            return self.answer_probe(now, from, info, nonce, fx);
        }
        let lost = match self.stage {
            Stage::Searching(_) => true,
            Stage::Member => !self.primary && instance == self.instance && view > self.directory.view,
            _ => return,
        };
        if lost {
            self.probing.coordinator = Some(control);
            return;
        }
        if self.directory.view <= view {
            return;
        }
        if self.directory.rank(who).is_some() {
            // It hears nobody that could send it the decision: the members of its view are dead, and the others joined
            // with the decision.
            self.send_decision(who);
        } else if self.will_survive() {
            let why = JoinRefusal::Excluded(self.directory.view);
            self.send_handshake(&[from], &JoinHandshake::Refused { nonce, why }, fx);
        }
    }

    /// Answers a probe, as a member or as a founder to other founders.
    ///
    /// A process that asks and is in the view already missed its welcome. Any member may send it: the one that was to
    /// welcome it may be dead, and the coordinator may be deaf and not know the view.
    fn answer_probe(&mut self, now: Instant, from: SocketAddr, info: &MemberInfo, nonce: u64, fx: &mut impl Effects) {
        let missed = self.directory.rank(info.incarnation).is_some()
            && now.since(self.installed_at) >= self.set.timing.heartbeat;
        let (view, coordinator, is_coordinator) = match &self.stage {
            Stage::Member if missed => (self.directory.view, self.set.me.control, true),
            Stage::Member => {
                let rank = self.lowest_eligible(now).unwrap_or(self.my_rank());
                let to = self.directory.members.get(rank.index()).map_or(self.set.me.control, |m| m.control);
                (self.directory.view, to, rank == self.my_rank())
            }
            Stage::Searching(_) if self.is_named_founder(&info.name) || self.is_missed(info) => {
                (ViewNumber::NONE, self.set.me.control, true)
            }
            _ => return,
        };
        let stamp = now.nanos();
        let cookie = self.cookie(info, nonce, stamp);
        let challenge = JoinHandshake::Challenge { nonce, stamp, cookie, view, coordinator, is_coordinator };
        let mut tail = Tags::default();
        if view > ViewNumber::NONE {
            tail.put(INSTANCE, &self.instance.0.to_le_bytes());
        }
        if matches!(self.stage, Stage::Member) && self.notifies_held_back(now, info) {
            tail.put(HELD, &[]);
        }
        self.send_handshake_with(&[from], &challenge, &tail, fx);
    }

    /// Whether a held-back process knows the refusal that says so.
    fn notifies_held_back(&self, now: Instant, info: &MemberInfo) -> bool {
        self.directory.level.min(info.level) >= SILENCE_LEVEL && self.is_held_back(now, info)
    }

    fn cookie(&self, info: &MemberInfo, nonce: u64, stamp: u64) -> [u8; 16] {
        let data = cookie_data(info, nonce, stamp);
        self.cookie_key.mac(&data)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one handshake")]
    fn answer_challenge(
        &mut self,
        from: SocketAddr,
        nonce: u64,
        stamp: u64,
        cookie: [u8; 16],
        view: ViewNumber,
        coordinator: SocketAddr,
        Answerer { is_coordinator, is_held }: Answerer,
        fx: &mut impl Effects,
    ) {
        let is_told = self.welcomes.is_coming(self.last_poll, self.suspect_after());
        let Stage::Searching(search) = &mut self.stage else { return };
        if !self.probing.nonces.contains(&nonce) {
            return self.counters.drop(DropReason::Replayed);
        }
        search.answers += 1;
        if view > ViewNumber::NONE {
            self.probing.coordinator = Some(if is_coordinator { from } else { coordinator });
            if is_told {
                return; // a member sends its welcome already, and another one would send the same again
            }
        }
        // It may be unable to talk with the coordinator. Then other members report why it waits, and learn that it can
        // talk with them.
        if !is_coordinator && !is_held {
            // The coordinator is asked soon, not at once: stale coordinator addresses that point at each other must not
            // cause a packet storm. A process refused for a setting is in no hurry, because it would ask like this for
            // as long as it runs.
            if !search.differs {
                search.next_probe = search.next_probe.min(self.last_poll + self.set.timing.probe / 4);
            }
            return;
        }
        let wanted = || self.wants.iter().filter(|(_, want)| want.joins_at_once()).take(GROUPS_MAX);
        let groups = wanted().map(|(name, _)| name.clone()).collect();
        let tail = requested_terms(wanted().map(|(_, want)| Some(want.terms)));
        let info = self.set.me.clone();
        self.send_handshake_with(&[from], &JoinHandshake::Join { info, nonce, stamp, cookie, groups }, &tail, fx);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one handshake")]
    fn take_join(
        &mut self,
        now: Instant,
        from: SocketAddr,
        info: MemberInfo,
        nonce: u64,
        stamp: u64,
        cookie: [u8; 16],
        (groups, terms): (Vec<String>, Vec<Option<GroupTerms>>),
        fx: &mut impl Effects,
    ) {
        let life = COOKIE_TTL + info.turn_gap();
        let fresh = stamp <= now.nanos() && now.since(Instant(stamp)) < life;
        // The cookie proves that the joiner receives at its address. Until then this process keeps nothing about it, as
        // in DTLS.
        if !fresh || !self.cookie_key.verify(&cookie_data(&info, nonce, stamp), &cookie) {
            return self.counters.drop(DropReason::BadCookie);
        }
        // A replayed request would bring back a member that is gone, and the cell would wait for it
        // (`docs/field-bugs.md`, B3).
        if let Err(why) = self.used_cookies.take(now, Instant(stamp) + life, cookie) {
            return self.counters.drop(why);
        }
        if let Some(differs) = self.differs(&info)
            && self.directory.rank(info.incarnation).is_none()
        {
            self.counters.joins_differing += 1;
            return self.send_handshake(
                &[from],
                &JoinHandshake::Refused { nonce, why: JoinRefusal::Differs(differs) },
                fx,
            );
        }
        if matches!(self.stage, Stage::Searching(_)) {
            self.excuse(&info, fx);
            if self.is_named_founder(&info.name) {
                // It may have come back at another address, and is to hear of this process there.
                self.add_seeds(&[info.control]);
                self.meet_founder(now, info);
            }
            return;
        }
        self.counters.joins_taken += 1;
        if self.directory.rank(info.incarnation).is_some() {
            // It is in already. The member that was to welcome it may have died.
            return self.send_decision(info.incarnation);
        }
        if self.directory.departed.contains(&info.incarnation) {
            // This request was under way for long. Its sender may be needed as a member of the view before, so it is
            // not notified before the decree in force will survive.
            if self.will_survive() {
                let why = JoinRefusal::Excluded(self.directory.view);
                self.send_handshake(&[from], &JoinHandshake::Refused { nonce, why }, fx);
            }
            return;
        }
        if self.directory.members.len() + self.joiners.len() >= self.set.limits.members {
            return self.send_handshake(&[from], &JoinHandshake::Refused { nonce, why: JoinRefusal::Full }, fx);
        }
        // A name is free again when its member is silent. Right after an installation everybody counts as heard, so
        // that is no evidence that the name is taken.
        let name_taken = self.directory.members.iter().position(|m| m.name == info.name).is_some_and(|index| {
            self.failure_detector.hears(now, Rank::from_index(index))
                && now.since(self.installed_at) > self.set.timing.suspect_after
        });
        let joiner = self.joiners.entry(info.incarnation).or_insert_with(|| Joiner {
            info: info.clone(),
            groups: Vec::new(),
            terms: Vec::new(),
            first: now,
            last: now,
        });
        joiner.info = info;
        joiner.last = now;
        (joiner.groups, joiner.terms) = (groups, terms);
        if name_taken && now.since(joiner.first) > self.set.timing.suspect_after * 2 {
            return self.send_handshake(&[from], &JoinHandshake::Refused { nonce, why: JoinRefusal::NameTaken }, fx);
        }
        let info = joiner.info.clone();
        let (me, who) = (self.me(), info.incarnation);
        self.note_reached(now, me, &[who]);
        if self.notifies_held_back(now, &info) {
            self.counters.joins_held_back += 1;
            let (wait, away) = self.holders_back(now, &info);
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let away = away.into_iter().map(|member| (member.name, member.control)).collect();
            self.send_handshake(
                &[from],
                &JoinHandshake::Refused { nonce, why: JoinRefusal::HeldBack { wait_ms, away } },
                fx,
            );
        }
        self.attention = true;
    }

    /// Joiners that may be proposed now, with the groups that they want and the terms for groups that they would found.
    /// They gather for a moment, so that processes that start together enter in few views.
    pub(super) fn ready_joiners(&mut self, now: Instant) -> (Vec<(MemberInfo, Vec<String>)>, RequestedTerms) {
        let Directory { level, settings, .. } = &self.directory;
        // A joiner that differs since the level rose is dropped here. Proposed again and again, it would make the
        // coordinator decide without end. It is refused when it asks again.
        let fits = |j: &Joiner| mismatch(*level, settings, &j.info).is_none();
        self.joiners.retain(|who, j| {
            now.since(j.last) < JOINER_TTL + j.info.turn_gap() && self.directory.rank(*who).is_none() && fits(j)
        });
        let free = |name: &str| self.directory.members.iter().all(|m| m.name != name);
        let is_ready = |j: &&Joiner| free(&j.info.name) && !self.is_held_back(now, &j.info);
        let ready: Vec<&Joiner> = self.joiners.values().filter(is_ready).collect();
        let (Some(newest), Some(oldest)) = (ready.iter().map(|j| j.first).max(), ready.iter().map(|j| j.first).min())
        else {
            return Default::default();
        };
        // As many joiners as members do not wait for more. A single late one pays the wait (departures, *Batching of
        // joiners*).
        let full = ready.len() >= self.directory.members.len();
        if !full && now.since(newest) < GATHER_QUIET && now.since(oldest) < GATHER_MAX {
            return Default::default();
        }
        let mut names = BTreeSet::new();
        let (mut joiners, mut wished) = (Vec::new(), RequestedTerms::new());
        for joiner in ready.into_iter().filter(|j| names.insert(j.info.name.clone())) {
            joiners.push((joiner.info.clone(), joiner.groups.clone()));
            for (name, terms) in joiner.groups.iter().zip(&joiner.terms) {
                wished.extend(terms.map(|terms| ((name.clone(), joiner.info.incarnation), terms)));
            }
        }
        (joiners, wished)
    }

    /// Whether joiners wait, ready or not.
    pub(super) fn joiners_wait(&self) -> bool {
        !self.joiners.is_empty()
    }

    /// Makes sure that there is a peer for `member`, with its current addresses.
    pub(super) fn know(&mut self, now: Instant, member: &MemberInfo) {
        let room = self.room(member.packet_bytes_max);
        let window = self.channel_window(room);
        let window = match u64::from(member.receive_packets) {
            0 => window,
            // A quarter of the receive buffer. Three quarters are for the streams of groups.
            held => window.min((held / 4).max(CHANNEL_WINDOW_MIN)),
        };
        let net = &mut self.net;
        let make = || Peer::new(net, member.data, member.control, window, room, now);
        let peer = self.peers.get_or_insert_with(member.incarnation, make);
        (peer.data, peer.control, peer.packet_room) = (member.data, member.control, room);
        peer.control_channel.set_window(window);
        peer.data_channel.set_window(window);
        self.opener.remember(member.incarnation);
    }
}

/// Explains for people why a recently excluded process waits.
fn held_back(wait_ms: u64, away: &[(String, SocketAddr)]) -> String {
    let names: Vec<&str> = away.iter().map(|(name, _)| name.as_str()).collect();
    let wait = Duration::from_millis(wait_ms);
    let names = names.join(", ");
    match (wait_ms, away.is_empty()) {
        (_, true) => {
            format!("it was left out of the cell lately, and waits for {wait:.1?} before it is taken in again")
        }
        (0, _) => format!(
            "it was left out of the cell because the path between it and {names} failed: mend it, and it is taken in again when they \
             can talk for some time"
        ),
        _ => format!(
            "it was left out of the cell because the path between it and {names} failed: it is taken in again when they can talk, \
             after {wait:.1?} at the earliest"
        ),
    }
}

/// The bytes that a cookie authenticates.
fn cookie_data(info: &MemberInfo, nonce: u64, stamp: u64) -> Vec<u8> {
    postcard::to_allocvec(&(info, nonce, stamp)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Limits, Timing};
    use crate::process::tests::by_hand::{NOW, Out, in_cell};
    use crate::process::tests::member;
    use crate::process::{Security, Settings};

    /// `tests/golden/README.md`.
    #[test]
    fn golden_greetings() {
        let info = member;
        let (nonce, stamp, cookie) = (0x6162_6364, 1_000_000_000, [0x5a; 16]);
        let coordinator = info().control;
        let differs = Mismatch { name: "limits.watchers".into(), cell: "16".into(), other: "3".into() };
        let refused = |why| JoinHandshake::Refused { nonce, why };
        let padding = || vec![0; PROBE_PADDING];
        let all = [
            ("probe", JoinHandshake::Probe { info: info(), nonce, member_of: None, padding: padding() }),
            (
                "probe_of_a_member",
                JoinHandshake::Probe {
                    info: info(),
                    nonce,
                    member_of: Some((CellInstance(7), ViewNumber(4))),
                    padding: padding(),
                },
            ),
            (
                "challenge",
                JoinHandshake::Challenge {
                    nonce,
                    stamp,
                    cookie,
                    view: ViewNumber(4),
                    coordinator,
                    is_coordinator: false,
                },
            ),
            ("join", JoinHandshake::Join { info: info(), nonce, stamp, cookie, groups: vec!["ledger".into()] }),
            ("name_taken", refused(JoinRefusal::NameTaken)),
            ("full", refused(JoinRefusal::Full)),
            ("excluded", refused(JoinRefusal::Excluded(ViewNumber(5)))),
            ("differs", refused(JoinRefusal::Differs(differs))),
            (
                "held_back",
                refused(JoinRefusal::HeldBack { wait_ms: 4_000, away: vec![("ledger-2".into(), coordinator)] }),
            ),
        ];
        let encode = |(name, handshake): (&str, JoinHandshake)| {
            (name.to_owned(), put_with_tail(&handshake, &Tags::default(), Vec::new()).expect("it can be written"))
        };
        crate::golden::hold("greeting.txt", all.map(encode).to_vec());
        for (name, bytes) in crate::golden::read("greeting.txt") {
            let (handshake, tail) = read_with_tail::<JoinHandshake>(&bytes).expect("a golden handshake is read");
            assert_eq!(put_with_tail(&handshake, &tail, Vec::new()), Ok(bytes), "{name}");
        }
    }

    #[test]
    fn joins_beyond_those_remembered_are_refused_until_the_oldest_is_stale() {
        let mut used = UsedCookies::default();
        let cookie = |n: usize| (n as u128).to_le_bytes();
        let now = Instant(1_000);
        for n in 0..USED_MAX {
            assert_eq!(used.take(now, now + COOKIE_TTL, cookie(n)), Ok(()));
        }
        assert_eq!(used.take(now, now + COOKIE_TTL, cookie(USED_MAX)), Err(DropReason::Overload));
        assert_eq!(used.take(now, now + COOKIE_TTL, cookie(0)), Err(DropReason::Replayed));
        let later = now + COOKIE_TTL;
        assert_eq!(used.take(later, later + COOKIE_TTL, cookie(USED_MAX)), Ok(()));
        assert_eq!(used.take(later, later + COOKIE_TTL, cookie(USED_MAX)), Err(DropReason::Replayed));
    }

    /// For a joiner that polls seldom, a challenge is valid for longer and is remembered as used for as long.
    #[test]
    fn a_challenge_is_good_for_as_much_longer_as_its_joiner_may_stay_away() {
        for gap in [Duration::ZERO, Duration::from_secs(7)] {
            let (mut process, mut fx) = in_cell(Incarnation(1), 1);
            let mut info = MemberInfo { incarnation: Incarnation(9), name: "j".into(), ..member() };
            info.turns_within(gap);
            let cookie = process.cookie(&info, 1, NOW.nanos());
            let end = NOW + COOKIE_TTL + gap;
            for (at, dropped) in [
                (end - Duration::from_nanos(1), None),
                (end - Duration::from_nanos(1), Some(DropReason::Replayed)),
                (end, Some(DropReason::BadCookie)),
            ] {
                let before = process.counters.drops;
                let wanted = (Vec::new(), Vec::new());
                process.take_join(at, info.control, info.clone(), 1, NOW.nanos(), cookie, wanted, &mut fx);
                let reason =
                    DropReason::ALL.into_iter().find(|r| process.counters.drops[r.index()] > before[r.index()]);
                assert_eq!(reason, dropped, "{gap:?}");
            }
            assert_eq!(process.counters.joins_taken, 1);
        }
    }

    #[test]
    fn a_lone_member_asks_a_bounded_number_at_a_time_and_everybody_in_time() {
        let all = |count: u16| (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect::<Vec<_>>();
        let bound = u16::try_from(LONE_TARGETS_MAX).expect("small");
        let mut rng = Rng::new(1);
        let mut kept = all(bound);
        keep_some(&mut kept, &mut rng);
        assert_eq!(kept, all(bound));
        let mut asked = BTreeSet::new();
        for _ in 0..50 {
            let mut kept = all(bound + 100);
            keep_some(&mut kept, &mut rng);
            assert_eq!(kept.len(), LONE_TARGETS_MAX);
            asked.extend(kept);
        }
        assert_eq!(asked.len(), LONE_TARGETS_MAX + 100);
    }

    /// A process that looks for its cell at ten addresses and at its own.
    fn searching() -> (Process, Vec<SocketAddr>) {
        let seeds: Vec<SocketAddr> = (1..=10).map(|port| SocketAddr::from(([127, 0, 0, 2], port))).collect();
        let (me, founding, timing, limits) = (member(), Founding::Join, Timing::default(), Limits::default());
        let settings = Settings {
            cell: "test".into(),
            me,
            founding,
            record: crate::member::FounderRecord::default(),
            seeds: seeds.clone(),
            timing,
            limits,
        };
        (Process::new(NOW, settings, &Security::None, 1), seeds)
    }

    #[test]
    fn a_search_asks_at_all_addresses_in_turn() {
        let (mut process, seeds) = searching();
        let mut fx = Out::default();
        for turn in 0..5 {
            process.search(NOW + Duration::from_secs(turn), &mut fx);
        }
        let asked: Vec<SocketAddr> = fx.sent.into_iter().flat_map(|(_, to)| to).collect();
        assert_eq!(asked, [&seeds[..], &seeds[..]].concat());
        assert_eq!((process.counters.probes, process.counters.datagrams_sent), (20, 20));
        // Its own address is not asked.
        process.set.seeds = vec![process.set.me.control];
        assert_eq!(process.probe(Vec::new(), None, &mut Out::default()), 0);
    }

    #[test]
    fn an_answer_to_a_probe_is_counted_and_its_coordinator_asked_soon() {
        let (mut process, seeds) = searching();
        let mut fx = Out::default();
        process.search(NOW, &mut fx);
        let (nonce, coordinator) = (process.probing.nonces[1], seeds[3]);
        for (nonce, answers) in [(nonce, 1), (nonce ^ 1, 1)] {
            process.answer_challenge(
                seeds[0],
                nonce,
                0,
                [0; 16],
                ViewNumber(1),
                coordinator,
                Answerer { is_coordinator: false, is_held: false },
                &mut fx,
            );
            let Stage::Searching(search) = &process.stage else { panic!("it searches") };
            assert_eq!((search.answers, search.next_probe), (answers, NOW + process.set.timing.probe / 4));
        }
        assert_eq!(process.probing.coordinator, Some(coordinator));
    }

    #[test]
    fn handshakes_keep_within_their_bounds() {
        let sender = Incarnation(9);
        let info = |len| MemberInfo { incarnation: sender, name: "n".repeat(len), ..member() };
        let dropped = |handshake: JoinHandshake, reason: DropReason| {
            let (mut process, mut fx) = in_cell(Incarnation(1), 1);
            let frames = put_with_tail(&handshake, &Tags::default(), Vec::new()).expect("it can be written");
            process.handle_handshake(NOW, member().control, sender, &frames, &mut fx);
            process.counters.drops[reason.index()] == 1
        };
        let probe = |name, padding| {
            let handshake =
                JoinHandshake::Probe { info: info(name), nonce: 1, member_of: None, padding: vec![0; padding] };
            !dropped(handshake, DropReason::Malformed)
        };
        assert!(probe(200, PROBE_PADDING) && probe(1, PROBE_PADDING + 1));
        assert!(!probe(201, PROBE_PADDING) && !probe(1, PROBE_PADDING - 1));
        // A request to join passes these bounds and then fails for its cookie.
        let join = |name, groups| {
            let groups = vec![String::new(); groups];
            let handshake = JoinHandshake::Join { info: info(name), nonce: 1, stamp: 0, cookie: [0; 16], groups };
            dropped(handshake, DropReason::BadCookie)
        };
        assert!(join(200, GROUPS_MAX) && join(1, 0));
        assert!(!join(201, 0) && !join(1, GROUPS_MAX + 1));
    }

    #[test]
    fn a_refusal_that_names_too_many_members_is_none() {
        let refused = |away: usize| {
            let (mut process, seeds) = searching();
            let away = vec![("ledger-2".to_owned(), seeds[0]); away];
            process.handle_refusal(NOW, JoinRefusal::HeldBack { wait_ms: 2_500, away });
            let Stage::Searching(search) = &process.stage else { panic!("it searches") };
            (search.refused.clone(), search.away_at(NOW).map(<[SocketAddr]>::len))
        };
        let (why, away) = refused(SUSPECTERS_MAX);
        assert!(why.is_some_and(|why| why.contains("ledger-2 failed") && why.contains("2.5s")));
        assert_eq!((away, refused(SUSPECTERS_MAX + 1)), (Some(SUSPECTERS_MAX), (None, None)));
        assert!(refused(0).0.is_some_and(|why| why.contains("waits for 2.5s")));
    }
}
