//! Checking files: the same verdict as in memory, and clear errors for files that are no traces.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{GROUP, World, fifo, options};
use phalanx_check::{CheckError, Property, Require, check, check_files};
use phalanx_trace::{Action, Event, Outcome};

/// A directory of its own for one test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("phalanx-check-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a writable temporary directory");
        Self(path)
    }

    fn save(&self, world: &World) -> Vec<PathBuf> {
        let paths: Vec<PathBuf> = (0..world.traces.len()).map(|i| self.0.join(format!("{i}.trace"))).collect();
        for (trace, path) in world.traces.iter().zip(&paths) {
            trace.save(path).expect("a fresh file");
        }
        paths
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn broken_world() -> World {
    let mut w = World::group(3);
    w.multicast(fifo(2, 1, 1), &[0]);
    w.lose(2, &[0, 1]);
    w.end(&[0, 1]);
    w
}

#[test]
fn files_are_judged_like_memory() {
    let dir = Dir::new("same");
    let world = broken_world();
    let paths = dir.save(&world);
    let from_files = check_files(&paths, &options()).expect("well formed");
    let from_memory = check(&world.traces, &options());
    assert_eq!(from_files.violated(), [Property::S3]);
    let texts = |report: &phalanx_check::Report| -> Vec<String> {
        let first = report.properties.iter().flat_map(|p| &p.first);
        first.flat_map(|v| &v.evidence).map(|e| format!("{} {}", e.index, e.text)).collect()
    };
    assert_eq!(texts(&from_files), texts(&from_memory));
    assert!(texts(&from_files).iter().all(|t| t.len() > 10), "{from_files}");
    let shown = from_files.to_string();
    assert!(shown.contains("FAILED: broken: S3"), "{shown}");
    assert!(shown.contains("0.trace#5"), "{shown}");
}

#[test]
fn json_tells_programs_the_same() {
    let report = broken_world().report();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("valid JSON");
    assert_eq!(json["passed"], false);
    let s3 =
        json["properties"].as_array().expect("a list").iter().find(|p| p["property"] == "S3").expect("in every report");
    assert_eq!(s3["violations"], 1);
    assert!(s3["first"][0]["evidence"][0]["text"].as_str().expect("text").contains("deliver"));
    assert!(json["vacuous"].as_array().expect("a list").iter().any(|p| p == "X1"));
}

#[test]
fn what_is_required_and_vacuous_fails() {
    let mut w = World::group(2);
    w.multicast(fifo(0, 1, 1), &[0, 1]);
    let these = |require: Require| check(&w.traces, &phalanx_check::Options { require, ..options() });
    assert!(these(Require::Features).passed);
    let strict = these(Require::These(vec![Property::S3, Property::I1]));
    assert!(!strict.passed);
    assert_eq!(strict.missing, [Property::S3]);
    assert!(strict.to_string().contains("never put to the test, though required: S3"), "{strict}");
    assert!(strict.vacuous.contains(&Property::X1));
    assert!(these(Require::Nothing).passed);
    // Properties named by the harness itself.
    let mut about = w.clone();
    let harness = about.harness();
    let codes = vec!["S3".to_owned(), "I1".to_owned()];
    about.traces[harness].records.insert(0, phalanx_trace::Record { at_ns: 0, event: Event::About { codes } });
    let report = check(&about.traces, &options());
    assert!(report.violated().is_empty() && !report.passed, "{report}");
    assert_eq!(report.missing, [Property::S3]);
    about.harness_says(Event::About { codes: vec!["S99".to_owned()] });
    assert_eq!(check(&about.traces, &options()).violated(), [Property::E1]);
}

#[test]
fn cut_files_are_those_of_the_killed() {
    // One process was killed while it wrote, and one before it had written anything.
    let cut = |killed: &[u64]| {
        let mut world = World::group(2);
        world.multicast(fifo(0, 1, 1), &[0, 1]);
        killed.iter().for_each(|&incarnation| world.harness_says(Event::Crash { incarnation }));
        let dir = Dir::new(&format!("cut-{}", killed.len()));
        let paths = dir.save(&world);
        let bytes = fs::read(&paths[1]).expect("just written");
        fs::write(&paths[1], &bytes[..bytes.len() - 3]).expect("still writable");
        let empty = dir.0.join("empty.trace");
        fs::write(&empty, b"PHX").expect("writable");
        let all: Vec<PathBuf> = paths.iter().cloned().chain([empty]).collect();
        let report = check_files(&all, &options()).expect("cut files are read");
        assert_eq!(report.stats.truncated, [paths[1].display().to_string()]);
        assert_eq!(report.stats.empty_files.len(), 1);
        assert!(report.to_string().contains("ends inside a record"), "{report}");
        report
    };
    let report = cut(&[2, 77]);
    assert!(report.passed, "{report}");
    for killed in [&[2][..], &[77], &[]] {
        let report = cut(killed);
        assert_eq!(report.violated(), [Property::E1], "{report}");
        assert!(report.to_string().contains("nobody killed its writer"), "{report}");
    }
}

#[test]
fn what_is_no_trace_is_an_error() {
    let dir = Dir::new("error");
    assert!(matches!(check_files(&[], &options()), Err(CheckError::NoFiles)));
    let other = dir.0.join("other");
    fs::write(&other, b"something else entirely").expect("writable");
    let error = check_files(std::slice::from_ref(&other), &options()).expect_err("no trace");
    assert!(error.to_string().contains("not a trace file"), "{error}");
    let absent = check_files(&[dir.0.join("absent")], &options()).expect_err("no file");
    assert!(absent.to_string().contains("absent"), "{absent}");
}

#[test]
fn operations_in_files_are_judged() {
    let dir = Dir::new("operations");
    let mut w = World::group(2);
    let write = (0, Action::Write { key: 0, value: 1 }, Outcome::Done);
    let read = (1, Action::Read { key: 0 }, Outcome::Value(0));
    for (p, action, outcome) in [write, read] {
        w.push(p, Event::Invoke { group: GROUP, op: 1, action });
        w.push(p, Event::Return { op: 1, outcome });
    }
    w.end(&[0, 1]);
    let report = check_files(&dir.save(&w), &options()).expect("well formed");
    assert_eq!(report.violated(), [Property::R7], "{report}");
    assert!(report.to_string().contains("operation 1 gives: 0"), "{report}");
}
