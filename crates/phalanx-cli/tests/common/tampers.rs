//! Single changes to the kept traces of a sound demonstration. Each comes with the codes of which the checker must
//! report at least one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use phalanx_trace::{AskEnd, AskStep, Event, Order, Phase, Record, Trace};

const SECOND: u64 = 1_000_000_000;

/// The traces of a demonstration, by file name.
#[derive(Clone)]
pub(crate) struct Run {
    traces: BTreeMap<String, Trace>,
    /// Files that are shortened by this many bytes when they are saved.
    cut: Vec<(String, usize)>,
}

/// One change.
pub(crate) struct Tamper {
    pub(crate) name: String,
    /// Codes of which one must be reported, as broken or as never put to the test.
    pub(crate) codes: &'static [&'static str],
    pub(crate) run: Run,
}

const HARNESS: &str = "harness.trace";

impl Run {
    pub(crate) fn read(directory: &Path) -> Self {
        let files = std::fs::read_dir(directory).expect("the demonstration kept its traces");
        let paths: Vec<PathBuf> = files.map(|entry| entry.expect("readable").path()).collect();
        let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
        let traces = paths.iter().map(|path| (name(path), Trace::read(path).expect("a sound trace"))).collect();
        Self { traces, cut: Vec::new() }
    }

    pub(crate) fn save(&self, directory: &Path) {
        std::fs::create_dir(directory).expect("a fresh directory");
        for (name, trace) in &self.traces {
            trace.save(&directory.join(name)).expect("a fresh file");
        }
        for (name, bytes) in &self.cut {
            let file = std::fs::File::options().write(true).open(directory.join(name)).expect("just written");
            let length = file.metadata().expect("there").len();
            file.set_len(length - *bytes as u64).expect("writable");
        }
    }

    fn harness(&mut self) -> &mut Trace {
        self.traces.get_mut(HARNESS).expect("the harness's trace")
    }

    fn end_ns(&self) -> u64 {
        let records = &self.traces[HARNESS].records;
        records.iter().find(|r| r.event == Event::End).expect("the harness's end").at_ns
    }

    fn quiet_ns(&self) -> u64 {
        let quiet = |r: &&Record| matches!(r.event, Event::Phase { phase: Phase::Quiet, .. });
        self.traces[HARNESS].records.iter().find(quiet).expect("a quiet phase").at_ns
    }

    /// The files of the processes that were there at the end.
    fn survivors(&self) -> Vec<String> {
        let end_ns = self.end_ns();
        let last = |trace: &Trace| trace.records.last().is_some_and(|r| r.at_ns > end_ns);
        self.traces.iter().filter(|(name, t)| *name != HARNESS && last(t)).map(|(name, _)| name.clone()).collect()
    }

    /// The file of the process that was stopped last and notified of its exclusion.
    fn excluded(&self) -> Vec<String> {
        let told = |trace: &Trace| trace.records.iter().any(|r| matches!(r.event, Event::Excluded { .. }));
        self.traces.iter().filter(|(_, trace)| told(trace)).map(|(name, _)| name.clone()).collect()
    }

    /// The files of the processes that ran on while two were stopped at once. Others may also have reported to be no
    /// quorum, for too short a time to be due.
    fn cut_off(&self) -> Vec<String> {
        let mut stopped: Vec<u64> = Vec::new();
        for record in &self.traces[HARNESS].records {
            match record.event {
                Event::Stop { incarnation } => stopped.push(incarnation),
                Event::Cont { incarnation } => stopped.retain(|&id| id != incarnation),
                _ => {}
            }
            if stopped.len() == 2 {
                let there = |r: Option<&Record>, before: bool| r.is_some_and(|r| (r.at_ns < record.at_ns) == before);
                let runs = |t: &Trace| there(t.records.first(), true) && there(t.records.last(), false);
                let on = |name: &str, t: &Trace| name != HARNESS && !stopped.contains(&t.header.incarnation) && runs(t);
                return self.traces.iter().filter(|(name, t)| on(name, t)).map(|(name, _)| name.clone()).collect();
            }
        }
        panic!("two were stopped at once");
    }

    fn killed(&self) -> Vec<String> {
        let crashed =
            |id: u64| self.traces[HARNESS].records.iter().any(|r| r.event == Event::Crash { incarnation: id });
        let hit = |trace: &Trace| crashed(trace.header.incarnation);
        self.traces.iter().filter(|(_, trace)| hit(trace)).map(|(name, _)| name.clone()).collect()
    }

