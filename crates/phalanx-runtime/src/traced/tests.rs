//! A trace holds what the handler observed, also when the disk is full.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use phalanx_core::{
    CellInstance, CellView, GroupView, LEVEL, LeaveReason, OwnDomain, Sequence, Uniformity, ViewNumber,
};
use phalanx_trace::{Header, TraceReader};

use super::*;

/// Counts the calls that reach it. Its state is what it delivered, and the views.
#[derive(Default)]
struct Count {
    delivered: usize,
    views: usize,
    events: usize,
    messages: usize,
    told: Vec<Record>,
}

impl Handler for Count {
    fn deliver(&mut self, _delivery: &Delivery<'_>) {
        self.delivered += 1;
    }

    fn event(&mut self, event: Event) {
        self.events += 1;
        self.views += usize::from(matches!(event, Event::GroupView(_) | Event::GroupViewReplayed(_)));
    }

    fn message(&mut self, _from: Incarnation, _payload: &[u8]) {
        self.messages += 1;
    }

    fn digest(&mut self, _group: GroupId) -> Option<u64> {
        Some((self.delivered + 10 * self.views) as u64)
    }

    fn told(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.told)
    }
}

/// A file in memory that stays readable.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn me(incarnation: u64) -> MemberInfo {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    MemberInfo::new(Incarnation(incarnation), "n", nowhere, nowhere)
}

fn group_view(view: ViewNumber) -> Event {
    Event::GroupView(Arc::new(view_of(view)))
}

fn view_of(view: ViewNumber) -> GroupView {
    GroupView {
        members: vec![Incarnation(7)],
        infos: vec![me(7)],
        joined: vec![Incarnation(7)],
        left: vec![(Incarnation(5), LeaveReason::Died)],
        ..GroupView::new(GroupId(3), "g", view)
    }
}

fn delivery(seq: u64) -> Delivery<'static> {
    Delivery {
        group: GroupId(3),
        view: ViewNumber(1),
        sender: Incarnation(7),
        seq: Sequence(seq),
        order: Order::Total,
        uniformity: Uniformity::Uniform,
        position: Some(seq),
        replayed: false,
        asked: None,
        domain: None,
        payload: b"payload",
    }
}

fn records(memory: &Memory) -> Vec<(u64, Record)> {
    let bytes = memory.0.lock().expect("no writer panics").clone();
    let reader = TraceReader::new(bytes.as_slice(), "memory").expect("a header was written");
    reader.map(|record| record.map(|r| (r.at_ns, r.event)).expect("whole records")).collect()
}

fn recorder(memory: &Memory, write_ahead: bool) -> Recorder<Memory> {
    let memory = memory.clone();
    let open: OpenTrace<Memory> = Box::new(move |me| {
        let header = Header::process("cell", &me.name, me.incarnation.0, "test");
        TraceWriter::new(memory.clone(), "memory", &header)
    });
    Recorder::new("cell", write_ahead, open, Box::new(|error| panic!("{error}")))
}

#[test]
fn an_incarnation_is_recorded_in_order() {
    let memory = Memory::default();
    let (mut recorder, mut count) = (recorder(&memory, false), Count::default());
    let mut traced = recorder.around(&mut count);
    traced.at(Instant(10));
    traced.begin(&me(7));
    traced.event(Event::CellView(Arc::new(CellView {
        instance: CellInstance(99),
        ancestors: Vec::new(),
        view: ViewNumber(1),
        level: 1,
        members: vec![me(7)],
        joined: vec![Incarnation(7)],
        left: Vec::new(),
        apart: Vec::new(),
        departed: Vec::new(),
        members_min: 1,
    })));
    traced.command(&Command::JoinGroup {
        name: "g",
        with_state: true,
        observes: false,
        domains: &[OwnDomain::unnamed()],
    });
    traced.at(Instant(20));
    traced.event(Event::StateBegin {
        group: GroupId(3),
        name: "g".into(),
        bytes: 5,
        view: Some(ViewNumber(1)),
        domains: None,
    });
    traced.restore(GroupId(3), b"state");
    traced.event(Event::GroupViewReplayed(Arc::new(view_of(ViewNumber(2)))));
    traced.event(Event::StateEnd { group: GroupId(3) });
    traced.event(group_view(ViewNumber(1)));
    traced.sent(GroupId(3), ViewNumber(1), Sequence(1), Order::Total, Uniformity::Uniform, b"payload");
    traced.deliver(&delivery(1));
    traced.command(&Command::Send { to: Incarnation(8), payload: b"p" });
    traced.message(Incarnation(8), b"p");
    traced.message(Incarnation(8), b"p");
    [false, true, true, false].into_iter().for_each(|silent| traced.silent(silent));
    traced.command(&Command::Leave);
    traced.event(Event::Left);
    traced.silent(true);
    assert!(!recorder.is_tracing(), "the life is over");
    assert_eq!((count.delivered, count.messages), (1, 2));

    let (payload, p) = (payload_hash(b"payload"), payload_hash(b"p"));
    let total = phalanx_trace::Order::Total;
    let (group, view, seq, order, uniform) = (3, 1, 1, total, true);
    let expected = [
        (10, Record::Start),
        (10, Record::JoinAsked { cell: "cell".into() }),
        (10, Record::CellView { instance: 99, view: 1, members: vec![(7, "n".into())], left: Vec::new() }),
        (10, Record::Level { level: 1, known: LEVEL }),
        (10, Record::CellMinimum { members: 1 }),
        (10, Record::GroupJoinAsked { name: "g".into(), with_state: true }),
        (20, Record::SnapshotIn { group, bytes: 5 }),
        (20, Record::SnapshotView { group, view: 1 }),
        (
            20,
            Record::GroupViewReplayed {
                group,
                view: 2,
                members: vec![7],
                joined: vec![7],
                left: vec![(5, phalanx_trace::LeaveReason::Died)],
            },
        ),
        (20, Record::StateEnd { group, digest: 20 }),
        (
            20,
            Record::GroupView {
                group,
                name: "g".into(),
                view,
                prev: None,
                members: vec![7],
                joined: vec![7],
                left: vec![(5, phalanx_trace::LeaveReason::Died)],
            },
        ),
        (20, Record::GroupTerms { group, uniform: true, members_min: 1, adequate: true }),
        (20, Record::Digest { group, view, delivered: 0, digest: 20 }),
        (20, Record::Send { group, view, seq, order, uniform, hash: payload }),
        (
            20,
            Record::Deliver {
                group,
                view,
                sender: 7,
                seq,
                order,
                uniform,
                position: Some(1),
                hash: payload,
                replayed: false,
            },
        ),
        (20, Record::P2pSend { to: 8, k: 1, hash: p }),
        (20, Record::P2pDeliver { from: 8, k: 1, hash: p }),
        (20, Record::P2pDeliver { from: 8, k: 2, hash: p }),
        (20, Record::Block),
        (20, Record::Unblock),
        (20, Record::LeaveAsked),
        (20, Record::Left),
        (20, Record::End),
    ];
    assert_eq!(records(&memory), expected);
}

