//! Stories of three members: this one has rank 0, its application takes what it is given.

use std::time::Duration;

use super::super::tests::{Port, view_streams};
use crate::api::{Order, Uniformity};
use crate::frames::ReceivedFrames;
use crate::id::Rank;
use crate::link::Ack;
use crate::order::{Backpressure, ViewStreams};
use crate::time::Instant;
use crate::wire::PacketNumber;

const WINDOW: u64 = 64;
const STEP: Duration = Duration::from_millis(100);
const AFTER: Duration = Duration::from_secs(1);

/// A member whose window is used up, with messages that wait.
struct Sender {
    view_streams: ViewStreams,
    port: Port,
    now: Instant,
}

impl Sender {
    fn blocked(members: u64) -> Self {
        Self::blocked_with(members, false)
    }

    /// A blocked sender. If it is `full`, its own application takes nothing.
    fn blocked_with(members: u64, full: bool) -> Self {
        let (view_streams, mut port) = view_streams(Rank(0), members);
        port.full = full;
        let mut sender = Self { view_streams, port, now: Instant(1) };
        sender.fill();
        sender
    }

    fn fill(&mut self) {
        while !self.view_streams.is_blocked() {
            let (order, uniformity) = (Order::Fifo, Uniformity::Plain);
            let taken = self.view_streams.multicast(self.now, (order, uniformity).into(), &[&[0; 600]], &mut self.port);
            assert!(taken.is_some());
            while self.view_streams.poll(self.now, &mut self.port) {}
        }
    }

    /// `rank` acknowledges packets up to `prefix` and allows those up to `limit`.
    fn told(&mut self, rank: u16, prefix: u64, limit: u64) {
        let ack = Ack { prefix, limit, gaps: Vec::new() };
        self.view_streams.handle_ack(self.now, Rank(rank), &ack, false, &mut self.port);
        while self.view_streams.poll(self.now, &mut self.port) {}
    }

    /// The members that are found too slow after `count` checks.
    fn looks(&mut self, count: u32) -> Vec<usize> {
        let found = (0..count).map(|_| self.view_streams.lagging(STEP, AFTER, false)).last();
        found.unwrap_or_default().into_iter().map(Rank::index).collect()
    }
}

#[test]
fn who_gives_no_credit_is_found_when_the_time_is_over() {
    let mut sender = Sender::blocked(3);
    sender.told(1, WINDOW, 2 * WINDOW);
    sender.told(2, WINDOW, WINDOW);
    assert_eq!(sender.looks(10), [0; 0], "the first look begins to count");
    assert_eq!(sender.looks(1), [2]);
}

#[test]
fn one_packet_is_progress() {
    let mut sender = Sender::blocked(3);
    sender.told(1, WINDOW, 2 * WINDOW);
    sender.told(2, WINDOW, WINDOW);
    for more in 1..20 {
        assert_eq!(sender.looks(9), [0; 0]);
        sender.told(2, WINDOW + more - 1, WINDOW + more);
        sender.fill();
        sender.told(1, WINDOW + more, 2 * WINDOW);
    }
    sender.told(2, WINDOW + 19, WINDOW + 19);
    assert_eq!(sender.looks(12), [2], "and then none");
}

#[test]
fn who_acknowledges_nothing_comes_before_those_that_give_no_credit() {
    let mut sender = Sender::blocked(5);
    (1..4).for_each(|rank| sender.told(rank, WINDOW, WINDOW));
    assert_eq!(sender.looks(12), [4], "without its acks the others may have nothing to take");
}

#[test]
fn nobody_is_slow_where_half_of_the_members_hold_the_stream_back() {
    let mut sender = Sender::blocked(4);
    sender.told(1, WINDOW, 2 * WINDOW);
    (2..4).for_each(|rank| sender.told(rank, WINDOW, WINDOW));
    assert_eq!(sender.looks(30), [0; 0]);
    let mut sender = Sender::blocked(5);
    (1..3).for_each(|rank| sender.told(rank, WINDOW, 2 * WINDOW));
    (3..5).for_each(|rank| sender.told(rank, WINDOW, WINDOW));
    assert_eq!(sender.looks(30), [3, 4]);
}

