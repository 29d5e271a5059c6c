//! Watches of members, hosts, groups and cells of real processes, and health checks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    Cell, CellChange, CellEvent, Departure, End, GroupChange, HostChange, LeaveReason, MemberChange, MemberId, Next,
    Watch, WatchError, wait_for,
};

use crate::common::{Member, PATIENCE, impatient, patient};
use crate::processes::{Child, SENT};

/// Takes items until one is the one that is meant.
fn await_change<T, V>(watch: &mut Watch<T>, mut meant: impl FnMut(T) -> Option<V>) -> V {
    loop {
        let change = watch.blocking_next_timeout(PATIENCE).expect("in time").expect("it goes on");
        if let Some(value) = meant(change) {
            return value;
        }
    }
}

fn gone(change: MemberChange) -> Option<Departure> {
    match change {
        MemberChange::Gone(gone) => Some(gone),
        _ => None,
    }
}

fn here(change: MemberChange) -> Option<MemberId> {
    match change {
        MemberChange::Here(member) => Some(member.id),
        _ => None,
    }
}

/// The id of a member with that name, once it is in the cell.
fn await_member(cell: &Cell, name: &str) -> MemberId {
    await_change(&mut cell.watch_member_named(name), here)
}

/// By the time at which a watch tells a death, the view and all messages before it are in the inbox, to be taken without
/// a wait.
#[test]
fn a_killed_process_is_dead_by_proof_and_the_inbox_has_its_last_message_and_the_view() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut ann = Member::start(patient(dir.path(), "ann"));
    ann.await_members(1);
    let mut named = ann.cell.watch_member_named("bob");
    assert_eq!(await_change(&mut named, Some), MemberChange::Absent);
    let mut child = Child::start_sending(dir.path(), "bob");
    let bob = await_change(&mut named, here);
    let mut one = ann.cell.watch_member(bob);
    assert!(here(await_change(&mut one, Some)).is_some(), "it is told at once");
    let host = ann.cell.me().host.expect("its system tells");
    let mut of_host = ann.cell.watch_host(host);
    let mut of_group = ann.cell.watch_group("g");
    let mut of_cell = ann.cell.watch_cell();
    child.await_line("sent");
    let leaves = {
        let cell = ann.cell.clone();
        thread::spawn(move || wait_for(cell.left(bob), PATIENCE).expect("in time"))
    };
    child.kill();

    let death = await_change(&mut one, gone);
    let items: Vec<Next> = std::iter::from_fn(|| ann.inbox.try_next()).collect();
    let texts = items.iter().filter(|item| matches!(item, Next::Message(message) if message.sender == bob)).count();
    assert_eq!(texts, SENT, "{items:?}");
    let end = items.iter().position(|item| matches!(item, Next::View(view) if view.left().any(|(who, _)| who == bob)));
    let last = items.iter().rposition(|item| matches!(item, Next::Message(_)));
    assert!(end.is_some() && last < end, "the view is in the inbox, after the last message");

    assert_eq!((&death.member.name[..], death.why, death.found_by.len()), ("bob", Some(LeaveReason::Died), 0));
    assert!(death.proof.is_some(), "the system of this host proved it: {death:?}");
    assert_eq!(one.blocking_next(), None, "an incarnation does not come back");
    assert_eq!(await_change(&mut named, gone), death);
    assert_eq!(leaves.join().expect("no panic"), Ok(death.clone()));
    assert_eq!(ann.cell.blocking_left(bob), Ok(death.clone()), "who asks late is told the same");
    let (stay, went) = await_change(&mut of_host, |change| match change {
        HostChange::Here { members, gone } if !gone.is_empty() => Some((members, gone)),
        _ => None,
    });
    assert_eq!((stay.len(), &went[..]), (1, &[death.clone()][..]));
    let (group, left) = await_change(&mut of_group, |change| match change {
        GroupChange::Members { group, left, .. } if !left.is_empty() => Some((group, left)),
        _ => None,
    });
    assert_eq!((left, group.members), (vec![(bob, Some(LeaveReason::Died))], vec![ann.cell.me().id]));
    await_change(&mut of_cell, |change| match change {
        CellChange::View(view) => view.departures().find(|gone| *gone == death),
        _ => None,
    });
}

#[test]
fn who_leaves_in_order_has_left_and_its_own_watches_say_how_it_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let ann = patient(dir.path(), "ann").blocking_start().expect("starts");
    let bob = patient(dir.path(), "bob").blocking_start().expect("starts");
    let id = await_member(&ann, "bob");
    let (mut seen, mut own) = (ann.watch_member(id), bob.watch_cell());
    let (mut other, clone) = (bob.watch_member_named("ann"), bob.clone());
    await_change(&mut other, here);
    assert_eq!(clone.end(), None);
    bob.blocking_leave(PATIENCE).expect("leaves");
    let left = await_change(&mut seen, gone);
    assert_eq!((left.why, left.proof, left.found_by.len()), (Some(LeaveReason::Left), None, 0));
    let end = await_change(&mut own, |change| match change {
        CellChange::Over(end) => Some(end),
        _ => None,
    });
    assert_eq!((end, clone.end(), own.blocking_next().is_none()), (End::Left, Some(End::Left), true));
    assert_eq!(other.blocking_next(), None, "nothing is known of ann any more");
    assert_eq!(clone.blocking_left(ann.me().id), Err(WatchError::Over));
    assert_eq!(clone.blocking_left(id).map(|own| own.why), Ok(Some(LeaveReason::Left)));
}

