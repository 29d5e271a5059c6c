//! The path monitor: it finds links and sockets that work in part, and decides which members leave the view for that.
//!
//! A path is a link, a data socket, or the way of long packets. Each member probes every other member in each kind of
//! [`PathKind::PROBED`]. It suspects a path whose peer is silent for long, and one whose probes stay unanswered for
//! long, unless something else shows progress. Suspicions travel with heartbeats. Each member that learns of one checks
//! both ends anew, and reports when it is done. Each then evaluates by itself: the fewest members that cover all failed
//! paths leave. The rules, what breaks without each, and what is promised are in `docs/model.md`, *Progress*. A
//! suspicion is never final: only a decided view excludes a member.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::acks::AckTracker;
pub use self::acks::SendKind;
use super::is_quorum;
use crate::id::{Incarnation, Rank};
use crate::time::Instant;

/// The way in which a path may fail. A probe takes the same way as the traffic that it stands for, with the same
/// length, and so does its answer. Probes on another socket or of another length find nothing (`docs/model.md`, *What
/// does not hold*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    /// Short packets from data socket to data socket.
    Data,
    /// Packets of full length from data socket to data socket.
    LongData,
    /// Packets of full length from control socket to control socket. Heartbeats test short ones.
    LongControl,
    /// All packets: the member is not heard. Evaluated from level 5 on.
    Silence,
}

impl PathKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Data, Self::LongData, Self::LongControl, Self::Silence];
    /// The kinds with probes of their own.
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

    /// The traffic whose missing acks count against this path, too. That traffic may have been long.
    fn sent(self) -> Option<SendKind> {
        match self {
            Self::LongData => Some(SendKind::Data),
            Self::LongControl => Some(SendKind::Control),
            Self::Data | Self::Silence => None,
        }
    }

    /// Whether its packets have full length.
    #[must_use]
    pub fn is_long(self) -> bool {
        self != Self::Data
    }
}

/// A member's statement that a path to another member failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspicion {
    /// The suspected member's rank.
    pub rank: Rank,
    /// The kind of path.
    pub kind: PathKind,
    /// Grows with each suspicion of the same suspecter in a view, so that a check of an earlier one does not count for
    /// this.
    pub number: u64,
}

/// A member's statements about the paths in the view in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Its suspicions, ascending.
    pub suspected: Vec<Suspicion>,
    /// For each of these members, ascending by rank: it has checked that member's suspicions up to this number.
    pub answered: Vec<(Rank, u64)>,
    /// Members that are proved dead, ascending by rank.
    pub dead: Vec<Rank>,
    /// Processes that wait to come back, and with which it can communicate; see [`super::Removal::suspecters`].
    pub reached: Vec<Incarnation>,
}

impl Findings {
    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn calls_silent(&self, rank: Rank) -> bool {
        self.suspected.iter().any(|a| a.rank == rank && a.kind == PathKind::Silence)
    }
}

/// A member is suspected only after this many unanswered probes.
const PROBES_MIN: u32 = 5;
/// A working path gets a short probe once in this many heartbeats.
const EVERY: u64 = 4;
/// A working path gets a long probe once in this many heartbeats.
const LONG_EVERY: u64 = 16;
/// This many consecutive heartbeats without findings revoke the earlier ones.
const SILENT_BEATS: u8 = 2;
/// In a cell with a watch graph, a member that owes acks for this many heartbeats is probed like a neighbour.
const OWED_BEATS: u32 = 4;
/// The largest smallest cover that is searched for exactly: a size of n takes 2^n steps.
const COVER_MAX: usize = 8;
const _: () = assert!(COVER_MAX < 16, "the search takes no more than some ten thousand steps");
const _: () = assert!(EVERY < LONG_EVERY, "long probes cost more than short ones");
/// The most processes that wait to come back in a member's findings.
pub const REACHED_MAX: usize = 64;
/// Further heartbeats for which a silent link must stay silent after all have checked it, if others hear its suspected
/// end. When a stopped member continues, its suspecters need that long to report it.
const SILENT_FOR: u32 = 3;

/// The path to one member in one kind, as probed from here.
#[derive(Clone, Copy, Debug)]
struct ProbedPath {
    /// When the last answered probe was sent, or the member was last heard. At first: when the clock began.
    answered: Instant,
    /// When the last answer came, or other progress was seen.
    progress: Instant,
    /// Probes since the last answer.
    unanswered_probes: u32,
    /// When the first of them was sent.
    unanswered: Instant,
    /// What the last two answers took.
    took: [Duration; 2],
    /// The number of the suspicion in force.
    suspected: Option<u64>,
}

