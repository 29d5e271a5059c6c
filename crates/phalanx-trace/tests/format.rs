//! The file format: what is written is read back, a cut file is accepted, a broken one is refused.

use phalanx_trace::{
    Action, CallOutcome, Event, Header, LeaveReason, MAGIC, MembershipEnd, MembershipStep, Order, Outcome, Phase,
    RECORD_BYTES_MAX, SubmitStep, ToOneOutcome, Trace, TraceError, TraceReader, TraceWriter, Trouble,
};
use proptest::prelude::*;

/// One of each event.
fn every_event() -> Vec<Event> {
    let name = || "ledger".to_owned();
    vec![
        Event::Start,
        Event::JoinAsked { cell: name() },
        Event::LeaveAsked,
        Event::CellView {
            instance: u64::MAX,
            view: 3,
            members: vec![(7, "a".into()), (u64::MAX, "b".into())],
            left: vec![(9, LeaveReason::Died)],
        },
        Event::GroupJoinAsked { name: name(), with_state: true },
        Event::GroupLeaveAsked { group: 2 },
        Event::GroupView {
            group: 2,
            name: name(),
            view: 9,
            prev: Some(8),
            members: vec![7, u64::MAX],
            joined: vec![u64::MAX],
            left: vec![(9, LeaveReason::Unreachable), (10, LeaveReason::Left)],
        },
        Event::GroupLeft { group: 2 },
        Event::Send { group: 2, view: 9, seq: 1, order: Order::Fifo, uniform: true, hash: 5 },
        deliver(u64::MAX),
        Event::SnapshotOut { group: 2, view: 9, digest: 4 },
        Event::SnapshotIn { group: 2, bytes: 1 << 40 },
        Event::StateEnd { group: 2, digest: 4 },
        Event::Digest { group: 2, view: 9, delivered: 1, digest: 6 },
        Event::NonPrimary,
        Event::Primary,
        Event::Excluded { view: 4 },
        Event::Left,
        Event::EndInDoubt { groups: vec![name()], members: vec!["a".into(), "b".into()] },
        Event::ToldStable { group: 2, view: 9, seq: 3 },
        Event::ToldLost { group: 2, not_sent: 1, in_doubt: 2 },
        Event::ToldSenseless { name: name() },
        Event::MembershipEnded { name: name(), why: MembershipEnd::Left(LeaveReason::Stopped) },
        Event::MembershipEnded { name: name(), why: MembershipEnd::Over },
        Event::ToldStep { name: name(), what: MembershipStep::Taking(8) },
        Event::ToldStep { name: name(), what: MembershipStep::View(8) },
        Event::SnapshotView { group: 2, view: 8 },
        Event::GroupViewReplayed {
            group: 2,
            view: 9,
            members: vec![7],
            joined: vec![u64::MAX],
            left: vec![(9, LeaveReason::Died)],
        },
        Event::ToOneSend { group: 2, view: 9, to: 7, is_answer: true, hash: 2 },
        Event::ToOneDeliver { group: 2, view: 9, from: 7, is_answer: false, hash: 2 },
        Event::ToOneSettled { group: 2, to: 7, outcome: ToOneOutcome::NotDelivered, messages: 3 },
        Event::P2pSend { to: 7, k: 1, hash: 2 },
        Event::P2pDeliver { from: 7, k: 1, hash: 2 },
        Event::Stop { incarnation: 7 },
        Event::Cont { incarnation: 7 },
        Event::Crash { incarnation: 7 },
        Event::Phase { phase: Phase::Quiet, connected: vec!["a".into()] },
        Event::End,
        Event::Block,
        Event::Unblock,
        Event::Cut { links: vec![("a".into(), "b".into())] },
        Event::Mend { links: vec![("a".into(), "b".into()), ("b".into(), "a".into())] },
        Event::Attack { active: true },
        Event::Trouble { what: Trouble::NotReading, incarnation: 7, begins: true },
        Event::Gauge { incarnation: 7, name: "outbox".into(), value: 3, limit: 4, idle: 0 },
        Event::Traffic { incarnation: 7, packets: 1 << 33, idle: 100 },
        Event::Invoke { group: 2, op: 1, action: Action::Cas { key: 3, expected: u64::MAX, value: 4 } },
        Event::Return { op: 1, outcome: Outcome::Held { holder: u64::MAX, token: 5 } },
        Event::Guard { resource: 1, serial: 2, token: 3, accepted: false },
        Event::Impaired { ends: vec!["b".into()], what: "data socket".into(), sends_every_ns: 3 },
        Event::Endpoint { address: "10.0.0.1:2".into() },
        Event::CallMade { call: 1, to: "10.0.0.1:2".into(), idempotent: true, hash: u64::MAX },
        Event::CallEnded { call: 1, outcome: CallOutcome::Answer { hash: 7 } },
        Event::CallEnded { call: 2, outcome: CallOutcome::NotExecuted },
        Event::CallEnded { call: 3, outcome: CallOutcome::Unknown },
        Event::CallRan { run: 1, from: u64::MAX, hash: 3 },
        Event::CallAnswered { run: 1, answer: Some(4) },
        Event::CallAnswered { run: 2, answer: None },
        Event::Balance { group: 2, sum: 800 },
        Event::About { codes: vec!["S3".into(), "V1".into()] },
        Event::Accept { group: 2, order: Order::Causal, uniform: true, hash: 5 },
        Event::CallDeadline { call: 1, within_ns: 2_000_000_000 },
        Event::Level { level: 1, known: 2 },
        Event::RiseAsked { level: 2 },
        Event::Differs { setting: name(), cell: name(), own: name() },
        Event::CellMinimum { members: 3 },
        Event::GroupTerms { group: 2, uniform: true, members_min: 300, adequate: false },
        Event::GroupAdequacy { group: 2, view: 9, adequate: true },
        Event::Unsent { group: 2, messages: 300 },
        Event::InDoubt { to: 7, messages: 300 },
        Event::Stable { group: 2, view: 9, seq: 300 },
        Event::Inbox { name: name(), inbox: 3 },
        Event::Unread { incarnation: u64::MAX, inbox: 3, begins: true },
        Event::GroupIncomplete { group: 2, who: vec![7, u64::MAX] },
        Event::Observes { name: name() },
        Event::GroupObservers { group: 2, who: vec![7, u64::MAX] },
        Event::OwnDomains { name: name(), own: vec![(String::new(), 1, false), ("x".into(), u32::MAX, true)] },
        Event::GroupDomains { group: 2, view: 9, list: vec![(String::new(), 1), ("x".into(), u32::MAX)] },
        Event::DeliveredTo { group: 2, view: 9, sender: 7, seq: 300, domain: 255 },
        Event::Submit { group: 2, client: u64::MAX, number: 300, what: SubmitStep::Sent { hash: 7 } },
        Event::Submit {
            group: 2,
            client: 1,
            number: 2,
            what: SubmitStep::Executed { view: 9, position: 300, hash: 7 },
        },
        Event::Submit { group: 2, client: 1, number: 2, what: SubmitStep::Told { hash: u64::MAX } },
        Event::Submit { group: 2, client: 1, number: 2, what: SubmitStep::NotExecuted },
        Event::Submit { group: 2, client: 1, number: 2, what: SubmitStep::Unknown },
        Event::Submit { group: 2, client: 1, number: 2, what: SubmitStep::TooLong },
    ]
}