#[test]
fn write_ahead_hands_over_before_each_transmission() {
    let memory = Memory::default();
    let (mut recorder, mut count) = (recorder(&memory, true), Count::default());
    let mut traced = recorder.around(&mut count);
    traced.begin(&me(7));
    for seq in 1..=3 {
        traced.deliver(&delivery(seq));
        traced.before_transmit();
        assert_eq!(records(&memory).len() as u64, 2 + seq, "nothing is left in a buffer");
    }
    // Others learn of an answer by the next packet.
    let told = Record::ToldStable { group: 3, view: 1, seq: 3 };
    traced.inner.told.push(told.clone());
    traced.before_transmit();
    assert_eq!(records(&memory).last(), Some(&(0, told)));
}

#[test]
fn each_incarnation_has_its_own_trace() {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let lives = Arc::clone(&opened);
    let open: OpenTrace<Memory> = Box::new(move |me| {
        let memory = Memory::default();
        lives.lock().expect("no panic").push((me.incarnation.0, memory.clone()));
        TraceWriter::new(memory, "memory", &Header::process("cell", &me.name, me.incarnation.0, "test"))
    });
    let mut recorder = Recorder::new("cell", false, open, Box::new(|error| panic!("{error}")));
    let mut count = Count::default();
    let mut traced = recorder.around(&mut count);
    traced.begin(&me(1));
    traced.message(Incarnation(9), b"p");
    traced.event(Event::Excluded { view: ViewNumber(4) });
    traced.begin(&me(2));
    traced.message(Incarnation(9), b"p");
    recorder.finish();
    let lives = opened.lock().expect("no panic");
    assert_eq!(lives.iter().map(|(incarnation, _)| *incarnation).collect::<Vec<_>>(), [1, 2]);
    let hash = payload_hash(b"p");
    let first = records(&lives[0].1);
    assert_eq!(first[3..], [(0, Record::Excluded { view: 4 }), (0, Record::End)]);
    let again = Record::P2pDeliver { from: 9, k: 1, hash };
    assert_eq!(records(&lives[1].1)[2], (0, again), "numbers begin anew with the life");
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let failures = Arc::clone(&told);
    let open: OpenTrace<File> = Box::new(|me| {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let full = full.map_err(|source| TraceError::Io { file: "/dev/full".into(), source })?;
        TraceWriter::new(full, "/dev/full", &Header::process("cell", &me.name, me.incarnation.0, "test"))
    });
    let failed: TraceFailed = Box::new(move |error| failures.lock().expect("no panic").push(error.to_string()));
    let (mut recorder, mut count) = (Recorder::new("cell", true, open, failed), Count::default());
    let mut traced = recorder.around(&mut count);
    traced.begin(&me(7));
    for seq in 1..=5 {
        traced.deliver(&delivery(seq));
        traced.before_transmit();
    }
    assert!(!recorder.is_tracing());
    assert_eq!(count.delivered, 5, "deliveries go on");
    let told = told.lock().expect("no panic");
    assert_eq!(told.len(), 1, "said once: {told:?}");
    assert!(told[0].contains("/dev/full") && told[0].contains("No space left"), "{told:?}");
}