impl ProbedPath {
    fn new(now: Instant) -> Self {
        let took = [Duration::ZERO; 2];
        Self { answered: now, progress: now, unanswered_probes: 0, unanswered: now, took, suspected: None }
    }

    /// The round trip: what the faster one of the last two answers took, zero before these came. After one answer that
    /// waited for a stopped process it is as before.
    fn round_trip(&self) -> Duration {
        self.took[0].min(self.took[1])
    }
}

/// What a member knows of the paths between members in the view in force.
#[derive(Clone, Debug)]
pub struct PathMonitor {
    me: Rank,
    paths: Vec<[ProbedPath; PathKind::ALL.len()]>,
    /// The members that it always probes; `None` for all.
    neighbours: Option<BTreeSet<Rank>>,
    acks: AckTracker,
    /// When each was last sent a message on its control channel, only to see whether it is acknowledged.
    pinged: Vec<Option<Instant>>,
    beats: u64,
    last_number: u64,
    /// The last findings of each member.
    said: Vec<Findings>,
    /// Heartbeats of each without findings since then.
    silent_beats: Vec<u8>,
    /// When each last reported findings.
    reported_at: Vec<Instant>,
    /// When a suspicion became known here, by suspecter.
    learnt: BTreeMap<(Rank, Suspicion), Instant>,
    /// The suspicions that this member has checked, by suspecter.
    answered: BTreeMap<Rank, u64>,
    leavers: BTreeMap<Rank, Case>,
    /// Since when there are suspicions that not all have checked.
    open_since: Option<Instant>,
    /// Since when all have checked all of them.
    verified_since: Option<Instant>,
    /// The longest declared gap between polls of each, by rank.
    gaps: Vec<Duration>,
}

/// The case for removing a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Whether a member that stays hears it. Only then it counts against the removal budget.
    pub is_heard: bool,
    /// The members that stay and to which a path failed, by rank.
    pub suspecters: Vec<Rank>,
}

/// Inputs of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// The time.
    pub now: Instant,
    /// Which members this one hears, by rank, itself included.
    pub hears: &'a [bool],
    /// Members that leave in any case: below level 5 the silent ones, from there on those that are proved dead.
    pub out: &'a BTreeSet<Rank>,
    /// How many members may be removed that were not removed before; see [`super::Removals`].
    pub budget: usize,
    /// The members that were removed before, by their present ranks.
    pub again: &'a BTreeSet<Rank>,
    /// From level 5 on: silence is evaluated, too.
    pub silence: Option<Silence<'a>>,
}

/// Inputs of an evaluation of silence.
#[derive(Clone, Copy, Debug)]
pub struct Silence<'a> {
    /// Members that are heard and have not installed the view in force for long. They check nothing, and what they say
    /// does not count.
    pub behind: &'a BTreeSet<Rank>,
    /// Interval between heartbeats.
    pub beat: Duration,
}

impl PathMonitor {
    /// A monitor for a new view, in which every member makes progress now.
    #[must_use]
    pub fn new(me: Rank, members: usize, now: Instant) -> Self {
        debug_assert!(me.index() < members || members == 0, "this process is a member, or probes nobody");
        let path = ProbedPath::new(now);
        Self {
            me,
            paths: vec![[path; PathKind::ALL.len()]; members],
            neighbours: None,
            acks: AckTracker::new(members, now),
            pinged: vec![None; members],
            beats: 0,
            last_number: 0,
            said: vec![Findings::default(); members],
            silent_beats: vec![0; members],
            reported_at: vec![now; members],
            learnt: BTreeMap::new(),
            answered: BTreeMap::new(),
            leavers: BTreeMap::new(),
            open_since: None,
            verified_since: None,
            gaps: Vec::new(),
        }
    }

    /// Sets how much longer probes of each member may stay unanswered, by rank.
    pub fn set_gaps(&mut self, gaps: Vec<Duration>) {
        debug_assert!(self.paths.is_empty() || gaps.len() == self.paths.len(), "each member has a gap");
        self.gaps = gaps;
    }

    /// Restricts probes in a cell with a watch graph. This member then probes these neighbours, members that owe it
    /// acks for several heartbeats, and both ends of suspected paths.
    pub fn set_neighbours(&mut self, neighbours: BTreeSet<Rank>) {
        self.neighbours = Some(neighbours);
    }

