//! Directories that are emptied under living members, as clean-up programs do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, await_event, await_members, directory, local, member, next, options, run, state};
use phalanx_runtime::config::{Config, DriverMode};
use phalanx_runtime::core::{CellInstance, Event};
use phalanx_runtime::local::LocalError;
use phalanx_runtime::{Cell, Item, Options, StartError};

fn await_notice(cell: &Cell, wanted: &str) -> std::sync::Arc<str> {
    loop {
        if let Item::Notice(notice) = next(cell)
            && notice.contains(wanted)
        {
            return notice;
        }
    }
}

/// Members may restore files while this runs.
fn empty(path: &Path) {
    while fs::remove_dir_all(path).is_err() {}
}

fn instance(cell: &Cell) -> CellInstance {
    cell.view().expect("in a view").instance
}

fn founder(dir: &Path, name: &str, founders: &[&str]) -> Options {
    let mut options = options(dir, name);
    options.config.founders = founders.iter().map(|name| (*name).to_owned()).collect();
    options
}

#[test]
fn who_starts_after_the_runtime_directory_was_emptied_joins_the_living() {
    let dir = directory();
    let ((a, _ga), (b, _gb)) = (member(options(dir.path(), "a")), member(options(dir.path(), "b")));
    await_members(&a, 2);
    for round in 0..3 {
        empty(&run(dir.path()));
        let (late, _g) = member(options(dir.path(), &format!("late{round}")));
        await_members(&late, 3);
        assert_eq!(instance(&late), instance(&a), "no second cell");
        drop(late);
        await_members(&a, 2);
    }
    // A check may come in the middle, and find only some files missing.
    let notice = await_notice(&b, "the liveness lock");
    assert!(notice.contains("was emptied") && notice.contains("written again"), "{notice}");
    let started = Instant::now();
    while local(dir.path()).living().expect("readable").iter().filter(|live| live.counters.exists()).count() != 2 {
        assert!(started.elapsed() < PATIENCE, "both have their counters again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_starts_after_both_directories_were_emptied_has_the_key_of_the_living() {
    let dir = directory();
    let (a, _ga) = member(options(dir.path(), "a"));
    await_members(&a, 1);
    empty(&state(dir.path()));
    empty(&run(dir.path()));
    let (late, _g) = member(options(dir.path(), "late"));
    await_members(&late, 2);
    let notice = await_notice(&a, "the cell key");
    assert!(notice.contains(&*state(dir.path()).to_string_lossy()), "{notice}");
}

#[test]
fn a_founders_record_is_written_again_and_its_name_stays_taken() {
    let dir = directory();
    let founder = || founder(dir.path(), "x", &["x"]);
    let cell = Cell::start(founder()).expect("starts");
    await_event(&cell, |event| matches!(event, Event::CellView(_)).then_some(()));
    let first = instance(&cell);
    for emptied in [false, true] {
        if emptied {
            empty(&state(dir.path()));
        }
        let refused = Cell::start(founder()).map(drop).expect_err("the name is taken");
        let StartError::Local(LocalError::NameInUse { pid, .. }) = &refused else { panic!("{refused}") };
        assert_eq!(*pid, Some(std::process::id()));
    }
    await_notice(&cell, "the founder's record");
    let record = local(dir.path()).record_file("x").read().expect("whole").expect("there");
    assert_eq!(record.instance(), first);
    let last = record.last.expect("it is in a view");
    assert_eq!((last.instance, last.members), (first, vec!["x".to_owned()]));
}

#[test]
fn founders_are_named_once_and_are_not_too_many() {
    let dir = directory();
    let many: Vec<String> = (0..65).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (founders, told) in [(&["x", "y", "x"][..], "'x' stands there twice"), (&many[..], "65 names are too many")] {
        let name = founders[0];
        let error = Cell::start(founder(dir.path(), name, founders)).map(drop).expect_err("refused");
        assert!(matches!(error, StartError::BadFounders { .. }) && error.to_string().contains(told), "{error}");
    }
    let mut nameless = Options::from(Config {
        driver: DriverMode::Udp,
        runtime_dir: Some(run(dir.path())),
        state_dir: Some(state(dir.path())),
        ..Config::default()
    });
    nameless.founding = Some(phalanx_runtime::core::Founding::Named(vec!["x".to_owned()]));
    let error = Cell::start(nameless).map(drop).expect_err("refused");
    assert!(matches!(error, StartError::NamelessFounder), "{error}");
}
