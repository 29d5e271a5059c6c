//! Who is heard and makes no progress: a data socket that does not work, a path that loses long packets.
//!
//! Each member probes every other one in each [`ProbeKind`]. Whoever leaves its probes unanswered for long is accused, if nothing
//! else shows progress. An accusation goes out with the heartbeats. Each member that learns of it probes both ends anew, and says
//! when it is done. Then each judges by itself: the fewest members with an end of each failed path go. The rules, what breaks
//! without each of them, and what is promised are in `docs/model.md`, *Progress*. Nothing here is final: only a
//! decided view excludes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::is_quorum;
use crate::time::Instant;

/// What a probe stands for: it goes the same way, as long, and so does its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// A short packet from data socket to data socket.
    Data,
    /// The same, as long as packets between these two may be.
    LongData,
    /// As long, from control socket to control socket. Short ones are heartbeats.
    LongControl,
}

impl ProbeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Data, Self::LongData, Self::LongControl];

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
    pub kind: ProbeKind,
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
}

impl Findings {
    /// Nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accused.is_empty() && self.answered.is_empty()
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

/// One member in one kind, as probed from here.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// When the last probe went out that was answered; at first, when the clock began.
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
    paths: Vec<[Path; ProbeKind::ALL.len()]>,
    /// What each had acknowledged at the last look.
    acknowledged: Vec<u64>,
    beats: u64,
    last_number: u64,
    /// What each member said last, and its heartbeats without findings since.
    said: Vec<(Findings, u8)>,
    /// When an accusation was heard of here, by accuser.
    learnt: BTreeMap<(usize, Accusation), Instant>,
    /// What this member has looked into, by accuser.
    answered: BTreeMap<u16, u64>,
    leavers: BTreeSet<usize>,
}

/// What a judge knows besides.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    /// Whom it hears, by rank, itself included.
    pub hears: &'a [bool],
    /// Those that leave anyway.
    pub out: &'a BTreeSet<usize>,
    /// How many members may go that did not go before; see [`Budget`].
    pub budget: usize,
    /// Those that went before, by the ranks they have now.
    pub again: &'a BTreeSet<usize>,
}

/// How many may be removed for lack of progress: within [`BUDGET_WINDOW`], of different names, no more than a minority of the
/// largest view since it began. So paths that break one after the other do not erode a cell.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Views by when they were installed, the one that stood when the window began first.
    views: VecDeque<(Instant, usize)>,
    /// Who was removed: when last, how often.
    removed: VecDeque<(Instant, String, u32)>,
}

/// Removals count for so long.
pub const BUDGET_WINDOW: Duration = Duration::from_secs(600);
/// Who was removed once waits so long.
const BACK_AFTER: Duration = Duration::from_secs(5);
/// However often it was removed, it waits no longer than this.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// Views closer together than this count as one, the largest of them.
const VIEWS_EVERY: Duration = Duration::from_secs(10);

impl Budget {
    /// Notes that a view with this number of members is installed.
    pub fn install(&mut self, now: Instant, members: usize) {
        self.pass(now);
        match self.views.back_mut() {
            Some((at, most)) if now.since(*at) < VIEWS_EVERY => *most = members.max(*most),
            _ => self.views.push_back((now, members)),
        }
    }

    /// A member of this name was removed though it was heard.
    pub fn remove(&mut self, now: Instant, name: &str) {
        self.pass(now);
        let place = self.removed.iter().position(|(_, removed, _)| removed == name);
        let before = place.and_then(|place| self.removed.remove(place)).map_or(0, |(_, _, times)| times);
        self.removed.push_back((now, name.to_owned(), before.saturating_add(1)));
    }

    /// How many of other names may go now.
    pub fn left(&mut self, now: Instant) -> usize {
        self.pass(now);
        let members = self.views.iter().map(|(_, members)| *members).max().unwrap_or(0);
        let most = if members == 2 { 1 } else { members.saturating_sub(1) / 2 };
        most.saturating_sub(self.removed.len())
    }

    /// Whether a member of this name was removed within the window.
    #[must_use]
    pub fn has_removed(&self, name: &str) -> bool {
        self.removed.iter().any(|(_, removed, _)| removed == name)
    }

    /// Whether a process of this name is to wait before it comes back: 5 s since it was removed, twice as long each time, 60 s at most.
    #[must_use]
    pub fn holds_back(&self, now: Instant, name: &str) -> bool {
        let removal = self.removed.iter().find(|(_, removed, _)| removed == name);
        removal.is_some_and(|(at, _, times)| {
            let doubled = BACK_AFTER.saturating_mul(1 << (times - 1).min(16));
            now.since(*at) < doubled.min(BACK_WITHIN)
        })
    }

    fn pass(&mut self, now: Instant) {
        while self.removed.front().is_some_and(|(at, _, _)| now.since(*at) >= BUDGET_WINDOW) {
            self.removed.pop_front();
        }
        while self.views.get(1).is_some_and(|(at, _)| now.since(*at) >= BUDGET_WINDOW) {
            self.views.pop_front();
        }
    }
}

