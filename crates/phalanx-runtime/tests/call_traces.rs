//! The traces of real calls, checked; and changed in one place at a time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use phalanx_check::{Options, Property, Report, Require, check};
use phalanx_runtime::config::Config;
use phalanx_runtime::core::Incarnation;
use phalanx_runtime::rpc::{
    CallId, CallOptions, Caller, Client, ClientCallId, Failure, HandlerResult, Outcome, Port, PortOptions, Service,
};
use phalanx_trace::{CallOutcome, Event, Record, Trace};

/// Echoes the request; `!` is refused, `?` is answered later, `-` never.
#[derive(Default)]
struct Server {
    later: Vec<(CallId, Vec<u8>)>,
}

impl Service for Server {
    fn request(&mut self, call: CallId, _: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        match request.first() {
            Some(b'!') => HandlerResult::Refused,
            Some(b'-') => HandlerResult::Later,
            Some(b'?') => {
                self.later.push((call, request.to_vec()));
                HandlerResult::Later
            }
            _ => {
                answer.extend_from_slice(request);
                HandlerResult::Answered
            }
        }
    }
}

#[derive(Default)]
struct Ended(u32);

impl Service for Ended {
    fn outcome(&mut self, _: ClientCallId, _: Outcome<'_>) {
        self.0 += 1;
    }
}

fn options(dir: &Path, name: &str) -> PortOptions {
    let config = Config {
        runtime_dir: Some(dir.join("run")),
        state_dir: Some(dir.join("state")),
        name: Some(name.to_owned()),
        trace: Some(dir.join("traces")),
        ..Config::default()
    };
    PortOptions { config, serves: name == "server", ..PortOptions::default() }
}

fn quick() -> CallOptions {
    CallOptions { deadline: Duration::from_millis(100), ..CallOptions::default() }
}

/// Makes calls of all kinds by all kinds of callers, and returns their traces.
fn calls() -> Vec<Trace> {
    let dir = tempfile::tempdir().expect("a directory");
    let end = Arc::new(AtomicBool::new(false));
    let (tell, told) = std::sync::mpsc::channel();
    let (ending, of_server) = (Arc::clone(&end), options(dir.path(), "server"));
    let serving = std::thread::spawn(move || {
        let (mut port, mut server) = (Port::start(&of_server).expect("a port"), Server::default());
        tell.send(port.address()).expect("it is waited for");
        while !ending.load(Ordering::Relaxed) {
            if port.poll(&mut server) == 0 {
                port.wait(Some(Duration::from_millis(20)), &[]).expect("a wait");
            }
            for (call, answer) in std::mem::take(&mut server.later) {
                port.answer(call, Some(answer.into()), &mut server).expect("it is waited for");
            }
        }
    });
    let address = told.recv().expect("it starts");
    let slow = CallOptions::default();

    let mut client = Client::start(&options(dir.path(), "client")).expect("a client");
    for n in 0..20_u8 {
        for kind in *b".!?" {
            let outcome = client.call(address, &[kind, n], &slow);
            assert_eq!(outcome.is_ok(), kind != b'!', "{outcome:?}");
        }
    }
    let long = vec![b'.'; 200_000];
    assert_eq!(client.call(address, &long, &slow).as_deref(), Ok(&long[..]));
    assert!(matches!(client.call(address, b"-", &quick()), Err(Failure::Unknown(_))));

    let caller = Caller::start(&options(dir.path(), "caller")).expect("a caller");
    let idempotent = CallOptions { idempotent: true, ..slow };
    let pending: Vec<_> = (0..20_u8).map(|n| caller.call(address, &[b'.', n], &idempotent)).collect();
    assert!(pending.into_iter().all(|call| call.wait().is_ok()));

    // A closed session, and a call that ends by being cancelled.
    let (mut port, mut ended) = (Port::start(&options(dir.path(), "port")).expect("a port"), Ended::default());
    let session = port.connect(address, &mut ended);
    let call_id = port.call(session, &b"-x"[..], &slow, &mut ended).expect("accepted");
    port.poll(&mut ended);
    assert!(port.cancel(session, call_id, &mut ended));
    port.close(session, &mut ended);
    assert!(port.call(session, &b"."[..], &slow, &mut ended).is_err(), "closed");
    assert_eq!((ended.0, port.trace_failure().is_none()), (1, true));

    // Until all deadlines and the bound of `judge` after them have passed.
    std::thread::sleep(2 * BOUND);
    drop((client, caller, port));
    end.store(true, Ordering::Relaxed);
    serving.join().expect("no panic");
    let mut files: Vec<_> = std::fs::read_dir(dir.path().join("traces")).expect("written").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    files.iter().map(|file| Trace::read(&file.path()).expect("sound")).collect()
}

const BOUND: Duration = Duration::from_millis(400);

fn judge(traces: &[Trace]) -> Report {
    let call_bound_ns = u64::try_from(BOUND.as_nanos()).expect("short");
    let options = Options { require: Require::These(Property::OF_CALLS.to_vec()), call_bound_ns, ..Options::default() };
    check(traces, &options)
}

