//! Capture files of simulated seeds: every packet and destination is in them once, and showing them changes nothing.

use phalanx_sim::{Options, SeedResult, TapFile, TapForm, run_seed};

/// Runs a seed, and counts the packets that its file has.
fn tapped(seed: u64, form: TapForm) -> (SeedResult, u64, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("seed.pcapng");
    let file = TapFile::create(&path, form).expect("the file is new");
    let result = run_seed(seed, &Options { tap: Some(file.clone()), ..Options::default() });
    let packets = file.finish().expect("the disk has room");
    (result, packets, std::fs::read(path).expect("it is there"))
}

/// Packet blocks in a file, and the bytes that they hold.
fn blocks(file: &[u8]) -> (u64, u64) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut packets, mut bytes) = (0, 0, 0);
    while at < file.len() {
        if word(at) == ENHANCED_PACKET {
            packets += 1;
            bytes += u64::from(word(at + 20));
        }
        at += word(at + 4) as usize;
    }
    assert_eq!(at, file.len(), "the last block ends with the file");
    (packets, bytes)
}

const ENHANCED_PACKET: u32 = 6;

#[test]
fn each_packet_and_destination_is_in_the_file_once() {
    let mut through_memory = 0;
    for seed in 0..12 {
        let plain = run_seed(seed, &Options::default());
        for form in [TapForm::Clear, TapForm::Sealed] {
            let (result, packets, file) = tapped(seed, form);
            assert_eq!(result.trace_hash, plain.trace_hash, "the tap changed seed {seed}");
            let core = |name: &str| result.counters.core.get(name).copied().unwrap_or_default();
            let sent = core("datagrams_sent") + core("packets_shared");
            assert_eq!((packets, blocks(&file).0), (sent, sent), "seed {seed}, {form:?}");
            through_memory += core("packets_shared");
        }
    }
    assert!(through_memory > 10_000, "{through_memory}");
}

/// A failed seed is run again and again to shrink it. These runs are not in the file.
#[test]
fn the_file_is_that_of_the_first_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = TapFile::create(&folder.path().join("seed.pcapng"), TapForm::Clear).expect("the file is new");
    let options = Options { tap: Some(file.clone()), ..Options::default() };
    let once = run_seed(3, &options);
    let first = file.finish().expect("the disk has room");
    assert_eq!(run_seed(3, &options).trace_hash, once.trace_hash);
    assert_eq!(file.finish().expect("the disk has room"), first);
    assert!(first > 1_000, "{first}");
}

#[test]
fn what_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("seed.pcapng");
    std::fs::write(&path, "mine").expect("there is room");
    let refused = TapFile::create(&path, TapForm::Clear).expect_err("it is there");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
}
