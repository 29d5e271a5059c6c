//! Exit codes, errors and the small commands.

mod common;

use std::process::Output;

use common::{Running, directory, phalanx, run, wait_for};
use rustix::process::Signal;

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_node_leaves_when_nobody_reads_its_output() {
    let dir = directory();
    let mut node = Running::start("node", &mut phalanx(dir.path(), &["node", "--name", "node"]), false);
    node.await_notice("receives control traffic");
    // Nothing happens in its cell any more, so no line of its own tells it.
    node.close_stdout();
    assert_eq!(node.end().0, Some(0));
}

#[test]
fn wrong_usage_is_2_and_wrong_configuration_is_7() {
    let dir = directory();
    assert_eq!(code(&run(dir.path(), &["no-such-command"])), 2);
    assert_eq!(code(&run(dir.path(), &["cat"])), 2);
    let output = run(dir.path(), &["demo", "--keep", &dir.path().to_string_lossy()]);
    assert!(code(&output) == 2 && said(&output).contains("exists already"), "{}", said(&output));
    let output = run(dir.path(), &["node", "--set", "timing.heartbeat=50"]);
    assert_eq!(code(&output), 7, "{}", said(&output));
    assert!(said(&output).contains("no unit"), "{}", said(&output));
    let output = run(dir.path(), &["node", "--set", "no_such=1"]);
    assert!(code(&output) == 7 && said(&output).contains("flag --set no_such: there is no key"), "{}", said(&output));
    for arguments in [&["cat", "-g", ""][..], &["node", "-g", ""], &["give-up", "", "--yes"]] {
        let output = run(dir.path(), arguments);
        assert!(code(&output) == 2 && said(&output).contains("a name has 1 to 200 bytes"), "{}", said(&output));
    }
    let file = dir.path().join("phalanx.toml");
    std::fs::write(&file, "cell = \"x\"\nheartbeat = \"1s\"\n").expect("writable");
    let output = run(dir.path(), &["node", "--config", &file.to_string_lossy()]);
    assert_eq!(code(&output), 7);
    assert!(said(&output).contains("phalanx.toml:2: there is no key 'heartbeat'; did you mean 'timing.heartbeat'?"));
    let output = run(dir.path(), &["node", "--bind", "192.0.2.1", "--seeds", "192.0.2.2:7401"]);
    assert_eq!(code(&output), 7, "a cell key is asked for: {}", said(&output));
}

#[test]
fn what_cannot_be_reached_is_3() {
    let dir = directory();
    assert_eq!(code(&run(dir.path(), &["stat"])), 3);
    // No process answers at port 9 of the loopback interface.
    let output = run(dir.path(), &["node", "--seeds", "127.0.0.1:9", "--patience", "300ms"]);
    assert_eq!(code(&output), 3, "{}", said(&output));
    let output = run(dir.path(), &["cat", "-g", "g", "--seeds", "127.0.0.1:9", "--patience", "300ms"]);
    assert_eq!(code(&output), 3, "{}", said(&output));
    let output = run(dir.path(), &["check", &dir.path().to_string_lossy()]);
    assert_eq!(code(&output), 3, "{}", said(&output));
}

#[test]
fn security_none_is_loud_at_each_start() {
    let dir = directory();
    let output = run(dir.path(), &["node", "--security", "none", "--show-config"]);
    assert_eq!(code(&output), 0);
    assert!(said(&output).contains("WARNING: security = \"none\" (flag --security)"), "{}", said(&output));
}

