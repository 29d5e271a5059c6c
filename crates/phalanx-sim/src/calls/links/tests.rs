//! Tests of the model as a whole, and of calls on it.

use phalanx_core::rpc::EndpointLimits;

use super::{Long, Measured, Setup, Workload, measure};

fn closed(clients: usize, request_bytes: usize, answer_bytes: usize, calls: u64) -> Workload {
    let for_ns = 1_000_000_000;
    Workload::Closed { clients, servers: 1, at_once: 1, request_bytes, answer_bytes, think_ns: 0, for_ns, calls }
}

/// An incast to a host that is slower than its link. The switch never drops.
fn incast(bounds_answers: bool) -> Measured {
    let limits = EndpointLimits { bounds_answers, ..EndpointLimits::default() };
    let setup = Setup { port_bytes: 1 << 30, packet_ns: 2_500, receive_bytes: 1 << 20, limits, ..Setup::default() };
    measure(&setup, &Workload::Incast { servers: 40, answer_bytes: 64 << 10, rounds: 4 }, 1)
}

/// Hosts that poll all the time.
fn attentive() -> Setup {
    Setup { wake_ns: 0, ..Setup::default() }
}

#[test]
fn a_call_alone_takes_its_time() {
    for link_bps in [10_000_000_000, 100_000_000_000] {
        let setup = Setup { link_bps, ..attentive() };
        let measured = measure(&setup, &closed(1, 64, 64, 50), 1);
        let (took_ns, ideal_ns) = (measured.took.p50_ns, measured.ideal_ns);
        assert!(took_ns.abs_diff(ideal_ns) * 100 < ideal_ns, "{took_ns} ns, expected {ideal_ns}");
        assert_eq!(measured.took.p99_ns, measured.took.p50_ns);
    }
}

#[test]
fn the_slower_of_host_and_link_says_how_many_calls_there_are() {
    // A server takes and sends a packet for each call.
    let measured = measure(&attentive(), &closed(16, 64, 64, 500), 1);
    let least_ns = measured.calls * 2 * attentive().packet_ns;
    assert!((least_ns..least_ns * 103 / 100).contains(&measured.span_ns), "{} of {least_ns}", measured.span_ns);
    // With an answer of one packet, the server's link is the bottleneck.
    let slow = Setup { link_bps: 1_000_000_000, ..attentive() };
    let measured = measure(&slow, &closed(16, 64, 1_400, 200), 1);
    let least_ns = slow.calls_ns(measured.calls as usize, 64, 1_400);
    assert!((least_ns * 99 / 100..least_ns * 103 / 100).contains(&measured.span_ns), "{}", measured.span_ns);
}

#[test]
fn the_same_seed_gives_the_same_and_another_seed_something_else() {
    let workload = Workload::Mixed { clients: 4, servers: 4, long: Long::Answers, load_permille: 500, calls: 300 };
    let setup = Setup { loss_ppm: 1_000, ..Setup::default() };
    let measured = measure(&setup, &workload, 7);
    assert_eq!(measured, measure(&setup, &workload, 7));
    assert_ne!(measured, measure(&setup, &workload, 8));
}

#[test]
fn without_loss_no_call_fails_and_nothing_is_asked() {
    let mixed = |long| Workload::Mixed { clients: 4, servers: 4, long, load_permille: 300, calls: 200 };
    for (packet_bytes, workload) in [
        (1_472, closed(8, 64, 64, 200)),
        (9_000, closed(2, 200_000, 64, 20)),
        (1_472, closed(2, 64, 200_000, 20)),
        (1_472, mixed(Long::Requests)),
        (9_000, mixed(Long::Answers)),
    ] {
        let setup = Setup { packet_bytes, port_bytes: 1 << 30, ..Setup::default() };
        let measured = measure(&setup, &workload, 1);
        let Measured { failed, switch_drops, host_drops, lost, fragments_again, .. } = measured;
        assert!(measured.calls > 0);
        assert_eq!((failed, switch_drops, host_drops, lost, fragments_again), (0, 0, 0, 0, 0), "{workload:?}");
    }
}

#[test]
fn calls_outlive_losses() {
    let setup = Setup { loss_ppm: 20_000, ..Setup::default() };
    let measured = measure(&setup, &closed(4, 64, 20_000, 50), 1);
    assert_eq!((measured.calls, measured.failed), (200, 0));
    assert!(measured.lost > 0 && measured.fragments_again > 0 && measured.probes > 0);
}

#[test]
fn a_response_credit_keeps_an_incast_within_the_hosts_buffer() {
    let measured = incast(true);
    assert_eq!((measured.failed, measured.host_drops, measured.switch_drops), (0, 0, 0));
    let measured = incast(false);
    assert!(measured.failed == 0 && measured.host_drops > 0, "without it the buffer overflows");
}
