//! Which paths between members failed, and who is to go for that: a link that is silent, a data socket that does not work, a path
//! that loses long packets.
//!
//! Each member hears every other one, and probes it in each kind of [`PathKind::PROBED`]. Whoever is silent for long is accused, and
//! whoever leaves probes unanswered for long, if nothing else shows progress. An accusation goes out with the heartbeats. Each member that
//! learns of it looks at both ends anew, and says when it is done. Then each judges by itself: the fewest members with an end of
//! each failed path go. The rules, what breaks without each of them, and what is promised are in `docs/model.md`, *Progress*.
//! Nothing here is final: only a decided view excludes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::receipts::Receipts;
pub use self::receipts::Sent;
use super::is_quorum;
use crate::id::Incarnation;
use crate::time::Instant;

/// In what a path may fail. A probe goes the same way as what it stands for, as long, and so does its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    /// A short packet from data socket to data socket.
    Data,
    /// The same, as long as packets between these two may be.
    LongData,
    /// As long, from control socket to control socket. Short ones are heartbeats.
    LongControl,
    /// Anything at all: it is not heard. Judged so from level 5 on.
    Silence,
}

impl PathKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Data, Self::LongData, Self::LongControl, Self::Silence];
    /// Those that are probed.
    pub const PROBED: [Self; 3] = [Self::Data, Self::LongData, Self::LongControl];

    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Acknowledgements of what was sent so are missed on this path, too. What was sent may have been long.
    fn sent(self) -> Option<Sent> {
        match self {
            Self::LongData => Some(Sent::Data),
            Self::LongControl => Some(Sent::Control),
            Self::Data | Self::Silence => None,
        }
    }

    /// Whether its packets are as long as they may be.
    #[must_use]
    pub fn is_long(self) -> bool {
        self != Self::Data
    }
}

/// One member says that another left its probes unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accusation {
    /// Who is accused, by rank.
    pub rank: u16,
    /// In what.
    pub kind: PathKind,
    /// Rises with each accusation of the same accuser in a view.
    pub number: u64,
}

/// What a member says of the paths in the view in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Its accusations, in rising order.
    pub accused: Vec<Accusation>,
    /// Of these members, by rank in rising order, it has looked into the accusations up to this number.
    pub answered: Vec<(u16, u64)>,
    /// Members that are proved dead, by rank in rising order.
    pub dead: Vec<u16>,
    /// Processes that wait to come back and that it can talk with, see [`super::Removal::accusers`].
    pub reached: Vec<Incarnation>,
}

impl Findings {
    /// Nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn calls_silent(&self, rank: usize) -> bool {
        self.accused.iter().any(|a| usize::from(a.rank) == rank && a.kind == PathKind::Silence)
    }
}

/// A member is accused only after this many probes without an answer.
const PROBES_MIN: u32 = 5;
/// A path that works gets a short probe once in this many heartbeats.
const EVERY: u64 = 4;
/// A path that works gets a long probe once in this many heartbeats.
const LONG_EVERY: u64 = 16;
/// Heartbeats in a row without findings take back what was said before.
const SILENT_BEATS: u8 = 2;
/// In a cell with a watch graph, a member that has not acknowledged what it was sent for this many heartbeats is probed as a neighbour is.
const OWED_BEATS: u32 = 4;
/// The smallest set of members to remove is searched for up to this size: each size takes 2^size steps.
const COVER_MAX: usize = 8;
/// A member names no more processes that wait to come back.
pub const REACHED_MAX: usize = 64;
/// When all have looked into a silent link whose accused end others hear, it has to be silent for this many heartbeats more: when a
/// member that was stopped goes on, its accusers need that long to say so.
const SILENT_FOR: u32 = 3;

/// One member in one kind, as probed from here.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// When the last probe went out that was answered, or when it was heard last; at first, when the clock began.
    answered: Instant,
    /// When an answer came last, or other progress was seen.
    progress: Instant,
    /// Probes since the last answer.
    in_vain: u32,
    /// When the first of them went out.
    unanswered: Instant,
    /// The number of the accusation in force.
    accused: Option<u64>,
}

impl Path {
    fn new(now: Instant) -> Self {
        Self { answered: now, progress: now, in_vain: 0, unanswered: now, accused: None }
    }
}

