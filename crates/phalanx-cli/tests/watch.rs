//! `phalanx watch` beside members that run, die, leave and stop.

mod common;

use std::path::Path;
use std::process::Output;

use common::{Running, directory, phalanx, run, wait_for};
use rustix::process::Signal;
use serde_json::Value;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `phalanx watch` with these arguments, in the background.
fn watching(directory: &Path, arguments: &[&str]) -> Running {
    Running::start("watch", &mut phalanx(directory, &[&["watch"], arguments].concat()), true)
}

/// The first line it printed for which `meant` gives a value.
fn await_line<T>(watch: &Running, what: &str, meant: impl Fn(&str) -> Option<T>) -> T {
    wait_for(&format!("a line: {what}"), || {
        let out = watch.out();
        // A line that is written in part is no line yet.
        let whole = out.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        String::from_utf8_lossy(&out[..whole]).lines().find_map(&meant)
    })
}

fn await_text(watch: &Running, begins: &str, ends: &str) {
    let is_meant = |line: &str| (line.starts_with(begins) && line.ends_with(ends)).then_some(());
    await_line(watch, &format!("{begins} .. {ends}"), is_meant);
}

#[test]
fn who_comes_and_who_goes_is_told_with_the_reason() {
    let dir = directory();
    let nobody = run(dir.path(), &["watch"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", said(&nobody));
    let wrong = run(dir.path(), &["watch", "member"]);
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("a name is missing"), "{}", said(&wrong));

    let m1 = Running::cat(dir.path(), "m1", &[]);
    m1.await_notice("group g view 1: m1");
    let cell = watching(dir.path(), &[]);
    await_text(&cell, "m1 ", "");
    await_text(&cell, "cell view 1: 1 members, primary", "");
    let some = watching(dir.path(), &["--json", "member", "m2", "group", "g", "host", "here"]);
    let json = |what: &str, meant: fn(&Value) -> bool| {
        await_line(&some, what, |line| {
            let value: Value = serde_json::from_str(line).expect("one JSON object a line");
            meant(&value).then_some(value)
        })
    };
    json("nobody is called m2 yet", |v| v["name"] == "m2" && v["change"] == "absent");
    json("the group of one", |v| v["subject"] == "group" && v["count"] == 1);

    let m2 = Running::cat(dir.path(), "m2", &[]);
    m1.await_notice("group g view 2: m1, m2");
    let here = json("m2 is here", |v| v["name"] == "m2" && v["change"] == "here" && v["group"].is_null());
    json("the group of two", |v| v["subject"] == "group" && v["count"] == 2);
    m2.signal(Signal::KILL);
    await_text(&cell, "m2 ", ": gone, died (its process ended)");
    let dead = json("m2 is gone", |v| v["name"] == "m2" && v["change"] == "gone" && v["group"].is_null());
    assert_eq!((&dead["incarnation"], &dead["host"]), (&here["incarnation"], &here["host"]));
    assert_eq!((&dead["why"], &dead["proof"]), (&"died".into(), &"ended".into()));
    let of_group = json("the group lost m2", |v| v["group"] == "g" && v["change"] == "gone");
    assert_eq!(of_group["why"], "died");

    let m3 = Running::cat(dir.path(), "m3", &[]);
    m1.await_notice("m1, m3");
    m3.signal(Signal::TERM);
    await_text(&cell, "m3 ", ": gone, left");

    // Each ends by a signal, and with its reader; it disturbed nobody.
    let out = some.out();
    some.signal(Signal::TERM);
    assert_eq!((some.end().0, out.is_empty()), (Some(0), false));
    cell.signal(Signal::INT);
    assert_eq!(cell.end().0, Some(130));
    let mut unread = Running::start("watch", &mut phalanx(dir.path(), &["watch", "member", "m1"]), false);
    unread.close_stdout();
    assert_eq!(unread.end().0, Some(0));
    let last = watching(dir.path(), &[]);
    await_text(&last, "m1 ", "");
    drop(m1);
    assert_eq!(last.end().0, Some(0), "no process runs here any more");
}

#[test]
fn who_is_stopped_is_excluded_by_findings_and_comes_back() {
    let dir = directory();
    let all: Vec<Running> = ["m1", "m2", "m3"]
        .into_iter()
        .map(|name| {
            let member = Running::cat(dir.path(), name, &[]);
            member.await_notice("group g view");
            member
        })
        .collect();
    let watch = watching(dir.path(), &["member", "m3"]);
    await_text(&watch, "m3 ", "");
    all[2].signal(Signal::STOP);
    let gone = await_line(&watch, "m3 is gone", |line| line.contains(": gone").then(|| line.to_owned()));
    assert!(gone.contains("unreachable, found by m"), "{gone}");
    all[2].signal(Signal::CONT);
    wait_for("it is back", || {
        let out = String::from_utf8_lossy(&watch.out()).into_owned();
        (out.matches(": here").count() == 2).then_some(())
    });
}