    /// The probes that are due with this heartbeat. Only members in `heard` are probed: silence is evaluated otherwise.
    pub fn probes(&mut self, now: Instant, heard: &[bool]) -> Vec<(Rank, PathKind)> {
        self.beats += 1;
        let urgent = self.paths_to_verify(heard);
        let mut probes = Vec::new();
        for rank in Rank::all(self.paths.len()).filter(|rank| *rank != self.me) {
            let is_watched = self.neighbours.as_ref().is_none_or(|near| near.contains(&rank));
            let looks = |sent: SendKind| self.acks.looks(rank, sent);
            // A link that nobody watches is probed as soon as acks over it are overdue.
            let is_watched = is_watched || looks(SendKind::Data).max(looks(SendKind::DataChannel)) > OWED_BEATS;
            for kind in PathKind::PROBED {
                let path = &mut self.paths[rank.index()][usize::from(kind.number())];
                if !is_in(heard, rank) {
                    // Silence is evaluated by itself. A member that is heard again begins without unanswered probes.
                    *path = ProbedPath::new(now);
                    continue;
                }
                let every = if kind.is_long() { LONG_EVERY } else { EVERY };
                let is_due = if path.unanswered_probes > 0 {
                    // No answer from afar is missing before it can have come.
                    now.since(path.unanswered) >= path.round_trip()
                } else {
                    // Spread by rank, so that a heartbeat does not probe all members at once.
                    is_watched && (self.beats + u64::from(rank.0)).is_multiple_of(every)
                };
                if is_due || path.suspected.is_some() || urgent.contains(&(rank, kind)) {
                    if path.unanswered_probes == 0 {
                        path.unanswered = now;
                    }
                    path.unanswered_probes += 1;
                    probes.push((rank, kind));
                }
            }
        }
        probes
    }

    /// The paths that this member has to check: for each suspicion of a member that is heard, both its ends.
    fn paths_to_verify(&self, heard: &[bool]) -> BTreeSet<(Rank, PathKind)> {
        let open = self.learnt.iter().filter(|((by, suspicion), _)| {
            is_in(heard, *by)
                && suspicion.kind != PathKind::Silence
                && self.answered.get(by).copied().unwrap_or(0) < suspicion.number
        });
        // Both, because the suspecter may be at fault. Checks of the suspected end alone remove a healthy member
        // (`docs/model.md`).
        open.flat_map(|((by, a), _)| [(*by, a.kind), (a.rank, a.kind)]).filter(|(rank, _)| *rank != self.me).collect()
    }

    /// Takes `rank`'s answer to a probe that was sent at `sent`.
    pub fn answer(&mut self, now: Instant, rank: Rank, kind: PathKind, sent: Instant) {
        let Some(path) = self.paths.get_mut(rank.index()).map(|paths| &mut paths[usize::from(kind.number())]) else {
            return;
        };
        // The peer echoes the time. One in the future is forged, and an earlier one reordered.
        if sent > now || sent <= path.answered {
            return;
        }
        path.answered = sent;
        path.took = [now.since(sent), path.took[0]];
        path.progress = now;
        path.unanswered_probes = 0;
        // A member that answers and does not acknowledge what it is sent stays suspected.
        if kind.sent().is_none_or(|sent| !self.acks.is_suspected(rank, sent)) {
            path.suspected = None;
        }
    }

    /// Takes how much `rank` has acknowledged of what it was sent in this way, in any unit, and whether it owes more.
    /// Another sum than before is progress. Called at each heartbeat.
    pub fn acknowledged(&mut self, now: Instant, rank: Rank, sent: SendKind, sum: u64, owes: bool) {
        let Some(paths) = self.paths.get_mut(rank.index()) else { return };
        let moves = self.acks.note(now, rank, sent, sum, owes);
        for kind in PathKind::PROBED {
            let path = &mut paths[usize::from(kind.number())];
            // Acks for data show that the data socket works, and nothing about the control socket.
            if moves && sent != SendKind::Control && kind != PathKind::LongControl {
                path.progress = now;
            }
            if (moves || !owes) && kind.sent() == Some(sent) && self.acks.is_suspected(rank, sent) {
                self.acks.suspect(rank, sent, false);
                if path.unanswered_probes == 0 {
                    path.suspected = None;
                }
            }
        }
    }

    /// Restarts the time for which acks are owed. Called while no packet of this member can go out, or no ack is
    /// expected.
    pub fn owe_anew(&mut self, now: Instant) {
        self.acks.begin_anew(now);
    }

