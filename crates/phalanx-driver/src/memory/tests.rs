//! The ring alone, in plain memory: also run by Miri.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::ring::{Cursor, HEAD_BYTES, PACKET_BYTES_MAX, Polled, Ring, Seen, Writer, Written};

struct Memory {
    reserved: AtomicU64,
    tail: AtomicU64,
    data: Vec<AtomicU64>,
}

impl Memory {
    fn new(words: usize) -> Self {
        let data = (0..words).map(|_| AtomicU64::new(u64::MAX)).collect();
        Self { reserved: AtomicU64::new(0), tail: AtomicU64::new(0), data }
    }

    fn written(&self) -> Written<'_> {
        Written { reserved: &self.reserved, tail: &self.tail, data: &self.data }
    }

    fn ring(&self) -> Ring<'_> {
        Ring {
            reserved: Seen::new(std::slice::from_ref(&self.reserved)),
            tail: Seen::new(std::slice::from_ref(&self.tail)),
            data: Seen::new(&self.data),
        }
    }
}

fn packet(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (number.wrapping_mul(31) + i) as u8).collect()
}

#[test]
fn every_length_passes_at_every_place() {
    let memory = Memory::new(64);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    for number in 0..400_u64 {
        let sent = packet(number, number as usize % 97);
        writer.push(memory.written(), 0b10, [&[], &[], &sent]);
        assert!(cursor.refresh(memory.ring()));
        assert_eq!(cursor.look(memory.ring(), 0b10, usize::MAX, &mut out), Polled::Taken(sent.len()));
        assert_eq!(out[..sent.len()], sent);
        assert!(!cursor.refresh(memory.ring()) && !cursor.has_more(memory.ring()));
    }
}

#[test]
fn what_is_for_others_is_passed() {
    let memory = Memory::new(256);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    for number in 0..20_u64 {
        writer.push(memory.written(), 1 << (number % 3), [&[], &[], &packet(number, 9)]);
    }
    for number in 0..20_u64 {
        assert!(cursor.refresh(memory.ring()));
        let looked = cursor.look(memory.ring(), 0b10, usize::MAX, &mut out);
        assert_eq!(looked, if number % 3 == 1 { Polled::Taken(9) } else { Polled::Passed });
    }
}

#[test]
fn a_reader_that_is_overtaken_sees_it() {
    let memory = Memory::new(64);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    writer.push(memory.written(), 1, [&[], &[], &packet(0, 8)]);
    assert!(cursor.refresh(memory.ring()));
    for number in 1..100 {
        writer.push(memory.written(), 1, [&[], &[], &packet(number, 8)]);
    }
    assert_eq!(cursor.look(memory.ring(), 1, usize::MAX, &mut out), Polled::Overrun);
    assert!(!cursor.refresh(memory.ring()), "all that waited is given up");
    writer.push(memory.written(), 1, [&[], &[], &packet(100, 8)]);
    assert!(cursor.refresh(memory.ring()));
    assert_eq!(cursor.look(memory.ring(), 1, usize::MAX, &mut out), Polled::Taken(8));
    assert_eq!(out[..8], packet(100, 8));
}

#[test]
fn a_record_in_parts_is_one() {
    let memory = Memory::new(64);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    let lengths =
        [[0, 9, 0], [8, 9, 3], [16, 0, 0], [5, 1, 1], [3, 5, 8], [24, 100, 50], [7, 0, 30], [1, 20, 17], [0, 0, 1]];
    for lengths in lengths.into_iter().cycle().take(90) {
        let parts = [packet(1, lengths[0]), packet(2, lengths[1]), packet(3, lengths[2])];
        writer.push(memory.written(), 1, [&parts[0], &parts[1], &parts[2]]);
        assert!(cursor.refresh(memory.ring()));
        let len = lengths.iter().sum();
        assert_eq!(cursor.look(memory.ring(), 1, usize::MAX, &mut out), Polled::Taken(len));
        assert_eq!(out[..len], parts.concat());
    }
}