fn deliver(hash: u64) -> Event {
    Event::Deliver {
        group: 2,
        view: 9,
        sender: 7,
        seq: 1,
        order: Order::Total,
        uniform: false,
        position: Some(1),
        hash,
        replayed: true,
    }
}

fn sample() -> Trace {
    let mut trace = Trace::new(Header::process("cell", "a", 7, "boot 1"));
    for (i, event) in (0..).zip(every_event()) {
        trace.push(i * 1_000_000_007, event);
    }
    trace
}

fn bytes_of(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).expect("a vector takes everything");
    bytes
}

fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let mut reader = TraceReader::new(bytes, "test")?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok(Trace { header: reader.header().clone(), records, truncated: reader.truncated() })
}

#[test]
fn every_event_comes_back() {
    let trace = sample();
    assert_eq!(read(&bytes_of(&trace)).expect("well formed"), trace);
}

/// Bytes written by the program of format version 1: a header, then the start, a crash and the end of a harness.
#[test]
fn a_file_of_the_first_version_is_read() {
    let mut old = b"PHXTRACE\x01\x00".to_vec();
    old.extend(b"\x11\x04cell\x07harness\x00\x01c\x00");
    old.extend(b"\x02\x00\x00\x03\x05\x16\x07\x02\x09\x18");
    let trace = read(&old).expect("versions 1 and 2 are read");
    let events: Vec<&Event> = trace.records.iter().map(|r| &r.event).collect();
    assert_eq!(events, [&Event::Start, &Event::Crash { incarnation: 7 }, &Event::End]);
    assert_eq!(trace.header, Header { format: 1, ..Header::harness("cell", "c") });
    assert_eq!(bytes_of(&trace)[MAGIC.len() + 2..], old[MAGIC.len() + 2..], "old records are written as before");
}