#[test]
fn a_stopped_process_is_excluded_by_findings_and_comes_back_as_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (Member::start(impatient(dir.path(), "ann")), Member::start(impatient(dir.path(), "bob")));
    let child = Child::start(dir.path(), "carl");
    let carl = await_member(&ann.cell, "carl");
    let (mut one, mut named) = (ann.cell.watch_member(carl), ann.cell.watch_member_named("carl"));
    child.stop();
    let excluded = await_change(&mut one, gone);
    assert_eq!((excluded.why, excluded.proof), (Some(LeaveReason::Unreachable), None));
    let finders = [ann.cell.me().id, bob.cell.me().id];
    let by = &excluded.found_by;
    assert!(!by.is_empty() && by.iter().all(|by| finders.contains(by)), "{excluded:?} but {finders:?}");
    assert_eq!(bob.cell.blocking_left(carl).map(|left| left.why), Ok(excluded.why), "agreed");
    child.signal(rustix::process::Signal::CONT);
    assert_eq!(await_change(&mut named, gone), excluded);
    assert_ne!(await_change(&mut named, here), carl);
}

/// A process that is in the group is not needed to watch it.
#[test]
fn a_group_of_others_comes_and_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let ann = patient(dir.path(), "ann").blocking_start().expect("starts");
    let mut watch = ann.watch_group("h");
    assert!(matches!(await_change(&mut watch, Some), GroupChange::Absent));
    let bob = patient(dir.path(), "bob").blocking_start().expect("starts");
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let (h, _inbox) = bob.group("h").blocking_join().expect("joins");
        numbers.push(await_change(&mut watch, |change| match change {
            GroupChange::Members { group, joined, .. } => {
                assert_eq!((&joined, &group.members), (&vec![bob.me().id], &joined), "the first member");
                Some(group.number)
            }
            _ => None,
        }));
        h.blocking_leave().expect("leaves");
        numbers.push(await_change(&mut watch, |change| match change {
            GroupChange::Gone { number, left } => {
                assert_eq!(left, [(bob.me().id, Some(LeaveReason::Left))]);
                Some(number)
            }
            _ => None,
        }));
    }
    assert!(numbers[0] == numbers[1] && numbers[1] < numbers[2] && numbers[2] == numbers[3], "{numbers:?}");
}

/// Watches keep no process alive, and end with it.
#[test]
fn a_watch_ends_with_the_last_handle() {
    let dir = tempfile::tempdir().expect("a directory");
    let ann = patient(dir.path(), "ann").blocking_start().expect("starts");
    let (mut cell, mut group) = (ann.watch_cell(), ann.watch_group("g"));
    drop(ann);
    let end = await_change(&mut cell, |change| match change {
        CellChange::Over(end) => Some(end),
        _ => None,
    });
    assert_eq!(end, End::Left);
    while group.blocking_next_timeout(PATIENCE).expect("it ends").is_some() {}
}

const EVERY: Duration = Duration::from_millis(10);

#[test]
fn a_check_that_fails_often_makes_the_process_leave_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let ann = patient(dir.path(), "ann").blocking_start().expect("starts");
    let (works, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (is_well, counted) = (Arc::clone(&works), Arc::clone(&calls));
    let check = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        if is_well.load(Ordering::SeqCst) { Ok(()) } else { Err("no disk") }
    };
    let builder = patient(dir.path(), "bob").health_check(EVERY, PATIENCE, 3, check);
    let bob = builder.blocking_start().expect("starts");
    let (mut events, mut own) = (bob.events(), bob.watch_cell());
    let mut seen = ann.watch_member(await_member(&ann, "bob"));
    let until = Instant::now() + PATIENCE;
    while calls.load(Ordering::SeqCst) < 5 {
        assert!(Instant::now() < until, "it is called again and again");
        thread::sleep(EVERY);
    }
    assert_eq!(bob.end(), None, "it is well");
    works.store(false, Ordering::SeqCst);
    let why = crate::common::await_event(&mut events, |event| match event {
        CellEvent::Unhealthy { why } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(why, "its health check failed 3 times in a row, at last: no disk");
    assert_eq!(await_change(&mut seen, gone).why, Some(LeaveReason::Left), "to the others it is a leave");
    let end = await_change(&mut own, |change| match change {
        CellChange::Over(end) => Some(end),
        _ => None,
    });
    assert_eq!((end, bob.end()), (End::Unhealthy { why: why.clone() }, Some(End::Unhealthy { why })));
    bob.blocking_leave(PATIENCE).expect("it has left");
}

/// It hangs until the test ends, and holds nobody up.
#[test]
fn a_check_that_hangs_makes_the_process_leave_and_does_not_hold_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let hangs = move || held.lock().map_or(Ok(()), |held| held.recv().map_err(|_ended| "the test is over"));
    let builder = patient(dir.path(), "ann").health_check(EVERY, EVERY, 3, hangs);
    let ann = builder.clone().blocking_start().expect("starts");
    let mut own = ann.watch_cell();
    let end = await_change(&mut own, |change| match change {
        CellChange::Over(end) => Some(end),
        _ => None,
    });
    assert!(matches!(&end, End::Unhealthy { why } if why.contains("did not return within 10ms")), "{end}");
    assert!(builder.inline().is_err(), "a process that is polled takes none");
    drop(hold);
}
