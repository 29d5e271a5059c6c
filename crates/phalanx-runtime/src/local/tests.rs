//! The directory, the key and the founding lock, with real processes that live, race and are killed.

mod child;
mod emptied;
mod founders;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use phalanx_core::member::{BootstrapMarker, FounderRecord};
use phalanx_core::{CellInstance, CellView, DeathProof, MemberInfo, ViewNumber};
use tempfile::TempDir;

use super::*;
use crate::deaths::Deaths;
use child::Child;

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn root(dir: &TempDir) -> PathBuf {
    dir.path().join("run")
}

fn state(dir: &TempDir) -> PathBuf {
    dir.path().join("state")
}

fn open(dir: &TempDir) -> LocalCell {
    LocalCell::open(Some(&root(dir)), Some(&state(dir)), "c").expect("made")
}

fn advert(name: &str, port: u16) -> Advert {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    Advert::mine(name, address, address)
}

/// A member that cannot be reached.
fn member(incarnation: u64, host: u64) -> MemberInfo {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    MemberInfo { host, ..MemberInfo::new(Incarnation(incarnation), format!("n{incarnation}"), nowhere, nowhere) }
}

/// The first view of a cell.
fn view_of(members: Vec<MemberInfo>) -> CellView {
    CellView {
        instance: CellInstance(1),
        ancestors: Vec::new(),
        view: ViewNumber(1),
        level: 1,
        members,
        joined: Vec::new(),
        left: Vec::new(),
        apart: Vec::new(),
        departed: Vec::new(),
        members_min: 1,
    }
}

fn enter(cell: &LocalCell, incarnation: u64, intent: Intent) -> (LivenessLock, Standing) {
    let port = u16::try_from(incarnation).expect("tests count low");
    cell.enter(Incarnation(incarnation), &advert("n", port), intent, Role::default()).expect("the directory is sound")
}

fn seeds(standing: Standing) -> Vec<u16> {
    match standing {
        Standing::Found => panic!("founded"),
        Standing::Join(seeds) => seeds.iter().map(std::net::SocketAddr::port).collect(),
    }
}

#[test]
fn the_directory_is_made_for_its_user_alone() {
    let dir = temporary();
    let cell = LocalCell::open(Some(&root(&dir)), Some(&state(&dir)), "a/b ..").expect("made");
    for path in [root(&dir).as_path(), cell.scope(), cell.scope().parent().expect("inside")] {
        assert_eq!(fs::metadata(path).expect("there").permissions().mode() & 0o777, 0o700, "{}", path.display());
    }
    assert!(cell.scope().starts_with(root(&dir)), "a name cannot lead out of the directory");
}

#[test]
fn a_directory_that_others_reach_is_refused_with_a_remedy() {
    let dir = temporary();
    fs::create_dir(root(&dir)).expect("made");
    fs::set_permissions(root(&dir), fs::Permissions::from_mode(0o755)).expect("set");
    let error = LocalCell::open(Some(&root(&dir)), Some(&state(&dir)), "c").expect_err("others may read");
    assert!(matches!(error, LocalError::TooOpen { .. }) && error.to_string().contains("chmod go="), "{error}");

    let link = dir.path().join("link");
    fs::create_dir(dir.path().join("target")).expect("made");
    symlink(dir.path().join("target"), &link).expect("linked");
    let error = LocalCell::open(Some(&link), Some(&state(&dir)), "c").expect_err("a link");
    assert!(matches!(error, LocalError::NotADirectory { .. }), "{error}");
    assert!(error.to_string().contains("runtime_dir"), "{error}");

    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let error = LocalCell::open(Some(&file), Some(&state(&dir)), "c").expect_err("a file");
    assert!(matches!(error, LocalError::NotADirectory { .. }), "{error}");

    if rustix::process::geteuid().is_root() {
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).expect("made");
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).expect("set");
        std::os::unix::fs::chown(&foreign, Some(12_345), None).expect("root may");
        let error = LocalCell::open(Some(&foreign), Some(&state(&dir)), "c").expect_err("another user's");
        assert!(matches!(error, LocalError::NotOurs { owner: 12_345, .. }), "{error}");
    }
}

