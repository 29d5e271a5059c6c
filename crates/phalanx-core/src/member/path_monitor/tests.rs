use super::*;

const PATIENCE: Duration = Duration::from_millis(1_800);
const BEAT_MS: u64 = 200;

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// A cell whose members exchange all findings at once. `fails`: whether a probe from the first member to the second
/// gets no answer.
struct Cell {
    members: Vec<PathMonitor>,
    now_ms: u64,
    /// What each member sent each other on the control channel, and what of it was acknowledged.
    control: Vec<Vec<(u64, u64)>>,
}

impl Cell {
    fn new(members: usize) -> Self {
        let control = vec![vec![(0, 0); members]; members];
        Self {
            members: Rank::all(members).map(|me| PathMonitor::new(me, members, at(0))).collect(),
            now_ms: 0,
            control,
        }
    }

    fn run(&mut self, until_ms: u64, fails: impl Fn(usize, usize, PathKind) -> bool) -> &mut Self {
        let is_lost = |from, to| fails(from, to, PathKind::LongControl) || fails(to, from, PathKind::LongControl);
        self.run_with(until_ms, &fails, is_lost)
    }

    /// The same. `is_lost`: whether what the first member sends the second on the control channel is not acknowledged.
    fn run_with(
        &mut self,
        until_ms: u64,
        fails: impl Fn(usize, usize, PathKind) -> bool,
        is_lost: impl Fn(usize, usize) -> bool,
    ) -> &mut Self {
        let n = self.members.len();
        let heard = vec![true; n];
        while self.now_ms < until_ms {
            self.now_ms += BEAT_MS;
            let now = at(self.now_ms);
            for me in 0..n {
                for other in (0..n).filter(|other| *other != me) {
                    let (sent, acknowledged) = &mut self.control[me][other];
                    if !is_lost(me, other) {
                        *acknowledged = *sent;
                    }
                    let rank = Rank::from_index(other);
                    self.members[me].acknowledged(now, rank, SendKind::Control, *acknowledged, sent != acknowledged);
                }
                self.members[me].check_probes(now, &heard, PATIENCE);
                for rank in self.members[me].pings(now, &heard, PATIENCE) {
                    self.control[me][rank.index()].0 += 1;
                }
                for (rank, kind) in self.members[me].probes(now, &heard) {
                    if !fails(me, rank.index(), kind) && !fails(rank.index(), me, kind) {
                        self.members[me].answer(at(self.now_ms + 1), rank, kind, now);
                    }
                }
                let findings = self.members[me].findings();
                for other in (0..n).filter(|other| *other != me) {
                    self.members[other].beat(Rank::from_index(me));
                    if !findings.is_empty() {
                        self.members[other].hear(now, Rank::from_index(me), findings.clone());
                    }
                }
            }
        }
        self
    }

    /// The members that each member would remove.
    fn evaluated(&mut self, budget: usize) -> Vec<Vec<usize>> {
        let hears = vec![true; self.members.len()];
        let (out, again) = (BTreeSet::new(), BTreeSet::new());
        for member in &mut self.members {
            let now = at(self.now_ms);
            member.evaluate(Evaluation { now, hears: &hears, out: &out, budget, again: &again, silence: None });
        }
        self.members.iter().map(|member| member.leavers().keys().map(|rank| rank.index()).collect()).collect()
    }
}

#[test]
fn while_all_is_well_nobody_is_suspected() {
    let mut cell = Cell::new(5);
    assert_eq!(cell.run(20_000, |_, _, _| false).evaluated(2), vec![Vec::<usize>::new(); 5]);
    assert!(cell.members.iter().all(PathMonitor::is_quiet));
}

/// A member that declared a longer gap is suspected later by that gap.
#[test]
fn a_gap_that_was_declared_is_added_to_the_patience_with_probes() {
    let accused_at = |gap_ms: u64| {
        let mut cell = Cell::new(3);
        let gaps = vec![Duration::ZERO, Duration::from_millis(gap_ms), Duration::ZERO];
        cell.members.iter_mut().for_each(|member| member.set_gaps(gaps.clone()));
        while cell.members[0].findings().suspected.is_empty() {
            let until = cell.now_ms + BEAT_MS;
            cell.run(until, |_, to, kind| to == 1 && kind == PathKind::Data);
        }
        cell.now_ms
    };
    assert_eq!(accused_at(1000), accused_at(0) + 1000);
}