/// What is known in the view in force of the paths between members.
#[derive(Clone, Debug)]
pub struct Progress {
    me: usize,
    paths: Vec<[Path; PathKind::ALL.len()]>,
    /// Whom this member probes though nothing is owed; `None`: everybody.
    neighbours: Option<BTreeSet<usize>>,
    receipts: Receipts,
    /// When each was sent a message on its control channel last, only to see whether it is acknowledged.
    pinged: Vec<Option<Instant>>,
    beats: u64,
    last_number: u64,
    /// What each member said last.
    said: Vec<Findings>,
    /// The heartbeats of each without findings since then.
    unsaid: Vec<u8>,
    /// When each said something last.
    said_at: Vec<Instant>,
    /// When an accusation was heard of here, by accuser.
    learnt: BTreeMap<(usize, Accusation), Instant>,
    /// What this member has looked into, by accuser.
    answered: BTreeMap<u16, u64>,
    leavers: BTreeMap<usize, Case>,
    /// Since when accusations stand that not all have looked into.
    open_since: Option<Instant>,
    /// Since when all have looked into all of them.
    looked_into: Option<Instant>,
    /// How long each may stay away, by rank.
    gaps: Vec<Duration>,
}

/// Why a member is to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Some of those that stay hear it.
    pub is_heard: bool,
    /// Those that stay and to which a path failed, by rank.
    pub accusers: Vec<usize>,
}

/// What a judge knows besides.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    /// Now.
    pub now: Instant,
    /// Whom it hears, by rank, itself included.
    pub hears: &'a [bool],
    /// Those that leave anyway: below level 5 whoever is silent, from there on whoever is proved dead.
    pub out: &'a BTreeSet<usize>,
    /// How many members may go that did not go before; see [`super::Removals`].
    pub budget: usize,
    /// Those that went before, by the ranks they have now.
    pub again: &'a BTreeSet<usize>,
    /// From level 5 on: silence is judged too.
    pub silence: Option<Silence<'a>>,
}

/// What a judge of silence knows besides.
#[derive(Clone, Copy, Debug)]
pub struct Silence<'a> {
    /// Members that are heard and have not installed the view in force for long: they never will.
    pub behind: &'a BTreeSet<usize>,
    /// Between two heartbeats.
    pub beat: Duration,
}

impl Progress {
    /// A fresh view: everybody makes progress now.
    #[must_use]
    pub fn new(me: usize, members: usize, now: Instant) -> Self {
        let path = Path::new(now);
        Self {
            me,
            paths: vec![[path; PathKind::ALL.len()]; members],
            neighbours: None,
            receipts: Receipts::new(members, now),
            pinged: vec![None; members],
            beats: 0,
            last_number: 0,
            said: vec![Findings::default(); members],
            unsaid: vec![0; members],
            said_at: vec![now; members],
            learnt: BTreeMap::new(),
            answered: BTreeMap::new(),
            leavers: BTreeMap::new(),
            open_since: None,
            looked_into: None,
            gaps: Vec::new(),
        }
    }

    /// Probes of each, by rank, may stay unanswered for so much longer than those of others.
    pub fn set_gaps(&mut self, gaps: Vec<Duration>) {
        self.gaps = gaps;
    }

    /// For a cell with a watch graph: this member probes these neighbours, members that have owed it an acknowledgement for
    /// several heartbeats, and both ends of accused paths. Without this it probes everybody.
    pub fn set_neighbours(&mut self, neighbours: BTreeSet<usize>) {
        self.neighbours = Some(neighbours);
    }

    /// The probes that go out with this heartbeat, to those that are `heard`. Who is not heard, or hears nothing itself, is others' business.
    pub fn probes(&mut self, now: Instant, heard: &[bool]) -> Vec<(usize, PathKind)> {
        self.beats += 1;
        let urgent = self.to_look_into(heard);
        let mut probes = Vec::new();
        for rank in (0..self.paths.len()).filter(|rank| *rank != self.me) {
            let is_watched = self.neighbours.as_ref().is_none_or(|near| near.contains(&rank));
            let looks = |sent: Sent| self.receipts.looks(rank, sent);
            let is_watched = is_watched || looks(Sent::Data).max(looks(Sent::DataChannel)) > OWED_BEATS;
            for kind in PathKind::PROBED {
                let path = &mut self.paths[rank][usize::from(kind.number())];
                if !is_in(heard, rank) {
                    *path = Path::new(now);
                    continue;
                }
                let every = if kind.is_long() { LONG_EVERY } else { EVERY };
                let is_due = path.in_vain > 0 || is_watched && (self.beats + rank as u64).is_multiple_of(every);
                if is_due || path.accused.is_some() || urgent.contains(&(rank, kind)) {
                    if path.in_vain == 0 {
                        path.unanswered = now;
                    }
                    path.in_vain += 1;
                    probes.push((rank, kind));
                }
            }
        }
        probes
    }

