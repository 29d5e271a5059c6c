use super::*;

const PATIENCE: Duration = Duration::from_millis(1_800);
const BEAT_MS: u64 = 200;

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// A cell whose members tell each other all that they find, at once. `fails`: whether a probe from one member to the other gets no answer.
struct Cell {
    members: Vec<Progress>,
    now_ms: u64,
}

impl Cell {
    fn new(members: usize) -> Self {
        Self { members: (0..members).map(|me| Progress::new(me, members, at(0))).collect(), now_ms: 0 }
    }

    fn run(&mut self, until_ms: u64, fails: impl Fn(usize, usize, ProbeKind) -> bool) -> &mut Self {
        let n = self.members.len();
        let heard = vec![true; n];
        while self.now_ms < until_ms {
            self.now_ms += BEAT_MS;
            let now = at(self.now_ms);
            for me in 0..n {
                self.members[me].look(now, &heard, PATIENCE);
                for (rank, kind) in self.members[me].probes(now, &heard) {
                    if !fails(me, rank, kind) && !fails(rank, me, kind) {
                        self.members[me].answer(at(self.now_ms + 1), rank, kind, now);
                    }
                }
                let findings = self.members[me].findings();
                for other in (0..n).filter(|other| *other != me) {
                    self.members[other].beat(me);
                    if !findings.is_empty() {
                        self.members[other].hear(now, me, findings.clone());
                    }
                }
            }
        }
        self
    }

    /// Whom each member would remove.
    fn judged(&mut self, budget: usize) -> Vec<Vec<usize>> {
        let hears = vec![true; self.members.len()];
        let (out, again) = (BTreeSet::new(), BTreeSet::new());
        for member in &mut self.members {
            member.judge(Judging { hears: &hears, out: &out, budget, again: &again });
        }
        self.members.iter().map(|member| member.leavers().iter().copied().collect()).collect()
    }
}

#[test]
fn while_all_is_well_nobody_is_accused() {
    let mut cell = Cell::new(5);
    assert_eq!(cell.run(20_000, |_, _, _| false).judged(2), vec![Vec::<usize>::new(); 5]);
    assert!(cell.members.iter().all(Progress::is_quiet));
}

/// For each size of cell, each member and each kind: exactly the member whose paths fail goes, as all judge.
#[test]
fn who_is_behind_all_failed_paths_goes() {
    for n in 3..=5 {
        for broken in 0..n {
            for kind in ProbeKind::ALL {
                let fails = |from: usize, _: usize, of: ProbeKind| from == broken && of == kind;
                let mut cell = Cell::new(n);
                assert_eq!(cell.run(8_000, fails).judged(1), vec![vec![broken]; n], "{n} {broken} {kind:?}");
            }
        }
    }
}

#[test]
fn of_one_failed_path_the_younger_end_goes() {
    let fails = |from: usize, to: usize, kind: ProbeKind| (from, to, kind) == (3, 1, ProbeKind::LongData);
    assert_eq!(Cell::new(5).run(8_000, fails).judged(2), vec![vec![3]; 5]);
    assert_eq!(Cell::new(2).run(8_000, |_, _, _| true).judged(1), [[1], [1]]);
}

#[test]
fn nobody_goes_before_everybody_has_looked_into_it() {
    let fails = |from: usize, _: usize, kind: ProbeKind| from == 1 && kind == ProbeKind::Data;
    let mut cell = Cell::new(4);
    let mut first = None;
    while cell.now_ms < 8_000 {
        let until = cell.now_ms + BEAT_MS;
        let judged = cell.run(until, fails).judged(1);
        assert!(judged.iter().all(|leavers| leavers.is_empty() || *leavers == [1]), "{} ms: {judged:?}", cell.now_ms);
        if !judged[0].is_empty() {
            first.get_or_insert(cell.now_ms);
        }
    }
    assert!(first.is_some_and(|first| first > 1_800), "{first:?}");
    // One that has said nothing holds all up.
    let mut cell = Cell::new(4);
    cell.run(8_000, fails);
    let accusations = cell.members[0].findings();
    let mut alone = Progress::new(2, 4, at(0));
    alone.hear(at(1), 0, accusations);
    let (out, again) = (BTreeSet::new(), BTreeSet::new());
    alone.judge(Judging { hears: &[true; 4], out: &out, budget: 1, again: &again });
    assert_eq!(alone.leavers().len(), 0);
}

