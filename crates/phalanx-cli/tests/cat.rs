//! `phalanx cat` as a user runs it: real processes, pipes, signals.

mod common;

use std::io::Write;

use common::{Running, directory, lines, run, text, wait_for};
use rustix::process::Signal;

/// Timing with which failures are noticed soon, and a busy machine is not mistaken for one.
const QUICK: [&str; 4] = ["--set", "timing.heartbeat=50ms", "--set", "timing.suspect_after=500ms"];

#[test]
fn bytes_pass_unchanged_and_a_last_line_without_newline_too() {
    let dir = directory();
    let mut one = Running::cat(dir.path(), "one", &["--exit-on-eof"]);
    let bytes = b"plain\n\xff\xfe\x00 no text\n\n\nlast without newline";
    one.say(bytes);
    one.end_of_input();
    let (code, out) = one.end();
    assert_eq!(code, Some(0));
    assert_eq!(out, bytes);
}

#[test]
fn three_members_print_the_same_lines_in_the_same_order() {
    let dir = directory();
    let names = ["a", "b", "c"];
    let mut members: Vec<Running> =
        names.iter().map(|name| Running::cat(dir.path(), name, &["--expect", "3"])).collect();
    let total: usize = names.iter().map(|name| lines(name, 3_000).len()).sum();
    for member in &mut members {
        let input = lines(&member.name, 3_000);
        member.say(&input);
        member.end_of_input();
    }
    for member in &members {
        wait_for(&format!("all lines at {}", member.name), || (member.out().len() >= total).then_some(()));
    }
    let first = members[0].out();
    for member in members {
        member.signal(Signal::TERM);
        let (code, out) = member.end();
        assert_eq!(code, Some(0));
        assert!(out == first, "one order for all");
    }
    for name in names {
        let own: Vec<u8> = split(&first).filter(|line| line.starts_with(name.as_bytes())).flatten().copied().collect();
        assert!(own == lines(name, 3_000), "{name}'s lines are complete and in its order");
    }
}

#[test]
fn a_member_says_that_it_waits_for_others_before_it_sends() {
    let dir = directory();
    let first = Running::cat(dir.path(), "first", &["--expect", "2"]);
    first.await_notice("nothing is sent before the group has 2 members (--expect); it has 1");
    let second = Running::cat(dir.path(), "second", &["--expect", "2"]);
    second.await_notice("group g view 2");
    assert!(!second.notices().contains("nothing is sent"), "{}", second.notices());
}

fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

