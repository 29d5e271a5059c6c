//! A reader takes only whole records, whenever the writer overtakes it.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::ring::{Cursor, Polled, Ring, Seen, Writer, Written};

struct Memory {
    reserved: AtomicU64,
    tail: AtomicU64,
    data: Vec<AtomicU64>,
}

impl Memory {
    fn new(words: usize) -> Arc<Self> {
        let data = (0..words).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { reserved: AtomicU64::new(0), tail: AtomicU64::new(0), data })
    }

    fn ring(&self) -> Ring<'_> {
        Ring {
            reserved: Seen::new(std::slice::from_ref(&self.reserved)),
            tail: Seen::new(std::slice::from_ref(&self.tail)),
            data: Seen::new(&self.data),
        }
    }

    fn write(&self, writer: &mut Writer, number: u8) {
        let ring = Written { reserved: &self.reserved, tail: &self.tail, data: &self.data };
        writer.push(ring, 1, [&[number; 8], &[number; 4], &[]]);
    }
}

/// Explores a thread that reads `looks` times while another one writes `records`. Each record has four words.
fn explore(words: usize, records: u8, looks: usize, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let memory = Memory::new(words);
        let shared = memory.clone();
        let writing = thread::spawn(move || {
            let mut writer = Writer::default();
            (1..=records).for_each(|number| shared.write(&mut writer, number));
        });
        let (mut cursor, mut out, mut last) = (Cursor::default(), vec![0; 16], 0);
        for _ in 0..looks {
            if !cursor.refresh(memory.ring()) {
                continue;
            }
            match cursor.look(memory.ring(), 1, usize::MAX, &mut out) {
                Polled::Taken(len) => {
                    assert!(len == 12 && out[..12] == [out[0]; 12], "torn: {out:?}");
                    assert!(out[0] > last, "{} after {last}", out[0]);
                    last = out[0];
                }
                Polled::Overrun => {}
                other => panic!("{other:?}"),
            }
        }
        writing.join().expect("it does not panic");
    });
}

#[test]
fn a_record_that_is_published_is_whole() {
    explore(16, 2, 2, 3);
}

/// The ring holds one and a half records, so the second record already overwrites the first.
#[test]
fn what_is_overwritten_meanwhile_is_not_taken() {
    explore(4, 3, 2, 3);
}

#[test]
fn a_reader_that_was_overtaken_finds_records_again() {
    explore(8, 4, 3, 2);
}
