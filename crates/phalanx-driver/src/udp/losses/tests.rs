//! When the kernel is queried, and what a datagram costs its buffer.

use std::net::UdpSocket;
use std::os::fd::AsFd;

use phalanx_core::TRUESIZE_MIN;

use super::*;

#[test]
fn counts_only_grow() {
    let mut losses = Losses::new(1 << 20);
    assert_eq!(losses.take(10, None), 0);
    assert_eq!(losses.take(10, Some(5)), 5);
    assert_eq!(losses.take(10, Some(5)), 0, "the same again");
    assert_eq!(losses.take(10, Some(3)), 0, "queued before the last ask");
    assert_eq!(losses.take(10, Some(6)), 1);
    assert_eq!((losses.report(), losses.report()), (6, 0));
    losses.drops = u32::MAX;
    assert_eq!(losses.take(10, Some(2)), 3, "the kernel's count wraps");
}

#[test]
fn the_kernel_is_asked_once_for_a_quarter_of_the_buffer() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let capacity = option::memory(socket.as_fd()).expect("Linux reports it").capacity_bytes;
    let mut losses = Losses::new(capacity as usize);
    let mut asked = Vec::new();
    let mut taken = 0;
    while asked.len() < 3 {
        losses.take(1_432, None);
        taken += truesize(1_432);
        if losses.ask(socket.as_fd()).is_some() {
            asked.push(std::mem::take(&mut taken));
        }
    }
    let quarter = u64::from(capacity) / 4;
    assert!(asked.iter().all(|taken| (quarter..quarter + truesize(1_432)).contains(taken)), "{quarter}: {asked:?}");
}

#[test]
fn news_of_a_drop_is_a_reason_to_ask() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let mut losses = Losses::new(1 << 30);
    losses.take(1_432, Some(1));
    assert_eq!(losses.ask(socket.as_fd()), Some(0), "the kernel's count is less: it is another socket's");
    assert_eq!(losses.ask(socket.as_fd()), None);
    assert!(losses.capacity_bytes() < 1 << 30, "the buffer is as long as the kernel says");
}

/// The truesize is at least what the kernel accounts.
#[test]
fn the_charge_is_no_less_than_the_kernels() {
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    for len in
        [0, 1, 64, 200, 576, 640, 641, 1_000, 1_432, 1_664, 1_665, 3_712, 3_713, 8_192, 16_000, 16_001, 32_768, 65_507]
    {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        let to = receiver.local_addr().expect("it is bound");
        sender.send_to(&vec![1; len], to).expect("loopback takes it");
        let held = u64::from(option::memory(receiver.as_fd()).expect("Linux reports it").held_bytes);
        let truesize = truesize(len as u64);
        assert!(held > 0 && held <= truesize, "{len} bytes: {held} held, {truesize} said");
        assert!(truesize <= held.max(TRUESIZE_MIN) * 2, "{len} bytes: {held} held, {truesize} said");
    }
}
