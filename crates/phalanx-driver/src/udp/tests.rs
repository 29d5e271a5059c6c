//! The conformance suite over real sockets, and what only UDP has.

use super::*;
use crate::conformance;
use crate::lossy::{Faults, Lossy};

fn bind() -> Udp {
    Udp::bind(&UdpOptions::default()).expect("loopback has free ports")
}

/// Every combination of the options for sending and receiving.
fn ways() -> impl Iterator<Item = UdpOptions> {
    [(true, true), (true, false), (false, true), (false, false)].into_iter().map(|(segment, coalesce)| UdpOptions {
        segment,
        coalesce,
        ..UdpOptions::default()
    })
}

#[test]
fn conforms() {
    for options in ways() {
        conformance::all(|| Udp::bind(&options).expect("loopback has free ports"));
    }
}

/// Receives and returns everything that waits.
fn drain(receiver: &mut Udp) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    receiver.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    while receiver.receive(64, &mut |_, _, _, packet| got.push(packet.to_vec())).packets > 0 {}
    got
}

/// `count` numbered packets of the given lengths.
fn packets(count: u32, len: impl Fn(u32) -> usize) -> Vec<Vec<u8>> {
    let fill = |i: u32| i.to_le_bytes().into_iter().chain((4..).map(move |at: u32| (at * 7 + i) as u8));
    (0..count).map(|i| fill(i).take(len(i).max(4)).collect()).collect()
}

#[test]
fn packets_of_any_lengths_arrive_in_order_with_any_segmentation() {
    for (theirs, mine) in ways().flat_map(|theirs| ways().map(move |mine| (theirs.clone(), mine))) {
        let mut sender = Udp::bind(&mine).expect("free ports");
        let mut receivers = [(); 3].map(|()| Udp::bind(&theirs).expect("free ports"));
        let to: Vec<SocketAddr> = receivers.iter().map(|r| r.local_address(TrafficClass::Data)).collect();
        let sent = packets(300, |i| if i % 7 < 5 { 1_432 } else { 1 + i as usize * 13 % 2_000 });
        for packet in &sent {
            sender.outbox().transmit(TrafficClass::Data, &to, packet);
        }
        sender.flush();
        for receiver in &mut receivers {
            assert!(drain(receiver) == sent, "{theirs:?} from {mine:?}");
        }
    }
}

#[test]
fn a_packet_given_in_parts_arrives_as_one_and_overtakes_none() {
    let (mut sender, mut receiver) = (bind(), bind());
    let to = receiver.local_address(TrafficClass::Data);
    let parts = packets(3, |i| [40, 30_000, 4][i as usize]);
    let parts = [&parts[0][..], &parts[1], &parts[2]];
    assert!(sender.outbox().send_unbuffered(TrafficClass::Data, to, parts));
    assert!(sender.outbox().send_unbuffered(TrafficClass::Data, to, [parts[0], &[], &[]]));
    sender.outbox().transmit(TrafficClass::Data, &[to], b"first");
    assert!(!sender.outbox().send_unbuffered(TrafficClass::Data, to, parts), "something waits");
    sender.flush();
    assert_eq!(drain(&mut receiver), [parts.concat(), parts[0].to_vec(), b"first".to_vec()]);
    assert_eq!((sender.stats().sent_packets, sender.stats().send_calls), (3, 3));
}

#[test]
fn packets_of_one_length_pass_as_one() {
    let mut sender = bind();
    let mut receivers = [bind(), bind()];
    let to: Vec<SocketAddr> = receivers.iter().map(|r| r.local_address(TrafficClass::Data)).collect();
    let sent = packets(90, |_| 1_432);
    for packet in &sent {
        sender.outbox().transmit(TrafficClass::Data, &to, packet);
    }
    sender.flush();
    let stats = sender.stats();
    assert!(sender.segments(), "{stats:?}");
    // One datagram's length holds 45 of them.
    assert_eq!((stats.send_calls, stats.segmented_runs, stats.segmented_packets), (1, 4, 180), "{stats:?}");
    for receiver in &mut receivers {
        assert!(receiver.coalesces());
        assert!(drain(receiver) == sent);
        let stats = receiver.stats();
        assert_eq!((stats.received_packets, stats.coalesced_packets), (90, 90), "{stats:?}");
        assert_eq!(stats.received_bytes, 90 * 1_432);
    }
}

