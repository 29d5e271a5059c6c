//! Directories that are emptied under living members, as clean-up programs do.

use std::fs;
use std::path::Path;
use std::time::Instant;

use phalanx::{CellBuilder, StartError};

use crate::common::{Member, PATIENCE, await_notice, local, patient, run, state};

/// Members may restore files while this runs.
fn empty(path: &Path) {
    while fs::remove_dir_all(path).is_err() {}
}

#[test]
fn who_starts_after_the_runtime_directory_was_emptied_joins_the_living() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut a, mut b) = (Member::start(patient(dir.path(), "a")), Member::start(patient(dir.path(), "b")));
    let instance = |member: &Member| member.cell.view().expect("in a view").instance();
    a.await_members(2);
    for round in 0..3 {
        empty(&run(dir.path()));
        let mut late = Member::start(patient(dir.path(), &format!("late{round}")));
        late.await_members(3);
        assert_eq!(instance(&late), instance(&a), "no second cell");
        drop(late);
        a.await_members(2);
    }
    // A check may come in the middle, and find only some files missing.
    let notice = await_notice(&mut b.events, "the liveness lock");
    assert!(notice.contains("was emptied") && notice.contains("written again"), "{notice}");
    let started = Instant::now();
    while local(dir.path()).living().expect("readable").iter().filter(|live| live.counters.exists()).count() != 2 {
        assert!(started.elapsed() < PATIENCE, "both have their counters again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn who_starts_after_both_directories_were_emptied_has_the_key_of_the_living() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = Member::start(patient(dir.path(), "a"));
    a.await_members(1);
    empty(&state(dir.path()));
    empty(&run(dir.path()));
    let mut late = Member::start(patient(dir.path(), "late"));
    late.await_members(2);
    let notice = await_notice(&mut a.events, "the cell key");
    assert!(notice.contains(&*state(dir.path()).to_string_lossy()), "{notice}");
}

#[test]
fn a_founders_record_is_written_again_and_its_name_stays_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let founder = || -> CellBuilder { patient(dir.path(), "x").founders(["x"]) };
    let mut x = Member::start(founder());
    let first = x.cell.view().expect("in a view").instance();
    for emptied in [false, true] {
        if emptied {
            empty(&state(dir.path()));
        }
        let refused = founder().blocking_start().expect_err("the name is taken");
        let StartError::Host(text) = &refused else { panic!("{refused}") };
        assert!(text.contains(&std::process::id().to_string()), "{text}");
    }
    await_notice(&mut x.events, "the founder's record");
    let record = local(dir.path()).record_file("x").read().expect("whole").expect("there");
    assert_eq!(record.instance().0, first.bits());
    let last = record.last.expect("it is in a view");
    assert_eq!((last.instance.0, last.members), (first.bits(), vec!["x".to_owned()]));
}