/// A member that probes one other, whose answers take `away_ms`. `is_lost`: whether this one of its probes gets none.
/// Returns the number of probes in a minute, and when the other was suspected.
fn probe_from_afar(away_ms: u64, is_lost: impl Fn(u64, usize) -> bool) -> (usize, Option<u64>) {
    const BEGIN_MS: u64 = 10_000;
    let mut member = PathMonitor::new(Rank(0), 2, at(0));
    let (mut answers, mut sent, mut counted, mut suspected) = (std::collections::VecDeque::new(), 0, 0, None);
    for now_ms in 1..BEGIN_MS + 60_000 {
        while let Some((kind, asked_ms)) = answers.pop_front_if(|(_, asked_ms)| *asked_ms + away_ms <= now_ms) {
            member.answer(at(now_ms), Rank(1), kind, at(asked_ms));
        }
        if now_ms % BEAT_MS != 0 {
            continue;
        }
        let owed = now_ms.saturating_sub(away_ms);
        member.acknowledged(at(now_ms), Rank(1), SendKind::Control, owed, true);
        member.check_probes(at(now_ms), &[true; 2], PATIENCE);
        for (_, kind) in member.probes(at(now_ms), &[true; 2]) {
            sent += 1;
            counted += usize::from(now_ms > BEGIN_MS);
            if !is_lost(now_ms, sent) {
                answers.push_back((kind, now_ms));
            }
        }
        if !member.findings().suspected.is_empty() {
            suspected.get_or_insert(now_ms);
        }
    }
    (counted, suspected)
}

/// A far member is probed no more often than a near one, and is not suspected after as many losses.
#[test]
fn a_far_member_is_probed_no_more_often_and_not_suspected() {
    let (near, _) = probe_from_afar(1, |_, _| false);
    for away_ms in [50, 240, 600, 1_000, 1_500, 1_790] {
        let (far, suspected) = probe_from_afar(away_ms, |_, _| false);
        assert!((1..=near).contains(&far), "{away_ms} ms: {far} probes, and {near} of who is near");
        assert_eq!(suspected, None, "{away_ms} ms");
        let (_, suspected) = probe_from_afar(away_ms, |_, sent| sent % 7 == 0);
        assert_eq!(suspected, None, "{away_ms} ms, and losses");
    }
}

/// A path that fails is found by one round trip later, and by no more than twice the patience.
#[test]
fn a_failed_path_to_a_far_member_is_found_a_round_trip_later() {
    const FAILS_MS: u64 = 30_000;
    let found_after = |away_ms: u64| {
        let (_, suspected) = probe_from_afar(away_ms, |now_ms, _| now_ms >= FAILS_MS);
        suspected.expect("it is found") - FAILS_MS
    };
    let near_ms = found_after(1);
    for away_ms in [50, 240, 600, 1_000, 1_500] {
        let far_ms = found_after(away_ms);
        let most_ms = near_ms + 2 * away_ms + 4 * BEAT_MS;
        assert!((near_ms..=most_ms).contains(&far_ms), "{away_ms} ms: {far_ms}, near {near_ms}");
    }
}

/// For each size of cell, each member and each kind: all members remove exactly the member whose paths fail.
#[test]
fn who_is_behind_all_failed_paths_goes() {
    for n in 3..=5 {
        for broken in 0..n {
            for kind in PathKind::PROBED {
                let fails = |from: usize, _: usize, of: PathKind| from == broken && of == kind;
                let mut cell = Cell::new(n);
                assert_eq!(cell.run(8_000, fails).evaluated(1), vec![vec![broken]; n], "{n} {broken} {kind:?}");
            }
        }
    }
}

#[test]
fn of_one_failed_path_the_younger_end_goes() {
    let fails = |from: usize, to: usize, kind: PathKind| (from, to, kind) == (3, 1, PathKind::LongData);
    assert_eq!(Cell::new(5).run(8_000, fails).evaluated(2), vec![vec![3]; 5]);
    assert_eq!(Cell::new(2).run(8_000, |_, _, _| true).evaluated(1), [[1], [1]]);
}