#[test]
fn a_cell_that_is_late_as_a_whole_loses_nobody() {
    assert_eq!(Cell::new(5).run(20_000, |_, _, _| true).judged(2), vec![Vec::<usize>::new(); 5]);
}

#[test]
fn an_answer_takes_an_accusation_back() {
    let mut cell = Cell::new(3);
    cell.run(8_000, |from, _, _| from == 2).run(10_000, |_, _, _| false);
    assert_eq!(cell.judged(1), vec![Vec::<usize>::new(); 3]);
    assert!(cell.members.iter().all(Progress::is_quiet), "{cell:?}", cell = cell.members);
}

#[test]
fn what_is_acknowledged_is_progress_but_no_answer() {
    let mut one = Progress::new(0, 3, at(0));
    let heard = [true; 3];
    let mut sum = 0;
    for beat in 1..50 {
        let now = at(beat * BEAT_MS);
        sum += 1;
        one.acknowledged(now, 1, sum);
        one.look(now, &heard, PATIENCE);
        for (rank, kind) in one.probes(now, &heard) {
            if rank == 2 || kind == ProbeKind::LongControl {
                one.answer(now, rank, kind, now);
            }
        }
    }
    assert_eq!(one.findings(), Findings::default());
    // Another accuses it: what counts then is an answer.
    let accusation = Accusation { rank: 1, kind: ProbeKind::Data, number: 1 };
    one.hear(at(10_000), 2, Findings { accused: vec![accusation], answered: Vec::new() });
    for beat in 50..60 {
        let now = at(beat * BEAT_MS);
        sum += 1;
        one.acknowledged(now, 1, sum);
        one.look(now, &heard, PATIENCE);
        one.probes(now, &heard)
            .into_iter()
            .filter(|(rank, _)| *rank == 2)
            .for_each(|(r, k)| one.answer(now, r, k, now));
    }
    let found = one.findings();
    assert_eq!((found.accused[0].rank, found.accused[0].kind, found.answered), (1, ProbeKind::Data, vec![(2, 1)]));
}

#[test]
fn absence_accuses_nobody() {
    let mut one = Progress::new(0, 2, at(0));
    for beat in 1..11 {
        one.probes(at(beat * BEAT_MS), &[true; 2]);
    }
    one.forgive(at(60_000), Duration::from_secs(59));
    assert_eq!(one.look(at(60_000), &[true; 2], PATIENCE), 0);
    assert_eq!(one.look(at(61_500), &[true; 2], PATIENCE), 1, "in the kind that was probed five times");
}

#[test]
fn who_is_not_heard_is_not_accused() {
    let mut one = Progress::new(0, 2, at(0));
    for beat in 1..50 {
        one.probes(at(beat * BEAT_MS), &[true, false]);
        assert_eq!(one.look(at(beat * BEAT_MS), &[true, false], PATIENCE), 0);
    }
    assert_eq!(one.look(at(10_000), &[true; 2], PATIENCE), 0, "its clock begins when it is heard again");
}