#[test]
fn different_cells_have_different_directories() {
    let (long, odd) = ("x".repeat(199), "%".repeat(200));
    let names = ["a", "A", "a/b", "a%2fb", "", ".", "..", "ä", &format!("{long}1"), &format!("{long}2"), odd.as_str()];
    let files: BTreeSet<String> = names.iter().map(|name| directory::file_name(name)).collect();
    assert_eq!(files.len(), names.len());
    assert!(files.iter().all(|f| f.len() <= 255 && !f.contains('/')), "{files:?}");
}

#[test]
fn all_who_start_at_once_get_one_key() {
    let dir = temporary();
    let keys: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| open(&dir).key().expect("a key").to_hex())).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "one key for all");
    let cell = open(&dir);
    assert_eq!(fs::metadata(cell.key_path()).expect("there").permissions().mode() & 0o777, 0o600);
    let files = fs::read_dir(cell.key_path().parent().expect("inside")).expect("readable").count();
    assert_eq!(files, 1, "the key, no drafts");
    assert_ne!(
        LocalCell::open(Some(&root(&dir)), Some(&state(&dir)), "d").expect("made").key().expect("a key").to_hex(),
        keys[0]
    );
}

#[test]
fn a_bad_key_file_is_refused() {
    let dir = temporary();
    let cell = open(&dir);
    for bad in [&b"not a key"[..], &[0xff; 64], &[b'0'; 65], b""] {
        fs::write(cell.key_path(), bad).expect("written");
        fs::set_permissions(cell.key_path(), fs::Permissions::from_mode(0o600)).expect("set");
        assert!(matches!(cell.key(), Err(LocalError::BadKey { .. })));
    }
    fs::write(cell.key_path(), "0".repeat(64)).expect("written");
    fs::set_permissions(cell.key_path(), fs::Permissions::from_mode(0o644)).expect("set");
    assert!(matches!(cell.key(), Err(LocalError::TooOpen { .. })));
}

#[test]
fn the_first_founds_and_later_ones_join_all_who_live() {
    let dir = temporary();
    let cell = open(&dir);
    let (first, standing) = enter(&cell, 1, Intent::ByLock);
    assert_eq!(standing, Standing::Found);
    let (second, standing) = enter(&cell, 2, Intent::ByLock);
    assert_eq!(seeds(standing), [1]);
    let (_third, standing) = enter(&cell, 3, Intent::ByLock);
    assert_eq!(seeds(standing), [1, 2], "the settled first");
    drop(second);
    drop(first);
    assert_eq!(cell.living().expect("readable").len(), 1);
}

#[test]
fn one_that_only_joins_keeps_nobody_from_founding_until_it_is_in_a_view() {
    let dir = temporary();
    let cell = open(&dir);
    let (mut tool, standing) = enter(&cell, 1, Intent::JoinOnly);
    assert_eq!(seeds(standing), [0; 0]);
    assert_eq!(tool.reconsider().expect("sound").map(seeds), Some(Vec::new()), "it does not found");
    let (founder, standing) = enter(&cell, 2, Intent::ByLock);
    assert_eq!(standing, Standing::Found);
    assert_eq!(tool.reconsider().expect("sound").map(seeds), Some(vec![2]));
    assert_eq!(tool.settle().expect("sound"), Some(Settled::Yes));
    drop(founder);
    let (_later, standing) = enter(&cell, 3, Intent::ByLock);
    assert_eq!(seeds(standing), [1], "it is in the cell");
}