#[test]
fn the_rest_of_a_run_is_not_waited_for() {
    let (mut sender, mut receiver) = (bind(), bind());
    for packet in packets(20, |_| 100) {
        sender.outbox().transmit(TrafficClass::Data, &[receiver.local_address(TrafficClass::Data)], &packet);
    }
    sender.flush();
    let mut taken = 0;
    while taken < 20 {
        assert!(receiver.wait(None, &[]).expect("waiting works").traffic);
        taken += receiver.receive(7, &mut |_, _, _, _| {}).packets;
    }
}

/// A socket that leaves out checksums cannot segment: the kernel refuses the first run.
#[test]
fn a_socket_that_refuses_runs_sends_the_same_packets_one_by_one() {
    let (mut sender, mut receiver) = (bind(), bind());
    let socket = sender.outbox.data.socket.as_fd();
    mmsg::option::set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("any user may");
    let sent = packets(200, |_| 1_000);
    for packet in &sent {
        sender.outbox().transmit(TrafficClass::Data, &[receiver.local_address(TrafficClass::Data)], packet);
    }
    sender.flush();
    assert!(drain(&mut receiver) == sent, "none is lost, none comes twice");
    let stats = sender.stats();
    assert!(!sender.segments(), "{stats:?}");
    assert_eq!((stats.segmentation_refused, stats.segmented_runs, stats.send_dropped), (1, 0, 0), "{stats:?}");
    assert_eq!((stats.sent_packets, stats.too_long, stats.other_errors), (200, 0, 0), "{stats:?}");
}

/// Runs of packets longer than the interface's MTU are refused; sent alone they pass in fragments.
#[test]
fn runs_longer_than_the_interface_takes_go_one_by_one() {
    namespace::with_loopback_of(1_280, || {
        let (mut sender, mut receiver) = (bind(), bind());
        let here = [receiver.local_address(TrafficClass::Data)];
        let sent = packets(60, |i| if i < 40 { 1_400 } else { 1_200 });
        for packet in &sent {
            sender.outbox().transmit(TrafficClass::Data, &here, packet);
        }
        sender.flush();
        assert!(drain(&mut receiver) == sent, "none is lost, none comes twice");
        let stats = sender.stats();
        // The shorter ones still go as a run. Kernels before 6.13 return one error for both refusals.
        assert_eq!((stats.segmentation_refused, stats.send_dropped), (1, 0), "{stats:?}");
        assert_eq!(sender.segments(), stats.segmented_runs > 0, "{stats:?}");
    });
}

/// An interface's queue that is too short for any run still takes single packets.
#[test]
fn runs_longer_than_the_interfaces_queue_shrink() {
    namespace::with_loopback_of(65_536, || {
        let short = std::process::Command::new("tc")
            .args(["qdisc", "replace", "dev", "lo", "root", "bfifo", "limit", "5000"])
            .status();
        if !short.is_ok_and(|status| status.success()) {
            return namespace::skip("tc cannot set the interface's queue");
        }
        let (mut sender, mut receiver) = (bind(), bind());
        let here = [receiver.local_address(TrafficClass::Data)];
        let sent = packets(300, |_| 1_000);
        for packet in &sent {
            sender.outbox().transmit(TrafficClass::Data, &here, packet);
        }
        let (mut flushes, mut congested) = (0, false);
        while sender.stats().sent_packets < 300 {
            sender.flush();
            congested |= sender.outbox().is_congested();
            flushes += 1;
            assert!(flushes < 1_000, "{:?}", sender.stats());
        }
        assert!(congested && !sender.outbox().is_congested(), "congested while packets are left, and no longer");
        assert!(drain(&mut receiver) == sent, "none is lost, none comes twice");
        let stats = sender.stats();
        // 64, 32, 16 and 8 packets are refused; 4 pass.
        assert_eq!((stats.no_buffers, stats.send_dropped), (4, 0), "{stats:?}");
        assert_eq!(stats.segmented_runs, 300 / 4, "{stats:?}");
        assert_eq!(sender.loss_report().refused, 4);
    });
}

