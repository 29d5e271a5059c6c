//! `phalanx answer` and `phalanx ask` as a user runs them.

mod common;

use std::path::Path;
use std::process::{Output, Stdio};

use common::{Running, directory, phalanx, run, text, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// A member of group `g` that answers with a shell's script.
fn answering(directory: &Path, name: &str, more: &[&str], script: &str) -> Running {
    let arguments = [&["answer", "-g", "g", "--name", name], more, &["sh", "-c", script]].concat();
    Running::start(name, &mut phalanx(directory, &arguments), true)
}

fn asked(directory: &Path, arguments: &[&str]) -> Output {
    run(directory, &[&["ask", "-g", "g"], arguments].concat())
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

fn sorted(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn objects(output: &[u8]) -> Vec<Value> {
    text(output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn end_of(member: Running) {
    member.signal(Signal::TERM);
    assert_eq!(member.end().0, Some(0));
}

const SUM: &str = "read -r sum; echo $(($sum))";

#[test]
fn each_member_answers_and_the_end_is_told() {
    let dir = directory();
    let m1 = answering(dir.path(), "m1", &[], SUM);
    m1.await_notice("group g view 1: m1");
    let m2 = answering(dir.path(), "m2", &[], "read -r sum; [ \"$sum\" != bad ] || exit 3; echo $(($sum)); echo twice");
    m1.await_notice("view 2: m1, m2");

    let all = asked(dir.path(), &["6*7"]);
    assert_eq!(all.status.code(), Some(0), "{}", said(&all));
    assert_eq!(sorted(&all.stdout), ["m1: 42", "m2: 42", "m2: twice"]);
    for part in ["which observes it and is not to answer", "of group g, the ask is met (values 2, no answer 0, left 0)"]
    {
        assert!(said(&all).contains(part), "{}", said(&all));
    }
    let first = asked(dir.path(), &["--want", "first", "1+1"]);
    assert_eq!((first.status.code(), objects(&first.stdout).len()), (Some(0), 0), "{}", said(&first));
    let many = asked(dir.path(), &["--want", "3", "1"]);
    assert_eq!(many.status.code(), Some(9), "{}", said(&many));
    assert!(said(&many).contains("complete: fewer answers came"), "{}", said(&many));

    // A program that fails is no answer. For all it is enough, for a majority it is not.
    let bad = asked(dir.path(), &["bad"]);
    assert_eq!((bad.status.code(), sorted(&bad.stdout)), (Some(0), vec!["m1: 0".to_owned()]), "{}", said(&bad));
    assert!(said(&bad).contains("m2 has no answer"), "{}", said(&bad));
    m2.await_notice("an ask gets no answer from this member: the program ended with code 3");
    assert_eq!(asked(dir.path(), &["--want", "majority", "bad"]).status.code(), Some(9));

    let json = asked(dir.path(), &["--json", "bad"]);
    let mut lines = objects(&json.stdout);
    lines.sort_by_key(|line| line["rank"].as_u64());
    assert_eq!(
        (lines.len(), &lines[0]["member"], &lines[0]["by"], &lines[0]["reply"]),
        (2, &"m1".into(), &"m1".into(), &"value".into())
    );
    assert_eq!(
        (&lines[0]["text"], &lines[1]["member"], &lines[1]["reply"]),
        (&"0\n".into(), &"m2".into(), &"null".into())
    );
    let end = objects(&json.stderr).into_iter().find(|line| line["event"] == "ask_ended").expect("the end is told");
    assert_eq!(
        (&end["end"], &end["values"], &end["null"], &end["left"]),
        (&"met".into(), &1.into(), &1.into(), &0.into())
    );
    assert!(end["view"].as_u64() >= lines[0]["view"].as_u64() && end["view"].is_u64(), "{end}");
    assert!(end["after_s"].is_f64(), "{end}");

    // Standard input is one question, or with `--keep` one for each line.
    let mut ask = Running::start("ask", &mut phalanx(dir.path(), &["ask", "-g", "g", "--keep", "--json"]), true);
    for (number, sum) in [(1, "1+2"), (2, "2+2")] {
        ask.say(format!("{sum}\n").as_bytes());
        let lines = wait_for("two answers", || Some(objects(&ask.out())).filter(|lines| lines.len() == 2 * number));
        assert!(lines[2 * number - 2..].iter().all(|line| line["ask"] == number), "{lines:?}");
    }
    ask.end_of_input();
    let (code, out) = ask.end();
    assert_eq!((code, objects(&out).iter().filter(|line| line["text"] == "4\n").count()), (Some(0), 1));
    let mut one = Running::start("ask", &mut phalanx(dir.path(), &["ask", "-g", "g", "--want", "1"]), true);
    one.say(b"5\n");
    one.end_of_input();
    let (code, out) = one.end();
    assert!(code == Some(0) && text(&out).contains(": 5\n"), "{}", text(&out));
    end_of(m1);
    end_of(m2);
}

/// A member that is stopped holds the ask up for as long as no view leaves it out; its death ends the wait, with that view.
#[test]
fn a_member_that_dies_ends_the_wait_with_the_view() {
    let dir = directory();
    let patient = ["--set", "timing.suspect_after=60s"];
    let members = ["m1", "m2", "m3"].map(|name| {
        let member = answering(dir.path(), name, &patient, SUM);
        member.await_notice("group g view");
        member
    });
    members[0].await_notice("view 3: m1, m2, m3");
    let [mut asks, mut first, mut majority] = ["all", "first", "majority"].map(|want| {
        let arguments = [&["ask", "-g", "g"], &patient[..], &["--plain", "--keep", "--want", want]].concat();
        let ask = Running::start(want, &mut phalanx(dir.path(), &arguments), true);
        ask.await_notice("asks group g");
        ask
    });
    members[2].signal(Signal::STOP);
    asks.say(b"6*7\n");
    wait_for("two answers", || (sorted(&asks.out()) == ["m1: 42", "m2: 42"]).then_some(()));
    // As many values as these want are there.
    for ask in [&mut first, &mut majority] {
        ask.say(b"1\n");
        ask.await_notice("the ask is met");
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!asks.notices().contains("the ask is"), "{}", asks.notices());
    members[2].signal(Signal::KILL);
    asks.await_notice("m3 is gone without an answer");
    asks.await_notice(
        "the ask is complete: fewer answers came than it wants, and no more can (values 2, no answer 0, left 1)",
    );
    // The next one goes to those that are left.
    asks.say(b"1\n");
    asks.await_notice("the ask is met (values 2, no answer 0, left 0)");
    for (mut ask, code) in [(asks, 9), (first, 0), (majority, 0)] {
        ask.end_of_input();
        assert_eq!(ask.end().0, Some(code), "the first ask that was not met decides");
    }
    let [m1, m2, _m3] = members;
    end_of(m1);
    end_of(m2);
}

#[test]
fn what_cannot_be_asked_says_why() {
    let dir = directory();
    let nobody = asked(dir.path(), &["--patience", "300ms", "x"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", said(&nobody));
    assert!(said(&nobody).contains("was not found in time"), "{}", said(&nobody));
    assert_eq!(asked(dir.path(), &["--want", "most", "x"]).status.code(), Some(2));
    assert_eq!(asked(dir.path(), &["--keep", "x"]).status.code(), Some(2));
    assert_eq!(run(dir.path(), &["answer", "-g", "g", "nosuchprogram"]).status.code(), Some(2));

    // The cell is there, and the group is not: it is not founded.
    let node = Running::start("node", &mut phalanx(dir.path(), &["node"]), true);
    wait_for("the cell", || text(&node.out()).contains("cell view 1").then_some(()));
    let nobody = asked(dir.path(), &["--patience", "2s", "x"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", said(&nobody));
    assert!(
        said(&nobody).contains("nobody of group g can be asked: no process of the cell is in it"),
        "{}",
        said(&nobody)
    );

    // A group with a state has members that answer nothing: dropped unanswered, which is no answer.
    let cat = Running::cat(dir.path(), "cat", &[]);
    cat.await_notice("group g view 1: cat");
    let null = asked(dir.path(), &["x"]);
    assert_eq!((null.status.code(), null.stdout.len()), (Some(0), 0), "{}", said(&null));
    assert!(said(&null).contains("cat has no answer"), "{}", said(&null));
    // Who wants no state is not let into a group that has one.
    let refused = answering(dir.path(), "m1", &[], SUM);
    refused.await_notice("has a state");
    assert_eq!(refused.end().0, Some(1));
    end_of(cat);
    end_of(node);
}

#[test]
fn an_ask_ends_at_its_deadline_and_by_a_signal() {
    let dir = directory();
    let mark = dir.path().join("ran").display().to_string();
    let slow = answering(dir.path(), "m1", &["--jobs", "2"], &format!("echo >> {mark}; sleep 60"));
    slow.await_notice("group g view 1: m1");
    let late = asked(dir.path(), &["--deadline", "300ms", "x"]);
    assert_eq!(late.status.code(), Some(6), "{}", said(&late));
    assert!(said(&late).contains("its deadline passed"), "{}", said(&late));
    let ask = Running::start("ask", &mut phalanx(dir.path(), &["ask", "-g", "g", "x"]), true);
    let ran = || std::fs::read_to_string(&mark).map_or(0, |text| text.lines().count());
    wait_for("the second run", || (ran() == 2).then_some(()));
    ask.signal(Signal::INT);
    assert_eq!(ask.end().0, Some(130));
    // No more than two run at a time.
    let busy = asked(dir.path(), &["x"]);
    assert!(busy.status.code() == Some(0) && said(&busy).contains("m1 has no answer"), "{}", said(&busy));
    assert_eq!(ran(), 2);
    // Its programs end with it, and it leaves in order.
    end_of(slow);
}

/// The command's own standard output is closed early.
#[test]
fn a_reader_that_has_enough_ends_it() {
    let dir = directory();
    let m1 = answering(dir.path(), "m1", &[], "cat");
    m1.await_notice("group g view 1: m1");
    let mut command = phalanx(dir.path(), &["ask", "-g", "g", "--keep"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("asked for");
    std::io::Write::write_all(&mut input, b"one\ntwo\n").expect("it listens");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    end_of(m1);
}