    /// What accusers heard say, with the other end: paths that this member has to look into.
    fn to_look_into(&self, heard: &[bool]) -> BTreeSet<(usize, PathKind)> {
        let open = self.learnt.iter().filter(|((by, accusation), _)| {
            is_in(heard, *by)
                && accusation.kind != PathKind::Silence
                && self.answered.get(&rank_of(*by)).copied().unwrap_or(0) < accusation.number
        });
        open.flat_map(|((by, a), _)| [(*by, a.kind), (usize::from(a.rank), a.kind)])
            .filter(|(rank, _)| *rank != self.me)
            .collect()
    }

    /// `rank` answered a probe that went out at `sent`.
    pub fn answer(&mut self, now: Instant, rank: usize, kind: PathKind, sent: Instant) {
        let Some(path) = self.paths.get_mut(rank).map(|paths| &mut paths[usize::from(kind.number())]) else { return };
        if sent > now || sent <= path.answered {
            return;
        }
        path.answered = sent;
        path.progress = now;
        path.in_vain = 0;
        // Who answers, and does not acknowledge what it is sent, is accused still.
        if kind.sent().is_none_or(|sent| !self.receipts.is_accused(rank, sent)) {
            path.accused = None;
        }
    }

    /// `rank` has acknowledged so much, in whatever unit, of what it was `sent` so, and `owes` more. Another sum than before is
    /// progress. To be called with each heartbeat.
    pub fn acknowledged(&mut self, now: Instant, rank: usize, sent: Sent, sum: u64, owes: bool) {
        let Some(paths) = self.paths.get_mut(rank) else { return };
        let moves = self.receipts.note(now, rank, sent, sum, owes);
        for kind in PathKind::PROBED {
            let path = &mut paths[usize::from(kind.number())];
            if moves && sent != Sent::Control && kind != PathKind::LongControl {
                path.progress = now;
            }
            if (moves || !owes) && kind.sent() == Some(sent) && self.receipts.is_accused(rank, sent) {
                self.receipts.accuse(rank, sent, false);
                if path.in_vain == 0 {
                    path.accused = None;
                }
            }
        }
    }

    /// Nothing of this member went out, or nobody was to acknowledge anything: what is owed is owed from now on.
    pub fn owe_anew(&mut self, now: Instant) {
        self.receipts.begin_anew(now);
    }

    /// Members to which something is to be sent on the control channel, only to see whether it is acknowledged: both ends of a path on which
    /// control packets fail, as others say; and everybody, when somebody acknowledges nothing, before that one is accused: it may
    /// be this member that nobody hears there.
    pub fn pings(&mut self, now: Instant, heard: &[bool], patience: Duration) -> Vec<usize> {
        let others: Vec<usize> = (0..self.paths.len()).filter(|rank| *rank != self.me && is_in(heard, *rank)).collect();
        let half = patience / 2;
        let is_in_doubt = others.iter().any(|rank| self.receipts.is_stuck(now, *rank, Sent::Control, half));
        let learnt = self.learnt.iter().filter(|((_, accusation), _)| accusation.kind == PathKind::LongControl);
        let ends: Vec<(usize, Instant)> =
            learnt.flat_map(|((by, a), at)| [(*by, *at), (usize::from(a.rank), *at)]).collect();
        let wants = |rank: usize| {
            let moved = self.receipts.moved(rank, Sent::Control);
            is_in_doubt && now.since(moved) >= half || ends.iter().any(|(end, at)| *end == rank && moved <= *at)
        };
        let waits = |rank: usize| self.pinged[rank].is_some_and(|at| now.since(at) < half);
        let is_idle = |rank: usize| self.receipts.is_idle(rank, Sent::Control);
        let to: Vec<usize> =
            others.into_iter().filter(|rank| is_idle(*rank) && wants(*rank) && !waits(*rank)).collect();
        to.iter().for_each(|rank| self.pinged[*rank] = Some(now));
        to
    }