#[test]
fn nobody_goes_before_everybody_has_looked_into_it() {
    let fails = |from: usize, _: usize, kind: PathKind| from == 1 && kind == PathKind::Data;
    let mut cell = Cell::new(4);
    let mut first = None;
    while cell.now_ms < 8_000 {
        let until = cell.now_ms + BEAT_MS;
        let evaluated = cell.run(until, fails).evaluated(1);
        assert!(
            evaluated.iter().all(|leavers| leavers.is_empty() || *leavers == [1]),
            "{} ms: {evaluated:?}",
            cell.now_ms
        );
        if !evaluated[0].is_empty() {
            first.get_or_insert(cell.now_ms);
        }
    }
    assert!(first.is_some_and(|first| first > 1_800), "{first:?}");
    // One member that has reported nothing delays the evaluation of all.
    let mut cell = Cell::new(4);
    cell.run(8_000, fails);
    let suspicions = cell.members[0].findings();
    let mut alone = PathMonitor::new(Rank(2), 4, at(0));
    alone.hear(at(1), Rank(0), suspicions);
    let (out, again) = (BTreeSet::new(), BTreeSet::new());
    let now = at(8_000);
    alone.evaluate(Evaluation { now, hears: &[true; 4], out: &out, budget: 1, again: &again, silence: None });
    assert_eq!(alone.leavers().len(), 0);
}

#[test]
fn a_cell_that_is_late_as_a_whole_loses_nobody() {
    assert_eq!(Cell::new(5).run(20_000, |_, _, _| true).evaluated(2), vec![Vec::<usize>::new(); 5]);
}

#[test]
fn an_answer_takes_a_suspicion_back() {
    let mut cell = Cell::new(3);
    cell.run(8_000, |from, _, _| from == 2).run(10_000, |_, _, _| false);
    assert_eq!(cell.evaluated(1), vec![Vec::<usize>::new(); 3]);
    assert!(cell.members.iter().all(PathMonitor::is_quiet), "{cell:?}", cell = cell.members);
}

#[test]
fn what_is_acknowledged_is_progress_but_no_answer() {
    let mut one = PathMonitor::new(Rank(0), 3, at(0));
    let heard = [true; 3];
    let mut sum = 0;
    for beat in 1..50 {
        let now = at(beat * BEAT_MS);
        sum += 1;
        one.acknowledged(now, Rank(1), SendKind::Data, sum, true);
        one.check_probes(now, &heard, PATIENCE);
        for (rank, kind) in one.probes(now, &heard) {
            if rank == Rank(2) || kind == PathKind::LongControl {
                one.answer(now, rank, kind, now);
            }
        }
    }
    assert_eq!(one.findings(), Findings::default());
    // Another member suspects it. From then on only an answer counts.
    let suspicion = Suspicion { rank: Rank(1), kind: PathKind::Data, number: 1 };
    one.hear(at(10_000), Rank(2), Findings { suspected: vec![suspicion], ..Findings::default() });
    for beat in 50..60 {
        let now = at(beat * BEAT_MS);
        sum += 1;
        one.acknowledged(now, Rank(1), SendKind::Data, sum, true);
        one.check_probes(now, &heard, PATIENCE);
        one.probes(now, &heard)
            .into_iter()
            .filter(|(rank, _)| *rank == Rank(2))
            .for_each(|(r, k)| one.answer(now, r, k, now));
    }
    let found = one.findings();
    assert_eq!(
        (found.suspected[0].rank, found.suspected[0].kind, found.answered),
        (Rank(1), PathKind::Data, vec![(Rank(2), 1)])
    );
}

#[test]
fn absence_accuses_nobody() {
    let mut one = PathMonitor::new(Rank(0), 2, at(0));
    for beat in 1..11 {
        one.probes(at(beat * BEAT_MS), &[true; 2]);
    }
    one.forgive(at(60_000), Duration::from_secs(59));
    assert_eq!(one.check_probes(at(60_000), &[true; 2], PATIENCE), 0);
    assert_eq!(one.check_probes(at(61_500), &[true; 2], PATIENCE), 1, "in the kind that was probed five times");
}

#[test]
fn who_is_not_heard_is_not_suspected() {
    let mut one = PathMonitor::new(Rank(0), 2, at(0));
    for beat in 1..50 {
        one.probes(at(beat * BEAT_MS), &[true, false]);
        assert_eq!(one.check_probes(at(beat * BEAT_MS), &[true, false], PATIENCE), 0);
    }
    assert_eq!(one.check_probes(at(10_000), &[true; 2], PATIENCE), 0, "its clock begins when it is heard again");
}