/// A request to a process, and an answer not yet taken, stay for as long as a command may wait.
#[test]
fn old_requests_and_answers_are_removed_with_the_next_start() {
    let dir = temporary();
    let cell = open(&dir);
    cell.request(Incarnation(1), Request::Reform).expect("it can be written");
    cell.give_answer(Incarnation(2), &Ok("it is done".to_owned())).expect("it can be written");
    let asked = || {
        let names = fs::read_dir(cell.scope()).expect("readable").map(|entry| entry.expect("readable").path());
        names.filter(|path| path.extension().is_some_and(|end| end == "request" || end == "answer")).collect::<Vec<_>>()
    };
    drop(enter(&cell, 7, Intent::AsConfigured));
    assert_eq!(asked().len(), 2, "they are new");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    for path in asked() {
        let file = fs::OpenOptions::new().write(true).open(path).expect("it is there");
        file.set_modified(long_ago).expect("its time can be set");
    }
    drop(enter(&cell, 8, Intent::AsConfigured));
    assert_eq!(asked(), Vec::<PathBuf>::new());
}

#[test]
fn when_all_are_gone_the_next_founds() {
    let dir = temporary();
    let cell = open(&dir);
    let first = enter(&cell, 1, Intent::ByLock);
    let second = enter(&cell, 2, Intent::ByLock);
    drop((first, second));
    assert_eq!(enter(&cell, 3, Intent::ByLock).1, Standing::Found);
}

#[test]
fn a_founder_that_dies_alone_blocks_no_process() {
    let dir = temporary();
    let cell = open(&dir);
    let founder = enter(&cell, 1, Intent::ByLock);
    let mut waiting = enter(&cell, 2, Intent::ByLock).0;
    assert_eq!(waiting.reconsider().expect("sound").map(seeds), Some(vec![1]), "the founder lives");
    drop(founder);
    assert_eq!(waiting.reconsider().expect("sound"), Some(Standing::Found), "now it is its turn");
    assert!(waiting.is_settled());
    assert_eq!(seeds(enter(&cell, 3, Intent::ByLock).1), [2]);
}

#[test]
fn a_view_reached_after_a_new_founding_is_given_up() {
    let dir = temporary();
    let cell = open(&dir);
    let founder = enter(&cell, 1, Intent::ByLock);
    let mut late = enter(&cell, 2, Intent::ByLock).0;
    // 1. The founder takes `late` into its view, and dies before `late` has settled.
    drop(founder);
    // 2. No settled process lives: another one founds.
    let (_new, standing) = enter(&cell, 3, Intent::ByLock);
    assert_eq!(standing, Standing::Found);
    // 3. Only now `late` sees its view, which is of a cell that no longer counts.
    match late.settle().expect("sound") {
        Some(Settled::Overtaken(seeds)) => assert_eq!(seeds.len(), 1),
        other => panic!("{other:?}"),
    }
    assert!(!late.is_settled());
    // 4. It settles in the new cell.
    assert!(late.begin_anew(Incarnation(22), false).expect("sound"));
    assert_eq!(late.settle().expect("sound"), Some(Settled::Yes));
}

#[test]
fn the_first_settled_process_keeps_others_from_founding() {
    let dir = temporary();
    let cell = open(&dir);
    let founder = enter(&cell, 1, Intent::ByLock);
    let mut late = enter(&cell, 2, Intent::ByLock).0;
    assert_eq!(late.settle().expect("sound"), Some(Settled::Yes));
    drop(founder);
    let (mut third, standing) = enter(&cell, 3, Intent::ByLock);
    assert_eq!(seeds(standing), [2]);
    assert_eq!(third.reconsider().expect("sound").map(seeds), Some(vec![2]));
}

#[test]
fn an_excluded_process_may_found_once_all_others_are_dead() {
    let dir = temporary();
    let cell = open(&dir);
    let founder = enter(&cell, 1, Intent::ByLock);
    let mut excluded = enter(&cell, 2, Intent::ByLock).0;
    assert_eq!(excluded.settle().expect("sound"), Some(Settled::Yes));
    assert!(excluded.begin_anew(Incarnation(22), false).expect("sound"), "no more settled");
    drop(founder);
    assert_eq!(excluded.reconsider().expect("sound"), Some(Standing::Found));
}

#[test]
fn a_process_that_enters_as_configured_keeps_others_from_founding() {
    let dir = temporary();
    let cell = open(&dir);
    let (_told, standing) = enter(&cell, 1, Intent::AsConfigured);
    assert_eq!(seeds(standing), [] as [u16; 0], "it never founds by the lock");
    assert_eq!(seeds(enter(&cell, 2, Intent::ByLock).1), [1]);
}