    /// This process was away for `gap`: what did not come meanwhile accuses nobody.
    pub fn forgive(&mut self, now: Instant, gap: Duration) {
        for path in self.paths.iter_mut().flatten() {
            path.answered = now.min(path.answered + gap);
            path.progress = now.min(path.progress + gap);
            path.unanswered = now.min(path.unanswered + gap);
        }
        self.receipts.forgive(now, gap);
        for since in self.learnt.values_mut().chain(&mut self.said_at) {
            *since = now.min(*since + gap);
        }
    }

    /// A heartbeat of `rank`. Findings follow it in its packet, if there are any.
    pub fn beat(&mut self, rank: usize) {
        let Some(beats) = self.unsaid.get_mut(rank) else { return };
        *beats = beats.saturating_add(1);
        if *beats > SILENT_BEATS {
            self.take_back(rank);
        }
    }

    /// In a cell with a watch graph, where not all send each other heartbeats: what was not said again for so long is taken back.
    pub fn expire(&mut self, now: Instant, after: Duration) {
        for rank in 0..self.said.len() {
            if now.since(self.said_at[rank]) >= after {
                self.take_back(rank);
            }
        }
    }

    fn take_back(&mut self, rank: usize) {
        if !self.said[rank].is_empty() {
            self.said[rank] = Findings::default();
            self.learnt.retain(|(by, _), _| *by != rank);
        }
    }

    /// `rank` says what it found, and takes back what it said before. True if that is other than before.
    pub fn hear(&mut self, now: Instant, rank: usize, findings: Findings) -> bool {
        let members = self.paths.len();
        let is_named = |who: u16| usize::from(who) < members && usize::from(who) != rank;
        let makes_sense = rank < members
            && rank != self.me
            && findings.accused.len() <= members * PathKind::ALL.len()
            && findings.accused.iter().all(|accusation| is_named(accusation.rank))
            && findings.answered.iter().all(|(by, _)| is_named(*by))
            && findings.dead.iter().all(|dead| is_named(*dead))
            && findings.reached.len() <= REACHED_MAX;
        if !makes_sense {
            return false;
        }
        let accused = &findings.accused;
        self.learnt.retain(|(by, accusation), _| *by != rank || accused.contains(accusation));
        for accusation in accused {
            self.learnt.entry((rank, *accusation)).or_insert(now);
        }
        let is_news = self.said[rank] != findings;
        (self.said[rank], self.unsaid[rank], self.said_at[rank]) = (findings, 0, now);
        is_news
    }

    /// Accuses those that are silent: not in `hears`. `last_heard` tells when anything came from a member.
    pub fn look_for_silence(&mut self, hears: &[bool], last_heard: impl Fn(usize) -> Instant) {
        for rank in (0..self.paths.len()).filter(|rank| *rank != self.me) {
            let path = &mut self.paths[rank][usize::from(PathKind::Silence.number())];
            path.answered = last_heard(rank);
            if is_in(hears, rank) {
                path.accused = None;
            } else if path.accused.is_none() {
                self.last_number += 1;
                path.accused = Some(self.last_number);
            }
        }
    }

