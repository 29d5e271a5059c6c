//! `phalanx tap` beside members that run.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Running, directory, phalanx, run, wait_for};
use rustix::process::Signal;

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// `phalanx tap` with these arguments, to its end. Heartbeats alone are dozens of packets a second.
fn tap(directory: &Path, arguments: &[&str]) -> Output {
    run(directory, &[&["tap"], arguments].concat())
}

/// The same, in the background.
fn tapping(directory: &Path, arguments: &[&str]) -> Running {
    let mut command = phalanx(directory, &[&["tap"], arguments].concat());
    let running = Running::start("tap", &mut command, true);
    running.await_notice("looking at");
    running
}

/// Members of group `g` that see each other, with this setting of `tap`.
fn members(directory: &Path, names: &[&str], setting: &str) -> Vec<Running> {
    let pair = format!("tap={setting}");
    let mut all: Vec<Running> = Vec::new();
    for name in names {
        all.push(Running::cat(directory, name, &["--set", &pair]));
        // One after the other, so that the first has rank 0.
        for member in &all {
            member.await_notice(&format!("group g view {0}: {1}", all.len(), names[..all.len()].join(", ")));
        }
    }
    all
}

/// The numbers behind `NAME: ` in the totals: seen, matched, lost.
fn totals(said: &str, name: &str) -> [u64; 3] {
    let line = said.lines().rev().find(|line| line.starts_with(&format!("phalanx: {name}: ")));
    let numbers: Vec<u64> = line
        .unwrap_or_else(|| panic!("no totals of {name}: {said}"))
        .split([' ', ','])
        .filter_map(|word| word.parse().ok())
        .collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn lines_name_members_and_groups_and_end_where_they_are_asked_to() {
    let dir = directory();
    let mut all = members(dir.path(), &["m1", "m2"], "clear");
    let sealed = tap(dir.path(), &["--count", "7"]);
    assert_eq!((code(&sealed), out(&sealed).lines().count()), (0, 7), "{}", said(&sealed));
    for line in out(&sealed).lines() {
        assert!(line.contains(" in  ") || line.contains(" out "), "{line}");
        assert!(line.as_bytes()[2] == b':' && line.as_bytes()[8] == b'.' && line.contains(" > "), "{line}");
        assert!(line.contains(" m1 ") && line.contains(" m2 ") && !line.contains("): "), "both are named: {line}");
    }
    assert!(said(&sealed).contains("7 packets shown"), "{}", said(&sealed));

    // Two readers at once, each with a filter of its own.
    let sent = tapping(dir.path(), &["--clear", "-g", "g", "--member", "m1", "out and frame message", "--count", "1"]);
    let acked = tapping(dir.path(), &["--clear", "--json", "--count", "1", "ack of g and from m2"]);
    all[0].say(b"hello\n");
    let (exit, shown) = sent.end();
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert_eq!(exit, Some(0));
    assert!(shown.contains(" out m1 > m2 multicast g/2 #") && shown.contains("total"), "{shown}");
    let (exit, shown) = acked.end();
    let shown: serde_json::Value = serde_json::from_slice(&shown).expect("one JSON object");
    assert_eq!((exit, &shown["from"]["name"], &shown["lost"]), (Some(0), &"m2".into(), &0.into()));
    assert!(shown["frames"][0].as_str().is_some_and(|frame| frame.starts_with("ack g/2 to ")), "{shown}");

    // Nobody reads any more: it ends.
    let mut unread = Running::start("tap", &mut phalanx(dir.path(), &["tap"]), false);
    unread.await_notice("looking at m2");
    unread.close_stdout();
    assert_eq!(unread.end().0, Some(0));
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let running = tapping(dir.path(), &["--stats", "type handshake"]);
        running.await_notice("matched");
        running.signal(signal);
        assert_eq!(running.end().0, Some(exit));
    }
}

#[test]
fn what_cannot_be_shown_is_told_with_its_remedy() {
    let dir = directory();
    let nobody = tap(dir.path(), &[]);
    assert!(code(&nobody) == 3 && said(&nobody).contains("nobody of cell 'default' runs"), "{}", said(&nobody));
    let wrong = tap(dir.path(), &["type", "multicst"]);
    assert_eq!(code(&wrong), 2);
    assert!(
        said(&wrong).contains("byte 5") && said(&wrong).ends_with("  type multicst\n       ^\n"),
        "{}",
        said(&wrong)
    );
    assert_eq!(code(&tap(dir.path(), &["--count", "0"])), 2);
    assert_eq!(code(&tap(dir.path(), &["--snap", "0"])), 2);

    let sealed = members(dir.path(), &["m1"], "sealed");
    let clear = tap(dir.path(), &["--clear"]);
    assert!(code(&clear) == 1 && said(&clear).contains("tap = \"clear\""), "{}", said(&clear));
    let absent = tap(dir.path(), &["--member", "m7"]);
    assert!(code(&absent) == 3 && said(&absent).contains("no process 'm7'"), "{}", said(&absent));
    assert!(said(&absent).contains(&format!("m1 (process {})", sealed[0].pid())), "{}", said(&absent));
    // A name in a filter that nobody has may come later.
    let unbound = tapping(dir.path(), &["-g", "quotes"]);
    unbound.await_notice("no group is called 'quotes'");
    drop((unbound, sealed));

    let off = members(dir.path(), &["m1"], "off");
    let refused = tap(dir.path(), &[]);
    assert!(code(&refused) == 3 && said(&refused).contains("tap = \"off\""), "{}", said(&refused));
    drop(off);
}