#[test]
fn the_fewest_go_and_of_several_sets_the_youngest() {
    let of = |failed: &[(u16, u16)], most| {
        let failed = failed.iter().map(|(a, b)| (Rank(*a), Rank(*b))).collect();
        cover(&failed, most, &|_| true).map(|cover| cover.into_iter().map(Rank::index).collect::<Vec<_>>())
    };
    assert_eq!(of(&[(0, 1)], 2), Some(vec![1]));
    assert_eq!(of(&[(0, 1), (0, 2), (0, 3)], 2), Some(vec![0]));
    assert_eq!(of(&[(0, 1), (2, 3)], 2), Some(vec![1, 3]));
    assert_eq!(of(&[(0, 1), (1, 2), (2, 0)], 2), Some(vec![1, 2]));
    assert_eq!(of(&[(0, 1), (2, 3)], 1), None, "more than may go: nobody does, and no part");
}

/// The exact search takes 2^n steps. Of many, the member with most failed paths goes first.
#[test]
fn many_that_are_to_go_are_found_in_short_time() {
    let members = 64;
    let failed = |broken: std::ops::Range<u16>| {
        let paths = broken
            .map(Rank)
            .flat_map(|rank| Rank::all(members).filter(move |other| *other != rank).map(move |o| (rank, o)));
        paths.map(|(a, b)| (a.min(b), a.max(b))).collect::<BTreeSet<_>>()
    };
    for broken in [10..11, 20..28, 20..29, 30..61] {
        let go = cover(&failed(broken.clone()), 31, &|_| true);
        assert_eq!(go, Some(broken.clone().map(Rank).collect()), "{broken:?}");
    }
    assert_eq!(cover(&failed(20..52), 31, &|_| true), None, "more than may go");
    assert_eq!(cover(&failed(20..30), 31, &|_| false), None);
}