#[test]
fn sixty_four_at_once_find_the_one_founder() {
    let dir = temporary();
    let children: Vec<Child> = (1..=64).map(|i| Child::start(&root(&dir), i)).collect();
    let said: Vec<String> = children.iter().map(Child::standing).collect();
    assert_eq!(said.iter().filter(|s| *s == "found").count(), 1, "{said:?}");
    let founder = said.iter().position(|s| s == "found").expect("counted above") + 1;
    for standing in said.iter().filter(|s| *s != "found") {
        let first = standing.strip_prefix("join ").and_then(|ports| ports.split(' ').next());
        assert_eq!(first, Some(founder.to_string().as_str()), "the founder is the first seed: {standing}");
    }
}

#[test]
fn a_process_that_begins_an_incarnation_is_in_every_listing() {
    let dir = temporary();
    let cell = open(&dir);
    let _others: Vec<_> = (1..=20).map(|i| enter(&cell, i, Intent::AsConfigured)).collect();
    let (mut anew, _) = enter(&cell, 100, Intent::AsConfigured);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for life in 101..1_100 {
                anew.begin_anew(Incarnation(life), true).expect("sound");
                thread::sleep(Duration::from_micros(500));
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let seen = cell.living().expect("readable");
            let lives: Vec<Incarnation> = seen.iter().map(|live| live.incarnation).collect();
            assert_eq!(lives.len(), 21, "each once: {lives:?}");
        }
    });
}

#[test]
fn killed_processes_leave_nothing_that_wedges() {
    let dir = temporary();
    for round in 0..5 {
        let children: Vec<Child> = (1..=8).map(|i| Child::start(&root(&dir), round * 10 + i)).collect();
        let founded = children.iter().filter(|child| child.standing() == "found").count();
        assert_eq!(founded, 1, "round {round}");
        let cell = open(&dir);
        assert_eq!(cell.living().expect("readable").len(), 8);
        children.into_iter().for_each(Child::kill);
        assert_eq!(cell.living().expect("readable"), [], "the locks prove the deaths");
    }
    let cell = open(&dir);
    let _last = enter(&cell, 99, Intent::ByLock);
    let left: Vec<_> =
        fs::read_dir(cell.scope()).expect("readable").map(|e| e.expect("readable").file_name()).collect();
    assert_eq!(left.len(), 3, "lock, generation and one liveness lock: {left:?}");
}

#[test]
fn a_death_is_proved_and_a_living_process_is_not_declared_dead() {
    let dir = temporary();
    let (dies, lives) = (Child::start(&root(&dir), 1), Child::start(&root(&dir), 2));
    let _ = (dies.standing(), lives.standing());
    let cell = open(&dir);
    let here = host::host_id();
    assert_ne!(here, 0);
    let view = view_of(vec![member(9, here), member(1, here), member(2, here), member(3, here + 1)]);
    let mut deaths = Deaths::new(cell.scope());
    deaths.watch(&view, &BTreeSet::new(), Incarnation(9));
    assert_eq!(deaths.watched(), 2, "neither itself nor those of other hosts");
    assert_eq!(deaths.check(), []);
    dies.kill();
    // This returns only because the descriptor becomes readable.
    let fires = |deaths: &Deaths, timeout: Option<&rustix::event::Timespec>| {
        let descriptor = deaths.descriptor().expect("the system has one");
        let mut watched = [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut watched, timeout).expect("polls") == 1
    };
    assert!(fires(&deaths, None));
    assert_eq!(deaths.check(), [(Incarnation(1), DeathProof::Ended)]);
    assert_eq!(deaths.check(), [], "said once");
    assert!(!fires(&deaths, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })), "and fires no more");
    drop(lives);
}