    /// Accuses those that left probes unanswered for `patience`, and finds out what of others' accusations was looked into. Gives the number of
    /// new accusations.
    pub fn look(&mut self, now: Instant, heard: &[bool], patience: Duration) -> u64 {
        let mut since: BTreeMap<(usize, PathKind), Instant> = BTreeMap::new();
        for ((by, accusation), at) in &self.learnt {
            for rank in [*by, usize::from(accusation.rank)] {
                let latest = since.entry((rank, accusation.kind)).or_insert(*at);
                *latest = (*latest).max(*at);
            }
        }
        let before = self.last_number;
        let patience_with = |rank: usize| patience + self.gaps.get(rank).copied().unwrap_or_default();
        let others = |rank: &usize| *rank != self.me && is_in(heard, *rank);
        // Members with silent control channels are accused together: one that is accused before the others are known to be silent
        // might go in the place of this member.
        let is_open = (0..self.paths.len())
            .filter(others)
            .any(|rank| self.receipts.is_open(now, rank, Sent::Control, patience_with(rank)));
        for rank in (0..self.paths.len()).filter(others) {
            let patience = patience_with(rank);
            for kind in PathKind::PROBED {
                let short = self.paths[rank][usize::from(PathKind::Data.number())];
                if kind == PathKind::LongData && (short.accused.is_some() || short.in_vain >= PROBES_MIN) {
                    continue; // where short packets fail, long ones tell nothing new, and each accusation is looked into anew
                }
                let path = &mut self.paths[rank][usize::from(kind.number())];
                if path.accused.is_some() {
                    continue;
                }
                if let Some(sent) = kind.sent()
                    && self.receipts.is_stuck(now, rank, sent, patience)
                    && !(sent == Sent::Control && is_open)
                {
                    self.last_number += 1;
                    path.accused = Some(self.last_number);
                    self.receipts.accuse(rank, sent, true);
                    continue;
                }
                if path.in_vain < PROBES_MIN {
                    continue;
                }
                let is_stuck = now.since(path.unanswered.max(path.progress)) >= patience;
                let fails_again =
                    since.get(&(rank, kind)).is_some_and(|learnt| now.since(path.unanswered.max(*learnt)) >= patience);
                if is_stuck || fails_again {
                    self.last_number += 1;
                    path.accused = Some(self.last_number);
                }
            }
        }
        let mut answered: BTreeMap<u16, u64> = BTreeMap::new();
        let mut open: BTreeSet<usize> = BTreeSet::new();
        let mut learnt: Vec<_> = self.learnt.iter().collect();
        learnt.sort_by_key(|((by, accusation), _)| (*by, accusation.number));
        for ((by, accusation), at) in learnt {
            let is_done = [*by, usize::from(accusation.rank)].into_iter().all(|rank| {
                let path = &self.paths[rank][usize::from(accusation.kind.number())];
                let is_seen = match accusation.kind {
                    PathKind::Silence => path.answered >= *at,
                    _ if !is_in(heard, rank) => true,
                    PathKind::LongControl => path.answered > *at && self.receipts.moved(rank, Sent::Control) > *at,
                    PathKind::Data | PathKind::LongData => path.answered > *at,
                };
                let is_short_accused = accusation.kind == PathKind::LongData
                    && self.paths[rank][usize::from(PathKind::Data.number())].accused.is_some();
                rank == self.me || path.accused.is_some() || is_short_accused || is_seen
            });
            if !is_done {
                open.insert(*by);
            } else if !open.contains(by) {
                answered.insert(rank_of(*by), accusation.number);
            }
        }
        self.answered = answered;
        self.last_number - before
    }

    /// What goes with this member's heartbeats.
    #[must_use]
    pub fn findings(&self) -> Findings {
        let mut accused = Vec::new();
        for (rank, paths) in (0..u16::MAX).zip(&self.paths) {
            let of = |kind: PathKind| paths[usize::from(kind.number())].accused;
            accused.extend(
                PathKind::ALL.into_iter().filter_map(|kind| Some(Accusation { rank, kind, number: of(kind)? })),
            );
        }
        let answered = self.answered.iter().map(|(by, number)| (*by, *number)).collect();
        Findings { accused, answered, ..Findings::default() }
    }