/// In a watch graph a member probes its neighbours, and other members while they owe it acks for long or are suspected.
#[test]
fn in_a_watch_graph_neighbours_are_probed_and_who_owes_something() {
    let mut one = PathMonitor::new(Rank(0), 5, at(0));
    one.set_neighbours(BTreeSet::from([1, 4].map(Rank)));
    let heard = [true; 5];
    let probed = |one: &mut PathMonitor, beats: std::ops::Range<u64>, owes: Option<u16>| {
        let mut ranks = BTreeSet::new();
        for beat in beats {
            let now = at(beat * BEAT_MS);
            (1..5).for_each(|rank| one.acknowledged(now, Rank(rank), SendKind::Data, 0, owes == Some(rank)));
            one.check_probes(now, &heard, PATIENCE);
            for (rank, kind) in one.probes(now, &heard) {
                one.answer(now, rank, kind, now);
                ranks.insert(rank);
            }
        }
        ranks.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(probed(&mut one, 1..40, None), [1, 4].map(Rank));
    assert!(!probed(&mut one, 40..43, Some(2)).contains(&Rank(2)), "it may be late");
    assert!(probed(&mut one, 43..48, Some(2)).contains(&Rank(2)));
    assert_eq!(one.findings(), Findings::default(), "it is not suspected yet");
    assert_eq!(probed(&mut one, 48..120, None), [1, 4].map(Rank), "it owes nothing any more");
    let suspicion = Suspicion { rank: Rank(3), kind: PathKind::Data, number: 1 };
    one.hear(at(120 * BEAT_MS), Rank(2), Findings { suspected: vec![suspicion], ..Findings::default() });
    assert_eq!(probed(&mut one, 121..140, None), [1, 2, 3, 4].map(Rank));
    assert_eq!(one.findings().answered, [(Rank(2), 1)]);
    // Findings that are not repeated are revoked.
    one.expire(at(120 * BEAT_MS + 899), Duration::from_millis(900));
    assert!(!one.is_quiet());
    one.expire(at(120 * BEAT_MS + 900), Duration::from_millis(900));
    assert!(one.is_quiet());
}

/// Where short packets to a socket fail, long ones are no suspicion of their own, and suspicions of them are checked at
/// once.
#[test]
fn of_a_socket_that_does_not_work_there_is_one_suspicion() {
    let mut cell = Cell::new(4);
    cell.run(8_000, |from, _, kind| from == 1 && kind != PathKind::LongControl);
    let suspected = cell.members[0].findings().suspected;
    assert_eq!(suspected.iter().map(|a| (a.rank, a.kind)).collect::<Vec<_>>(), [(Rank(1), PathKind::Data)]);
    let long = Suspicion { rank: Rank(1), kind: PathKind::LongData, number: 9 };
    let one = &mut cell.members[0];
    one.hear(at(8_000), Rank(2), Findings { suspected: vec![long], ..Findings::default() });
    one.probes(at(8_100), &[true; 4]);
    one.answer(at(8_101), Rank(2), PathKind::LongData, at(8_100));
    one.check_probes(at(8_200), &[true; 4], PATIENCE);
    assert!(one.findings().answered.contains(&(Rank(2), 9)));
}

#[test]
fn findings_that_make_no_sense_are_not_taken() {
    let mut one = PathMonitor::new(Rank(0), 3, at(0));
    let suspects = |rank: u16| Findings {
        suspected: vec![Suspicion { rank: Rank(rank), kind: PathKind::Data, number: 1 }],
        ..Findings::default()
    };
    assert!(!one.hear(at(1), Rank(1), suspects(3)), "nobody");
    assert!(!one.hear(at(1), Rank(1), suspects(1)), "itself");
    assert!(!one.hear(at(1), Rank(0), suspects(1)), "from this member");
    assert!(!one.hear(at(1), Rank(3), suspects(1)), "from nobody");
    assert!(one.hear(at(1), Rank(1), suspects(2)) && !one.hear(at(2), Rank(1), suspects(2)));
    // Heartbeats without findings revoke earlier ones, but not the first such heartbeat.
    one.beat(Rank(1));
    one.beat(Rank(1));
    assert!(!one.is_quiet());
    one.beat(Rank(1));
    assert!(one.is_quiet());
}

/// The suspecter itself may be at fault, so each member that learns of a suspicion checks both ends.
#[test]
fn the_suspecter_is_looked_into_as_well() {
    let mut one = PathMonitor::new(Rank(2), 4, at(0));
    let suspicion = Suspicion { rank: Rank(0), kind: PathKind::Data, number: 1 };
    one.hear(at(0), Rank(1), Findings { suspected: vec![suspicion], ..Findings::default() });
    let answered: Vec<_> = (1..20)
        .map(|beat| {
            let now = at(beat * BEAT_MS);
            one.check_probes(now, &[true; 4], PATIENCE);
            one.probes(now, &[true; 4]).into_iter().filter(|(rank, _)| *rank != Rank(1)).for_each(|(rank, kind)| {
                one.answer(now, rank, kind, now);
            });
            one.findings().answered
        })
        .collect();
    assert!(answered[..8].iter().all(Vec::is_empty), "the suspected one answered, the suspecter did not: {answered:?}");
    assert_eq!(answered.last(), Some(&vec![(Rank(1), 1)]));
    assert_eq!(one.findings().suspected.first().map(|suspicion| suspicion.rank), Some(Rank(1)));
}

/// A working path is probed rarely. The patience begins with the first unanswered probe, not with the last answer.
#[test]
fn the_patience_begins_with_the_first_probe_in_vain() {
    for gone_after in 30..50 {
        let mut one = PathMonitor::new(Rank(0), 2, at(0));
        let suspected = (1..100).find(|beat| {
            let now = at(beat * BEAT_MS);
            let suspected = one.check_probes(now, &[true; 2], PATIENCE) > 0;
            for (rank, kind) in one.probes(now, &[true; 2]) {
                if *beat < gone_after {
                    one.answer(now, rank, kind, now);
                }
            }
            suspected
        });
        let beats = suspected.map(|beat| beat - gone_after);
        assert!(
            beats.is_some_and(|beats| (9..=9 + EVERY).contains(&beats)),
            "gone after {gone_after}: {beats:?} beats"
        );
    }
}

/// A cell in which members do not hear each other: by listener and speaker, from when on.
struct Hearers {
    members: Vec<PathMonitor>,
    now_ms: u64,
    last_heard: Vec<Vec<u64>>,
}

/// The tolerated silence.
const BORNE_MS: u64 = 1_000;

impl Hearers {
    fn new(members: usize) -> Self {
        Self {
            members: Rank::all(members).map(|me| PathMonitor::new(me, members, at(0))).collect(),
            now_ms: 0,
            last_heard: vec![vec![0; members]; members],
        }
    }

    /// Runs heartbeats. `passes`: whether one passes from the second member to the first at that time. `bears`: how
    /// much longer than others a member tolerates silence.
    fn run(
        &mut self,
        until_ms: u64,
        passes: impl Fn(usize, usize, u64) -> bool,
        bears: impl Fn(usize) -> u64,
    ) -> &mut Self {
        let n = self.members.len();
        while self.now_ms < until_ms {
            self.now_ms += BEAT_MS;
            let (now, now_ms) = (at(self.now_ms), self.now_ms);
            for me in 0..n {
                let hears = self.hears(me, bears(me));
                let last_heard = self.last_heard[me].clone();
                self.members[me].detect_silence(&hears, |rank| at(last_heard[rank.index()]));
                self.members[me].check_probes(now, &[], PATIENCE);
                let findings = self.members[me].findings();
                for other in (0..n).filter(|other| *other != me && passes(*other, me, now_ms)) {
                    self.last_heard[other][me] = now_ms;
                    self.members[other].beat(Rank::from_index(me));
                    self.members[other].hear(now, Rank::from_index(me), findings.clone());
                }
            }
        }
        self
    }

    fn hears(&self, me: usize, longer: u64) -> Vec<bool> {
        let silent = |rank: usize| self.now_ms - self.last_heard[me][rank] > BORNE_MS + longer;
        (0..self.members.len()).map(|rank| rank == me || !silent(rank)).collect()
    }

    fn evaluated(&mut self, budget: usize, bears: impl Fn(usize) -> u64) -> Vec<Vec<usize>> {
        let (none, again) = (BTreeSet::new(), BTreeSet::new());
        let silence = Some(Silence { behind: &none, beat: Duration::from_millis(BEAT_MS) });
        for me in 0..self.members.len() {
            let hears = self.hears(me, bears(me));
            let evaluation =
                Evaluation { now: at(self.now_ms), hears: &hears, out: &none, budget, again: &again, silence };
            self.members[me].evaluate(evaluation);
        }
        self.members.iter().map(|member| member.leavers().keys().map(|rank| rank.index()).collect()).collect()
    }
}

/// Whichever member notices it first, and however much later the others do: only the dead member goes, and no member as
/// long as some hear it.
#[test]
fn a_dead_member_goes_alone_whoever_misses_it_first() {
    for n in 3..=5 {
        for dead in 0..n {
            for patient in (0..n).filter(|patient| *patient != dead) {
                let bears = |rank: usize| if rank == patient { 900 } else { 0 };
                let mut cell = Hearers::new(n);
                while cell.now_ms < 4_000 {
                    let until = cell.now_ms + BEAT_MS;
                    cell.run(until, |to, from, _| to != dead && from != dead, bears);
                    let evaluated = cell.evaluated(1, bears);
                    let by_others = evaluated.iter().enumerate().filter(|(rank, _)| *rank != dead);
                    for (_, leavers) in by_others {
                        assert!(leavers.is_empty() || *leavers == [dead], "{n} {dead} {patient}: {evaluated:?}");
                    }
                }
                let evaluated = cell.evaluated(1, bears);
                assert!(
                    (0..n).all(|rank| rank == dead || evaluated[rank] == [dead]),
                    "{n} {dead} {patient}: {evaluated:?}"
                );
            }
        }
    }
}

/// Silent in one direction or both: all members, both ends included, remove the younger end. Of two links of one member
/// they remove that member. It counts against the budget, because others hear it.
#[test]
fn of_a_silent_link_the_younger_end_goes_and_of_two_the_common_end() {
    let of = |silent: &'static [(usize, usize)]| {
        let mut cell = Hearers::new(5);
        let passes = |to: usize, from: usize, _| !silent.contains(&(to, from));
        let mut evaluated = Vec::new();
        for ms in (1..=6_000 / BEAT_MS).map(|beat| beat * BEAT_MS) {
            evaluated = cell.run(ms, passes, |_| 0).evaluated(1, |_| 0);
        }
        let case = cell.members[4].leavers().values().next().cloned().unwrap_or_default();
        (evaluated, case)
    };
    let case = |suspecters: &[u16]| Case { is_heard: true, suspecters: suspecters.iter().copied().map(Rank).collect() };
    assert_eq!(of(&[(1, 3)]), (vec![vec![3]; 5], case(&[1])));
    assert_eq!(of(&[(3, 1)]), (vec![vec![3]; 5], case(&[1])));
    assert_eq!(of(&[(0, 1), (1, 0)]), (vec![vec![1]; 5], case(&[0])));
    assert_eq!(of(&[(1, 0), (3, 0)]), (vec![vec![0]; 5], case(&[1, 3])));
}