/// The trace of the process called `name`.
fn of<'a>(traces: &'a mut [Trace], name: &str) -> &'a mut Vec<Record> {
    let named = |trace: &&mut Trace| trace.header.node == format!("{name}.calls");
    &mut traces.iter_mut().find(named).expect("it wrote a trace").records
}

fn find(records: &[Record], which: impl Fn(&Event) -> bool) -> usize {
    records.iter().position(|record| which(&record.event)).expect("there is one")
}

#[test]
fn traces_of_calls_hold_and_changed_ones_do_not() {
    let sound = calls();
    assert_eq!(sound.len(), 4);
    let report = judge(&sound);
    assert!(report.passed, "{report}");
    let tested: Vec<u64> = Property::OF_CALLS.iter().map(|property| report.instances(*property)).collect();
    let least = [60, 60, 20, 80, 120, 80];
    assert_eq!(tested.len(), least.len());
    assert!(tested.iter().zip(least).all(|(tested, least)| *tested >= least), "{tested:?}");

    type Change = fn(&mut [Trace]);
    let changes: [(&str, &[Property], Change); 10] = [
        ("a handler runs again", &[Property::R1], |traces| {
            let records = of(traces, "server");
            let again = records[find(records, |e| matches!(e, Event::CallRan { .. }))].event.clone();
            let runs = records.iter().filter(|r| matches!(r.event, Event::CallRan { .. })).count() as u64;
            let Event::CallRan { from, hash, .. } = again else { unreachable!() };
            let spot = records.len() - 1;
            let at_ns = records[spot].at_ns;
            records.insert(spot, Record { at_ns, event: Event::CallRan { run: runs + 1, from, hash } });
        }),
        ("an answer is changed on its way", &[Property::R2], |traces| {
            let records = of(traces, "client");
            let answered = |e: &Event| matches!(e, Event::CallEnded { outcome: CallOutcome::Answer { .. }, .. });
            let spot = find(records, answered);
            if let Event::CallEnded { outcome: CallOutcome::Answer { hash }, .. } = &mut records[spot].event {
                *hash ^= 1;
            }
        }),
        ("an answer of another call", &[Property::R6], |traces| {
            let records = of(traces, "client");
            let answers: Vec<usize> = (0..records.len())
                .filter(|&i| matches!(records[i].event, Event::CallEnded { outcome: CallOutcome::Answer { .. }, .. }))
                .collect();
            let [Event::CallEnded { outcome: one, .. }, Event::CallEnded { outcome: two, .. }] =
                [answers[0], answers[1]].map(|i| records[i].event.clone())
            else {
                unreachable!()
            };
            for (spot, other) in [(answers[0], two), (answers[1], one)] {
                if let Event::CallEnded { outcome, .. } = &mut records[spot].event {
                    *outcome = other;
                }
            }
        }),
        ("a call that ran is told as not executed", &[Property::R4], |traces| {
            let records = of(traces, "client");
            let spot = find(records, |e| matches!(e, Event::CallEnded { outcome: CallOutcome::Answer { .. }, .. }));
            if let Event::CallEnded { outcome, .. } = &mut records[spot].event {
                *outcome = CallOutcome::NotExecuted;
            }
        }),
        ("a refusal did something", &[Property::R4], |traces| {
            let records = of(traces, "server");
            let spot = find(records, |e| matches!(e, Event::CallAnswered { answer: None, .. }));
            records.remove(spot);
        }),
        ("an end is told twice", &[Property::R5], |traces| {
            let records = of(traces, "client");
            let spot = find(records, |e| matches!(e, Event::CallEnded { .. }));
            records.insert(spot, records[spot].clone());
        }),
        ("an end is never told", &[Property::V15], |traces| {
            let records = of(traces, "client");
            let spot = find(records, |e| matches!(e, Event::CallEnded { outcome: CallOutcome::Unknown, .. }));
            records.remove(spot);
        }),
        ("a call that nobody made", &[Property::R6], |traces| {
            let records = of(traces, "server");
            let spot = find(records, |e| matches!(e, Event::CallRan { .. }));
            if let Event::CallRan { hash, .. } = &mut records[spot].event {
                *hash ^= 1;
            }
        }),
        ("a run is not recorded", &[Property::E1], |traces| {
            let records = of(traces, "server");
            let spot = find(records, |e| matches!(e, Event::CallRan { .. }));
            records.remove(spot);
        }),
        ("it runs elsewhere", &[Property::R6], |traces| {
            let records = of(traces, "client");
            let spot = find(records, |e| matches!(e, Event::CallMade { .. }));
            if let Event::CallMade { to, .. } = &mut records[spot].event {
                *to = "127.0.0.1:1".to_owned();
            }
        }),
    ];
    for (what, codes, change) in changes {
        let mut traces = sound.clone();
        change(&mut traces);
        let report = judge(&traces);
        let found = report.violated();
        assert!(codes.iter().all(|code| found.contains(code)), "{what}: {codes:?} are due, reported were {found:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("traces"), "no directory").expect("written");
    let started = Port::start(&options(dir.path(), "port")).map(drop);
    assert!(matches!(started, Err(phalanx_runtime::StartError::Trace { .. })), "{started:?}");
}
