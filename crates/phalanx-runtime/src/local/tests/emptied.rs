//! Directories that are emptied under living processes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use phalanx_core::DeathProof;
use phalanx_core::seal::CellKey;

use super::*;
use crate::local::lock::Decision;

fn empty(path: &Path) {
    fs::remove_dir_all(path).expect("there and ours");
}

#[test]
fn a_liveness_lock_that_is_gone_is_written_again() {
    let dir = temporary();
    let mut liveness_lock = enter(&open(&dir), 1, Intent::ByLock).0;
    drop(enter(&open(&dir), 2, Intent::AsConfigured));
    assert!(!liveness_lock.restore().expect("sound"), "all is there");
    let (scope, before) = (liveness_lock.scope().to_path_buf(), liveness_lock.counters_path().to_path_buf());
    empty(&root(&dir));
    assert!(liveness_lock.restore().expect("made"));
    assert!(!liveness_lock.restore().expect("sound"), "once");
    assert_eq!(fs::metadata(&scope).expect("made").permissions().mode() & 0o777, 0o700);
    let cell = open(&dir);
    let living = cell.living().expect("readable");
    assert!(living.len() == 1 && living[0].settled && living[0].incarnation == Incarnation(1), "{living:?}");
    assert_eq!(liveness_lock.counters_path(), living[0].counters);
    assert_ne!(before, living[0].counters, "named by another file");
    assert_eq!(seeds(enter(&cell, 3, Intent::ByLock).1), [1]);
    // A file that was removed alone is restored too, and an incarnation that begins meanwhile has its own name.
    fs::remove_file(scope.join("0000000000000001.settled")).expect("there");
    assert!(liveness_lock.begin_anew(Incarnation(11), false).expect("sound"));
    assert!(scope.join("000000000000000b.seeking").exists());
}

#[test]
fn no_process_founds_before_the_living_are_restored() {
    let dir = temporary();
    let mut founder = enter(&open(&dir), 1, Intent::ByLock).0;
    empty(&root(&dir));
    let cell = open(&dir);
    let (mut next, standing) = enter(&cell, 2, Intent::ByLock);
    assert_eq!(seeds(standing), [] as [u16; 0], "it waits");
    assert_eq!(next.lost().iter().map(|sign| sign.pid).collect::<Vec<_>>(), [std::process::id()]);
    assert_eq!(next.reconsider().expect("sound").map(seeds), Some(Vec::new()));
    assert!(!next.is_settled());
    founder.restore().expect("made");
    assert_eq!(next.reconsider().expect("sound").map(seeds), Some(vec![1]));
    assert_eq!(next.lost(), [], "nobody is missed");
    // Both live. Emptying the directory now leaves two processes, and neither founds a second time.
    empty(&root(&dir));
    assert_eq!(
        next.reconsider().expect("sound").map(seeds),
        Some(Vec::new()),
        "its own liveness lock is back, the other's not"
    );
    drop(founder);
    assert_eq!(next.reconsider().expect("sound"), Some(Standing::Found), "nobody is left to wait for");
}

#[test]
fn who_died_after_the_directory_was_emptied_is_waited_for_no_more() {
    for start in [Child::start, Child::start_forking] {
        let dir = temporary();
        let mut child = start(&root(&dir), 1);
        assert_eq!(child.standing(), "found");
        empty(&root(&dir));
        let cell = open(&dir);
        let mut waits = enter(&cell, 2, Intent::ByLock).0;
        assert_eq!(waits.lost().len(), 1);
        // A child that it forked still has its socket.
        child.end();
        assert_eq!(waits.reconsider().expect("sound"), Some(Standing::Found));
    }
}

#[test]
fn no_process_waits_for_other_cells_and_other_directories() {
    let (dir, other) = (temporary(), temporary());
    let _elsewhere = enter(&open(&other), 1, Intent::ByLock);
    let namesake = LocalCell::open(Some(&root(&dir)), Some(&state(&dir)), "d").expect("made");
    let _of_another_cell = enter(&namesake, 2, Intent::ByLock);
    assert_eq!(enter(&open(&dir), 3, Intent::ByLock).1, Standing::Found);
}