#[test]
fn a_silent_link_has_to_be_so_for_some_heartbeats() {
    // The member is stopped until just after another missed it. That one hears it again a little later than the others
    // do.
    let passes = |to: usize, from: usize, ms: u64| (to != 1 && from != 1) || ms > if to == 3 { 1_900 } else { 1_500 };
    let bears = |rank: usize| if rank == 3 { 0 } else { 900 };
    let mut cell = Hearers::new(4);
    while cell.now_ms < 5_000 {
        let until = cell.now_ms + BEAT_MS;
        let evaluated = cell.run(until, passes, bears).evaluated(1, bears);
        assert_eq!(evaluated, vec![Vec::<usize>::new(); 4], "{} ms", cell.now_ms);
    }
}

/// Of two halves that do not hear each other, the half with rank 0 continues, whatever members the other half has.
#[test]
fn of_two_halves_that_with_the_oldest_member_stays() {
    let side = |rank: usize| rank == 0 || rank == 3;
    let mut cell = Hearers::new(4);
    let evaluated = cell.run(6_000, |to, from, _| side(to) == side(from), |_| 0).evaluated(1, |_| 0);
    assert_eq!(
        (&evaluated[0], &evaluated[3]),
        (&vec![1, 2], &vec![1, 2]),
        "whom nobody hears that stays does not count"
    );
}

