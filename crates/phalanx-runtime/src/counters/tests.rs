//! A file reads back as it was written. Foreign content is refused, never trusted, and never a panic.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use phalanx_core::rng::Rng;
use tempfile::TempDir;

use super::*;
use phalanx_core::{Incarnation, Instant, ViewNumber};

const NAMES: [&str; 3] = ["first", "second", "third_with_a_longer_name"];

fn status() -> Status {
    Status {
        cell: "c \"quoted\"\n".into(),
        name: "n".into(),
        state: "primary".into(),
        why: String::new(),
        view: ViewNumber(7),
        level: 2,
        level_known: 3,
        members: vec!["n".into(), "m".into()],
        levels: vec![3, 4],
        incarnations: vec!["0a".into(), "0b".into()],
        hosts: vec!["0c".into(), String::new()],
        departed: vec![DepartedStatus {
            view: ViewNumber(6),
            name: "o".into(),
            incarnation: "0d".into(),
            why: "unreachable".into(),
            proof: "ended".into(),
            found_by: vec!["n".into(), "m".into()],
        }],
        groups: vec![GroupStatus {
            name: "g".into(),
            number: 1,
            view: ViewNumber(3),
            members: 2,
            ranks: vec![1, 0],
            state: "yes".into(),
            domains: vec![String::new(), "d".into()],
            queued_messages: 4,
            queued_bytes: 5,
            unstable_packets: 6,
            sent: 7,
            delivered: 8,
            waits_for: Some("m".into()),
            hold: Some("credit".into()),
            orders: Some("n".into()),
        }],
        orphans: vec![OrphanStatus::new("lost", vec![(Incarnation(10), "x".into()), (Incarnation(11), String::new())])],
        orphans_left_out: 1,
    }
}

fn written(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("a.counters");
    let mut writer = CountersWriter::create(&path, &NAMES).expect("made");
    writer.update(Instant(5), Incarnation(9), &[1, 2, u64::MAX], &status());
    assert_eq!(writer.failures(), 0);
    path
}

fn read(path: &std::path::Path) -> Result<Reading, CountersError> {
    CountersFile::open(path).expect("there").read()
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let reading = read(&written(&dir)).expect("sound");
    assert_eq!(reading.pid, u64::from(std::process::id()));
    assert_eq!((reading.incarnation, reading.updated, reading.rewrites), (Incarnation(9), Instant(5), 1));
    let counters: Vec<(&str, u64)> = reading.counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(counters, [(NAMES[0], 1), (NAMES[1], 2), (NAMES[2], u64::MAX)]);
    assert_eq!(reading.status, status());
}

#[test]
fn a_text_that_does_not_fit_is_cut_and_reports_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.counters");
    let mut writer = CountersWriter::create(&path, &NAMES).expect("made");
    let group = status().groups.remove(0);
    let holders = (1..=1_000).map(|id| (Incarnation(id), "h".repeat(200))).collect();
    let orphan = OrphanStatus::new(&"o".repeat(200), holders);
    assert_eq!((orphan.waits_for.len(), orphan.left_out), (HOLDERS_SHOWN, 1_000 - HOLDERS_SHOWN as u64));
    let large = Status {
        groups: vec![group; 1_000],
        orphans: vec![orphan; ORPHANS_SHOWN],
        members: vec!["m".repeat(200); 1_000],
        levels: vec![1; 1_000],
        ..status()
    };
    writer.update(Instant(5), Incarnation(9), &[], &large);
    let reading = read(&path).expect("sound");
    assert!(!reading.status.groups.is_empty() && reading.status.groups.len() < 1_000);
    let told = reading.status.orphans.len();
    assert!((1..ORPHANS_SHOWN).contains(&told), "{told} groups that wait");
    assert_eq!(reading.status.orphans_left_out, 1 + (ORPHANS_SHOWN - told) as u64);
    assert_eq!(reading.status.state, "primary");
    // The next text leaves no rest of the longer one.
    writer.update(Instant(6), Incarnation(9), &[], &status());
    assert_eq!(read(&path).expect("sound").status, status());
}

#[test]
fn a_reader_sees_one_moment_while_the_file_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(&dir);
    std::fs::remove_file(&path).expect("there");
    let mut writer = CountersWriter::create(&path, &NAMES).expect("made");
    writer.update(Instant(0), Incarnation(0), &[0, 0, 0], &status());
    let file = CountersFile::open(&path).expect("there");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=20_000 {
                writer.update(Instant(i), Incarnation(i), &[i, i, i], &status());
            }
            over.store(true, Ordering::Relaxed);
        });
        let mut last = 0;
        while !over.load(Ordering::Relaxed) {
            match file.read() {
                Ok(reading) => {
                    let (_, first) = reading.counters[0];
                    assert!(reading.counters.iter().all(|(_, value)| *value == first), "{reading:?}");
                    assert_eq!((reading.updated.0, reading.incarnation.0), (first, first));
                    assert!(first >= last, "time goes on");
                    last = first;
                }
                // A file that is rewritten without a pause may never be read consistently; at ten rewrites a second it
                // is.
                Err(CountersError::Damaged { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(file.read().expect("sound").counters[0].1, 20_000);
}

#[test]
fn foreign_files_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x");
    for content in [&b""[..], b"PHXCOUNT", &[0; 500], &vec![b'x'; FILE_BYTES_MAX + 10]] {
        std::fs::write(&path, content).expect("written");
        assert!(matches!(read(&path), Err(CountersError::NotCounters { .. })), "{} bytes", content.len());
    }
    let mut image = std::fs::read(written(&dir)).expect("there");
    image[8] = 2;
    std::fs::write(&path, &image).expect("written");
    assert!(matches!(read(&path), Err(CountersError::Version { found: 2, .. })));
    assert!(matches!(CountersFile::open(&dir.path().join("none")), Err(CountersError::Io { .. })));
    std::os::unix::fs::symlink(&path, dir.path().join("link")).expect("linked");
    assert!(matches!(CountersFile::open(&dir.path().join("link")), Err(CountersError::Io { .. })));
}

#[test]
fn hostile_files_with_a_right_checksum_are_refused_or_harmless() {
    let dir = tempfile::tempdir().expect("a directory");
    let sound = std::fs::read(written(&dir)).expect("there");
    let path = dir.path().join("x");
    let mut rng = Rng::new(1);
    let mut refused = 0;
    for _ in 0..3_000 {
        let mut image = sound.clone();
        for _ in 0..1 + rng.below(4) {
            // Mostly the header and the tables, which hold lengths and offsets.
            let at = layout::AT_COVERED + rng.below(160) as usize;
            image[at] = rng.next_u64() as u8;
        }
        let checksum = crate::local::host::fnv1a(&[&image[layout::AT_COVERED..]]);
        image[layout::AT_CHECKSUM..layout::AT_CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, &image).expect("written");
        refused += usize::from(read(&path).is_err());
    }
    assert!(refused > 500, "{refused} refused");
}

#[test]
fn a_file_cut_short_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(&dir);
    let sound = std::fs::read(&path).expect("there");
    for len in [100, sound.len() / 2, sound.len() - 1] {
        std::fs::write(&path, &sound[..len]).expect("written");
        assert!(matches!(read(&path), Err(CountersError::Damaged { .. })), "{len} bytes");
    }
}