#[test]
fn a_generation_that_is_gone_is_not_counted_from_the_start() {
    let dir = temporary();
    drop(enter(&open(&dir), 1, Intent::ByLock));
    let mut second = enter(&open(&dir), 2, Intent::ByLock).0;
    let mut late = enter(&open(&dir), 3, Intent::ByLock).0;
    empty(&root(&dir));
    second.restore().expect("made");
    assert_eq!(fs::read_to_string(second.scope().join("generation")).expect("there").trim(), "2");
    assert_eq!(late.settle().expect("sound"), Some(Settled::Yes), "nobody founded meanwhile");
}

#[test]
fn a_decision_does_not_stand_when_its_lock_was_removed() {
    let dir = temporary();
    let scope = open(&dir).scope().to_path_buf();
    let first = Decision::take(&scope).expect("free");
    assert!(first.stands() && Decision::try_take(&scope).expect("sound").is_none());
    fs::remove_file(scope.join("lock")).expect("there");
    let second = Decision::try_take(&scope).expect("sound").expect("a new file");
    assert!(second.stands() && !first.stands());
}

#[test]
fn a_liveness_lock_that_was_written_again_often_proves_no_death() {
    let dir = temporary();
    let cell = open(&dir);
    let mut liveness_lock = enter(&cell, 5, Intent::ByLock).0;
    let view = view_of(vec![member(5, host::host_id())]);
    let mut deaths = Deaths::new(cell.scope());
    deaths.watch(&view, &BTreeSet::new(), Incarnation(9));
    assert_eq!((deaths.watched(), deaths.check()), (1, Vec::new()));
    for _ in 0..20 {
        empty(&root(&dir));
        liveness_lock.restore().expect("made");
    }
    assert_eq!(deaths.check(), [], "the lock that was watched is free, and the process lives");
    drop(liveness_lock);
    assert_eq!(deaths.check(), [(Incarnation(5), DeathProof::Unlocked)]);
}

#[test]
fn the_key_and_the_number_are_restored_and_no_process_makes_others_meanwhile() {
    let dir = temporary();
    let cell = open(&dir);
    let (key, seat) = (cell.key().expect("made"), cell.seat("n").expect("made"));
    let kept = Kept::new(&cell, Some(key.clone())).expect("made");
    let (_presence, _standing) = {
        let role = Role { founder: None, keyed: true };
        cell.enter(Incarnation(1), &advert("n", 1), Intent::ByLock, role).expect("sound")
    };
    assert_eq!(kept.restore(None).again, [] as [&str; 0]);
    empty(&state(&dir));
    let (later_key, later_seat) = thread::scope(|scope| {
        let starter = scope.spawn(|| {
            let cell = open(&dir);
            let seat = cell.seat("n").expect("there again");
            (cell.key().expect("there again"), seat)
        });
        // The order does not matter: it waits for the file that this one restores, or finds it.
        thread::sleep(Duration::from_millis(100));
        assert_eq!(kept.restore(None).again, ["the cell key", "the directory's number"]);
        starter.join().expect("no panic")
    });
    assert_eq!(later_key.to_hex(), key.to_hex());
    assert_eq!(later_seat, seat);
}

#[test]
fn a_key_that_a_stopped_process_has_is_not_made_anew() {
    let dir = temporary();
    let cell = open(&dir);
    cell.key().expect("made");
    let role = Role { founder: None, keyed: true };
    let entered = cell.enter(Incarnation(1), &advert("n", 1), Intent::ByLock, role).expect("sound");
    empty(&state(&dir));
    let error = open(&dir).key().expect_err("nobody writes it again");
    let LocalError::Missing { pid, .. } = error else { panic!("{error}") };
    assert_eq!(pid, std::process::id());
    assert!(error.to_string().contains("end that process"), "{error}");
    drop(entered);
    open(&dir).key().expect("nobody has it any more");
}