#[test]
fn the_fewest_go_and_of_several_sets_the_youngest() {
    let of = |failed: &[(usize, usize)], most| {
        cover(&failed.iter().copied().collect(), most).map(|cover| cover.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(of(&[(0, 1)], 2), Some(vec![1]));
    assert_eq!(of(&[(0, 1), (0, 2), (0, 3)], 2), Some(vec![0]));
    assert_eq!(of(&[(0, 1), (2, 3)], 2), Some(vec![1, 3]));
    assert_eq!(of(&[(0, 1), (1, 2), (2, 0)], 2), Some(vec![1, 2]));
    assert_eq!(of(&[(0, 1), (2, 3)], 1), None, "more than may go: nobody does, and no part");
}

#[test]
fn findings_that_make_no_sense_are_not_taken() {
    let mut one = Progress::new(0, 3, at(0));
    let accuses = |rank: u16| Findings {
        accused: vec![Accusation { rank, kind: ProbeKind::Data, number: 1 }],
        answered: Vec::new(),
    };
    assert!(!one.hear(at(1), 1, accuses(3)), "nobody");
    assert!(!one.hear(at(1), 1, accuses(1)), "itself");
    assert!(!one.hear(at(1), 0, accuses(1)), "from this member");
    assert!(!one.hear(at(1), 3, accuses(1)), "from nobody");
    assert!(one.hear(at(1), 1, accuses(2)) && !one.hear(at(2), 1, accuses(2)));
    // Heartbeats without findings take it back, but not the first one.
    one.beat(1);
    one.beat(1);
    assert!(!one.is_quiet());
    one.beat(1);
    assert!(one.is_quiet());
}

/// From five members at most two of other names go within the window; who comes back and goes again is one of them.
#[test]
fn no_more_than_a_minority_is_removed_within_the_window() {
    let mut budget = Budget::default();
    budget.install(at(0), 5);
    assert_eq!(budget.left(at(0)), 2);
    budget.remove(at(1_000), "a");
    budget.install(at(20_000), 4);
    budget.remove(at(30_000), "a");
    assert_eq!(budget.left(at(30_000)), 1);
    let waits = |ms| budget.holds_back(at(ms), "a");
    assert!(waits(39_999) && !waits(40_000) && !budget.holds_back(at(30_000), "b"), "10 s after the second time");
    let mut often = budget.clone();
    (0..40).for_each(|_| often.remove(at(31_000), "a"));
    assert!(often.holds_back(at(90_999), "a") && !often.holds_back(at(91_000), "a"));
    assert!(budget.has_removed("a") && !budget.has_removed("b"));
    budget.remove(at(40_000), "b");
    budget.install(at(40_000), 3);
    assert_eq!(budget.left(at(629_999)), 0);
    assert_eq!(budget.left(at(640_000)), 1, "both are forgotten, and no view had more than three members since");
    let mut grows = Budget::default();
    for (ms, members) in [(0, 1), (1_000, 4), (2_000, 3), (11_000, 2)] {
        grows.install(at(ms), members);
    }
    assert_eq!(grows.left(at(11_000)), 1, "the largest view counts, though others came soon before and after");
    let mut two = Budget::default();
    two.install(at(0), 2);
    assert_eq!(two.left(at(0)), 1);
    assert_eq!(Budget::default().left(at(0)), 0);
}

/// The accuser itself may be at fault: whoever hears of an accusation looks at both ends.
#[test]
fn the_accuser_is_looked_into_as_well() {
    let mut one = Progress::new(2, 4, at(0));
    let accusation = Accusation { rank: 0, kind: ProbeKind::Data, number: 1 };
    one.hear(at(0), 1, Findings { accused: vec![accusation], answered: Vec::new() });
    let answered: Vec<_> = (1..20)
        .map(|beat| {
            let now = at(beat * BEAT_MS);
            one.look(now, &[true; 4], PATIENCE);
            one.probes(now, &[true; 4]).into_iter().filter(|(rank, _)| *rank != 1).for_each(|(rank, kind)| {
                one.answer(now, rank, kind, now);
            });
            one.findings().answered
        })
        .collect();
    assert!(answered[..8].iter().all(Vec::is_empty), "the accused one answered, the accuser did not: {answered:?}");
    assert_eq!(answered.last(), Some(&vec![(1, 1)]));
    assert_eq!(one.findings().accused.first().map(|accusation| accusation.rank), Some(1));
}

/// A path that works is probed seldom. The patience begins with the first probe that is not answered, not with the last answer.
#[test]
fn the_patience_begins_with_the_first_probe_in_vain() {
    for gone_after in 30..50 {
        let mut one = Progress::new(0, 2, at(0));
        let accused = (1..100).find(|beat| {
            let now = at(beat * BEAT_MS);
            let accused = one.look(now, &[true; 2], PATIENCE) > 0;
            for (rank, kind) in one.probes(now, &[true; 2]) {
                if *beat < gone_after {
                    one.answer(now, rank, kind, now);
                }
            }
            accused
        });
        let beats = accused.map(|beat| beat - gone_after);
        assert!(
            beats.is_some_and(|beats| (9..=9 + EVERY).contains(&beats)),
            "gone after {gone_after}: {beats:?} beats"
        );
    }
}