    /// How long probes and acks of a member may stay away: `patience`, its longest declared gap between polls, and a round
    /// trip, because what is lost is sent again after one. No round trip counts as longer than `patience`.
    fn patience_with(&self, rank: Rank, patience: Duration) -> Duration {
        let paths = &self.paths[rank.index()];
        let round_trip = PathKind::PROBED.map(|kind| paths[usize::from(kind.number())].round_trip()).into_iter().max();
        let gap = self.gaps.get(rank.index()).copied().unwrap_or_default();
        patience + gap + round_trip.unwrap_or_default().min(patience)
    }

    /// Members that get a message on the control channel, only to see whether it is acknowledged.
    ///
    /// - Both ends of a path on which control packets fail, as others report.
    /// - All members, as soon as one acknowledges nothing for half of `patience`. It may be this member that nobody
    ///   hears on that socket, and then all are suspected together.
    pub fn pings(&mut self, now: Instant, heard: &[bool], patience: Duration) -> Vec<Rank> {
        let others: Vec<Rank> =
            Rank::all(self.paths.len()).filter(|rank| *rank != self.me && is_in(heard, *rank)).collect();
        // Half, so that all that are silent on this socket are known before the first is suspected.
        let half = |rank: Rank| self.patience_with(rank, patience) / 2;
        let is_in_doubt = others.iter().any(|rank| self.acks.is_stuck(now, *rank, SendKind::Control, half(*rank)));
        let learnt = self.learnt.iter().filter(|((_, suspicion), _)| suspicion.kind == PathKind::LongControl);
        let ends: Vec<(Rank, Instant)> = learnt.flat_map(|((by, a), at)| [(*by, *at), (a.rank, *at)]).collect();
        let wants = |rank: Rank| {
            let moved = self.acks.moved(rank, SendKind::Control);
            is_in_doubt && now.since(moved) >= half(rank) || ends.iter().any(|(end, at)| *end == rank && moved <= *at)
        };
        let waits = |rank: Rank| self.pinged[rank.index()].is_some_and(|at| now.since(at) < half(rank));
        let is_idle = |rank: Rank| self.acks.is_idle(rank, SendKind::Control);
        let to: Vec<Rank> = others.into_iter().filter(|rank| is_idle(*rank) && wants(*rank) && !waits(*rank)).collect();
        to.iter().for_each(|rank| self.pinged[rank.index()] = Some(now));
        to
    }

    /// Forgives the silence of `gap`, during which this process was away.
    pub fn forgive(&mut self, now: Instant, gap: Duration) {
        for path in self.paths.iter_mut().flatten() {
            path.answered = now.min(path.answered + gap);
            path.progress = now.min(path.progress + gap);
            path.unanswered = now.min(path.unanswered + gap);
        }
        self.acks.forgive(now, gap);
        for since in self.learnt.values_mut().chain(&mut self.reported_at) {
            *since = now.min(*since + gap);
        }
    }

    /// Notes a heartbeat of `rank`. Its findings, if there are any, follow in the same packet.
    pub fn beat(&mut self, rank: Rank) {
        let Some(beats) = self.silent_beats.get_mut(rank.index()) else { return };
        *beats = beats.saturating_add(1);
        if *beats > SILENT_BEATS {
            self.take_back(rank);
        }
    }

    /// In a cell with a watch graph, revokes findings that were not repeated for `after`. Not all members send each
    /// other heartbeats there.
    pub fn expire(&mut self, now: Instant, after: Duration) {
        for rank in Rank::all(self.said.len()) {
            if now.since(self.reported_at[rank.index()]) >= after {
                self.take_back(rank);
            }
        }
    }

    fn take_back(&mut self, rank: Rank) {
        if !self.said[rank.index()].is_empty() {
            self.said[rank.index()] = Findings::default();
            self.learnt.retain(|(by, _), _| *by != rank);
        }
    }

    /// Takes the findings of `rank`, which replace its earlier ones. True if they differ. Nonsense is ignored.
    pub fn hear(&mut self, now: Instant, rank: Rank, findings: Findings) -> bool {
        let members = self.paths.len();
        let is_named = |who: Rank| who.index() < members && who != rank;
        let makes_sense = rank.index() < members
            && rank != self.me
            && findings.suspected.len() <= members * PathKind::ALL.len()
            && findings.suspected.iter().all(|suspicion| is_named(suspicion.rank))
            && findings.answered.iter().all(|(by, _)| is_named(*by))
            && findings.dead.iter().all(|dead| is_named(*dead))
            && findings.reached.len() <= REACHED_MAX;
        // Ranks of a peer become indexes here, so nonsense must not be stored.
        if !makes_sense {
            return false;
        }
        let suspected = &findings.suspected;
        self.learnt.retain(|(by, suspicion), _| *by != rank || suspected.contains(suspicion));
        // Keeps the time at which a repeated suspicion was first heard: a check counts from there.
        for suspicion in suspected {
            self.learnt.entry((rank, *suspicion)).or_insert(now);
        }
        let is_news = self.said[rank.index()] != findings;
        (self.said[rank.index()], self.silent_beats[rank.index()], self.reported_at[rank.index()]) = (findings, 0, now);
        is_news
    }

