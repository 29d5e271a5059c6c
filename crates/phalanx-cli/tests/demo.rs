//! The demonstration as a user runs it, and that its checker is not blind.

mod common;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use common::{Running, directory, phalanx, run, wait_for};
use phalanx_trace::{Event, Record, Trace};
use rustix::process::Signal;

/// Traces of a process, the longest first.
fn traces_of(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir(dir).expect("the demonstration kept its traces");
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| !path.ends_with("harness.trace"));
    paths.sort_by_key(|path| std::cmp::Reverse(std::fs::metadata(path).expect("there").len()));
    paths.into_iter()
}

/// The group and the view at whose start a digest was taken.
fn start(event: &Event) -> Option<(u32, u64)> {
    match event {
        Event::Digest { group, view, delivered: 0, .. } => Some((*group, *view)),
        _ => None,
    }
}

fn check(traces: &Path) -> (Option<i32>, String) {
    let output = run(traces, &["check", "--complete", "--allow-vacuous", &traces.to_string_lossy()]);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Judges the traces with one of them changed, which is put right again.
fn check_changed(dir: &Path, change: impl FnOnce(&mut Trace)) -> (Option<i32>, String) {
    let path = traces_of(dir).next().expect("a trace");
    let aside = path.with_extension("aside");
    let mut trace = Trace::read(&path).expect("a sound trace");
    change(&mut trace);
    std::fs::rename(&path, &aside).expect("own files");
    trace.save(&path).expect("own files");
    let outcome = check(dir);
    std::fs::rename(&aside, &path).expect("own files");
    outcome
}

#[test]
fn everything_holds_and_a_changed_trace_does_not() {
    let dir = directory();
    let kept = dir.path().join("kept");
    // Few updates: this test may run unoptimised beside others.
    let arguments = ["demo", "--json", "--rate", "300", "--calm", "1s", "--keep", &kept.to_string_lossy()];
    let output = run(dir.path(), &arguments);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let verdict: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {complaint}"));
    assert_eq!((output.status.code(), &verdict["held"]), (Some(0), &true.into()), "{complaint}\n{verdict:#}");
    let losses = verdict["measured"]["losses"].as_array().expect("a list");
    assert_eq!(losses.len(), 3);
    assert!(losses.iter().all(|loss| loss["state_bytes"].as_u64() >= Some(64 << 20)), "{verdict:#}");

    let traces = kept.join("traces");
    assert_eq!(check(&traces).0, Some(0));
    let (code, text) = check_changed(&traces, |trace| {
        let delivered = |record: &Record| matches!(record.event, Event::Deliver { replayed: false, .. });
        let deliveries = trace.records.iter().filter(|record| delivered(record)).count();
        let mut seen = 0;
        // One delivery from the middle.
        trace.records.retain(|record| {
            seen += usize::from(delivered(record));
            !(delivered(record) && seen == deliveries / 2)
        });
    });
    assert_eq!(code, Some(1), "a delivery is missing, and nobody saw it:\n{text}");
    // What a second process wrote down at the same point: the start of a view.
    let others = || traces_of(&traces).skip(1).map(|path| Trace::read(&path).expect("a sound trace"));
    let starts: HashSet<(u32, u64)> =
        others().flat_map(|other| other.records).filter_map(|r| start(&r.event)).collect();
    let (code, text) = check_changed(&traces, |trace| {
        let common = |record: &&mut Record| start(&record.event).is_some_and(|at| starts.contains(&at));
        let last = trace.records.iter_mut().rfind(common).expect("states were compared");
        if let Event::Digest { digest, .. } = &mut last.event {
            *digest ^= 1;
        }
    });
    assert_eq!(code, Some(1), "a digest differs, and nobody saw it:\n{text}");
    assert_eq!(check(&traces).0, Some(0), "the traces were put right again");
}

#[test]
fn an_end_in_the_middle_leaves_nobody_behind() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let dir = directory();
        let kept = dir.path().join("kept");
        let mut command = phalanx(dir.path(), &["demo", "--rate", "100", "--keep", &kept.to_string_lossy()]);
        let demo = Running::start("demo", &mut command, true);
        wait_for("the first view of four", || {
            String::from_utf8_lossy(&demo.out()).contains("all four are in one view").then_some(())
        });
        let run_dir = kept.join("run");
        let stat = run(dir.path(), &["stat", "--json", "--cell", "demo", "--runtime-dir", &run_dir.to_string_lossy()]);
        let seen: serde_json::Value = serde_json::from_slice(&stat.stdout).expect("JSON");
        let pids: Vec<u64> = seen.as_array().expect("a list").iter().filter_map(|one| one["pid"].as_u64()).collect();
        assert_eq!(pids.len(), 4, "{seen}");
        demo.signal(signal);
        assert_eq!(demo.end().0, code);
        for pid in pids {
            wait_for("the end of a member", || ends(pid).then_some(()));
        }
    }
}

/// Gone, or dead and not waited for by whoever inherited it.
fn ends(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields.starts_with('Z'));
    state.unwrap_or(true)
}