/// A router reports that a packet was too long: the destination's path MTU is remembered, and later packets arrive.
#[test]
fn a_report_of_the_paths_length_is_learned() {
    namespace::with_loopback_of(65_536, || {
        let (mut sender, mut receiver) = (bind(), bind());
        let (from, to) = (sender.local_address(TrafficClass::Data), receiver.local_address(TrafficClass::Data));
        let sent = packets(40, |_| 1_400);
        let mut send = |sender: &mut Udp| {
            sent.iter().for_each(|packet| sender.outbox().transmit(TrafficClass::Data, &[to], packet));
            sender.flush();
            assert!(drain(&mut receiver) == sent);
        };
        send(&mut sender);
        let Ok(router) = Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(socket2::Protocol::ICMPV4)) else {
            return namespace::skip("no raw socket: not permitted to send ICMP as a router does");
        };
        router.send_to(&too_long(from, to, 1_280), &SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("it is sent");
        sender.wait(None, &[]).expect("waiting works");
        let stats = sender.stats();
        assert_eq!((stats.reported_errors, stats.reported_too_long, stats.paths_learned), (1, 1, 1), "{stats:?}");
        let runs = stats.segmented_runs;
        send(&mut sender);
        let stats = sender.stats();
        assert_eq!((stats.segmented_runs, stats.segmentation_refused), (runs, 0), "{stats:?}");
        assert_eq!(stats.send_dropped, 0, "{stats:?}");
    });
}