    /// Suspects the members that are silent: those not in `hears`. The caller leaves out those that never install the view
    /// in force, too. `last_heard` gives the time of a member's last packet.
    pub fn detect_silence(&mut self, hears: &[bool], last_heard: impl Fn(Rank) -> Instant) {
        for rank in Rank::all(self.paths.len()).filter(|rank| *rank != self.me) {
            let path = &mut self.paths[rank.index()][usize::from(PathKind::Silence.number())];
            // A suspicion of silence is checked when both ends were heard since, and `answered` is what the check
            // reads.
            path.answered = last_heard(rank);
            if is_in(hears, rank) {
                path.suspected = None;
            } else if path.suspected.is_none() {
                self.last_number += 1;
                path.suspected = Some(self.last_number);
            }
        }
    }

    /// Suspects members that left probes unanswered for `patience`, and determines which suspicions of others this
    /// member has checked. Returns the number of new suspicions.
    pub fn check_probes(&mut self, now: Instant, heard: &[bool], patience: Duration) -> u64 {
        let mut since: BTreeMap<(Rank, PathKind), Instant> = BTreeMap::new();
        for ((by, suspicion), at) in &self.learnt {
            for rank in [*by, suspicion.rank] {
                let latest = since.entry((rank, suspicion.kind)).or_insert(*at);
                *latest = (*latest).max(*at);
            }
        }
        let before = self.last_number;
        let others = |rank: &Rank| *rank != self.me && is_in(heard, *rank);
        // Members with silent control channels are suspected together:
        //
        // 1. Nobody hears this member on its control socket, so no member acknowledges.
        // 2. It suspects the first one, before the others' acks are overdue.
        // 3. That one link is covered by its younger end, which may be the healthy one.
        let is_open = Rank::all(self.paths.len())
            .filter(others)
            .any(|rank| self.acks.is_open(now, rank, SendKind::Control, self.patience_with(rank, patience)));
        for rank in Rank::all(self.paths.len()).filter(others) {
            let patience = self.patience_with(rank, patience);
            for kind in PathKind::PROBED {
                let short = self.paths[rank.index()][usize::from(PathKind::Data.number())];
                if kind == PathKind::LongData && (short.suspected.is_some() || short.unanswered_probes >= PROBES_MIN) {
                    continue; // where short packets fail, long ones report nothing new, and all would have to check each
                }
                let path = &mut self.paths[rank.index()][usize::from(kind.number())];
                if path.suspected.is_some() {
                    continue;
                }
                if let Some(sent) = kind.sent()
                    && self.acks.is_stuck(now, rank, sent, patience)
                    && !(sent == SendKind::Control && is_open)
                {
                    self.last_number += 1;
                    path.suspected = Some(self.last_number);
                    self.acks.suspect(rank, sent, true);
                    continue;
                }
                if path.unanswered_probes < PROBES_MIN {
                    continue;
                }
                // A probe alone is not enough: a member that acknowledges data makes progress, however late it answers.
                let is_stuck = now.since(path.unanswered.max(path.progress)) >= patience;
                let fails_again =
                    since.get(&(rank, kind)).is_some_and(|learnt| now.since(path.unanswered.max(*learnt)) >= patience);
                if is_stuck || fails_again {
                    self.last_number += 1;
                    path.suspected = Some(self.last_number);
                }
            }
        }
        let mut answered: BTreeMap<Rank, u64> = BTreeMap::new();
        let mut open: BTreeSet<Rank> = BTreeSet::new();
        let mut learnt: Vec<_> = self.learnt.iter().collect();
        learnt.sort_by_key(|((by, suspicion), _)| (*by, suspicion.number));
        for ((by, suspicion), at) in learnt {
            let is_done = [*by, suspicion.rank].into_iter().all(|rank| {
                let path = &self.paths[rank.index()][usize::from(suspicion.kind.number())];
                let is_seen = match suspicion.kind {
                    PathKind::Silence => path.answered >= *at,
                    _ if !is_in(heard, rank) => true,
                    PathKind::LongControl => path.answered > *at && self.acks.moved(rank, SendKind::Control) > *at,
                    PathKind::Data | PathKind::LongData => path.answered > *at,
                };
                // A suspicion of the short path answers one of the long path: where short packets fail, long ones fail,
                // too.
                let is_short_accused = suspicion.kind == PathKind::LongData
                    && self.paths[rank.index()][usize::from(PathKind::Data.number())].suspected.is_some();
                rank == self.me || path.suspected.is_some() || is_short_accused || is_seen
            });
            if !is_done {
                open.insert(*by);
            } else if !open.contains(by) {
                answered.insert(*by, suspicion.number);
            }
        }
        self.answered = answered;
        self.last_number - before
    }