    /// Draws the conclusions, once everybody that is heard has looked into each accusation: the fewest members with an end of each
    /// failed path go; of several such sets, the one with the youngest members. Nobody goes if the others were no quorum, or if too
    /// many went before; then only silence counts. Whoever is proved dead goes in any case.
    pub fn judge(&mut self, judging: Judging<'_>) {
        self.leavers.clear();
        let looked_into = self.looked_into.take();
        let dead = self.proved_dead(&judging);
        if judging.silence.is_some() {
            self.leavers.extend(dead.iter().map(|rank| (*rank, Case::default())));
        }
        let is_behind = |rank: usize| judging.silence.is_some_and(|silence| silence.behind.contains(&rank));
        let speaks = |rank: usize| is_in(judging.hears, rank) && !dead.contains(&rank) && !is_behind(rank);
        if !speaks(self.me) {
            return;
        }
        let counts = |rank: usize| if judging.silence.is_some() { !dead.contains(&rank) } else { speaks(rank) };
        let own = self.findings();
        let mut accusations: Vec<(usize, Accusation)> = own.accused.iter().map(|a| (self.me, *a)).collect();
        for (by, findings) in self.said.iter().enumerate().filter(|(by, _)| speaks(*by)) {
            accusations.extend(findings.accused.iter().map(|accusation| (by, *accusation)));
        }
        accusations.retain(|(_, accusation)| counts(usize::from(accusation.rank)));
        let is_settled = self.is_looked_into(&accusations, &own, &judging, speaks) && {
            self.looked_into = looked_into;
            self.stays_so(&accusations, &own, &judging, speaks)
        };
        if !is_settled {
            self.open_since.get_or_insert(judging.now);
            return;
        }
        self.open_since = None;
        let there: BTreeSet<usize> = (0..self.paths.len()).filter(|rank| counts(*rank)).collect();
        let mut links: BTreeSet<(usize, usize, PathKind)> = accusations
            .iter()
            .map(|(by, a)| (*by, usize::from(a.rank), a.kind))
            .map(|(a, b, kind)| (a.min(b), a.max(b), kind))
            .collect();
        for rank in there.iter().copied().filter(|rank| is_behind(*rank)) {
            let others = there.iter().copied().filter(|other| *other != rank);
            links.extend(others.map(|other| (rank.min(other), rank.max(other), PathKind::Silence)));
        }
        let silent: BTreeSet<(usize, usize)> =
            links.iter().filter(|link| link.2 == PathKind::Silence).map(|(a, b, _)| (*a, *b)).collect();
        let failed: BTreeSet<(usize, usize)> = links.into_iter().map(|(a, b, _)| (a, b)).collect();
        if failed.is_empty() {
            return;
        }
        let go = self.choose(&failed, &silent, &there, &judging);
        let go = go.or_else(|| self.choose(&silent, &silent, &there, &judging));
        self.leavers.extend(go.unwrap_or_default());
    }

    /// Those that the judge knows to be dead, or that a member which it hears knows to be.
    fn proved_dead(&self, judging: &Judging<'_>) -> BTreeSet<usize> {
        let mut dead = judging.out.clone();
        if judging.silence.is_some() {
            let heard = self.said.iter().enumerate().filter(|(by, _)| is_in(judging.hears, *by));
            dead.extend(heard.flat_map(|(_, findings)| &findings.dead).map(|rank| usize::from(*rank)));
            dead.remove(&self.me);
        }
        dead
    }

    /// Whether each member that `speaks` has looked into each accusation, but for the two ends.
    fn is_looked_into(
        &self,
        accusations: &[(usize, Accusation)],
        own: &Findings,
        judging: &Judging<'_>,
        speaks: impl Fn(usize) -> bool,
    ) -> bool {
        let others: Vec<usize> = (0..self.paths.len()).filter(|rank| speaks(*rank)).collect();
        accusations.iter().all(|(by, accusation)| {
            others.iter().all(|other| {
                let findings = self.findings_of(*other, own);
                let is_answer = |(of, upto): &(u16, u64)| usize::from(*of) == *by && *upto >= accusation.number;
                // Who does not hear the accuser never learns of it.
                *other == *by
                    || *other == usize::from(accusation.rank)
                    || findings.answered.iter().any(is_answer)
                    || judging.silence.is_some() && findings.calls_silent(*by)
            })
        })
    }

    /// All have looked into all of these. Whether each silent link is so for long enough since.
    fn stays_so(
        &mut self,
        accusations: &[(usize, Accusation)],
        own: &Findings,
        judging: &Judging<'_>,
        speaks: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(silence) = judging.silence else { return true };
        let is_heard = |accused: usize| {
            let mut others = (0..self.paths.len()).filter(|rank| *rank != accused && speaks(*rank));
            others.any(|other| !self.findings_of(other, own).calls_silent(accused))
        };
        let mut silent = accusations.iter().filter(|(_, accusation)| accusation.kind == PathKind::Silence);
        if !silent.any(|(_, accusation)| is_heard(usize::from(accusation.rank))) {
            return true;
        }
        judging.now.since(*self.looked_into.get_or_insert(judging.now)) >= silence.beat * SILENT_FOR
    }

    fn findings_of<'a>(&'a self, rank: usize, own: &'a Findings) -> &'a Findings {
        if rank == self.me { own } else { &self.said[rank] }
    }

