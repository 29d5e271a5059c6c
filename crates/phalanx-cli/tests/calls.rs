//! `phalanx serve` and `phalanx call` as a user runs them.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use common::{Running, directory, phalanx, run, text, wait_for};
use rustix::process::Signal;

fn serve(directory: &Path, more: &[&str]) -> (Running, String) {
    let mut arguments = vec!["serve"];
    arguments.extend(more);
    let running = Running::start("server", &mut phalanx(directory, &arguments), true);
    let line = wait_for("the address", || {
        let out = text(&running.out());
        out.contains('\n').then_some(out)
    });
    let address = line.trim().rsplit(' ').next().expect("it is the last word").to_owned();
    (running, address)
}

fn call_with(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut all = vec!["call"];
    all.extend(arguments);
    let mut command = phalanx(directory, &all);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("asked for");
    let bytes = input.to_vec();
    let feed = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().expect("it ends");
    feed.join().expect("no panic").expect("it reads all of its input");
    output
}

#[test]
fn bytes_pass_unchanged_both_ways() {
    let dir = directory();
    let (server, address) = serve(dir.path(), &["cat"]);
    for bytes in [&b""[..], b"one line\n", &b"\x00\xff no text \xfe"[..], &vec![7; 300_000]] {
        let output = call_with(dir.path(), &[&address], bytes);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stdout == bytes, "{} bytes", bytes.len());
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_program_runs_once_for_each_call_and_its_code_is_told() {
    let dir = directory();
    let log = dir.path().join("log");
    let script = format!("read what; echo $what >> {}; echo got $what; [ $what != bad ] || exit 3", log.display());
    let (server, address) = serve(dir.path(), &["sh", "-c", &script]);
    let good = run(dir.path(), &["call", &address, "good\n"]);
    assert_eq!((good.status.code(), text(&good.stdout).as_str()), (Some(0), "got good\n"));
    let bad = run(dir.path(), &["call", &address, "bad\n"]);
    assert_eq!((bad.status.code(), text(&bad.stdout).as_str()), (Some(1), "got bad\n"));
    assert!(text(&bad.stderr).contains("ended with code 3"), "{}", text(&bad.stderr));
    assert_eq!(std::fs::read_to_string(&log).expect("it was written"), "good\nbad\n");
    server.signal(Signal::INT);
    assert_eq!(server.end().0, Some(130));
}

#[test]
fn a_call_tells_where_its_time_went() {
    let dir = directory();
    let (server, address) = serve(dir.path(), &["cat"]);
    let traced = run(dir.path(), &["call", "--time-trace", &address, "x"]);
    assert_eq!((traced.status.code(), text(&traced.stdout).as_str()), (Some(0), "x"));
    let told = text(&traced.stderr);
    for step in ["called", "has a slot", "sent", "packets came", "ended"] {
        assert!(told.contains(step), "{step} is not in {told}");
    }
    server.signal(Signal::TERM);
    server.end();
}

#[test]
fn what_cannot_be_says_why() {
    let dir = directory();
    let nobody = run(dir.path(), &["call", "--timeout", "100ms", "127.0.0.1:9", "x"]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(text(&nobody.stderr).contains("not executed"), "{}", text(&nobody.stderr));
    assert_eq!(run(dir.path(), &["call", "nowhere", "x"]).status.code(), Some(2));
    assert_eq!(run(dir.path(), &["serve"]).status.code(), Some(2));
    for (wrong, remedy) in [("/no/such/program", "no program"), ("nosuchprogram", "no program"), ("--date", "--help")] {
        let refused = run(dir.path(), &["serve", wrong, "x"]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        assert!(text(&refused.stderr).contains(remedy), "{}", text(&refused.stderr));
    }
    let gone = dir.path().join("gone");
    std::os::unix::fs::symlink("/bin/cat", &gone).expect("a link");
    let gone_name = gone.display().to_string();
    let (server, address) = serve(dir.path(), &[&gone_name]);
    std::fs::remove_file(&gone).expect("it is there");
    let missing = run(dir.path(), &["call", &address, "x"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains(&gone_name), "{}", text(&missing.stderr));
    server.signal(Signal::TERM);
    server.end();
    let (slow, address) = serve(dir.path(), &["--timeout", "100ms", "sleep", "60"]);
    let late = run(dir.path(), &["call", &address, "x"]);
    assert!(text(&late.stderr).contains("killed"), "{}", text(&late.stderr));
    slow.signal(Signal::TERM);
    slow.end();
}

/// A shell that runs the program (`PHALANX`, arguments appended) and cannot write files of more than 8 KiB.
fn without_room(directory: &Path, arguments: &[&str]) -> std::process::Command {
    let program = phalanx(directory, arguments);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]).arg(program.get_program());
    command.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn what_was_called_is_traced_and_judged() {
    let dir = directory();
    let traces = dir.path().join("traces");
    let to_traces = ["--trace", &traces.to_string_lossy()];
    let (server, address) = serve(dir.path(), &[&to_traces[..], &["--name", "first", "cat"]].concat());
    for word in ["one", "two", "three"] {
        let called = run(dir.path(), &[&["call"], &to_traces[..], &[&address, word]].concat());
        assert_eq!((called.status.code(), text(&called.stdout).as_str()), (Some(0), word), "{}", text(&called.stderr));
    }
    // After SIGKILL the service's trace still holds the runs so far.
    server.signal(Signal::KILL);
    assert_eq!(server.end().0, None);
    let check = |more: &[&str]| run(dir.path(), &[&["check", &traces.to_string_lossy()], more].concat());
    let judged = check(&["--require", "R1,R2,R5,R6,V15"]);
    assert_eq!(judged.status.code(), Some(0), "{}", text(&judged.stdout));
    // No call was refused, so R4 was not put to the test.
    let vacuous = check(&["--require", "R4"]);
    assert_eq!(vacuous.status.code(), Some(1), "{}", text(&vacuous.stdout));
    // With `--complete` the trace of the kill is required, too.
    let cut = check(&["--complete"]);
    assert_eq!((cut.status.code(), text(&cut.stdout).contains("E1")), (Some(1), true), "{}", text(&cut.stdout));
}

#[test]
fn a_trace_that_cannot_be_written_is_told_and_makes_the_exit_code_1() {
    let dir = directory();
    let traces = dir.path().join("traces").display().to_string();
    let mut command = without_room(dir.path(), &["serve", "--trace", &traces, "cat"]);
    let server = Running::start("server", &mut command, true);
    let line = wait_for("the address", || {
        let out = text(&server.out());
        out.contains('\n').then_some(out)
    });
    let address = line.trim().rsplit(' ').next().expect("it is the last word").to_owned();
    // Each call writes some records. Calls must go on when the trace is full.
    let until_full = (0..2_000).find(|_| {
        let called = run(dir.path(), &["call", &address, "x"]);
        assert_eq!((called.status.code(), text(&called.stdout).as_str()), (Some(0), "x"), "{}", text(&called.stderr));
        server.notices().contains("the trace ends here")
    });
    assert!(until_full.is_some(), "{}", server.notices());
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(1));

    // The caller's own trace fails: its directory is a file, or the file system is full.
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    let refused = run(dir.path(), &["call", "--trace", &file.to_string_lossy(), "127.0.0.1:9", "x"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("cannot write traces"), "{}", text(&refused.stderr));
}

#[test]
fn a_member_whose_trace_is_full_says_so_and_ends_with_1() {
    let dir = directory();
    let traces = dir.path().join("traces").display().to_string();
    let mut command = without_room(dir.path(), &["cat", "--group", "g", "--name", "a", "--trace", &traces]);
    let mut member = Running::start("a", &mut command, true);
    let mut number = 0;
    wait_for("the end of the trace", || {
        number += 1;
        member.say(format!("line {number}\n").as_bytes());
        member.notices().contains("the trace ends here").then_some(())
    });
    member.signal(Signal::TERM);
    assert_eq!(member.end().0, Some(1));
}