#[test]
fn where_too_many_went_before_silence_alone_is_judged() {
    let mut cell = Hearers::new(5);
    cell.run(6_000, |to, from, _| to != 4 && from != 4, |_| 0);
    let suspicion = Suspicion { rank: Rank(2), kind: PathKind::Data, number: 9 };
    for other in [0, 2, 3] {
        let suspected = cell.members[1].findings().suspected.into_iter().chain([suspicion]);
        let mut suspected: Vec<Suspicion> = suspected.collect();
        suspected.sort_unstable();
        cell.members[other].hear(at(6_000), Rank(1), Findings { suspected, ..Findings::default() });
    }
    cell.members[1].paths[2][usize::from(PathKind::Data.number())].suspected = Some(9);
    for me in 0..4 {
        cell.members[me].check_probes(at(6_000), &[], PATIENCE);
    }
    let findings: Vec<Findings> = cell.members.iter().map(PathMonitor::findings).collect();
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        cell.members[to].hear(at(6_000), Rank::from_index(from), findings[from].clone());
    }
    assert_eq!(cell.evaluated(1, |_| 0)[0], [2, 4]);
    assert_eq!(cell.evaluated(0, |_| 0)[0], [4], "the dead one, which counts nothing");
}

#[test]
fn who_is_said_to_be_dead_goes_at_once_and_who_is_behind_goes_when_all_have_checked() {
    let (none, again) = (BTreeSet::new(), BTreeSet::new());
    let evaluate = |one: &mut PathMonitor, behind: &BTreeSet<Rank>| {
        let silence = Some(Silence { behind, beat: Duration::from_millis(BEAT_MS) });
        let hears = [true; 4];
        one.evaluate(Evaluation { now: at(1), hears: &hears, out: &none, budget: 1, again: &again, silence });
        one.leavers().keys().map(|rank| rank.index()).collect::<Vec<_>>()
    };
    let mut one = PathMonitor::new(Rank(3), 4, at(0));
    assert!(one.hear(at(1), Rank(2), Findings { dead: vec![Rank(0)], ..Findings::default() }));
    assert!(!one.is_quiet());
    assert_eq!(evaluate(&mut one, &none), [0]);
    // It suspects the one that is behind of silence. That is no more than a failed path until the others say so, too.
    let mut one = PathMonitor::new(Rank(3), 4, at(0));
    let behind = BTreeSet::from([Rank(1)]);
    one.detect_silence(&[true, false, true, true], |_| at(1));
    assert_eq!(evaluate(&mut one, &behind), [], "not all have checked");
    for rank in [0, 2] {
        let suspicion = Suspicion { rank: Rank(1), kind: PathKind::Silence, number: 1 };
        let said = Findings {
            suspected: vec![suspicion],
            answered: vec![(Rank(2 - rank), 1), (Rank(3), 1)],
            ..Findings::default()
        };
        assert!(one.hear(at(1), Rank(rank), said));
    }
    one.check_probes(at(1), &[true; 4], Duration::from_secs(3));
    assert_eq!(evaluate(&mut one, &behind), [1]);
}