    /// The findings that go out with this member's heartbeats.
    #[must_use]
    pub fn findings(&self) -> Findings {
        let mut suspected = Vec::new();
        for (rank, paths) in Rank::enumerate(&self.paths) {
            let of = |kind: PathKind| paths[usize::from(kind.number())].suspected;
            suspected
                .extend(PathKind::ALL.into_iter().filter_map(|kind| Some(Suspicion { rank, kind, number: of(kind)? })));
        }
        debug_assert!(suspected.is_sorted(), "suspicions are reported in ascending order");
        let answered = self.answered.iter().map(|(by, number)| (*by, *number)).collect();
        Findings { suspected, answered, ..Findings::default() }
    }

    /// Evaluates the suspicions, once every member that is heard has checked each of them.
    ///
    /// The fewest members with an end of each failed path are to go. Of several such sets, it is the one with the
    /// youngest members. Nobody goes if the others were no quorum, or if too many went before; then silence alone is
    /// evaluated. A member that is proved dead goes in any case.
    pub fn evaluate(&mut self, evaluation: Evaluation<'_>) {
        debug_assert_eq!(evaluation.hears.len(), self.paths.len(), "each member is heard or not");
        debug_assert!(is_in(evaluation.hears, self.me), "a member hears itself");
        self.leavers.clear();
        let verified_since = self.verified_since.take();
        let dead = self.proved_dead(&evaluation);
        if evaluation.silence.is_some() {
            self.leavers.extend(dead.iter().map(|rank| (*rank, Case::default())));
        }
        let is_behind = |rank: Rank| evaluation.silence.is_some_and(|silence| silence.behind.contains(&rank));
        let speaks = |rank: Rank| is_in(evaluation.hears, rank) && !dead.contains(&rank) && !is_behind(rank);
        // A member that is to go decides nothing (`docs/progress.md`, *eligible*).
        if !speaks(self.me) {
            return;
        }
        let counts = |rank: Rank| if evaluation.silence.is_some() { !dead.contains(&rank) } else { speaks(rank) };
        let own = self.findings();
        let mut suspicions: Vec<(Rank, Suspicion)> = own.suspected.iter().map(|a| (self.me, *a)).collect();
        for (by, findings) in Rank::enumerate(&self.said).filter(|(by, _)| speaks(*by)) {
            suspicions.extend(findings.suspected.iter().map(|suspicion| (by, *suspicion)));
        }
        suspicions.retain(|(_, suspicion)| counts(suspicion.rank));
        // An evaluation before all have checked removes a healthy member: the younger end of the first suspected link
        // (`docs/model.md`).
        let is_settled = self.is_verified(&suspicions, &own, &evaluation, speaks) && {
            self.verified_since = verified_since;
            self.stays_so(&suspicions, &own, &evaluation, speaks)
        };
        if !is_settled {
            self.open_since.get_or_insert(evaluation.now);
            return;
        }
        self.open_since = None;
        let there: BTreeSet<Rank> = Rank::all(self.paths.len()).filter(|rank| counts(*rank)).collect();
        let links: BTreeSet<(Rank, Rank, PathKind)> = suspicions
            .iter()
            .map(|(by, a)| (*by, a.rank, a.kind))
            .map(|(a, b, kind)| (a.min(b), a.max(b), kind))
            .collect();
        let silent: BTreeSet<(Rank, Rank)> =
            links.iter().filter(|link| link.2 == PathKind::Silence).map(|(a, b, _)| (*a, *b)).collect();
        let failed: BTreeSet<(Rank, Rank)> = links.into_iter().map(|(a, b, _)| (a, b)).collect();
        if failed.is_empty() {
            return;
        }
        let go = self.choose(&failed, &silent, &there, &evaluation);
        // If the whole set may not go, the silent members still may (`docs/progress.md`, *limits*).
        let go = go.or_else(|| self.choose(&silent, &silent, &there, &evaluation));
        self.leavers.extend(go.unwrap_or_default());
    }