#[test]
fn a_file_comes_back_and_is_never_overwritten() {
    let dir = std::env::temp_dir().join(format!("phalanx-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a writable temporary directory");
    let path = dir.join("a.trace");
    let trace = sample();
    trace.save(&path).expect("a fresh file");
    assert_eq!(Trace::read(&path).expect("well formed"), trace);
    assert!(matches!(trace.save(&path), Err(TraceError::Io { .. })));
    std::fs::remove_dir_all(&dir).expect("the test's own directory");
}

#[test]
fn a_cut_at_any_byte_keeps_the_whole_records() {
    let trace = sample();
    let bytes = bytes_of(&trace);
    let mut counts = Vec::new();
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Ok(cut) => {
                assert_eq!(cut.records[..], trace.records[..cut.records.len()]);
                assert!(cut.records.len() < trace.records.len());
                counts.push((cut.records.len(), cut.truncated));
            }
            Err(TraceError::Empty { .. }) => assert!(counts.is_empty(), "only while the header is cut"),
            Err(other) => panic!("cut at {len}: {other}"),
        }
    }
    for n in 0..trace.records.len() {
        assert!(counts.contains(&(n, false)), "a cut between records {n} is no truncation");
        assert!(counts.contains(&(n, true)), "a cut inside record {n} is one");
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(matches!(read(b"PK\x03\x04 something else"), Err(TraceError::NotATrace { .. })));
    assert!(matches!(read(b"PK"), Err(TraceError::NotATrace { .. })));
    assert!(matches!(read(b""), Err(TraceError::Empty { .. })));
    let mut other = bytes_of(&sample());
    other[MAGIC.len()] = 99;
    assert!(matches!(read(&other), Err(TraceError::Version { found: 99, .. })));
}

#[test]
fn a_broken_record_is_named_by_its_offset() {
    let mut trace = Trace::new(Header::harness("cell", "c"));
    let start = bytes_of(&trace).len();
    trace.push(1, Event::Start);
    trace.push(2, Event::End);
    let good = bytes_of(&trace);

    let mut unknown = good.clone();
    unknown[start + 2] = 0x7e; // the variant of the first record
    let error = read(&unknown).expect_err("no such variant");
    assert!(matches!(error, TraceError::Malformed { offset, .. } if offset == start as u64), "{error}");

    let mut longer = good.clone();
    longer[start] += 1; // the first record would swallow a byte of the second
    assert!(matches!(read(&longer), Err(TraceError::Malformed { .. })));

    let mut huge = good[..start].to_vec();
    huge.extend([0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(read(&huge), Err(TraceError::Malformed { .. })));
}

#[test]
fn a_record_beyond_the_bound_is_refused_and_nothing_is_written() {
    let header = Header::harness("cell", "c");
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "test", &header).expect("a short header");
    let absurd = Event::JoinAsked { cell: "x".repeat(RECORD_BYTES_MAX) };
    assert!(matches!(writer.write(0, &absurd), Err(TraceError::TooLong { .. })));
    writer.write(1, &Event::End).expect("still usable");
    drop(writer);
    assert_eq!(read(&bytes).expect("well formed").records.len(), 1);
}

#[test]
fn a_failed_writer_stays_failed() {
    /// Accepts the first bytes, then no more.
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            let n = buf.len().min(self.0);
            self.0 -= n;
            if n == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = TraceWriter::new(Full(10), "full", &Header::harness("c", "c")).expect("buffered");
    assert!(matches!(writer.flush(), Err(TraceError::Io { .. })));
    assert!(matches!(writer.write(0, &Event::Start), Err(TraceError::Io { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(at in 0usize..600, value: u8, tail in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = bytes_of(&sample());
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = read(&bytes);
        bytes.truncate(at);
        bytes.extend(tail);
        let _ = read(&bytes);
    }

    #[test]
    fn any_delivery_comes_back(at_ns: u64, hash: u64) {
        let mut trace = Trace::new(Header::process("c", "n", 1, "k"));
        trace.push(at_ns, deliver(hash));
        prop_assert_eq!(read(&bytes_of(&trace)).expect("well formed"), trace);
    }
}
