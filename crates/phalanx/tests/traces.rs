//! Traces of both kinds of process.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phalanx::{
    App, Cell, CellBuilder, CellEvent, DecodeError, Guarantee, InlineGroup, MemberId, MessageRef, Order, Snapshot,
    StartError, View,
};
use phalanx_trace::{Event as Record, LeaveReason, MembershipEnd, TraceReader};

const PATIENCE: Duration = Duration::from_secs(30);

/// It writes traces.
fn builder(directory: &Path, name: &str) -> CellBuilder {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .trace(directory.join("traces"))
}

/// The trace files, in the order of their names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory.join("traces")).expect("made").map(|entry| entry.expect("there").path()).collect();
    files.sort();
    files
}

fn records(file: &Path) -> Vec<Record> {
    TraceReader::open(file).expect("a trace").map(|record| record.expect("whole").event).collect()
}

/// Its state is the number of messages, and that of views.
#[derive(Default)]
struct Count {
    views: usize,
    messages: usize,
    unicasts: usize,
    lost: Vec<String>,
}

impl App for Count {
    fn message(&mut self, _message: &MessageRef<'_>) {
        self.messages += 1;
    }

    fn unicast(&mut self, _from: MemberId, _payload: &[u8]) {
        self.unicasts += 1;
    }

    fn view(&mut self, _group: InlineGroup, _view: &View) {
        self.views += 1;
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        Some(Snapshot::encode(&(self.messages as u64, self.views as u64)))
    }

    fn restore(&mut self, _group: InlineGroup, part: &[u8], _is_end: bool) -> Result<(), DecodeError> {
        let (messages, views): (u64, u64) = Snapshot::new(part.to_vec()).decode()?;
        (self.messages, self.views) = (usize::try_from(messages).expect("few"), usize::try_from(views).expect("few"));
        Ok(())
    }

    fn digest(&mut self, _group: InlineGroup) -> Option<u64> {
        Some((10 * self.messages + self.views) as u64)
    }

    fn event(&mut self, event: &CellEvent) {
        if let CellEvent::TraceLost { why } = event {
            self.lost.push(why.clone());
        }
    }
}

fn run(member: &mut phalanx::Inline, app: &mut Count, mut done: impl FnMut(&phalanx::Inline, &Count) -> bool) {
    let ends = Instant::now() + PATIENCE;
    while !done(member, app) {
        assert!(Instant::now() < ends, "it does not come to that");
        if !member.poll(app).more {
            member.wait(Some(Duration::from_millis(5))).expect("waits");
        }
    }
}

#[test]
fn both_kinds_of_process_write_a_trace_of_the_same_records() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = builder(directory.path(), "a nn").blocking_start().expect("starts");
    let (group, inbox) = ann.group("g").blocking_join().expect("joins");
    drop(inbox);
    let sent = group.send("x").blocking().expect("goes out");
    sent.blocking_delivered().expect("comes back");
    let who = ann.me().id;
    ann.blocking_leave(PATIENCE).expect("leaves");

    let (mut app, mut bob) = (Count::default(), builder(directory.path(), "b ob").inline().expect("starts"));
    let group = bob.group("g").join(&mut app).expect("asks");
    run(&mut bob, &mut app, |_, app| app.views == 1);
    bob.multicast(group, Order::Total, Guarantee::Uniform, b"x", &mut app).expect("there is credit");
    run(&mut bob, &mut app, |bob, app| app.messages == 1 && bob.unstable(group) == Some(0));
    bob.leave(&mut app);
    run(&mut bob, &mut app, |bob, _| bob.is_over());
    assert!(!bob.is_trace_lost());

    let files = files(directory.path());
    assert_eq!(files.len(), 2, "{files:?}");
    let header = TraceReader::open(&files[0]).expect("a trace").header().clone();
    assert_eq!((header.incarnation, &header.node[..]), (who.bits(), "a nn"));
    for file in files {
        let records = records(&file);
        assert_eq!((records.first(), records.last()), (Some(&Record::Start), Some(&Record::End)));
        let is_in = |wanted: fn(&Record) -> bool| assert!(records.iter().any(wanted), "{records:?}");
        is_in(|record| matches!(record, Record::Inbox { name, inbox } if name == "g" && *inbox > 0));
        is_in(|record| matches!(record, Record::GroupJoinAsked { name, .. } if name == "g"));
        is_in(|record| matches!(record, Record::Accept { uniform: true, .. }));
        is_in(|record| matches!(record, Record::Send { uniform: true, .. }));
        is_in(|record| matches!(record, Record::Deliver { uniform: true, .. }));
        is_in(|record| matches!(record, Record::Stable { seq: 1, .. }));
        is_in(|record| matches!(record, Record::LeaveAsked));
        is_in(|record| matches!(record, Record::Left));
        // What its program was told, the last of it before the end of the incarnation.
        is_in(|record| matches!(record, Record::ToldStable { seq: 1, .. }));
        let told = [
            |record: &Record| matches!(record, Record::ToldLost { not_sent: 0, in_doubt: 0, .. }),
            |record: &Record| matches!(record, Record::MembershipEnded { name, why: MembershipEnd::Left(LeaveReason::Left) } if name == "g"),
            |record: &Record| *record == Record::Left,
        ];
        let places = told.map(|wanted| records.iter().position(wanted).expect("it is in"));
        assert!(places.is_sorted(), "{records:?}");
    }
}