    /// Whether some member has reported that `rank` is proved dead.
    #[must_use]
    pub fn is_told_dead(&self, rank: Rank) -> bool {
        self.said.iter().any(|findings| findings.dead.contains(&rank))
    }

    /// Members that are proved dead, as known here or to a member that is heard. One member that knows of a death is
    /// enough.
    fn proved_dead(&self, evaluation: &Evaluation<'_>) -> BTreeSet<Rank> {
        let mut dead = evaluation.out.clone();
        if evaluation.silence.is_some() {
            let heard = Rank::enumerate(&self.said).filter(|(by, _)| is_in(evaluation.hears, *by));
            dead.extend(heard.flat_map(|(_, findings)| &findings.dead));
            // Whatever others report of this member, it lives.
            dead.remove(&self.me);
        }
        dead
    }

    /// Whether each member for which `speaks` is true has checked each suspicion. The two ends need not: a member that
    /// hangs never would.
    fn is_verified(
        &self,
        suspicions: &[(Rank, Suspicion)],
        own: &Findings,
        evaluation: &Evaluation<'_>,
        speaks: impl Fn(Rank) -> bool,
    ) -> bool {
        let others: Vec<Rank> = Rank::all(self.paths.len()).filter(|rank| speaks(*rank)).collect();
        suspicions.iter().all(|(by, suspicion)| {
            others.iter().all(|other| {
                let findings = self.findings_of(*other, own);
                let is_answer = |(of, upto): &(Rank, u64)| *of == *by && *upto >= suspicion.number;
                // A member that does not hear the suspecter never learns of the suspicion.
                *other == *by
                    || *other == suspicion.rank
                    || findings.answered.iter().any(is_answer)
                    || evaluation.silence.is_some() && findings.calls_silent(*by)
            })
        })
    }

    /// Whether the silent links stayed silent for long enough since all checked them.
    fn stays_so(
        &mut self,
        suspicions: &[(Rank, Suspicion)],
        own: &Findings,
        evaluation: &Evaluation<'_>,
        speaks: impl Fn(Rank) -> bool,
    ) -> bool {
        let Some(silence) = evaluation.silence else { return true };
        let is_heard = |suspected: Rank| {
            let mut others = Rank::all(self.paths.len()).filter(|rank| *rank != suspected && speaks(*rank));
            others.any(|other| !self.findings_of(other, own).calls_silent(suspected))
        };
        let mut silent = suspicions.iter().filter(|(_, suspicion)| suspicion.kind == PathKind::Silence);
        if !silent.any(|(_, suspicion)| is_heard(suspicion.rank)) {
            return true;
        }
        evaluation.now.since(*self.verified_since.get_or_insert(evaluation.now)) >= silence.beat * SILENT_FOR
    }

    fn findings_of<'a>(&'a self, rank: Rank, own: &'a Findings) -> &'a Findings {
        if rank == self.me { own } else { &self.said[rank.index()] }
    }