    /// The fewest members with an end of each of `failed`, if they may go.
    fn choose(
        &self,
        failed: &BTreeSet<(usize, usize)>,
        silent: &BTreeSet<(usize, usize)>,
        there: &BTreeSet<usize>,
        judging: &Judging<'_>,
    ) -> Option<BTreeMap<usize, Case>> {
        let members = self.paths.len();
        let may_lack = |count: usize| is_quorum(there.len() - count, members, true);
        let most = (0..there.len()).take_while(|count| may_lack(*count)).last().unwrap_or(0);
        // Of a cell that broke into halves, that with rank 0 stays.
        let leaves_a_quorum = |cover: &[usize]| {
            let with_rank_0 = there.contains(&0) && !cover.contains(&0);
            is_quorum(there.len() - cover.len(), members, with_rank_0)
        };
        let cover = cover(failed, most, &leaves_a_quorum)?;
        let stay: Vec<usize> = there.difference(&cover).copied().collect();
        let case = |rank: &usize| {
            let has = |links: &BTreeSet<(usize, usize)>, other: &usize| {
                links.contains(&((*rank).min(*other), (*rank).max(*other)))
            };
            let is_heard = stay.iter().any(|other| !has(silent, other));
            let accusers = stay.iter().copied().filter(|other| has(failed, other)).collect();
            (*rank, Case { is_heard, accusers })
        };
        let cases: BTreeMap<usize, Case> = cover.iter().map(case).collect();
        let counted = cases.iter().filter(|(rank, case)| case.is_heard && !judging.again.contains(rank)).count();
        (counted <= judging.budget).then_some(cases)
    }

    /// Those that are to leave, as of the last judgement.
    #[must_use]
    pub fn leavers(&self) -> &BTreeMap<usize, Case> {
        &self.leavers
    }

    /// For how long accusations stand that not all have looked into.
    #[must_use]
    pub fn open_for(&self, now: Instant) -> Duration {
        self.open_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Nobody accuses anybody.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.leavers.is_empty()
            && self.learnt.is_empty()
            && self.said.iter().all(|findings| findings.dead.is_empty())
            && self.paths.iter().flatten().all(|path| path.accused.is_none())
    }
}

fn is_in(heard: &[bool], rank: usize) -> bool {
    heard.get(rank).is_some_and(|heard| *heard)
}

fn rank_of(rank: usize) -> u16 {
    u16::try_from(rank).unwrap_or(u16::MAX)
}

/// The smallest set of at most `most` members with an end of each path, of those that `may_go`; of several, the one whose youngest is
/// youngest, then the next. Of more than [`COVER_MAX`], whoever has most paths goes first (ties: the younger): that need not be the smallest.
fn cover(
    failed: &BTreeSet<(usize, usize)>,
    most: usize,
    may_go: &impl Fn(&[usize]) -> bool,
) -> Option<BTreeSet<usize>> {
    let exact = (1..=most.min(COVER_MAX)).find_map(|size| {
        let mut best: Option<Vec<usize>> = None;
        let links: Vec<(usize, usize)> = failed.iter().copied().collect();
        extend_cover(&links, size, may_go, &mut Vec::new(), &mut best);
        best.map(|ranks| ranks.into_iter().collect())
    });
    if exact.is_some() || most <= COVER_MAX {
        return exact;
    }
    let (mut links, mut chosen) = (failed.clone(), Vec::new());
    while !links.is_empty() {
        let mut paths: BTreeMap<usize, usize> = BTreeMap::new();
        links.iter().flat_map(|(a, b)| [*a, *b]).for_each(|rank| *paths.entry(rank).or_default() += 1);
        let (_, worst) = paths.into_iter().map(|(rank, count)| (count, rank)).max()?;
        links.retain(|(a, b)| *a != worst && *b != worst);
        chosen.push(worst);
    }
    (chosen.len() <= most && may_go(&chosen)).then(|| chosen.into_iter().collect())
}

/// Of each path that is not covered yet, one end or the other.
fn extend_cover(
    links: &[(usize, usize)],
    size: usize,
    may_go: &impl Fn(&[usize]) -> bool,
    chosen: &mut Vec<usize>,
    best: &mut Option<Vec<usize>>,
) {
    let Some((a, b)) = links.iter().find(|(a, b)| !chosen.contains(a) && !chosen.contains(b)) else {
        let mut ranks = chosen.clone();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        if best.as_ref().is_none_or(|best| *best < ranks) && may_go(&ranks) {
            *best = Some(ranks);
        }
        return;
    };
    if chosen.len() == size {
        return;
    }
    for end in [*b, *a] {
        chosen.push(end);
        extend_cover(links, size, may_go, chosen, best);
        chosen.pop();
    }
}

mod receipts;
#[cfg(test)]
mod tests;