/// By which the checker compares states, and judges messages from one process to another.
#[test]
fn the_digests_and_the_unicasts_of_an_inline_process_are_traced() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut app, mut ann) = (Count::default(), builder(directory.path(), "ann").inline().expect("starts"));
    let group = ann.group("g").with_state().join(&mut app).expect("asks");
    run(&mut ann, &mut app, |_, app| app.views == 1);
    for _ in 0..3 {
        ann.multicast(group, Order::Total, Guarantee::Uniform, b"x", &mut app).expect("there is credit");
    }
    run(&mut ann, &mut app, |_, app| app.messages == 3);

    let (mut taker, mut bob) = (Count::default(), builder(directory.path(), "bob").inline().expect("starts"));
    bob.group("g").with_state().join(&mut taker).expect("asks");
    let (mut to_bob, bobs) = (None, bob.me().id);
    run(&mut bob, &mut taker, |_, taker| {
        ann.poll(&mut app);
        if to_bob.is_none() && taker.views == 2 {
            to_bob = Some(ann.unicast(bobs, b"for bob", &mut app));
        }
        taker.unicasts == 1
    });
    assert_eq!((to_bob, taker.messages), (Some(Ok(())), 3));
    for (member, app) in [(&mut bob, &mut taker), (&mut ann, &mut app)] {
        member.leave(app);
        run(member, app, |member, _| member.is_over());
    }

    let [anns, bobs] = files(directory.path()).try_into().expect("two files");
    let (anns, bobs) = (records(&anns), records(&bobs));
    let digests = |records: &[Record]| -> Vec<(u64, u64)> {
        let of = |record: &Record| match record {
            Record::Digest { view, digest, .. } => Some((*view, *digest)),
            _ => None,
        };
        records.iter().filter_map(of).collect()
    };
    assert_eq!(digests(&anns)[..2], [(1, 1), (2, 32)]);
    assert_eq!(digests(&bobs), [(2, 32)]);
    assert!(anns.iter().any(|record| matches!(record, Record::SnapshotOut { digest: 31, .. })), "{anns:?}");
    assert!(bobs.iter().any(|record| matches!(record, Record::StateEnd { digest: 32, .. })), "{bobs:?}");
    let sent = anns.iter().find_map(|record| match record {
        Record::P2pSend { to, k: 1, hash } => Some((*to, *hash)),
        _ => None,
    });
    let taken = bobs.iter().find_map(|record| match record {
        Record::P2pDeliver { k: 1, hash, .. } => Some(*hash),
        _ => None,
    });
    assert_eq!(sent.map(|(_, hash)| hash), taken);
    assert!(taken.is_some(), "{bobs:?}");
}

/// The records from the start of a view change to its end, by which the checker evaluates that every silence ends (V2).
#[test]
fn the_silences_of_a_real_process_are_traced() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = builder(directory.path(), "ann").blocking_start().expect("starts");
    let (_group, mut inbox) = ann.group("g").blocking_join().expect("joins");
    let bob = builder(directory.path(), "bob").blocking_start().expect("starts");
    let _joined = bob.group("g").blocking_join().expect("joins");
    bob.blocking_leave(PATIENCE).expect("leaves");
    let mut views = 0;
    while views < 3 {
        let next = inbox.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        views += usize::from(matches!(next, phalanx::Next::View(_)));
    }
    ann.blocking_leave(PATIENCE).expect("leaves");
    let records = records(&files(directory.path())[0]);
    let count = |wanted: &Record| records.iter().filter(|record| *record == wanted).count();
    let (begun, ended) = (count(&Record::Block), count(&Record::Unblock));
    assert!(begun > 0, "a join and a leave change the view: {records:?}");
    assert!(begun - ended <= 1, "{begun} silences, {ended} ends");
}

#[test]
fn an_inline_process_goes_on_without_its_trace_and_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut app, mut ann) = (Count::default(), builder(directory.path(), "ann").inline().expect("starts"));
    // The incarnation begins, and its file, with the first poll.
    fs::remove_dir_all(directory.path().join("traces")).expect("there");
    ann.group("g").join(&mut app).expect("asks");
    run(&mut ann, &mut app, |_, app| app.views == 1);
    assert!(ann.is_trace_lost());
    assert_eq!(app.lost.len(), 1, "said once: {:?}", app.lost);
    let notices = ann.notices();
    assert_eq!(notices.iter().filter(|notice| notice.contains(&app.lost[0])).count(), 1, "{notices:?}");
    ann.leave(&mut app);
    run(&mut ann, &mut app, |ann, _| ann.is_over());
}

#[test]
fn a_directory_for_traces_that_cannot_be_made_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = || builder(directory.path(), "ann").trace("/proc/nowhere");
    for error in [refused().blocking_start().err(), refused().inline().err()] {
        let Some(StartError::Host(text)) = &error else { panic!("{error:?}") };
        assert!(text.contains("/proc/nowhere") && text.contains("name another directory"), "{text}");
    }
}
