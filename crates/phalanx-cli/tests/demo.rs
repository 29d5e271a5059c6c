//! The demonstration as a user runs it, and a test that its checker is not blind.

mod common;

use std::path::Path;

use common::{Running, directory, phalanx, run, tampers, wait_for};
use rustix::process::Signal;

/// The checker's verdict on the traces in a directory: the exit code, and the codes that did not hold.
fn check(traces: &Path) -> (Option<i32>, Vec<String>, String) {
    let output = run(traces, &["check", "--complete", "--one-instance", "--json", &traces.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let broken = report["properties"].as_array().expect("a list").iter().filter(|p| p["violations"] != 0);
    let broken = broken.map(|p| p["property"].clone());
    let missing = report["missing"].as_array().expect("a list").iter().cloned();
    let codes: Vec<String> = broken.chain(missing).filter_map(|code| code.as_str().map(str::to_owned)).collect();
    (output.status.code(), codes, text)
}

#[test]
fn everything_holds_and_no_changed_trace_passes() {
    let dir = directory();
    let kept = dir.path().join("kept");
    // Few updates: this test may run unoptimised beside others.
    let arguments = ["demo", "--json", "--rate", "100", "--calm", "1s", "--keep", &kept.to_string_lossy()];
    let output = run(dir.path(), &arguments);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let verdict: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {complaint}"));
    assert_eq!((output.status.code(), &verdict["held"]), (Some(0), &true.into()), "{complaint}\n{verdict:#}");
    let losses = verdict["measured"]["losses"].as_array().expect("a list");
    assert_eq!(losses.len(), 3);
    assert!(losses.iter().all(|loss| loss["state_bytes"].as_u64() >= Some(64 << 20)), "{verdict:#}");
    let tested = &verdict["measured"]["tested"];
    assert!(
        ["V1", "V3", "V4", "V7", "V9", "M8", "S8"].iter().all(|code| tested[code].as_u64() > Some(0)),
        "{tested:#}"
    );

    let traces = kept.join("traces");
    let (code, _, text) = check(&traces);
    assert_eq!(code, Some(0), "{text}");
    let sound = tampers::Run::read(&traces);
    // The traces unchanged, written again.
    let place = dir.path().join("changed");
    sound.save(&place);
    assert_eq!(check(&place).0, Some(0));
    std::fs::remove_dir_all(&place).expect("own files");
    let mut missed = Vec::new();
    let all = tampers::all(&sound);
    assert!(all.len() > 100, "only {} changes", all.len());
    for tamper in &all {
        tamper.run.save(&place);
        let (code, codes, _) = check(&place);
        std::fs::remove_dir_all(&place).expect("own files");
        if code != Some(1) || !codes.iter().any(|code| tamper.codes.contains(&code.as_str())) {
            missed.push(format!("{}: one of {:?} was due, reported were {codes:?}", tamper.name, tamper.codes));
        }
    }
    assert!(missed.is_empty(), "{} of {} changes:\n{}", missed.len(), all.len(), missed.join("\n"));
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

/// As in `phalanx demo | head -3`.
#[test]
fn a_closed_output_ends_it() {
    let dir = directory();
    let mut command = phalanx(dir.path(), &["demo", "--rate", "100"]);
    let mut demo = Running::start("demo", command.env("TMPDIR", dir.path()), false);
    demo.close_stdout();
    demo.await_notice("standard output is closed");
    assert_eq!(demo.end().0, Some(130));
    let left = std::fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 0, "files of the demonstration are left");
}

/// Whether the process is gone, or is a zombie that its new parent has not reaped.
fn ends(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields.starts_with('Z'));
    state.unwrap_or(true)
}