    /// The run with one trace changed.
    fn with(&self, file: &str, change: impl FnOnce(&mut Trace)) -> Self {
        let mut run = self.clone();
        change(run.traces.get_mut(file).expect("one of the files"));
        run
    }

    /// The run without the records of one trace that `which` selects. `None`: it selects none.
    fn without(&self, file: &str, mut which: impl FnMut(&Record) -> bool) -> Option<Self> {
        let before = self.traces[file].records.len();
        let run = self.with(file, |trace| trace.records.retain(|record| !which(record)));
        (run.traces[file].records.len() < before).then_some(run)
    }
}

fn delivery(record: &Record) -> bool {
    matches!(record.event, Event::Deliver { replayed: false, .. })
}

/// All changes of a run.
pub(crate) fn all(run: &Run) -> Vec<Tamper> {
    let mut tampers = Vec::new();
    let mut add = |name: String, codes: &'static [&'static str], run: Option<Run>| {
        tampers.extend(run.map(|run| Tamper { name, codes, run }));
    };
    let (quiet_ns, end_ns) = (run.quiet_ns(), run.end_ns());
    assert!(end_ns - quiet_ns >= 16 * SECOND, "the quiet phase is longer than the bounds");

    for file in run.excluded() {
        let notice = |r: &Record| matches!(r.event, Event::Excluded { .. });
        add(format!("{file}: no exclusion notice"), &["M8"], run.without(&file, notice));
        add(
            format!("{file}: no exclusion notice and no end"),
            &["M8", "E1", "V1"],
            run.without(&file, |r| notice(r) || r.event == Event::End),
        );
    }

    for file in run.excluded() {
        let later = run.with(&file, |trace| {
            for record in &mut trace.records {
                if let Event::Excluded { view } = &mut record.event {
                    *view += 1;
                }
            }
        });
        add(format!("{file}: excluded by the next view"), &["M8"], Some(later));
    }

    for file in run.killed() {
        let id = run.traces[&file].header.incarnation;
        let death = |r: &Record| r.event == Event::Crash { incarnation: id };
        add(format!("{file}: its death is not told"), &["E1"], run.without(HARNESS, death));
        let mut gone = run.clone();
        gone.traces.remove(&file);
        add(format!("{file}: gone, of one that was killed"), &["E1"], Some(gone));
    }

    let survivors = run.survivors();
    assert_eq!(survivors.len(), 4);
    for file in &survivors {
        let me = run.traces[file].header.incarnation;
        let late = |seconds: u64| move |r: &Record| r.at_ns >= end_ns - seconds * SECOND;
        let records = &run.traces[file].records;
        let last_ns = records.iter().rfind(|r| delivery(r) && r.at_ns <= end_ns).expect("it delivers").at_ns;
        for ms in [0, 1_000, 5_000] {
            let since_ns = last_ns - ms * SECOND / 1_000;
            let gone = |r: &Record| delivery(r) && (since_ns..=end_ns).contains(&r.at_ns);
            add(
                format!("{file}: none of its last deliveries, {ms} ms of them"),
                &["V3", "V4"],
                run.without(file, gone),
            );
        }
        for seconds in [1, 5, 30] {
            // Removes all records of the last seconds, the final one included.
            add(format!("{file}: ends {seconds} s too early"), &["E1"], run.without(file, late(seconds)));
            let mut stump = run.without(file, late(seconds)).expect("it goes on to the end");
            stump.cut.push((file.clone(), 3));
            add(format!("{file}: ends {seconds} s too early, inside a record"), &["E1"], Some(stump));
        }
        add(
            format!("{file}: ends too early, and says that it ended"),
            &["V3", "V4", "I1"],
            run.without(file, |r| r.at_ns >= last_ns - SECOND && r.event != Event::End),
        );
        let mut gone = run.clone();
        gone.traces.remove(file);
        add(format!("{file}: gone"), &["E1"], Some(gone));

        let own = |r: &Record| delivery(r) && matches!(r.event, Event::Deliver { sender, .. } if sender == me);
        add(format!("{file}: no own deliveries"), &["V3"], run.without(file, own));
        let others = |r: &Record| delivery(r) && !own(r);
        add(
            format!("{file}: no deliveries of others"),
            &["V4"],
            run.without(file, |r| others(r) && r.at_ns >= quiet_ns),
        );
        // One delivery in the middle, and the last one.
        let spots: Vec<usize> =
            (0..records.len()).filter(|&i| delivery(&records[i]) && records[i].at_ns < end_ns).collect();
        for spot in [spots[spots.len() / 2], spots[spots.len() - 1]] {
            let one = run.with(file, |trace| drop(trace.records.remove(spot)));
            add(format!("{file}: delivery {spot} is gone"), &["O5", "O1", "S3", "V3", "V4"], Some(one));
        }
        let middle = spots[spots.len() / 2];
        let next = *spots.iter().find(|&&spot| spot > middle).expect("it is the middle");
        let swapped = run.with(file, |trace| {
            let (first, second) = (trace.records[middle].event.clone(), trace.records[next].event.clone());
            trace.records[middle].event = second;
            trace.records[next].event = first;
        });
        add(format!("{file}: two deliveries change places"), &["O5"], Some(swapped));
        let twice = run.with(file, |trace| trace.records.insert(middle, trace.records[middle].clone()));
        add(format!("{file}: a delivery twice"), &["I2"], Some(twice));
        let other = run.with(file, |trace| {
            if let Event::Deliver { hash, .. } = &mut trace.records[middle].event {
                *hash ^= 1;
            }
        });
        add(format!("{file}: a delivery of something else"), &["I3"], Some(other));

        // Each view of the cell, and of the group, that was installed during the experiment.
        let views = |cell: bool| {
            let is = move |r: &Record| match r.event {
                Event::CellView { .. } => cell,
                Event::GroupView { .. } => !cell,
                _ => false,
            };
            (0..records.len()).filter(move |&i| is(&records[i]) && records[i].at_ns <= end_ns)
        };
        for spot in views(true) {
            let lost = run.with(file, |trace| drop(trace.records.remove(spot)));
            add(
                format!("{file}: cell view, record {spot}, is gone"),
                &["E1", "M1", "M5", "M6", "V1", "X4"],
                Some(lost),
            );
        }
        for spot in views(false) {
            let lost = run.with(file, |trace| drop(trace.records.remove(spot)));
            add(format!("{file}: group view, record {spot}, is gone"), &["M2", "M6", "S1", "E1"], Some(lost));
        }
        let digests: Vec<usize> =
            (0..records.len()).filter(|&i| matches!(records[i].event, Event::Digest { .. })).collect();
        let last = *digests.iter().rfind(|&&i| records[i].at_ns < end_ns).expect("states were compared");
        let wrong = run.with(file, |trace| {
            if let Event::Digest { digest, .. } = &mut trace.records[last].event {
                *digest ^= 1;
            }
        });
        add(format!("{file}: another state"), &["X4", "X1"], Some(wrong));
        add(
            format!("{file}: its state was never complete"),
            &["X3", "X5"],
            run.without(file, |r| matches!(r.event, Event::StateEnd { .. })),
        );
        add(
            format!("{file}: never asked to join"),
            &["M5"],
            run.without(file, |r| matches!(r.event, Event::JoinAsked { .. })),
        );
        let mut sends = 0;
        let one_send = |r: &Record| {
            sends += usize::from(matches!(r.event, Event::Send { .. }));
            matches!(r.event, Event::Send { .. }) && sends == 100
        };
        add(format!("{file}: a send is gone"), &["E1", "I1"], run.without(file, one_send));
        add(
            format!("{file}: all sends are gone"),
            &["I1"],
            run.without(file, |r| matches!(r.event, Event::Send { .. })),
        );
        // A multicast was accepted and never sent, though the process left gracefully.
        let accepts = |r: &Record| matches!(r.event, Event::Accept { .. });
        let accepted = records.iter().rposition(accepts).expect("it sends");
        let doubled = run.with(file, |trace| trace.records.insert(accepted + 1, trace.records[accepted].clone()));
        add(format!("{file}: its last acceptance twice"), &["S8"], Some(doubled));
        let asks = records.iter().rposition(|r| r.event == Event::LeaveAsked).expect("it leaves");
        let more = run.with(file, |trace| {
            let Record { at_ns, .. } = trace.records[asks];
            trace.records.insert(asks, Record { at_ns, event: trace.records[accepted].event.clone() });
        });
        add(format!("{file}: accepts one more before it leaves"), &["S8"], Some(more));
        add(format!("{file}: all acceptances are gone"), &["S8"], run.without(file, accepts));
        add(
            format!("{file}: all its digests are gone"),
            &["X4"],
            run.without(file, |r| matches!(r.event, Event::Digest { .. })),
        );
        // What it has to be told of.
        let stable = |r: &Record| matches!(r.event, Event::Stable { .. });
        add(format!("{file}: told of nothing stable"), &["V17"], run.without(file, stable));
        add(
            format!("{file}: told of nothing stable in the quiet phase"),
            &["V17"],
            run.without(file, |r| stable(r) && r.at_ns >= quiet_ns),
        );
        // The last notice of a view, which no later one covers.
        let mut last_of: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (spot, record) in records.iter().enumerate() {
            if let Event::Stable { group, view, .. } = record.event {
                last_of.insert((group, view), spot);
            }
        }
        if let Some(&spot) = last_of.values().find(|spot| records[**spot].at_ns < quiet_ns) {
            let lost = run.with(file, |trace| drop(trace.records.remove(spot)));
            add(format!("{file}: the last notice of a view, record {spot}, is gone"), &["V17"], Some(lost));
        }
        // Its asks, and those of others that it answered.
        let step = |r: &Record, which: fn(&AskStep) -> bool| matches!(&r.event, Event::Ask { what, .. } if which(what));
        let is_met = |what: &AskStep| matches!(what, AskStep::Ended(AskEnd::Met));
        add(
            format!("{file}: its asks have no end"),
            &["R3"],
            run.without(file, |r| step(r, |what| matches!(what, AskStep::Ended(_)))),
        );
        let met = records.iter().rposition(|r| step(r, is_met)).expect("asks are met");
        let number = |r: &Record| match r.event {
            Event::Ask { group, asker, view, seq, .. } => Some((group, asker, view, seq)),
            _ => None,
        };
        let of_met = number(&records[met]);
        let is_answer = |r: &Record| number(r) == of_met && step(r, |what| matches!(what, AskStep::Heard { .. }));
        let answer = records.iter().position(is_answer).expect("it is met by answers");
        let one = run.with(file, |trace| drop(trace.records.remove(answer)));
        add(format!("{file}: met without the answer in record {answer}"), &["R3"], Some(one));
        let early = run.with(file, |trace| {
            let end = trace.records.remove(met);
            trace.records.insert(answer, Record { at_ns: trace.records[answer].at_ns, ..end });
        });
        add(format!("{file}: met before the answer in record {answer}"), &["R3"], Some(early));
        add(
            format!("{file}: its answers were not sent"),
            &["R8"],
            run.without(file, |r| step(r, |what| matches!(what, AskStep::Replied { .. }))),
        );
        let other = run.with(file, |trace| {
            if let Event::Ask { what: AskStep::Heard { hash, .. }, .. } = &mut trace.records[answer].event {
                *hash ^= 1;
            }
        });
        add(format!("{file}: another answer in record {answer}"), &["R8"], Some(other));
        let shown = |r: &Record| step(r, |what| matches!(what, AskStep::Shown { .. }));
        let spot = records.iter().rposition(shown).expect("it is asked");
        let moved = run.with(file, |trace| {
            if let Event::Ask { what: AskStep::Shown { position: Some(position), .. }, .. } =
                &mut trace.records[spot].event
            {
                *position += 1;
            }
        });
        add(format!("{file}: asked at another place of the order"), &["R9"], Some(moved));
        for (what, which) in [
            ("minimum", (|r: &Record| matches!(r.event, Event::CellMinimum { .. })) as fn(&Record) -> bool),
            ("level", |r| matches!(r.event, Event::Level { .. })),
            ("terms", |r| matches!(r.event, Event::GroupTerms { .. })),
        ] {
            add(format!("{file}: no {what} of its views"), &["M11"], run.without(file, which));
            let spot = records.iter().rposition(|r| which(r) && r.at_ns < quiet_ns);
            let one = spot.map(|spot| run.with(file, |trace| drop(trace.records.remove(spot))));
            add(format!("{file}: no {what} of one view"), &["M11"], one);
        }
        // Removes the record with which its transfer begins.
        let begins = |r: &Record| matches!(r.event, Event::SnapshotIn { .. });
        add(format!("{file}: its transfer never began"), &["X3"], run.without(file, begins));
        let asks = records.iter().position(|r| matches!(r.event, Event::GroupJoinAsked { .. })).expect("it joins");
        let comes = records.iter().position(|r| matches!(r.event, Event::GroupView { .. })).expect("it is in");
        let late = run.with(file, |trace| {
            let asked = trace.records.remove(asks);
            let at_ns = trace.records[comes - 1].at_ns;
            trace.records.insert(comes, Record { at_ns, ..asked });
        });
        add(format!("{file}: asks to join when it is in"), &["M5"], Some(late));
        let total = |r: &Record| matches!(r.event, Event::Deliver { replayed: true, order: Order::Total, .. });
        let swapped = records.windows(2).position(|two| two.iter().all(total)).map(|first| {
            run.with(file, |trace| {
                let (one, two) = (trace.records[first].event.clone(), trace.records[first + 1].event.clone());
                trace.records[first].event = two;
                trace.records[first + 1].event = one;
            })
        });
        add(format!("{file}: two replayed deliveries change places"), &["O1", "O5"], swapped);
        let other_cell = run.with(file, |trace| trace.header.cell.push('x'));
        add(format!("{file}: another cell"), &["E1"], Some(other_cell));
        let other_name = run.with(file, |trace| trace.header.node.push('x'));
        add(format!("{file}: another name"), &["E1"], Some(other_name));
        let other_clock = run.with(file, |trace| trace.header.clock.push('x'));
        add(format!("{file}: another clock"), &["V1"], Some(other_clock));
    }

    for (file, trace) in run.traces.iter().filter(|(name, _)| *name != HARNESS) {
        // Blocked phases and their ends: the last one, and any other.
        let unblocks: Vec<usize> =
            (0..trace.records.len()).filter(|&i| trace.records[i].event == Event::Unblock).collect();
        for &spot in unblocks.first().into_iter().chain(unblocks.last()) {
            // Only in the quiet phase is a blocked phase promised to end.
            if (quiet_ns..end_ns).contains(&trace.records[spot].at_ns) && survivors.contains(file) {
                let lost = run.with(file, |trace| drop(trace.records.remove(spot)));
                add(format!("{file}: may send again, record {spot}, is gone"), &["E1", "V2"], Some(lost));
            }
        }
    }
    let cut_off = run.cut_off();
    assert_eq!(cut_off.len(), 2, "two of four were stopped: {cut_off:?}");
    for file in &cut_off {
        let told = |r: &Record| r.event == Event::NonPrimary;
        add(format!("{file}: not told that it is cut off"), &["V7", "E1"], run.without(file, told));
    }

    let about = |r: &Record| matches!(r.event, Event::About { .. });
    add("nothing that it is about".to_owned(), &["E1"], run.without(HARNESS, about));
    let nothing = run.with(HARNESS, |trace| {
        for record in trace.records.iter_mut().filter(|r| about(r)) {
            record.event = Event::About { codes: Vec::new() };
        }
    });
    add("about nothing".to_owned(), &["E1"], Some(nothing));
    let other_cell = run.with(HARNESS, |trace| trace.header.cell.push('x'));
    add("the harness's of another cell".to_owned(), &["E1"], Some(other_cell));
    let phase = |r: &Record| matches!(r.event, Event::Phase { phase: Phase::Quiet, .. });
    add("no quiet phase".to_owned(), &["V1"], run.without(HARNESS, phase));
    add("no harness's end".to_owned(), &["V1"], run.without(HARNESS, |r| r.event == Event::End));
    let stops = |r: &Record| matches!(r.event, Event::Stop { .. });
    add("no stops".to_owned(), &["V7", "V9"], run.without(HARNESS, stops));
    for back in [4, 8, 16] {
        let earlier = run.with(HARNESS, |trace| {
            for record in trace.records.iter_mut().filter(|r| r.event == Event::End) {
                record.at_ns -= back * SECOND;
            }
        });
        add(format!("the end {back} s earlier"), &["V1", "V4"], Some(earlier));
    }
    let later = run.with(HARNESS, |trace| {
        for record in trace.records.iter_mut().filter(|r| phase(r)) {
            record.at_ns = end_ns - SECOND;
        }
    });
    add("the quiet phase begins later".to_owned(), &["V1"], Some(later));
    let mut again = run.clone();
    let last = again.harness().records.len() - 1;
    let faulty = Event::Phase { phase: Phase::Faulty, connected: Vec::new() };
    again.harness().records.insert(last, Record { at_ns: end_ns, event: faulty });
    add("another phase after the quiet one".to_owned(), &["V1"], Some(again));
    for file in &survivors {
        let dead = run.with(HARNESS, |trace| {
            let incarnation = run.traces[file].header.incarnation;
            let at = trace.records.iter().position(phase).expect("there");
            trace.records.insert(at, Record { at_ns: quiet_ns, event: Event::Crash { incarnation } });
        });
        add(format!("{file}: said to be dead"), &["E1"], Some(dead));
    }
    let mut no_harness = run.clone();
    no_harness.traces.remove(HARNESS);
    add("no harness".to_owned(), &["E1"], Some(no_harness));
    tampers
}