#[test]
fn a_record_that_has_begun_is_completed_or_passed() {
    let memory = Memory::new(256);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    for number in 0..200_u64 {
        let sent = packet(number, 100 + number as usize);
        writer.push(memory.written(), 1, [&sent, &[], &[]]);
        assert!(cursor.refresh(memory.ring()));
        let looked = cursor.look(memory.ring(), 1, 40, &mut out);
        if sent.len() <= HEAD_BYTES {
            assert_eq!(looked, Polled::Taken(sent.len()), "not longer than what is copied of any");
            continue;
        }
        assert_eq!(looked, Polled::Begun(sent.len()));
        assert_eq!(out[..HEAD_BYTES], sent[..HEAD_BYTES]);
        let rest = cursor.rest(memory.ring(), sent.len());
        let mut place = vec![0; sent.len() - HEAD_BYTES];
        assert!(!rest.copy_to(&mut place[1..]), "it is longer");
        if number % 2 == 0 {
            assert!(rest.copy_to(&mut place));
            assert_eq!(place, sent[HEAD_BYTES..]);
        }
        assert!(cursor.pass(memory.ring(), sent.len()));
        assert!(!cursor.has_more(memory.ring()));
    }
}

#[test]
fn a_record_that_is_overwritten_after_it_has_begun_is_not_taken() {
    let memory = Memory::new(128);
    let (mut writer, mut cursor, mut out) = (Writer::default(), Cursor::default(), Vec::new());
    let sent = packet(0, 300);
    writer.push(memory.written(), 1, [&sent, &[], &[]]);
    assert!(cursor.refresh(memory.ring()));
    assert_eq!(cursor.look(memory.ring(), 1, 0, &mut out), Polled::Begun(300));
    let mut place = vec![0; 300 - HEAD_BYTES];
    assert!(cursor.rest(memory.ring(), 300).copy_to(&mut place));
    for number in 1..5 {
        writer.push(memory.written(), 1, [&packet(number, 300), &[], &[]]);
    }
    assert!(!cursor.rest(memory.ring(), 300).copy_to(&mut place));
    assert!(!cursor.pass(memory.ring(), 300));
    assert!(!cursor.refresh(memory.ring()), "all that waited is given up");
}

#[test]
fn what_no_writer_writes_is_broken_or_lost_but_never_taken() {
    let too_long = PACKET_BYTES_MAX as u64 + 1;
    for (len, tail) in [(too_long, 70_000), (u64::MAX, 1_000), (100, 24), (1 << 32, 1 << 40), (8, u64::MAX)] {
        let memory = Memory::new(16 << 10);
        memory.data[0].store(len, Ordering::Relaxed);
        memory.tail.store(tail, Ordering::Relaxed);
        let (mut cursor, mut out) = (Cursor::default(), Vec::new());
        assert!(cursor.refresh(memory.ring()));
        let looked = cursor.look(memory.ring(), 1, usize::MAX, &mut out);
        assert!(matches!(looked, Polled::Broken | Polled::Overrun), "{len} {tail}: {looked:?}");
    }
}

#[test]
fn whatever_is_taken_while_the_writer_goes_round_is_whole() {
    let count = if cfg!(miri) { 300 } else { 200_000 };
    let memory = Memory::new(256);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::default();
            for number in 0..count {
                let mut sent = packet(number, 8 + number as usize % 300);
                sent[..8].copy_from_slice(&number.to_le_bytes());
                writer.push(memory.written(), 1, [&[], &[], &sent]);
                if number % 16 == 0 {
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Release);
        });
        let (mut cursor, mut out, mut next) = (Cursor::default(), Vec::new(), 0);
        loop {
            let over = done.load(Ordering::Acquire);
            if !cursor.refresh(memory.ring()) {
                if over {
                    return;
                }
                thread::yield_now();
                continue;
            }
            let whole_max = if next % 3 == 0 { 0 } else { usize::MAX };
            let len = match cursor.look(memory.ring(), 1, whole_max, &mut out) {
                Polled::Taken(len) => len,
                Polled::Begun(len) => {
                    out.resize(out.len().max(len), 0);
                    let is_there = cursor.rest(memory.ring(), len).copy_to(&mut out[HEAD_BYTES..len]);
                    if !cursor.pass(memory.ring(), len) || !is_there {
                        continue;
                    }
                    len
                }
                Polled::Passed | Polled::Overrun | Polled::Broken => continue,
            };
            let number = u64::from_le_bytes(out[..8].try_into().expect("eight"));
            assert!(number >= next, "{number} after {next}");
            assert_eq!(len, 8 + number as usize % 300);
            assert_eq!(out[8..len], packet(number, len)[8..]);
            next = number + 1;
        }
    });
}