#[test]
fn of_two_members_the_other_one_alone_is_found() {
    let mut sender = Sender::blocked(2);
    sender.told(1, WINDOW, WINDOW);
    assert_eq!(sender.looks(12), [1]);
}

#[test]
fn who_holds_its_own_stream_back_suspects_nobody() {
    let mut sender = Sender::blocked_with(3, true);
    sender.told(1, WINDOW, 2 * WINDOW);
    sender.told(2, WINDOW, WINDOW);
    assert_eq!(sender.looks(30), [0; 0]);
}

#[test]
fn time_that_does_not_count_suspects_nobody() {
    let mut sender = Sender::blocked(3);
    sender.told(1, WINDOW, 2 * WINDOW);
    sender.told(2, WINDOW, WINDOW);
    assert_eq!(sender.looks(9), [0; 0]);
    assert_eq!(sender.view_streams.lagging(Duration::ZERO, AFTER, false), [Rank(0); 0], "this process was away");
    assert_eq!(sender.view_streams.wedge(sender.now, &mut sender.port).len(), 3);
    assert_eq!(sender.looks(30), [0; 0], "the view is being left");
}

#[test]
fn each_bound_is_told_when_it_is_reached_and_not_with_each_message() {
    let mut sender = Sender::blocked(3);
    assert_eq!(sender.port.bounds, [Backpressure::Window]);
    let refuse = |sender: &mut Sender| {
        (0..40).for_each(|_| {
            sender.view_streams.multicast(
                sender.now,
                (Order::Fifo, Uniformity::Plain).into(),
                &[&[0; 600]],
                &mut sender.port,
            );
        });
    };
    refuse(&mut sender);
    sender.view_streams.heartbeat(&mut sender.port);
    sender.view_streams.heartbeat(&mut sender.port);
    assert_eq!(sender.port.bounds, [Backpressure::Window, Backpressure::Outbox, Backpressure::Acks]);
    (1..3).for_each(|rank| sender.told(rank, WINDOW, WINDOW));
    sender.view_streams.heartbeat(&mut sender.port);
    assert_eq!(sender.port.bounds[3..], [Backpressure::Credit]);
    (1..3).for_each(|rank| sender.told(rank, 2 * WINDOW, 4 * WINDOW));
    assert!(!sender.view_streams.is_blocked());
    sender.view_streams.heartbeat(&mut sender.port);
    assert_eq!(sender.port.bounds.len(), 4, "nothing is full any more");
}

/// A holder that can order no more because its own application takes nothing is the one to go.
#[test]
fn who_is_to_order_and_whose_own_application_waits_is_the_slow_one() {
    for own_waits in [true, false] {
        let mut sender = Sender::blocked_with(3, true);
        let (mut other, mut port) = view_streams(Rank(1), 3);
        for _ in 0..4 {
            assert!(
                other.multicast(sender.now, (Order::Total, Uniformity::Plain).into(), &[b"m"], &mut port).is_some()
            );
            while other.poll(sender.now, &mut port) {}
        }
        for number in 1..=4 {
            let frames = other.kept(Rank(1), PacketNumber(number)).expect("unstable");
            sender.view_streams.handle_packet(
                sender.now,
                Rank(1),
                PacketNumber(number),
                ReceivedFrames::Lent(&frames),
                &mut sender.port,
            );
            while sender.view_streams.poll(sender.now, &mut sender.port) {}
        }
        (1..3).for_each(|rank| sender.told(rank, WINDOW + 2, 2 * WINDOW));
        let found = (0..12).map(|_| sender.view_streams.lagging(STEP, AFTER, own_waits)).last();
        assert_eq!(found, Some(if own_waits { vec![Rank(0)] } else { vec![] }), "own application waits: {own_waits}");
    }
}