/// A suspicion that not all check stays open, and the time of that is reported.
#[test]
fn what_is_not_looked_into_stays_open() {
    let (none, again) = (BTreeSet::new(), BTreeSet::new());
    let mut one = PathMonitor::new(Rank(0), 4, at(0));
    let suspicion = Suspicion { rank: Rank(1), kind: PathKind::Silence, number: 1 };
    one.hear(at(0), Rank(2), Findings { suspected: vec![suspicion], ..Findings::default() });
    for ms in [0, 5_000] {
        let silence = Some(Silence { behind: &none, beat: Duration::from_millis(BEAT_MS) });
        one.evaluate(Evaluation { now: at(ms), hears: &[true; 4], out: &none, budget: 1, again: &again, silence });
    }
    assert_eq!((one.leavers().len(), one.open_for(at(6_000))), (0, Duration::from_secs(6)));
    one.hear(at(6_000), Rank(2), Findings::default());
    let silence = Some(Silence { behind: &none, beat: Duration::from_millis(BEAT_MS) });
    one.evaluate(Evaluation { now: at(6_000), hears: &[true; 4], out: &none, budget: 1, again: &again, silence });
    assert_eq!(one.open_for(at(7_000)), Duration::ZERO);
}

#[test]
fn findings_name_a_bounded_number_of_processes_that_wait() {
    let reached = |count: u64| Findings { reached: (0..count).map(Incarnation).collect(), ..Findings::default() };
    let mut one = PathMonitor::new(Rank(0), 3, at(0));
    let most = REACHED_MAX as u64;
    assert!(one.hear(at(1), Rank(1), reached(most)) && !one.hear(at(1), Rank(2), reached(most + 1)));
}

/// Control packets of one member get nowhere, though it answers probes. It has something to send to one other member:
/// it finds that no member hears it there, and so do all others. The same holds for packets to one member.
#[test]
fn a_member_whose_control_channel_gets_nowhere_goes_alone() {
    for is_deaf in [false, true] {
        for (from, to) in [(0, 1), (2, 0), (1, 3)] {
            let faulty = if is_deaf { to } else { from };
            let mut cell = Cell::new(4);
            let mut first = None;
            cell.control[from][to].0 += 1;
            for beat in 1..80 {
                let is_lost = |me, rank| faulty == if is_deaf { rank } else { me };
                cell.run_with(beat * BEAT_MS, |_, _, _| false, is_lost);
                for leavers in cell.evaluated(1) {
                    assert!(leavers.is_empty() || leavers == [faulty], "{from} to {to}, deaf {is_deaf}: {leavers:?}");
                    first = first.or((!leavers.is_empty()).then_some(beat * BEAT_MS));
                }
            }
            let bound = u64::try_from(PATIENCE.as_millis()).expect("it is short") * 5 / 2;
            assert!(first.is_some_and(|ms| ms <= bound + 4 * BEAT_MS), "{from} to {to}, deaf {is_deaf}: {first:?}");
        }
    }
}

/// Streams to one member are not acknowledged though it answers probes. Later they are.
#[test]
fn who_acknowledges_no_packets_is_suspected_until_it_does() {
    let mut one = PathMonitor::new(Rank(0), 2, at(0));
    let look = |one: &mut PathMonitor, beat: u64, sum: u64| {
        let now = at(beat * BEAT_MS);
        one.acknowledged(now, Rank(1), SendKind::Data, sum, true);
        one.check_probes(now, &[true; 2], PATIENCE);
        for (rank, kind) in one.probes(now, &[true; 2]) {
            one.answer(now, rank, kind, now);
        }
        one.findings().suspected.iter().map(|a| a.kind).collect::<Vec<_>>()
    };
    assert!((1..10).all(|beat| look(&mut one, beat, 0).is_empty()));
    assert!((10..20).all(|beat| look(&mut one, beat, 0) == [PathKind::LongData]));
    assert_eq!(look(&mut one, 20, 1), []);
    assert!((21..29).all(|beat| look(&mut one, beat, 1).is_empty()));
    // The time for which acks are owed starts again: nothing went out.
    one.owe_anew(at(29 * BEAT_MS));
    assert!((30..38).all(|beat| look(&mut one, beat, 1).is_empty()));
    assert_eq!(look(&mut one, 38, 1), [PathKind::LongData]);
    assert_eq!(look(&mut one, 39, 2), []);
    // What stops on the data channel is no fault of the path.
    for beat in 40..80 {
        one.acknowledged(at(beat * BEAT_MS), Rank(1), SendKind::DataChannel, 0, true);
        assert_eq!(look(&mut one, beat, beat), []);
    }
}