    /// The fewest members with an end of each link in `failed`, if they may go.
    fn choose(
        &self,
        failed: &BTreeSet<(Rank, Rank)>,
        silent: &BTreeSet<(Rank, Rank)>,
        there: &BTreeSet<Rank>,
        evaluation: &Evaluation<'_>,
    ) -> Option<BTreeMap<Rank, Case>> {
        let members = self.paths.len();
        // Bounds the search: no larger set could leave a quorum.
        let may_lack = |count: usize| is_quorum(there.len() - count, members, true);
        let most = (0..there.len()).take_while(|count| may_lack(*count)).last().unwrap_or(0);
        // If a cell breaks into halves, the half with rank 0 stays.
        let leaves_a_quorum = |cover: &[Rank]| {
            let with_rank_0 = there.contains(&Rank::FIRST) && !cover.contains(&Rank::FIRST);
            is_quorum(there.len() - cover.len(), members, with_rank_0)
        };
        let cover = cover(failed, most, &leaves_a_quorum)?;
        let stay: Vec<Rank> = there.difference(&cover).copied().collect();
        let case = |rank: &Rank| {
            let has = |links: &BTreeSet<(Rank, Rank)>, other: &Rank| {
                debug_assert!(cover.len() <= most, "more go than may");
                debug_assert!(
                    failed.iter().all(|(a, b)| cover.contains(a) || cover.contains(b)),
                    "a failed path is left with both its ends"
                );
                links.contains(&((*rank).min(*other), (*rank).max(*other)))
            };
            let is_heard = stay.iter().any(|other| !has(silent, other));
            let suspecters = stay.iter().copied().filter(|other| has(failed, other)).collect();
            (*rank, Case { is_heard, suspecters })
        };
        let cases: BTreeMap<Rank, Case> = cover.iter().map(case).collect();
        // A member that no staying member hears does not count, nor a name that went before (`docs/progress.md`,
        // *limits*).
        let counted = cases.iter().filter(|(rank, case)| case.is_heard && !evaluation.again.contains(rank)).count();
        (counted <= evaluation.budget).then_some(cases)
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self, members: usize) {
        if self.paths.is_empty() {
            return; // paths are not evaluated: an old level, or a cell that is too large
        }
        assert_eq!(self.paths.len(), members, "a member has no path");
        assert!(self.me.index() < members, "this process is a member");
        let lens = [self.said.len(), self.pinged.len(), self.silent_beats.len(), self.reported_at.len()];
        assert!(lens.iter().all(|len| *len == members), "a list has another length than the view");
        assert!(self.gaps.is_empty() || self.gaps.len() == members, "the gaps have another length than the view");
        assert!(self.paths[self.me.index()].iter().all(|path| path.suspected.is_none()), "a member suspects itself");
        let numbers = self.paths.iter().flatten().filter_map(|path| path.suspected);
        assert!(numbers.max().is_none_or(|most| most <= self.last_number), "a suspicion has an unused number");
        assert!(self.leavers.keys().all(|rank| rank.index() < members), "a leaver is no member");
        for (by, suspicion) in self.learnt.keys() {
            assert_ne!(*by, self.me, "a member learns of its own suspicion from others");
            assert!(self.said[by.index()].suspected.contains(suspicion), "a suspicion is known that was taken back");
            assert!(suspicion.rank.index() < members, "a suspected rank is no member");
        }
    }

    /// The members that are to leave, according to the last evaluation.
    #[must_use]
    pub fn leavers(&self) -> &BTreeMap<Rank, Case> {
        &self.leavers
    }

    /// For how long there have been suspicions that not all have checked.
    #[must_use]
    pub fn open_for(&self, now: Instant) -> Duration {
        self.open_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether no member suspects another.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.leavers.is_empty()
            && self.learnt.is_empty()
            && self.said.iter().all(|findings| findings.dead.is_empty())
            && self.paths.iter().flatten().all(|path| path.suspected.is_none())
    }
}

fn is_in(heard: &[bool], rank: Rank) -> bool {
    heard.get(rank.index()).is_some_and(|heard| *heard)
}

/// The smallest set of at most `most` members that has an end of each link, and that `may_go`. Of several, it is the
/// one whose youngest member is youngest, then the next. If more than [`COVER_MAX`] are needed, the member with most
/// links goes first (ties: the younger). That set need not be the smallest: the exact search would take too long.
fn cover(failed: &BTreeSet<(Rank, Rank)>, most: usize, may_go: &impl Fn(&[Rank]) -> bool) -> Option<BTreeSet<Rank>> {
    let exact = (1..=most.min(COVER_MAX)).find_map(|size| {
        let mut best: Option<Vec<Rank>> = None;
        let links: Vec<(Rank, Rank)> = failed.iter().copied().collect();
        extend_cover(&links, size, may_go, &mut Vec::new(), &mut best);
        best.map(|ranks| ranks.into_iter().collect())
    });
    if exact.is_some() || most <= COVER_MAX {
        return exact;
    }
    let (mut links, mut chosen) = (failed.clone(), Vec::new());
    while !links.is_empty() {
        let mut paths: BTreeMap<Rank, usize> = BTreeMap::new();
        links.iter().flat_map(|(a, b)| [*a, *b]).for_each(|rank| *paths.entry(rank).or_default() += 1);
        let (_, worst) = paths.into_iter().map(|(rank, count)| (count, rank)).max()?;
        links.retain(|(a, b)| *a != worst && *b != worst);
        chosen.push(worst);
    }
    (chosen.len() <= most && may_go(&chosen)).then(|| chosen.into_iter().collect())
}

/// Extends `chosen` by one end of each link that it does not cover yet.
fn extend_cover(
    links: &[(Rank, Rank)],
    size: usize,
    may_go: &impl Fn(&[Rank]) -> bool,
    chosen: &mut Vec<Rank>,
    best: &mut Option<Vec<Rank>>,
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

mod acks;
#[cfg(test)]
mod tests;
