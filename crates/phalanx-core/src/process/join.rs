//! Joining a cell.
//!
//! A joiner probes its seed addresses. A member answers with a challenge: a cookie, for which it keeps no memory. Only
//! the answer to a fresh challenge becomes a join, so a replayed packet creates no phantom member. The joiner answers the
//! coordinator's, and those of all members when the coordinator does not answer for long. Handshakes are not
//! retransmitted: the joiner repeats its probes.

mod handshake;
mod joiner;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::packets::CHANNEL_WINDOW_MIN;
use super::path_probes::SILENCE_LEVEL;
use super::peers::Peer;
use super::{Process, Stage};
use crate::api::{Effects, Event, GroupTerms};
use crate::id::{CellInstance, Incarnation, MemberInfo, Rank, TrafficClass, ViewNumber, fits_name};
use crate::member::{Directory, Mismatch, SUSPECTERS_MAX, mismatch, read_requested_terms, requested_terms};
use crate::time::Instant;
use crate::wire::{DropReason, Tags, put_with_tail, read_with_tail};
use handshake::{GROUPS_MAX, HELD, INSTANCE, cookie_data, held_back, number};
use joiner::{JOINER_TTL, RequestedTerms};

pub use handshake::{JoinHandshake, JoinRefusal};
pub(super) use handshake::{PROBE_PADDING, REFORMING};
pub(super) use joiner::{COOKIE_TTL, Joiner, UsedCookies, lapses_after, steady};

/// A joiner asks any member to take it in when the coordinator has not answered for this many times `suspect_after`,
/// while other members did. A dead coordinator is replaced sooner.
const ANYBODY_PATIENCE: u32 = 2;

/// Joiners gather for this time after the last one came, and at most for [`GATHER_MAX`] after the first.
const GATHER_QUIET: Duration = Duration::from_millis(100);
const GATHER_MAX: Duration = Duration::from_millis(600);
const _: () = assert!(GATHER_QUIET.as_nanos() <= GATHER_MAX.as_nanos(), "joiners gather for a time");
const _: () =
    assert!(GATHER_MAX.as_nanos() < JOINER_TTL.as_nanos(), "a joiner that waits for others is still proposed");
const _: () =
    assert!(JOINER_TTL.as_nanos() < COOKIE_TTL.as_nanos(), "a proposed joiner has proved recently that it lives");

/// Statements about the sender of a challenge and the process that probed.
#[derive(Clone, Copy)]
struct Answerer {
    is_coordinator: bool,
    /// Whether the process that probed is held back: any member tells it why if it asks to join.
    is_held: bool,
}

impl Process {
    fn send_handshake(&mut self, to: &[SocketAddr], handshake: &JoinHandshake, fx: &mut dyn Effects) {
        self.send_handshake_with(to, handshake, &Tags::default(), fx);
    }

    pub(super) fn send_handshake_with(
        &mut self,
        to: &[SocketAddr],
        handshake: &JoinHandshake,
        tail: &Tags,
        fx: &mut dyn Effects,
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
        fx: &mut dyn Effects,
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
                if view > ViewNumber::NONE && self.probing.is_answer(now, nonce) {
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
                if !self.probing.is_answer(now, nonce) {
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
        fx: &mut dyn Effects,
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
    fn answer_probe(&mut self, now: Instant, from: SocketAddr, info: &MemberInfo, nonce: u64, fx: &mut dyn Effects) {
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
        fx: &mut dyn Effects,
    ) {
        let is_told = self.welcomes.is_coming(self.last_poll, self.suspect_after());
        let patience = self.suspect_after() * ANYBODY_PATIENCE;
        let Stage::Searching(search) = &mut self.stage else { return };
        if !self.probing.is_answer(self.last_poll, nonce) {
            search.late_answers += 1;
            return self.counters.drop(DropReason::Replayed);
        }
        search.answers += 1;
        if view > ViewNumber::NONE {
            self.probing.coordinator = Some(if is_coordinator { from } else { coordinator });
            if is_coordinator {
                search.coordinator_answered = Some(self.last_poll);
            } else {
                search.coordinator_answered.get_or_insert(self.last_poll);
            }
            if is_told {
                return; // a member sends its welcome already, and another one would send the same again
            }
        }
        // It may be unable to talk with the coordinator. Then other members report why it waits, and learn that it can
        // talk with them.
        if !is_coordinator && !is_held && !search.asks_anybody(self.last_poll, patience) {
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
        fx: &mut dyn Effects,
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
                self.meet_founder(now, info, now.since(Instant(stamp)));
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
            round_trip: Duration::ZERO,
        });
        joiner.info = info;
        let known = (joiner.round_trip > Duration::ZERO).then_some(joiner.round_trip);
        (joiner.last, joiner.round_trip) = (now, steady(known, now.since(Instant(stamp))));
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
        self.joiners
            .retain(|who, j| now.since(j.last) < j.lapses_after() && self.directory.rank(*who).is_none() && fits(j));
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
        peer.to_one_channel.set_window(window);
        self.opener.remember(member.incarnation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::search::tests::searching;
    use crate::process::tests::by_hand::{NOW, Out, in_cell};
    use crate::process::tests::member;

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
    fn an_answer_to_a_probe_is_counted_and_its_coordinator_asked_soon() {
        let (mut process, seeds) = searching();
        let mut fx = Out::default();
        process.search(NOW, &mut fx);
        let (nonce, coordinator) = (process.probing.last_nonce(), seeds[3]);
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