#[test]
fn when_the_orderer_is_killed_the_others_go_on_alike() {
    let dir = directory();
    // Uniform, so that even lines that only the dead member printed must be printed first by the others.
    let more = [&["--uniform", "--expect", "3"], &QUICK[..]].concat();
    let first = Running::cat(dir.path(), "first", &more);
    first.await_notice("group g view 1");
    let mut others: Vec<Running> = ["b", "c"].iter().map(|name| Running::cat(dir.path(), name, &more)).collect();
    for member in &mut others {
        member.await_notice("group g view 3");
        let input = lines(&member.name, 20_000);
        let mut stdin = member.take_stdin();
        // The input stays open: the member must not announce its end before the test closes it.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    wait_for("the first lines", || (first.out().len() > 10_000).then_some(()));
    first.signal(Signal::KILL);
    let total = lines("b", 20_000).len() + lines("c", 20_000).len();
    for member in &others {
        wait_for(&format!("all lines at {}", member.name), || (member.out().len() >= total).then_some(()));
        member.await_notice("gone: first (died)");
    }
    assert!(others[0].out() == others[1].out(), "one order at the survivors");
    let (_, printed) = first.end();
    let whole = printed.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert!(others[0].out().starts_with(&printed[..whole]), "what the dead one printed came first at all");
}

#[test]
fn a_reader_that_stands_still_holds_the_sender_back_in_bounded_memory() {
    const OFFERED: usize = 192 << 20;
    let dir = directory();
    let mut slow = Running::cat_unread(dir.path(), "slow", &[]);
    slow.await_notice("group g view 1");
    let mut fast = Running::cat(dir.path(), "fast", &["--expect", "2"]);
    let line = [b"x".repeat(1_023), b"\n".to_vec()].concat();
    let mut stdin = fast.take_stdin();
    let offer = line.repeat(1_024);
    let feeding = std::thread::spawn(move || (0..OFFERED >> 20).try_for_each(|_| stdin.write_all(&offer)).is_ok());
    wait_for("the sender to wait for the slow reader", || {
        let stat = run(dir.path(), &["stat", "--json"]);
        let seen: serde_json::Value = serde_json::from_slice(&stat.stdout).ok()?;
        let sender = seen.as_array()?.iter().find(|process| process["name"] == "fast")?;
        let group = &sender["groups"][0];
        (group["waits_for"] == "slow" && group["hold"] == "credit").then_some(())
    });
    fast.await_notice("slow has received all, and its application does not take it");
    assert!(!feeding.is_finished(), "the sender took {OFFERED} bytes that nobody read");
    let memory = resident_bytes(slow.pid()).max(resident_bytes(fast.pid()));
    assert!(memory < 160 << 20, "{memory} bytes resident");
    slow.read();
    assert!(feeding.join().expect("no panic"), "the sender goes on");
    for member in [&slow, &fast] {
        wait_for(&format!("all lines at {}", member.name), || (member.out().len() == OFFERED).then_some(()));
    }
    assert!(slow.out().chunks(1_024).all(|got| got == line), "whole lines");
}

fn resident_bytes(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel tells it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
}

#[test]
fn a_late_joiner_gets_the_last_lines() {
    let dir = directory();
    let mut early = Running::cat(dir.path(), "early", &[]);
    early.say(&lines("said", 20));
    early.await_out(&lines("said", 20));
    let late = Running::cat(dir.path(), "late", &["--history", "3"]);
    late.await_out(b"said 18\nsaid 19\nsaid 20\n");
    let silent = Running::cat(dir.path(), "silent", &[]);
    silent.await_notice("group g view 3");
    early.say(b"now\n");
    late.await_out(b"said 18\nsaid 19\nsaid 20\nnow\n");
    silent.await_out(b"now\n");
}

#[test]
fn an_excluded_member_comes_back_and_prints_what_it_missed() {
    let dir = directory();
    let mut members: Vec<Running> = ["a", "b", "c"].iter().map(|n| Running::cat(dir.path(), n, &QUICK)).collect();
    for member in &members {
        member.await_notice(": ");
        wait_for("three members", || members_of_last_view(&member.notices()).filter(|count| *count == 3));
    }
    members[0].say(b"before\n");
    members[2].await_out(b"before\n");
    members[2].signal(Signal::STOP);
    members[0].await_notice("gone: c (unreachable)");
    members[0].say(b"meanwhile 1\n");
    members[1].say(b"meanwhile 2\n");
    wait_for("the lines", || (members[0].out().len() == b"before\nmeanwhile 1\nmeanwhile 2\n".len()).then_some(()));
    members[2].signal(Signal::CONT);
    members[2].await_notice("excluded: ");
    let so_far = members[0].out();
    members[2].await_out(&so_far);
    members[2].say(b"back\n");
    let all = [so_far, b"back\n".to_vec()].concat();
    members.iter().for_each(|member| member.await_out(&all));
}

fn members_of_last_view(notices: &str) -> Option<usize> {
    let line = notices.lines().rfind(|line| line.contains("group g view"))?;
    Some(line.split(';').next()?.split(": ").nth(2)?.split(", ").count())
}

#[test]
fn signals_and_closed_pipes_end_it_gracefully() {
    let dir = directory();
    let stays = Running::cat(dir.path(), "stays", &[]);
    stays.await_notice("group g view 1");
    for (name, signal, want) in [("term", Signal::TERM, 0), ("int", Signal::INT, 130)] {
        let member = Running::cat(dir.path(), name, &[]);
        member.await_notice("group g view");
        member.signal(signal);
        let (code, _) = member.end();
        assert_eq!(code, Some(want), "{name}");
        stays.await_notice(&format!("gone: {name} (left)"));
    }
    let mut unread = Running::cat_unread(dir.path(), "unread", &[]);
    unread.await_notice("group g view");
    unread.close_stdout();
    unread.say(b"x\n");
    let (code, _) = unread.end();
    assert_eq!(code, Some(0));
    stays.await_notice("gone: unread (left)");
    stays.await_out(b"x\n");
}

#[test]
fn json_lines_name_the_sender() {
    let dir = directory();
    let mut one = Running::cat(dir.path(), "one", &["--json", "--uniform", "--exit-on-eof"]);
    one.say(b"hello\n");
    one.end_of_input();
    let notices = wait_for("a view", || Some(one.notices()).filter(|notices| notices.contains("group_view")));
    let view: serde_json::Value = notices
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .find(|event: &serde_json::Value| event["event"] == "group_view")
        .expect("one JSON object a line");
    assert_eq!(view["members"], serde_json::json!(["one"]));
    let (code, out) = one.end();
    assert_eq!(code, Some(0));
    let line: serde_json::Value = serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", text(&out)));
    assert_eq!(line, serde_json::json!({"group": "g", "from": "one", "text": "hello", "newline": true}));
}

#[test]
fn lines_to_one_member_come_to_that_one_with_a_mark() {
    let dir = directory();
    let mut members: Vec<Running> = ["a", "b"].iter().map(|name| Running::cat(dir.path(), name, &[])).collect();
    members[1].await_notice("group g view 2");
    members[0].say(b"to all\n");
    members.iter().for_each(|member| member.await_out(b"to all\n"));
    let mut sender = Running::cat(dir.path(), "c", &["--to", "b", "--exit-on-eof"]);
    sender.say(b"one\ntwo\n");
    sender.end_of_input();
    let (code, out) = sender.end();
    assert_eq!((code, out.as_slice()), (Some(0), &b""[..]), "its lines are not its own");
    members[1].await_out(b"to all\n[c to you alone] one\n[c to you alone] two\n");
    members[0].say(b"again\n");
    members[0].await_out(b"to all\nagain\n");

    let mut in_vain = Running::cat(dir.path(), "c", &["--to", "nobody", "--exit-on-eof"]);
    in_vain.say(b"x\n");
    in_vain.end_of_input();
    in_vain.await_notice("did not come to nobody: nobody is not in group g");
    assert_eq!(in_vain.end().0, Some(1));
}