/// What tshark and tcpdump say of a file; `None` where they are not.
fn read_by(tool: &str, arguments: &[&str], file: &Path) -> Option<usize> {
    let output = Command::new(tool).args(arguments).arg(file).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        eprintln!("{tool} is not here: its part is skipped");
        return None;
    };
    assert!(output.status.success(), "{tool}: {}", said(&output));
    Some(out(&output).lines().count())
}

#[test]
fn a_file_is_its_owners_and_can_be_read() {
    let dir = directory();
    let _members = members(dir.path(), &["m1", "m2"], "clear");
    for (file, form) in [("sealed.pcapng", &[][..]), ("clear.pcapng", &["--clear"])] {
        let path = dir.path().join(file);
        let arguments = ["--count", "20", "--write", path.to_str().expect("UTF-8")];
        let written = tap(dir.path(), &[&arguments, form].concat());
        assert_eq!((code(&written), out(&written)), (0, String::new()), "{}", said(&written));
        assert!(said(&written).contains("20 packets shown"), "{}", said(&written));
        let metadata = std::fs::metadata(&path).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let bytes = std::fs::read(&path).expect("readable");
        let names = bytes.windows(16).filter(|bytes| bytes == b"phalanx-names 1\n").count();
        assert_eq!(names, 1, "names of two processes of one cell are written once");
        let again = tap(dir.path(), &arguments);
        assert!(code(&again) == 2 && said(&again).contains("remove it, or name another one"), "{}", said(&again));
        assert_eq!(std::fs::read(&path).expect("readable"), bytes, "it was left as it was");
        if let Some(count) = read_by("tshark", &["-n", "-r"], &path) {
            assert_eq!(count, 20);
        }
        if form.is_empty()
            && let Some(count) = read_by("/usr/bin/tcpdump", &["-n", "-r"], &path)
        {
            assert!(count >= 20);
        }
    }
}

#[test]
fn a_reader_that_is_stopped_loses_packets_and_counts_them() {
    let dir = directory();
    let mut all = members(dir.path(), &["m1", "m2"], "clear");
    let running = tapping(dir.path(), &["--clear", "--ring-bytes", "256KiB", "--member", "m1", "-g", "g"]);
    running.signal(Signal::STOP);
    // The members do not wait for it.
    let line = [vec![b'x'; 999], vec![b'\n']].concat();
    let text = line.repeat(2_000);
    all[0].say(&text);
    let expected: Vec<u8> = all
        .iter()
        .skip(1)
        .map(|member| {
            member.await_out(&text);
            member.out()
        })
        .next()
        .expect("a second member");
    assert_eq!(expected.len(), text.len());
    running.signal(Signal::CONT);
    // A loss is told with the packet behind it.
    wait_for("a line that tells of the loss", || {
        all[0].say(b"more\n");
        std::thread::sleep(Duration::from_millis(50));
        String::from_utf8_lossy(&running.out()).contains(" lost before)").then_some(())
    });
    running.signal(Signal::TERM);
    let notices = wait_for("the totals", || Some(running.notices()).filter(|said| said.contains(" lost")));
    let [seen, matched, lost] = totals(&notices, "m1");
    assert!(lost > 0 && matched > lost && seen >= matched, "{notices}");
    let (exit, shown) = running.end();
    let shown = String::from_utf8(shown).expect("UTF-8");
    assert_eq!(exit, Some(0));
    let told: u64 = shown
        .lines()
        .filter_map(|line| line.split_once(" lost before)")?.0.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(told, lost, "each loss is told with the packet behind it");
}

#[test]
fn a_member_that_is_killed_is_told_and_one_that_is_named_is_attached_again() {
    let dir = directory();
    let mut all = members(dir.path(), &["m1", "m2"], "sealed");
    let named = tapping(dir.path(), &["--member", "m2", "type multicast or type direct"]);
    let unnamed = tapping(dir.path(), &["type multicast"]);
    let second = all.pop().expect("two");
    second.signal(Signal::KILL);
    named.await_notice("attached again when it is back");
    unnamed.await_notice("m2 (process");
    drop(second);
    let again = Running::cat(dir.path(), "m2", &[]);
    named.await_notice(&format!("looking at m2 (process {})", again.pid()));
    // All that it was attached to at its start end.
    for member in &all {
        member.signal(Signal::TERM);
    }
    assert_eq!(unnamed.end().0, Some(0));
    std::thread::sleep(Duration::from_millis(100));
    named.signal(Signal::TERM);
    assert_eq!(named.end().0, Some(0));
    drop(again);
}

#[cfg(feature = "lab")]
#[test]
fn a_file_of_a_simulated_seed_is_refused_before_the_seed_runs() {
    let dir = directory();
    let path = dir.path().join("seed.pcapng");
    let path = path.to_str().expect("UTF-8");
    let sim = |arguments: &[&str]| run(dir.path(), &[&["sim"], arguments].concat());
    let refused = |arguments: &[&str], told: &str| {
        let output = sim(arguments);
        assert!(code(&output) == 2 && said(&output).contains(told), "{arguments:?}: {}", said(&output));
    };
    refused(&["--seeds", "1..3", "--tap", path], "name one seed with --seeds");
    assert!(!Path::new(path).exists(), "nothing was made");
    refused(&["--seeds", "1..2", "--tap-form", "sealed"], "--tap");
    refused(&["--seeds", "1..2", "--tap", path, "--tap-form", "open"], "possible values: clear, sealed");
    let nowhere = format!("{path}/below/it");
    refused(&["--seeds", "1..2", "--tap", &nowhere], "No such file or directory");
    std::fs::write(path, "mine").expect("writable");
    refused(&["--seeds", "1..2", "--tap", path], "remove it, or name another one");
    assert_eq!(std::fs::read_to_string(path).expect("readable"), "mine");
}