impl Progress {
    /// A fresh view: everybody makes progress now.
    #[must_use]
    pub fn new(me: usize, members: usize, now: Instant) -> Self {
        let path = Path::new(now);
        Self {
            me,
            paths: vec![[path; ProbeKind::ALL.len()]; members],
            acknowledged: vec![0; members],
            beats: 0,
            last_number: 0,
            said: vec![(Findings::default(), 0); members],
            learnt: BTreeMap::new(),
            answered: BTreeMap::new(),
            leavers: BTreeSet::new(),
        }
    }

    /// The probes that go out with this heartbeat, to those that are `heard`. Who is not heard, or hears nothing itself, is others' business.
    pub fn probes(&mut self, now: Instant, heard: &[bool]) -> Vec<(usize, ProbeKind)> {
        self.beats += 1;
        let urgent = self.to_look_into(heard);
        let mut probes = Vec::new();
        for rank in (0..self.paths.len()).filter(|rank| *rank != self.me) {
            for kind in ProbeKind::ALL {
                let path = &mut self.paths[rank][usize::from(kind.number())];
                if !heard.get(rank).is_some_and(|heard| *heard) {
                    *path = Path::new(now);
                    continue;
                }
                let every = if kind.is_long() { LONG_EVERY } else { EVERY };
                let is_due = path.in_vain > 0 || (self.beats + rank as u64).is_multiple_of(every);
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
    fn to_look_into(&self, heard: &[bool]) -> BTreeSet<(usize, ProbeKind)> {
        let open = self.learnt.iter().filter(|((by, accusation), _)| {
            let by_rank = u16::try_from(*by).unwrap_or(u16::MAX);
            heard.get(*by).is_some_and(|heard| *heard)
                && self.answered.get(&by_rank).copied().unwrap_or(0) < accusation.number
        });
        open.flat_map(|((by, a), _)| [(*by, a.kind), (usize::from(a.rank), a.kind)])
            .filter(|(rank, _)| *rank != self.me)
            .collect()
    }

    /// `rank` answered a probe that went out at `sent`.
    pub fn answer(&mut self, now: Instant, rank: usize, kind: ProbeKind, sent: Instant) {
        let Some(path) = self.paths.get_mut(rank).map(|paths| &mut paths[usize::from(kind.number())]) else { return };
        if sent > now || sent <= path.answered {
            return;
        }
        path.answered = sent;
        path.progress = now;
        path.in_vain = 0;
        path.accused = None;
    }

    /// `rank` has acknowledged so much, in whatever unit, of what it is sent on the data socket. Another sum than before is progress.
    pub fn acknowledged(&mut self, now: Instant, rank: usize, sum: u64) {
        let (Some(paths), Some(before)) = (self.paths.get_mut(rank), self.acknowledged.get_mut(rank)) else { return };
        if std::mem::replace(before, sum) != sum {
            for kind in [ProbeKind::Data, ProbeKind::LongData] {
                paths[usize::from(kind.number())].progress = now;
            }
        }
    }

    /// This process was away for `gap`: what did not come meanwhile accuses nobody.
    pub fn forgive(&mut self, now: Instant, gap: Duration) {
        for path in self.paths.iter_mut().flatten() {
            path.answered = now.min(path.answered + gap);
            path.progress = now.min(path.progress + gap);
            path.unanswered = now.min(path.unanswered + gap);
        }
        for since in self.learnt.values_mut() {
            *since = now.min(*since + gap);
        }
    }

    /// A heartbeat of `rank`. Findings follow it in its packet, if there are any.
    pub fn beat(&mut self, rank: usize) {
        let Some((said, silent)) = self.said.get_mut(rank) else { return };
        *silent = silent.saturating_add(1);
        if *silent > SILENT_BEATS && !said.is_empty() {
            *said = Findings::default();
            self.learnt.retain(|(by, _), _| *by != rank);
        }
    }

    /// `rank` says what it found, and takes back what it said before. True if that is other than before.
    pub fn hear(&mut self, now: Instant, rank: usize, findings: Findings) -> bool {
        let members = self.paths.len();
        let is_named = |who: u16| usize::from(who) < members && usize::from(who) != rank;
        let makes_sense = rank < members
            && rank != self.me
            && findings.accused.len() <= members * ProbeKind::ALL.len()
            && findings.accused.iter().all(|accusation| is_named(accusation.rank))
            && findings.answered.iter().all(|(by, _)| is_named(*by));
        if !makes_sense {
            return false;
        }
        let accused = &findings.accused;
        self.learnt.retain(|(by, accusation), _| *by != rank || accused.contains(accusation));
        for accusation in accused {
            self.learnt.entry((rank, *accusation)).or_insert(now);
        }
        let is_news = self.said[rank].0 != findings;
        self.said[rank] = (findings, 0);
        is_news
    }

    /// Accuses those that left probes unanswered for `patience`, and finds out what of others' accusations was looked into. Gives the number of
    /// new accusations.
    pub fn look(&mut self, now: Instant, heard: &[bool], patience: Duration) -> u64 {
        let mut since: BTreeMap<(usize, ProbeKind), Instant> = BTreeMap::new();
        for ((by, accusation), at) in &self.learnt {
            for rank in [*by, usize::from(accusation.rank)] {
                let latest = since.entry((rank, accusation.kind)).or_insert(*at);
                *latest = (*latest).max(*at);
            }
        }
        let before = self.last_number;
        for rank in (0..self.paths.len()).filter(|rank| *rank != self.me && heard.get(*rank).is_some_and(|h| *h)) {
            for kind in ProbeKind::ALL {
                let path = &mut self.paths[rank][usize::from(kind.number())];
                if path.accused.is_some() || path.in_vain < PROBES_MIN {
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
                rank == self.me || !heard.get(rank).is_some_and(|h| *h) || path.accused.is_some() || path.answered > *at
            });
            if !is_done {
                open.insert(*by);
            } else if !open.contains(by) {
                answered.insert(u16::try_from(*by).unwrap_or(u16::MAX), accusation.number);
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
            let of = |kind: ProbeKind| paths[usize::from(kind.number())].accused;
            accused.extend(
                ProbeKind::ALL.into_iter().filter_map(|kind| Some(Accusation { rank, kind, number: of(kind)? })),
            );
        }
        Findings { accused, answered: self.answered.iter().map(|(by, number)| (*by, *number)).collect() }
    }

    /// Draws the conclusions, once everybody that is heard has looked into each accusation: the fewest members with an end of each
    /// failed path go; of several such sets, the one with the youngest members. Nobody goes if the others were no quorum, or if too
    /// many went before.
    pub fn judge(&mut self, judging: Judging<'_>) {
        self.leavers.clear();
        let members = self.paths.len();
        let stays = |rank: usize| judging.hears.get(rank).is_some_and(|h| *h) && !judging.out.contains(&rank);
        let own = self.findings();
        let mut accusations: Vec<(usize, Accusation)> = own.accused.iter().map(|a| (self.me, *a)).collect();
        for (by, (findings, _)) in self.said.iter().enumerate().filter(|(by, _)| stays(*by)) {
            accusations.extend(findings.accused.iter().map(|accusation| (by, *accusation)));
        }
        accusations.retain(|(_, accusation)| stays(usize::from(accusation.rank)));
        if accusations.is_empty() || !stays(self.me) {
            return;
        }
        for other in (0..members).filter(|rank| stays(*rank)) {
            let findings = if other == self.me { &own } else { &self.said[other].0 };
            let has_answered = |(by, accusation): &(usize, Accusation)| {
                *by == other
                    || usize::from(accusation.rank) == other
                    || findings.answered.iter().any(|(of, upto)| usize::from(*of) == *by && *upto >= accusation.number)
            };
            if !accusations.iter().all(has_answered) {
                return;
            }
        }
        let failed: BTreeSet<(usize, usize)> =
            accusations.iter().map(|(by, a)| (*by, usize::from(a.rank))).map(|(a, b)| (a.min(b), a.max(b))).collect();
        let there: Vec<usize> = (0..members).filter(|rank| stays(*rank)).collect();
        let may_lack = |count: usize| is_quorum(there.len() - count, members, true);
        let most = (0..there.len()).take_while(|count| may_lack(*count)).last().unwrap_or(0);
        let Some(cover) = cover(&failed, most) else { return };
        let left = there.iter().filter(|rank| !cover.contains(rank)).count();
        let new = cover.difference(judging.again).count();
        if new <= judging.budget && is_quorum(left, members, stays(0) && !cover.contains(&0)) {
            self.leavers = cover;
        }
    }

    /// Those that are to leave, as of the last judgement.
    #[must_use]
    pub fn leavers(&self) -> &BTreeSet<usize> {
        &self.leavers
    }

    /// Nobody accuses anybody.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.leavers.is_empty()
            && self.learnt.is_empty()
            && self.paths.iter().flatten().all(|path| path.accused.is_none())
    }
}

/// The smallest set of at most `most` members with an end of each path; of several, the one whose youngest is youngest, then the next.
fn cover(failed: &BTreeSet<(usize, usize)>, most: usize) -> Option<BTreeSet<usize>> {
    (1..=most).find_map(|size| {
        let mut best: Option<Vec<usize>> = None;
        let links: Vec<(usize, usize)> = failed.iter().copied().collect();
        extend_cover(&links, size, &mut Vec::new(), &mut best);
        best.map(|ranks| ranks.into_iter().collect())
    })
}

/// Of each path that is not covered yet, one end or the other.
fn extend_cover(links: &[(usize, usize)], size: usize, chosen: &mut Vec<usize>, best: &mut Option<Vec<usize>>) {
    let Some((a, b)) = links.iter().find(|(a, b)| !chosen.contains(a) && !chosen.contains(b)) else {
        let mut ranks = chosen.clone();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        if best.as_ref().is_none_or(|best| *best < ranks) {
            *best = Some(ranks);
        }
        return;
    };
    if chosen.len() == size {
        return;
    }
    for end in [*b, *a] {
        chosen.push(end);
        extend_cover(links, size, chosen, best);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests;
