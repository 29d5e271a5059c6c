//! The records of fixed founders, and the uniqueness of names.

use phalanx_core::member::{Heard, LastView};
use phalanx_core::{CellInstance, ViewNumber};

use super::*;

fn marked(instance: u64) -> FounderRecord {
    FounderRecord { mark: Some(BootstrapMarker::bare(CellInstance(instance))), ..FounderRecord::default() }
}

fn take(dir: &TempDir, name: &str) -> Result<Founder, LocalError> {
    open(dir).take_founder(name, &advert(name, 1))
}

/// The id of the process that holds the name.
fn holder(outcome: Result<Founder, LocalError>) -> Option<u32> {
    match outcome {
        Err(LocalError::NameInUse { pid, .. }) => pid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_founders_record_is_read_as_it_was_kept() {
    let dir = temporary();
    let mut founder = take(&dir, "a").expect("free");
    assert_eq!(founder.record(), &FounderRecord::default(), "nothing is no error");
    let record = marked(1 << 48 | 7);
    founder.keep(&record).expect("written");
    drop(founder);
    assert_eq!(take(&dir, "a").expect("free").record(), &record);
    assert_eq!(take(&dir, "b").expect("free").record(), &FounderRecord::default(), "another name");
    let file = open(&dir).record_file("a");
    fs::write(file.path(), "record = \"00\"").expect("written");
    let error = take(&dir, "a").expect_err("not in this format");
    assert!(error.to_string().contains("holds no founder's record"), "{error}");
}

#[test]
fn the_last_view_is_noted_and_its_loss_harms_nothing() {
    let dir = temporary();
    let mut founder = take(&dir, "a").expect("free");
    let kept = Kept::new(&open(&dir), None).expect("made");
    founder.keep(&marked(7)).expect("written");
    let file = open(&dir).record_file("a");
    let before = fs::read(file.path()).expect("there");
    let last =
        LastView { instance: CellInstance(7), view: ViewNumber(3), members: vec!["a".to_owned(), "b".to_owned()] };
    let now = FounderRecord { last: Some(last), ..marked(7) };
    let restored = kept.restore(Some((&mut founder, &now)));
    assert_eq!((restored.again.len(), restored.wrong.len()), (0, 0), "{restored:?}");
    assert_eq!(
        fs::read(file.path()).expect("there"),
        before,
        "a record that was synced is not replaced by one that was not"
    );
    drop(founder);
    assert_eq!(take(&dir, "a").expect("free").record(), &now);
    // The state that a power cut may leave.
    fs::write(file.path().with_extension("last"), "").expect("there");
    assert_eq!(take(&dir, "a").expect("free").record(), &marked(7));
}

/// The holder's lock reaches this machine. Its process id says nothing here, whatever process has it.
#[test]
fn a_name_that_another_machine_holds_is_not_taken_from_it() {
    let dir = temporary();
    let held = take(&dir, "a").expect("free");
    let path = open(&dir).record_file("a").path().with_extension("lock");
    let nobody = u32::try_from(i32::MAX).expect("positive");
    let mine = advert("a", 1);
    let of = |boot, pid_namespace| Advert { pid: nobody, boot, pid_namespace, host: boot, ..mine.clone() };
    for (holder, says) in [
        (of(mine.boot + 1, mine.pid_namespace), "of another machine"),
        (of(0, mine.pid_namespace), "of another machine"),
        (of(mine.boot, mine.pid_namespace + 1), "of another process namespace"),
    ] {
        fs::write(&path, holder.to_text()).expect("there");
        let error = take(&dir, "a").expect_err("it is held");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(self::holder(Err(error)), Some(nobody));
    }
    // Only a forked child of a process of this machine holds it.
    fs::write(&path, of(mine.boot, mine.pid_namespace).to_text()).expect("there");
    drop(take(&dir, "a").expect("its process has ended"));
    drop(held);
}

/// A volume that grants each machine the lock for itself.
#[test]
fn a_lock_that_another_machine_holds_as_well_is_reported() {
    let dir = temporary();
    let mut founder = take(&dir, "a").expect("free");
    let kept = Kept::new(&open(&dir), None).expect("made");
    let record = founder.record().clone();
    assert_eq!(kept.restore(Some((&mut founder, &record))).wrong.len(), 0);
    let path = open(&dir).record_file("a").path().with_extension("lock");
    let mine = advert("a", 1);
    fs::write(&path, Advert { pid: 7, boot: mine.boot + 1, ..mine }.to_text()).expect("there");
    let wrong = kept.restore(Some((&mut founder, &record))).wrong;
    assert!(matches!(wrong[..], [LocalError::NoLocks { pid: 7, .. }]), "{wrong:?}");
    assert!(wrong[0].to_string().contains("state_dir"), "{}", wrong[0]);
}

#[test]
fn two_processes_have_not_one_name() {
    let dir = temporary();
    let child = Child::start_founder(&root(&dir), 1);
    let pid = child.id();
    let _ = child.standing();
    let error = take(&dir, "n1").expect_err("taken");
    let told = error.to_string();
    assert!(
        told.contains("founder-n1.lock") && told.contains(&format!("process {pid}")) && told.contains("end one"),
        "{told}"
    );
    assert_eq!(holder(Err(error)), Some(pid));
    take(&dir, "n2").expect("another name is free");
    child.kill();
    take(&dir, "n1").expect("the lock ended with its process");
}

#[test]
fn an_emptied_directory_frees_no_name() {
    let dir = temporary();
    let child = Child::start_founder(&root(&dir), 1);
    let pid = child.id();
    let _ = child.standing();
    fs::remove_dir_all(state(&dir)).expect("there");
    assert_eq!(holder(take(&dir, "n1")), Some(pid), "its name in the kernel tells");
    take(&dir, "n2").expect("another name is free");
    child.kill();
    take(&dir, "n1").expect("free");
}

#[test]
fn a_forked_child_of_a_founder_is_not_the_founder() {
    let dir = temporary();
    let mut parent = Child::start_forking_founder(&root(&dir), 1);
    let pid = parent.id();
    let _ = parent.standing();
    assert_eq!(holder(take(&dir, "n1")), Some(pid));
    parent.end();
    let _founder = take(&dir, "n1").expect("the process of the advert has ended");
    assert_eq!(holder(take(&dir, "n1")), Some(std::process::id()), "and the lock is a new one");
}

#[test]
fn record_and_lock_that_are_gone_are_written_again() {
    let dir = temporary();
    let kept = Kept::new(&open(&dir), None).expect("made");
    let mut founder = take(&dir, "a").expect("free");
    let heard = Heard { instance: CellInstance(7), at: std::net::SocketAddr::from(([10, 0, 0, 1], 7401)) };
    let record = FounderRecord { heard: Some(heard), ..FounderRecord::default() };
    founder.keep(&record).expect("written");
    assert_eq!(kept.restore(Some((&mut founder, &record))).again, [] as [&str; 0]);
    fs::remove_dir_all(state(&dir)).expect("there");
    let restored = kept.restore(Some((&mut founder, &record)));
    assert_eq!(
        restored.again,
        ["the directory's number", "the founder's record", "the founder's lock"],
        "{restored:?}"
    );
    assert_eq!(open(&dir).record_file("a").read().expect("whole"), Some(record));
    assert_eq!(holder(take(&dir, "a")), Some(std::process::id()));
}

#[test]
fn the_record_of_another_process_is_reported_and_left_alone() {
    let dir = temporary();
    let kept = Kept::new(&open(&dir), None).expect("made");
    let mut founder = take(&dir, "a").expect("free");
    founder.keep(&marked(7)).expect("written");
    let file = open(&dir).record_file("a");
    file.keep(&marked(9)).expect("written");
    let restored = kept.restore(Some((&mut founder, &marked(7))));
    assert!(
        matches!(restored.wrong[..], [LocalError::OtherRecord { here: CellInstance(9), mine: CellInstance(7), .. }]),
        "{restored:?}"
    );
    let told = restored.wrong[0].to_string();
    assert!(told.contains("0000000000000009") && told.contains("0000000000000007"), "{told}");
    assert_eq!(file.read().expect("whole"), Some(marked(9)));
    // As the error text advises: the file is removed, and the founder restores it.
    fs::remove_file(file.path()).expect("there");
    assert_eq!(kept.restore(Some((&mut founder, &marked(7)))).again, ["the founder's record"]);
    assert_eq!(file.read().expect("whole"), Some(marked(7)));
}

#[test]
fn a_lock_that_another_process_has_meanwhile_is_reported() {
    let dir = temporary();
    let kept = Kept::new(&open(&dir), None).expect("made");
    let mut founder = take(&dir, "a").expect("free");
    fs::remove_dir_all(state(&dir)).expect("there");
    let _second = take(&dir, "a").expect("this founder has no name in the kernel");
    let restored = kept.restore(Some((&mut founder, &FounderRecord::default())));
    assert!(matches!(restored.wrong[..], [LocalError::NameInUse { .. }]), "{restored:?}");
}

#[test]
fn what_an_earlier_build_left_is_taken_over() {
    let dir = temporary();
    let cell = open(&dir);
    let old = cell.scope().parent().expect("inside").to_path_buf();
    let private = |name: &str, text: &str| {
        fs::write(old.join(name), text).expect("ours");
        fs::set_permissions(old.join(name), fs::Permissions::from_mode(0o600)).expect("ours");
    };
    let hex = "5a".repeat(32);
    private("key", &hex);
    private("id", "00000000000000aa");
    private("founded-a", "0001000000000007\n");
    private("founded-b", "seven");
    assert_eq!(cell.key().expect("taken over").to_hex(), hex);
    assert_eq!(cell.seat("a").expect("taken over"), host::fnv1a(&[&0xaa_u64.to_le_bytes(), b"a"]));
    assert_eq!(take(&dir, "a").expect("free").record(), &marked(1 << 48 | 7));
    let error = take(&dir, "b").expect_err("no number");
    assert!(matches!(error, LocalError::BadRecord { .. }), "{error}");
    assert_eq!(take(&dir, "c").expect("free").record(), &FounderRecord::default());
    // From then on the state directory counts.
    fs::remove_dir_all(&old).expect("ours");
    let cell = open(&dir);
    assert_eq!(cell.key().expect("there").to_hex(), hex);
    assert_eq!(take(&dir, "a").expect("free").record(), &marked(1 << 48 | 7));
}

#[test]
fn the_home_is_the_one_of_the_users_number() {
    let users = "root:x:0:0::/root:/bin/sh\nbad\nann:x:1000:1000:,,,:/home/ann:/bin/sh\nnone:x:7:7:::\n";
    assert_eq!(directory::home(users, 1000), Some(PathBuf::from("/home/ann")));
    assert_eq!((directory::home(users, 7), directory::home(users, 8)), (None, None));
}