#[test]
fn a_file_that_another_process_wrote_is_reported_and_left_alone() {
    let dir = temporary();
    let cell = open(&dir);
    let kept = Kept::new(&cell, Some(cell.key().expect("made"))).expect("made");
    let other = CellKey::from_bytes([7; CellKey::LEN]).to_hex();
    fs::write(cell.key_path(), &other).expect("ours");
    fs::write(cell.id_path(), "00000000000000aa").expect("ours");
    let restored = kept.restore(None);
    assert_eq!(restored.again, [] as [&str; 0]);
    let wrong: Vec<String> = restored.wrong.iter().map(LocalError::to_string).collect();
    assert!(
        matches!(restored.wrong[..], [LocalError::OtherKey { .. }, LocalError::OtherId { here: 0xaa, .. }]),
        "{wrong:?}"
    );
    assert!(
        wrong[0].contains("Restore the file") && !wrong[0].contains(&other[..16]),
        "keys are shown nowhere: {wrong:?}"
    );
    assert_eq!(fs::read_to_string(cell.key_path()).expect("there"), other);
}

#[test]
fn of_many_that_start_while_the_directory_is_emptied_one_founds() {
    for _ in 0..10 {
        let dir = temporary();
        let (calm, founders, all) = (AtomicBool::new(false), AtomicUsize::new(0), Barrier::new(STARTERS));
        thread::scope(|scope| {
            for number in 1..=STARTERS {
                let (dir, calm, founders, all) = (&dir, &calm, &founders, &all);
                scope.spawn(move || {
                    let mut liveness_lock = start(dir, number as u64).0;
                    loop {
                        let last = calm.load(Ordering::SeqCst);
                        let _ = liveness_lock.restore();
                        if !liveness_lock.is_settled() {
                            let _ = liveness_lock.reconsider();
                        }
                        let living = roster::scan(liveness_lock.scope()).unwrap_or_default();
                        if last && living.iter().any(|live| live.settled) {
                            break;
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                    // No process ends before all have finished.
                    all.wait();
                    founders.fetch_add(usize::from(liveness_lock.is_settled()), Ordering::SeqCst);
                    all.wait();
                });
            }
            scope.spawn(|| {
                // Bounded: while a program never stops emptying, no decision may ever stand.
                for _ in 0..EMPTIED {
                    let _ = fs::remove_dir_all(root(&dir));
                    thread::sleep(Duration::from_millis(1));
                }
                calm.store(true, Ordering::SeqCst);
            });
        });
        assert_eq!(founders.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn who_entered_under_a_lock_that_was_removed_enters_again() {
    let dir = temporary();
    let cell = open(&dir);
    let mut other = None;
    let mut decisions = 0;
    let entered =
        liveness_lock::enter_while(&cell, Incarnation(1), &advert("n", 1), Intent::ByLock, Role::default(), || {
            decisions += 1;
            if other.is_none() {
                fs::remove_dir_all(cell.scope()).expect("there");
                other = Some(enter(&open(&dir), 2, Intent::ByLock));
            }
        });
    let (_first, standing) = entered.expect("sound");
    assert_eq!(decisions, 2, "the first decision was taken back");
    let (_second, second) = other.expect("entered");
    let founded = [&standing, &second].iter().filter(|standing| ***standing == Standing::Found).count();
    assert_eq!(founded, 1, "{standing:?} {second:?}");
    assert_eq!(cell.living().expect("readable").len(), 2, "the first is in the directory that is there now");
}

/// Starts again when the directory was emptied too often to start in, as a supervisor would.
fn start(dir: &TempDir, number: u64) -> (LivenessLock, Standing) {
    loop {
        let cell = LocalCell::open(Some(&root(dir)), Some(&state(dir)), "c");
        let port = u16::try_from(number).expect("low");
        let entered =
            cell.and_then(|cell| cell.enter(Incarnation(number), &advert("n", port), Intent::ByLock, Role::default()));
        if let Ok(entered) = entered {
            return entered;
        }
    }
}

const STARTERS: usize = 6;
const EMPTIED: usize = 50;