/// The members are out of the view. One is waited for, and its process lives on as another incarnation for a while; one is
/// not. Whoever came later finds the lock of the one that is stopped, and not the one with another name by now.
#[test]
fn the_death_of_a_former_member_is_proved_while_it_is_waited_for() {
    let dir = temporary();
    let cell = open(&dir);
    let here = host::host_id();
    let (stopped, _) = enter(&cell, 1, Intent::AsConfigured);
    let (mut lives_on, _) = enter(&cell, 2, Intent::AsConfigured);
    let (forgotten, _) = enter(&cell, 3, Intent::AsConfigured);
    let all = view_of(vec![member(9, here), member(1, here), member(2, here), member(3, here)]);
    let left = view_of(vec![member(9, here)]);
    let awaited: BTreeSet<Incarnation> = [1, 2].map(Incarnation).into();
    let (mut saw, mut came) = (Deaths::new(cell.scope()), Deaths::new(cell.scope()));
    saw.watch(&all, &BTreeSet::new(), Incarnation(9));
    assert!(lives_on.begin_anew(Incarnation(22), true).expect("sound"));
    saw.watch(&left, &awaited, Incarnation(9));
    came.watch(&left, &awaited, Incarnation(9));
    assert_eq!((saw.watched(), came.watched()), (2, 1));
    assert_eq!((saw.check(), came.check()), (vec![], vec![]), "they live");
    drop((stopped, lives_on, forgotten));
    let [first, second] = [1, 2].map(|who| (Incarnation(who), DeathProof::Unlocked));
    assert_eq!((saw.check(), came.check()), (vec![first, second], vec![first]));
    let elsewhere = enter(&cell, 4, Intent::AsConfigured);
    saw.watch(&left, &[Incarnation(4)].into(), Incarnation(9));
    saw.watch(&left, &BTreeSet::new(), Incarnation(9));
    drop(elsewhere);
    assert_eq!(saw.check(), [], "nothing waits for it any more");
}

#[test]
fn a_member_that_ended_without_its_process_is_proved_dead_by_its_lock() {
    let dir = temporary();
    let cell = open(&dir);
    let liveness_lock = enter(&cell, 5, Intent::ByLock).0;
    let view = view_of(vec![member(5, host::host_id())]);
    let mut deaths = Deaths::new(cell.scope());
    deaths.watch(&view, &BTreeSet::new(), Incarnation(9));
    assert_eq!(deaths.check(), []);
    drop(liveness_lock);
    assert_eq!(deaths.check(), [(Incarnation(5), DeathProof::Unlocked)]);
}

/// An id that was given again is told by a start time, if that was read in one time namespace. Else the process that has the
/// id counts: when that has ended, so has the one of the advert.
#[test]
fn a_start_time_of_another_time_namespace_proves_no_death() {
    let mine = advert("n", 1);
    assert!(mine.start_ticks != 0 && mine.boot != 0 && !mine.is_gone());
    let other = Advert { start_ticks: mine.start_ticks + 1, ..mine.clone() };
    assert!(other.is_gone(), "an earlier process had this id");
    for unknown in [0, mine.time_namespace + 1] {
        assert!(!Advert { time_namespace: unknown, ..other.clone() }.is_gone());
    }
    let dir = temporary();
    let child = Child::start(&root(&dir), 1);
    let _ = child.standing();
    let apart = Advert { pid: child.id(), start_ticks: 1, time_namespace: 1, ..mine };
    assert!(!apart.is_gone());
    child.kill();
    assert!(apart.is_gone());
    assert!(!Advert { pid_namespace: apart.pid_namespace + 1, ..apart.clone() }.is_gone(), "its ids are others");
    assert!(!Advert { boot: apart.boot + 1, ..apart }.is_gone(), "its ids are those of another machine");
}

#[test]
fn a_forked_child_that_holds_the_lock_is_not_its_parent() {
    let dir = temporary();
    let parent = Child::start_forking(&root(&dir), 1);
    assert_eq!(parent.standing(), "found");
    let cell = open(&dir);
    assert_eq!(cell.living().expect("readable").len(), 1);
    parent.kill();
    assert_eq!(cell.living().expect("readable"), [], "the process of the advert has ended");
    assert_eq!(enter(&cell, 2, Intent::ByLock).1, Standing::Found);
}
