//! The conformance suite over real sockets, and what only UDP has.

use super::*;
use crate::conformance;
use crate::lossy::{Faults, Lossy};

fn bind() -> Udp {
    Udp::bind(&UdpOptions::default()).expect("loopback has free ports")
}

#[test]
fn conforms() {
    conformance::all(bind);
}

#[test]
fn conforms_under_a_wrapper_without_faults() {
    conformance::all(|| Lossy::new(bind(), Faults::default(), 1));
}

#[test]
fn conforms_over_ipv6() {
    let any_port: SocketAddr = "[::1]:0".parse().expect("an address");
    let options = UdpOptions { data: any_port, control: any_port, ..UdpOptions::default() };
    match Udp::bind(&options) {
        Ok(first) => {
            conformance::carries_bytes_and_names_the_sender(first, Udp::bind(&options).expect("a second"));
        }
        // A host without IPv6 has nothing to test.
        Err(BindError::NotAvailable { .. } | BindError::Other { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_packet_length_follows_the_address() {
    assert_eq!(bind().packet_bytes_max(), PACKET_BYTES_LOOPBACK);
    let any: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let wide = UdpOptions { data: any, ..UdpOptions::default() };
    assert_eq!(Udp::bind(&wide).expect("free ports").packet_bytes_max(), PACKET_BYTES_ETHERNET);
    let set = UdpOptions { packet_bytes_max: Some(9_000), ..UdpOptions::default() };
    assert_eq!(Udp::bind(&set).expect("free ports").packet_bytes_max(), 9_000);
}

#[test]
fn binding_says_what_to_do() {
    let first = bind();
    let taken = UdpOptions { data: first.local_address(Lane::Data), ..UdpOptions::default() };
    let error = Udp::bind(&taken).expect_err("the port is taken");
    assert!(matches!(error, BindError::PortInUse { .. }), "{error:?}");
    assert!(error.to_string().contains("choose another"), "{error}");

    let foreign = UdpOptions { data: "192.0.2.1:0".parse().expect("an address"), ..UdpOptions::default() };
    let error = Udp::bind(&foreign).expect_err("a documentation address is nobody's");
    assert!(matches!(error, BindError::NotAvailable { .. }), "{error:?}");
}

#[test]
fn a_failed_bind_leaves_nothing_bound() {
    let first = bind();
    let control = bind().local_address(Lane::Control);
    let half = UdpOptions { control, data: first.local_address(Lane::Data), ..UdpOptions::default() };
    assert!(Udp::bind(&half).is_err());
    let whole = UdpOptions { control, ..UdpOptions::default() };
    assert!(Udp::bind(&whole).is_ok(), "the control port is free again");
}

#[test]
fn the_grant_is_reported() {
    let granted = bind().granted();
    assert!(granted.receive_bytes > 0 && granted.send_bytes > 0);
    let small = UdpOptions { receive_buffer_bytes: 16 << 10, ..UdpOptions::default() };
    let little = Udp::bind(&small).expect("free ports").granted();
    assert!(little.receive_bytes < granted.receive_bytes, "{little:?} against {granted:?}");
}

#[test]
fn receive_drops_are_counted() {
    let small = UdpOptions { receive_buffer_bytes: 8 << 10, ..UdpOptions::default() };
    let mut receiver = Udp::bind(&small).expect("free ports");
    let mut sender = bind();
    let to = [receiver.local_address(Lane::Data)];
    let sent = 400_u64;
    for _ in 0..sent {
        sender.outbox().transmit(Lane::Data, &to, &[7; 1_000]);
    }
    sender.flush();
    assert_eq!(sender.stats().sent_packets, sent, "{:?}", sender.stats());
    let drain = |receiver: &mut Udp| while receiver.receive(64, &mut |_, _, _, _| {}) > 0 {};
    drain(&mut receiver);
    // The count travels with the next datagram that finds room.
    sender.outbox().transmit(Lane::Data, &to, &[8]);
    sender.flush();
    while receiver.wait(None, &[]).is_ok_and(|woken| !woken.traffic) {}
    drain(&mut receiver);
    let stats = receiver.stats();
    assert!(stats.receive_overflows > 0, "8 KiB do not hold 400 kB: {stats:?}");
    assert_eq!(stats.received_packets + stats.receive_overflows, sent + 1, "{stats:?}");
}

#[test]
fn too_long_for_the_receiver_is_counted_and_dropped() {
    let short = UdpOptions { packet_bytes_max: Some(600), ..UdpOptions::default() };
    let mut receiver = Udp::bind(&short).expect("free ports");
    let mut sender = bind();
    sender.outbox().transmit(Lane::Data, &[receiver.local_address(Lane::Data)], &[1; 601]);
    sender.outbox().transmit(Lane::Data, &[receiver.local_address(Lane::Data)], &[2; 600]);
    sender.flush();
    let mut got = Vec::new();
    while got.is_empty() {
        receiver.wait(None, &[]).expect("waiting works");
        receiver.receive(8, &mut |_, _, _, packet| got.push(packet.to_vec()));
    }
    assert_eq!(got, [vec![2; 600]]);
    assert_eq!(receiver.stats().truncated, 1);
}

#[test]
fn a_refused_destination_is_counted_and_costs_no_packet() {
    let mut sender = bind();
    let gone = bind().local_address(Lane::Data);
    for _ in 0..20 {
        sender.outbox().transmit(Lane::Data, &[gone], b"anyone?");
        sender.flush();
        sender.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    }
    let stats = sender.stats();
    assert_eq!(stats.sent_packets, 20, "{stats:?}");
    assert_eq!(stats.send_dropped, 0, "{stats:?}");
    assert!(stats.refused + stats.reported_errors > 0, "{stats:?}");
    // What was reported is read, so the sockets are quiet again.
    let woken = sender.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    assert!(!woken.traffic, "{woken:?}");
}

#[test]
fn packets_longer_than_the_path_takes_are_counted() {
    let mut sender = bind();
    let to = bind().local_address(Lane::Data);
    sender.outbox().transmit(Lane::Data, &[to], &vec![0; 70_000]);
    sender.flush();
    let stats = sender.stats();
    assert_eq!((stats.too_long, stats.send_dropped, stats.sent_packets), (1, 1, 0), "{stats:?}");
}

#[test]
fn what_fits_no_queue_is_counted() {
    let mut sender = bind();
    let to = bind().local_address(Lane::Data);
    sender.outbox().transmit(Lane::Data, &[to], &vec![0; DATA_QUEUE_BYTES + 1]);
    assert_eq!(sender.stats().send_dropped, 1);
}

#[test]
fn one_call_carries_many() {
    let mut sender = bind();
    let receivers: Vec<Udp> = (0..8).map(|_| bind()).collect();
    let to: Vec<SocketAddr> = receivers.iter().map(|r| r.local_address(Lane::Data)).collect();
    for i in 0..8_u8 {
        sender.outbox().transmit(Lane::Data, &to, &[i; 100]);
    }
    sender.flush();
    let stats = sender.stats();
    assert_eq!((stats.sent_packets, stats.send_calls), (64, 1), "{stats:?}");
}

#[test]
fn extra_descriptors_are_watched() {
    let mut driver = bind();
    let (reader, writer) = io::pipe().expect("a pipe");
    let (quiet, _keep) = io::pipe().expect("a pipe");
    let watched = [quiet.as_fd(), reader.as_fd()];
    assert_eq!(driver.wait(Some(Duration::ZERO), &watched).expect("waiting works").extra, 0);
    drop(writer);
    assert_eq!(driver.wait(None, &watched).expect("waiting works").extra, 0b10);
}