/// The ICMP report of a router that could not forward a packet between these addresses.
fn too_long(from: SocketAddr, to: SocketAddr, path_bytes: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(path_bytes.to_be_bytes());
    // The packet's headers: length 1,428, not to be fragmented, UDP.
    message.extend([0x45, 0, 5, 0x94, 0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    message.extend(from.port().to_be_bytes());
    message.extend(to.port().to_be_bytes());
    message.extend([5, 0x80, 0, 0]);
    let mut sum = message.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !(sum as u16);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

#[test]
fn drops_after_which_nothing_came_are_reported() {
    let small = UdpOptions { receive_buffer_bytes: 8 << 10, ..UdpOptions::default() };
    let mut receiver = Udp::bind(&small).expect("free ports");
    let single = UdpOptions { segment: false, ..UdpOptions::default() };
    let mut sender = Udp::bind(&single).expect("free ports");
    let to = [receiver.local_address(TrafficClass::Data)];
    for _ in 0..400 {
        sender.outbox().transmit(TrafficClass::Data, &to, &[7; 1_000]);
    }
    sender.flush();
    let got = drain(&mut receiver).len() as u64;
    let report = receiver.loss_report();
    assert_eq!((report.lost, report.held_bytes), (400 - got, 0), "{report:?}");
    assert!(report.lost > 0, "8 KiB do not hold 400 kB");
    assert_eq!(report.capacity_bytes, receiver.granted().receive_bytes as u64);
    assert_eq!(receiver.loss_report().lost, 0, "each loss is reported once");
    // The next datagram carries the same count.
    sender.outbox().transmit(TrafficClass::Data, &to, &[8]);
    sender.flush();
    assert_eq!(drain(&mut receiver), [[8]]);
    assert_eq!(receiver.loss_report().lost, 0, "each loss is reported once");
    let stats = receiver.stats();
    assert_eq!(stats.receive_overflows, 400 - got, "{stats:?}");
    assert_eq!(stats.overflows_asked, stats.receive_overflows, "{stats:?}");
}

#[test]
fn what_waits_is_reported_while_more_than_a_quarter_was_taken() {
    let (mut sender, mut receiver) = (bind(), bind());
    let to = [receiver.local_address(TrafficClass::Data)];
    // Half of three quarters of the buffer, so that nothing is lost.
    let len = 30_000;
    let count = receiver.granted().receive_bytes as u64 * 3 / 8 / Udp::truesize(len);
    for _ in 0..count {
        sender.outbox().transmit(TrafficClass::Data, &to, &vec![7; len as usize]);
    }
    sender.flush();
    let mut held = 0;
    while receiver.receive(16, &mut |_, _, _, _| {}).packets > 0 {
        held = held.max(receiver.loss_report().held_bytes);
    }
    assert!(held > 0);
    let report = receiver.loss_report();
    assert_eq!((report.lost, report.refused, report.held_bytes), (0, 0, 0), "{report:?}");
    assert_eq!(receiver.stats().held_bytes_max, held);
}

#[test]
fn most_empty_receives_are_one_system_call() {
    let mut driver = bind();
    for _ in 0..800 {
        assert_eq!(driver.receive(64, &mut |_, _, _, _| {}).packets, 0);
    }
    let calls = driver.stats().receive_calls;
    assert!((850..1_600).contains(&calls), "{calls}");
}

#[test]
fn control_is_found_without_a_wait() {
    let (mut sender, mut receiver) = (bind(), bind());
    for _ in 0..100 {
        sender.outbox().transmit(TrafficClass::Control, &[receiver.local_address(TrafficClass::Control)], b"c");
        sender.flush();
        assert!((0..16).any(|_| receiver.receive(64, &mut |_, _, _, _| {}).packets == 1), "within 16 receives");
        (0..5).for_each(|_| assert_eq!(receiver.receive(64, &mut |_, _, _, _| {}).packets, 0));
    }
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
            let mut pair = [(); 2].map(|()| Udp::bind(&options).expect("another"));
            let here = [pair[1].local_address(TrafficClass::Data)];
            let sent = packets(100, |_| 1_432);
            for packet in &sent {
                pair[0].outbox().transmit(TrafficClass::Data, &here, packet);
            }
            pair[0].flush();
            assert!(drain(&mut pair[1]) == sent);
            assert_eq!(pair[0].stats().segmented_packets, 100, "{:?}", pair[0].stats());
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
    let taken = UdpOptions { data: first.local_address(TrafficClass::Data), ..UdpOptions::default() };
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
    // No other test binds this address, so none takes the port meanwhile.
    let own = UdpOptions { control: "127.0.0.4:0".parse().expect("an address"), ..UdpOptions::default() };
    let control = Udp::bind(&own).expect("free ports").local_address(TrafficClass::Control);
    // A process that another test starts holds this one's descriptors between its fork and its exec.
    let binds = |options: &UdpOptions| {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Udp::bind(options).is_ok()
        })
    };
    let whole = UdpOptions { control, ..UdpOptions::default() };
    assert!(binds(&whole), "the port is free");
    let half = UdpOptions { control, data: first.local_address(TrafficClass::Data), ..UdpOptions::default() };
    assert!(Udp::bind(&half).is_err());
    assert!(binds(&whole), "it is free again");
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
    // One by one, because the kernel counts a dropped run once.
    let mut sender = Udp::bind(&UdpOptions { segment: false, ..UdpOptions::default() }).expect("free ports");
    let to = [receiver.local_address(TrafficClass::Data)];
    let sent = 400_u64;
    for _ in 0..sent {
        sender.outbox().transmit(TrafficClass::Data, &to, &[7; 1_000]);
    }
    sender.flush();
    assert_eq!(sender.stats().sent_packets, sent, "{:?}", sender.stats());
    let drain = |receiver: &mut Udp| while receiver.receive(64, &mut |_, _, _, _| {}).packets > 0 {};
    drain(&mut receiver);
    // The count travels with the next datagram that finds room.
    sender.outbox().transmit(TrafficClass::Data, &to, &[8]);
    sender.flush();
    while receiver.wait(None, &[]).is_ok_and(|woken| !woken.traffic) {}
    drain(&mut receiver);
    let stats = receiver.stats();
    assert!(stats.receive_overflows > 0, "8 KiB do not hold 400 kB: {stats:?}");
    assert_eq!(stats.received_packets + stats.receive_overflows, sent + 1, "{stats:?}");
}

#[test]
fn too_long_for_the_receiver_is_counted_and_dropped() {
    // A buffer of one packet has only the beginning of a longer one, which must not pass for a packet.
    for coalesce in [true, false] {
        let short = UdpOptions { packet_bytes_max: Some(600), coalesce, ..UdpOptions::default() };
        let mut receiver = Udp::bind(&short).expect("free ports");
        let mut sender = bind();
        sender.outbox().transmit(TrafficClass::Data, &[receiver.local_address(TrafficClass::Data)], &[1; 601]);
        sender.outbox().transmit(TrafficClass::Data, &[receiver.local_address(TrafficClass::Data)], &[2; 600]);
        sender.flush();
        let mut got = Vec::new();
        while got.last().is_none_or(|packet| *packet != [2; 600]) {
            receiver.wait(None, &[]).expect("waiting works");
            receiver.receive(8, &mut |_, _, _, packet| got.push(packet.to_vec()));
        }
        assert_eq!((got, receiver.stats().truncated), (vec![vec![2; 600]], 1), "coalesced: {coalesce}");
    }
}

#[test]
fn a_refused_destination_is_counted_and_costs_no_packet() {
    let mut sender = bind();
    // No test binds that address, so no other test gets this port there.
    let gone = SocketAddr::from(([127, 0, 0, 3], bind().local_address(TrafficClass::Data).port()));
    for _ in 0..20 {
        sender.outbox().transmit(TrafficClass::Data, &[gone], b"anyone?");
        sender.flush();
        sender.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    }
    let stats = sender.stats();
    assert_eq!(stats.sent_packets, 20, "{stats:?}");
    assert_eq!(stats.send_dropped, 0, "{stats:?}");
    assert!(stats.refused + stats.reported_errors > 0, "{stats:?}");
    assert_eq!(stats.reported_refused, stats.reported_errors, "{stats:?}");
    // The reports have been read, so the sockets are quiet again.
    let woken = sender.wait(Some(Duration::ZERO), &[]).expect("waiting works");
    assert!(!woken.traffic, "{woken:?}");
}

#[test]
fn packets_longer_than_the_path_takes_are_counted() {
    let mut sender = bind();
    let to = bind().local_address(TrafficClass::Data);
    sender.outbox().transmit(TrafficClass::Data, &[to], &vec![0; 70_000]);
    sender.flush();
    let stats = sender.stats();
    assert_eq!((stats.too_long, stats.send_dropped, stats.sent_packets), (1, 1, 0), "{stats:?}");
}

#[test]
fn what_fits_no_queue_is_counted() {
    let mut sender = bind();
    let to = bind().local_address(TrafficClass::Data);
    sender.outbox().transmit(TrafficClass::Data, &[to], &vec![0; DATA_QUEUE_BYTES + 1]);
    assert_eq!(sender.stats().send_dropped, 1);
}

#[test]
fn one_call_carries_many() {
    let mut sender = bind();
    let receivers: Vec<Udp> = (0..8).map(|_| bind()).collect();
    let to: Vec<SocketAddr> = receivers.iter().map(|r| r.local_address(TrafficClass::Data)).collect();
    for i in 0..8_u8 {
        sender.outbox().transmit(TrafficClass::Data, &to, &[i; 100]);
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
