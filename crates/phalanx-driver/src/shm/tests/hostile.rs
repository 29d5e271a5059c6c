//! A neighbour that keeps writing anything into its own memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use phalanx_core::rng::Rng;

use super::*;
use crate::shm::segment::tests::{Scribble, scribble};

/// Runs a victim beside a hostile writer for a fixed time. The test is that nothing panics, hangs or faults meanwhile.
fn survive(seed: u64, what: Scribble) {
    let [mut hostile, mut victim] = two(&ShmOptions { data_ring_bytes: 1 << 18, control_ring_bytes: 1 << 18 });
    let stop = AtomicBool::new(false);
    let mut third = make();
    thread::scope(|scope| {
        let own = hostile.half.mine_mut().own.take().expect("there is memory");
        let stop = &stop;
        scope.spawn(move || {
            let mut rng = Rng::new(seed).fork("hostile");
            while !stop.load(Ordering::Relaxed) {
                (0..1_000).for_each(|_| scribble(&own, what, &mut rng));
            }
        });
        let started = Instant::now();
        let to = [third.local_address(TrafficClass::Data)];
        let (mut calls, mut longest) = (0_u64, 0);
        while started.elapsed() < Duration::from_millis(400) {
            victim.receive(64, &mut |_, _, _, packet| longest = longest.max(packet.len()));
            victim.outbox().transmit(TrafficClass::Data, &to, b"still here");
            victim.flush();
            victim.wait(Some(Duration::ZERO), &[]).expect("waiting works");
            calls += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(calls > 0 && longest <= crate::memory::ring::PACKET_BYTES_MAX);
    });
    assert!(third.receive(64, &mut |_, _, _, packet| assert_eq!(*packet, *b"still here")).packets > 0);
}

#[test]
fn random_words_everywhere_harm_no_reader() {
    survive(1, Scribble::Everywhere);
}

#[test]
fn random_positions_and_lengths_harm_no_reader() {
    survive(2, Scribble::Plausible);
}