#[test]
fn the_configuration_in_force_is_shown_with_its_origins() {
    let dir = directory();
    let output = run(dir.path(), &["node", "--cell", "here", "--set", "driver=udp", "--show-config", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let line = |key: &str| shown.as_array().and_then(|a| a.iter().find(|l| l["key"] == key)).cloned().expect("shown");
    assert_eq!(line("cell")["origin"], "flag --cell");
    assert_eq!(line("driver")["origin"], "flag --set driver");
    assert_eq!(line("runtime_dir")["origin"], "environment PHALANX_RUNTIME_DIR");
    assert_eq!(line("state_dir")["origin"], "environment PHALANX_STATE_DIR");
    assert_eq!(line("timing.heartbeat")["value"], "\"100ms\"");
    assert_eq!(line("timing.heartbeat")["origin"], "default");
}

#[test]
fn doctor_gives_a_verdict() {
    let dir = directory();
    let output = run(dir.path(), &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["findings"].as_array().is_some_and(|findings| findings.len() >= 10));
    let bad = run(dir.path(), &["doctor", "--bind", "192.0.2.1", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&bad.stdout).expect("JSON");
    assert_eq!((code(&bad), &report["verdict"]), (1, &"fail".into()));
}

#[test]
fn the_version_tells_build_and_wire_level() {
    let dir = directory();
    let output = run(dir.path(), &["--version"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let speaks = format!("wire version 3, level {}", phalanx_runtime::core::LEVEL);
    assert!(text.starts_with("phalanx ") && text.contains("build ") && text.contains(&speaks), "{text}");
    let laboratory = if cfg!(feature = "lab") { " with the laboratory" } else { " without the laboratory" };
    assert!(text.contains(laboratory), "{text}");
}

#[cfg(not(feature = "lab"))]
#[test]
fn a_command_of_the_laboratory_names_its_remedy() {
    let dir = directory();
    for name in ["sim", "torture", "bench"] {
        for more in [&[][..], &["--help"], &["-h"], &["--seeds", "0..3"], &["stream", "--json", "-"], &["--", "x"]] {
            let output = run(dir.path(), &[&[name], more].concat());
            let remedy = "cargo build --profile quick -p phalanx-cli";
            assert_eq!(code(&output), 2, "{name} {more:?}: {}", said(&output));
            assert!(said(&output).contains(&format!("'phalanx {name}' ")), "{}", said(&output));
            assert!(said(&output).contains(remedy) && output.stdout.is_empty(), "{}", said(&output));
        }
        let help = run(dir.path(), &["help", name]);
        assert_eq!(code(&help), 0);
        assert!(String::from_utf8_lossy(&help.stdout).contains("not in this build"), "{help:?}");
    }
}

/// A node whose views go to standard output.
fn node(dir: &std::path::Path, name: &str, more: &[&str]) -> Running {
    let arguments = [&["node", "--name", name], more].concat();
    Running::start(name, &mut phalanx(dir, &arguments), true)
}

/// A member with the state of that group, whose views go to standard error.
fn with_state(dir: &std::path::Path, name: &str, group: &str) -> Running {
    Running::start(name, &mut phalanx(dir, &["cat", "--name", name, "--group", group]), true)
}

fn await_line(node: &Running, wanted: &str) {
    wait_for(&format!("'{wanted}' from {}", node.name), || {
        String::from_utf8_lossy(&node.out()).contains(wanted).then_some(())
    });
}

fn stat(dir: &std::path::Path) -> (i32, serde_json::Value) {
    let output = run(dir, &["stat", "--json"]);
    (code(&output), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn the_level_of_a_cell_is_shown_and_a_visitor_asks_for_more() {
    let dir = directory();
    let known = u64::from(phalanx_runtime::core::LEVEL);
    let nobody = ["level", "--timeout", "300ms"];
    assert_eq!(code(&run(dir.path(), &nobody)), 3);
    let seeds = ["--seeds", "127.0.0.1:9"];
    for how in ["--join", "--raise"] {
        let output = run(dir.path(), &[&nobody[..], &seeds[..], &[how]].concat());
        assert_eq!(code(&output), 3, "{}", said(&output));
    }
    let one = node(dir.path(), "one", &[]);
    await_line(&one, "cell view 1: one");
    let other = node(dir.path(), "other", &[]);
    await_line(&other, "cell view 2: one, other");
    let level = |arguments: &[&str]| {
        let output = run(dir.path(), &[&["level", "--json"], arguments].concat());
        assert_eq!(code(&output), 0, "{}", said(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let told = wait_for("the counters files", || Some(level(&[])).filter(|told| told["view"] == 2));
    let members = serde_json::json!([{"name": "one", "level": known}, {"name": "other", "level": known}]);
    assert_eq!(told, serde_json::json!({"view": 2, "level": known, "highest": known, "members": members}));
    let processes = stat(dir.path()).1;
    assert_eq!((&processes[0]["level"], &processes[0]["levels"]), (&known.into(), &serde_json::json!([known, known])));
    // A visitor has a name and ports of its own, whatever is configured, and leaves again.
    let joined = level(&["--join", "--name", "one"]);
    assert_eq!((&joined["view"], &joined["members"]), (&3.into(), &members));
    await_line(&one, "cell view 4: one, other; gone: level-");
    let raised = level(&["--raise"]);
    assert_eq!((&raised["level"], &raised["members"]), (&known.into(), &members), "it was in force already");
    await_line(&other, "cell view 6: one, other; gone: level-");
    let output = run(dir.path(), &["level", "--raise", "60000"]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("60000 is not known to this build"), "{}", said(&output));
    assert_eq!(code(&run(dir.path(), &["level", "--raise", "0"])), 2);
}

#[test]
fn a_group_that_waits_is_shown_and_an_operator_gives_it_up() {
    let dir = directory();
    let output = run(dir.path(), &["give-up", "--timeout", "300ms", "--seeds", "127.0.0.1:9"]);
    assert!(code(&output) == 3 && said(&output).contains("in time: no member answered"), "{}", said(&output));
    let output = run(dir.path(), &["give-up", "--timeout", "9s", "--seeds", "127.0.0.1:9"]);
    assert_eq!((code(&output), said(&output).matches("looking for cell 'default': ").count()), (3, 1));
    assert_eq!(code(&run(dir.path(), &["give-up", "--yes"])), 2, "of which group?");
    let one = node(dir.path(), "one", &[]);
    await_line(&one, "cell view 1: one");
    let other = node(dir.path(), "other", &[]);
    await_line(&other, "cell view 2: one, other");
    let holder = with_state(dir.path(), "holder", "red");
    holder.await_notice("group red view 1: holder");
    let asked = |arguments: &[&str], exit: i32| {
        let output = run(dir.path(), &[&["give-up", "--json"], arguments].concat());
        assert_eq!(code(&output), exit, "{}", said(&output));
        (said(&output), serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default())
    };
    assert_eq!(asked(&[], 0).1, serde_json::json!({"orphans": []}));
    let nothing = asked(&["red", "--yes"], 1).0;
    assert!(nothing.contains("red does not wait, and no other group does: nothing was given up"), "{nothing}");
    // Without its members in the cell the group waits, and only --yes gives it up.
    holder.signal(Signal::STOP);
    await_line(&one, "gone: holder (unreachable)");
    let waiting = wait_for("the counters files", || {
        let (_, processes) = stat(dir.path());
        let told = processes.as_array()?.iter().find(|process| process["name"] == "one")?["orphans"].clone();
        told.get(0).is_some().then_some(told)
    });
    let waits_for = &waiting[0]["waits_for"];
    assert_eq!((&waiting[0]["name"], &waits_for[0]["name"]), (&"red".into(), &"holder".into()));
    let table = String::from_utf8_lossy(&run(dir.path(), &["stat"]).stdout).into_owned();
    assert!(table.contains("group that waits") && table.contains("red               holder "), "{table}");
    assert_eq!(asked(&[], 0).1, serde_json::json!({"orphans": [{"name": "red", "waits_for": waits_for}]}));
    let another = asked(&["blue", "--yes"], 1).0;
    assert!(another.contains("nothing was given up; these groups wait: red (for holder)"), "{another}");
    let careful = asked(&["red"], 2).0;
    assert!(
        careful.contains("waits for one of holder: only they had its state") && careful.contains("--yes"),
        "{careful}"
    );
    let waits = with_state(dir.path(), "waits", "red");
    waits.await_notice("group red WAITS for one of holder: nobody else has its state");
    assert!(!waits.notices().contains("group red view"), "it waits");
    let (warned, done) = asked(&["red", "--yes"], 0);
    assert!(warned.contains("WARNING: giving up the state of group red, which only holder had"), "{warned}");
    assert_eq!((&done["group"], &done["given_up"]), (&"red".into(), waits_for));
    waits.await_notice("group red view 1: waits");
    holder.signal(Signal::CONT);
    holder.await_notice("group red is over, or went on without this process after its view 1");
    holder.await_notice("group red view 2: waits, holder");
}

#[test]
fn an_observer_says_that_it_waits_for_a_group_that_nobody_made() {
    let dir = directory();
    let one = node(dir.path(), "one", &["-g", "red"]);
    await_line(&one, "group red is NOT THERE: no process of this cell is in it");
    let holder = with_state(dir.path(), "holder", "red");
    await_line(&one, "group red view 2: holder, one");
    holder.signal(Signal::TERM);
    wait_for("the same once more", || {
        let out = String::from_utf8_lossy(&one.out()).into_owned();
        (out.matches("group red is NOT THERE").count() == 2).then_some(())
    });
    assert!(!String::from_utf8_lossy(&one.out()).contains("group red view 1"));
}

#[test]
fn what_a_member_kept_of_a_group_that_waited_goes_on() {
    let dir = directory();
    let one = node(dir.path(), "one", &[]);
    await_line(&one, "cell view 1: one");
    let other = node(dir.path(), "other", &[]);
    await_line(&other, "cell view 2: one, other");
    let mut holder = Running::cat(dir.path(), "holder", &["--history", "10"]);
    holder.say(b"before\n");
    holder.await_out(b"before\n");
    holder.signal(Signal::STOP);
    await_line(&one, "gone: holder (unreachable)");
    let mut waits = Running::cat(dir.path(), "waits", &["--history", "10"]);
    waits.await_notice("group g WAITS for one of holder");
    holder.signal(Signal::CONT);
    holder.await_notice("group g goes on with the state that this process kept of its view 1");
    waits.await_out(b"before\n");
    waits.say(b"after\n");
    holder.await_out(b"before\nafter\n");
}

#[test]
fn a_lost_quorum_is_told_and_only_an_operator_reforms() {
    let dir = directory();
    let one = node(dir.path(), "one", &[]);
    await_line(&one, "cell view 1: one");
    let other = with_state(dir.path(), "other", "g");
    other.await_notice("cell view 2: one, other");
    assert_eq!(stat(dir.path()).0, 0);
    let refused = run(dir.path(), &["reform", "--yes"]);
    assert_eq!(code(&refused), 1, "the cell lives: {}", said(&refused));
    assert!(said(&refused).contains("join it instead"), "{}", said(&refused));
    // Without the older of two members, the other cannot know which half goes on.
    one.signal(Signal::STOP);
    other.await_notice("NOT in the primary partition");
    let refused = run(dir.path(), &["reform", "--yes"]);
    assert!(
        code(&refused) == 1 && said(&refused).contains("if one is stopped, wake it or end it first"),
        "{}",
        said(&refused)
    );
    one.signal(Signal::KILL);
    let is_alone = |seen: &serde_json::Value| seen.as_array().is_some_and(|all| all.len() == 1);
    let degraded = || Some(stat(dir.path())).filter(|(code, seen)| *code == 5 && is_alone(seen));
    let seen = wait_for("the counters file", degraded).1;
    assert_eq!(seen[0]["state"], "non-primary", "{seen}");
    let dead = run(dir.path(), &["reform", "--all-dead", "--yes"]);
    assert_eq!(code(&dead), 1, "nobody looks for the cell: {}", said(&dead));
    let unsure = run(dir.path(), &["reform"]);
    assert_eq!(code(&unsure), 2, "{}", said(&unsure));
    let reformed = run(dir.path(), &["reform", "--yes"]);
    assert_eq!(code(&reformed), 0, "{}", said(&reformed));
    other.await_notice("gave its cell instance up for one of generation 2");
    other.await_notice("cell view 1: other");
    other.await_notice("group g goes on with the state that this process kept");
    let later = with_state(dir.path(), "later", "g");
    later.await_notice("cell view 2: other, later");
    // Views of a group that another instance takes over skip 2^32 numbers.
    later.await_notice("group g view 4294967298: other, later");
    later.signal(Signal::INT);
    assert_eq!(later.end().0, Some(130));
    other.signal(Signal::TERM);
    assert_eq!(other.end().0, Some(0));
}

/// Two of three processes of one host are killed at once. The last one knows that they are dead, and not that nobody else is
/// left; who supervises all of them does.
#[test]
fn a_supervisor_reforms_a_cell_whose_others_are_proved_dead() {
    let dir = directory();
    let first = node(dir.path(), "first", &[]);
    await_line(&first, "cell view 1: first");
    let refused = run(dir.path(), &["reform", "--if-all-proved-dead"]);
    assert_eq!(code(&refused), 1, "the cell lives: {}", said(&refused));
    let second = node(dir.path(), "second", &[]);
    await_line(&second, "cell view 2: first, second");
    let last = with_state(dir.path(), "last", "g");
    last.await_notice("cell view 3: first, second, last");
    first.signal(Signal::KILL);
    second.signal(Signal::KILL);
    last.await_notice("all others are proved dead, but may have gone on without this process before");
    let both = run(dir.path(), &["reform", "--if-all-proved-dead", "--yes"]);
    assert_eq!(code(&both), 2, "{}", said(&both));
    let reformed = run(dir.path(), &["reform", "--if-all-proved-dead"]);
    assert_eq!(code(&reformed), 0, "{}", said(&reformed));
    last.await_notice("group g goes on with the state that this process kept");
    last.signal(Signal::TERM);
    assert_eq!(last.end().0, Some(0));
}

#[cfg(feature = "lab")]
#[test]
fn the_simulator_writes_histories_for_other_checkers() {
    let dir = directory();
    let histories = dir.path().join("deep").join("histories");
    let at = histories.to_string_lossy().into_owned();
    let output = run(dir.path(), &["sim", "--seeds", "2..4", "--members", "3", "--histories", &at]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let mut lines = 0;
    for seed in [2, 3] {
        let text = std::fs::read_to_string(histories.join(format!("seed-{seed}.jsonl"))).expect("one file a seed");
        for line in text.lines() {
            let one: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(one["call_ns"].is_u64() && one["return_ns"].is_u64() != one["return_ns"].is_null(), "{line}");
            lines += 1;
        }
    }
    assert!(lines > 20, "{lines} operations");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writable");
    let output = run(dir.path(), &["sim", "--seeds", "1..2", "--histories", &file.to_string_lossy()]);
    assert_eq!(code(&output), 2, "{}", said(&output));
    assert!(said(&output).contains("--histories"), "{}", said(&output));
}

#[cfg(feature = "lab")]
#[test]
fn a_list_of_known_violations_must_say_what_is_broken_and_no_more() {
    let dir = directory();
    let file = dir.path().join("known.tsv");
    let sim = |list: &str, args: &[&str]| {
        std::fs::write(&file, list).expect("writable");
        let at = file.to_string_lossy();
        run(dir.path(), &[&["sim", "--members", "3", "--known", &at], args].concat())
    };
    let holds = "swarm\t3\t2\tU1\tit holds, and is listed\n";
    // A listed run that holds fails the list, both alone and within a campaign. Other kinds of campaign ignore the
    // entry.
    let output = sim(holds, &["--only-known"]);
    assert_eq!(code(&output), 1);
    assert!(said(&output).contains("listed with U1"), "{}", said(&output));
    assert_eq!(code(&sim(holds, &["--seeds", "2..3"])), 1);
    assert_eq!(code(&sim(holds, &["--seeds", "3..4"])), 0);
    assert_eq!(code(&sim("# nothing\n", &["--only-known"])), 0);
    let output = sim("swarm 3 1 U1 no tabs\n", &["--only-known"]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).contains("line 1"), "{}", said(&output));
}
