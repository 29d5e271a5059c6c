//! Which public types may be sent to another thread, shared with one, and kept when a thread panics.

#[path = "../../phalanx-core/tests/auto_traits/probe.rs"]
mod probe;
#[path = "../../phalanx-core/tests/sources/mod.rs"]
mod sources;

use phalanx_driver::udp::UdpOutbox;
use phalanx_driver::{Shm, Udp};
use probe::{Asked, Lacks, table};

// Values without a tie to a thread.
table!(
    VALUES,
    has [SEND, SYNC, UNPIN, UNWIND_SAFE, REF_UNWIND_SAFE],
    lacks [],
    [
        phalanx_driver::LossReport,
        phalanx_driver::Received,
        phalanx_driver::Woken,
        phalanx_driver::fork::Forked,
        phalanx_driver::fork::Home,
        phalanx_driver::lossy::Faults,
        phalanx_driver::lossy::Lossy<Udp>,
        phalanx_driver::shm::LinkStats,
        phalanx_driver::shm::Offer,
        phalanx_driver::shm::Peer,
        phalanx_driver::shm::Sending,
        phalanx_driver::shm::SentStats,
        phalanx_driver::shm::ShmOptions,
        phalanx_driver::tap::Attachment,
        phalanx_driver::tap::Tap,
        phalanx_driver::tap::ring::Record<'static>,
        phalanx_driver::tap::ring::RecordHeader,
        phalanx_driver::tap::ring::RecordKind,
        phalanx_driver::tap::ring::RingReader,
        phalanx_driver::tap::ring::RingWriter,
        phalanx_driver::udp::Buffers,
        Udp,
        phalanx_driver::udp::UdpOptions,
        UdpOutbox,
        phalanx_driver::udp::UdpStats,
        phalanx_driver::Waker,
    ]
);

// Errors with a cause from the operating system.
table!(
    SHARED,
    has [SEND, SYNC, UNPIN],
    lacks [],
    [
        phalanx_driver::shm::Refused,
        phalanx_driver::udp::BindError,
    ]
);

// May go to another thread, and is used by one at a time.
table!(
    ONE_THREAD_AT_A_TIME,
    has [SEND, UNPIN],
    lacks [SYNC],
    [
        Shm<Udp>,
    ]
);

// Lent to its thread for the length of a borrow: another name of `Joined`, which users cannot name.
table!(
    LENT,
    has [UNPIN],
    lacks [SEND, SYNC],
    [
        phalanx_driver::shm::ShmOutbox<UdpOutbox>,
    ]
);

#[test]
fn every_public_type_has_a_row() {
    probe::expect_all_types(
        env!("CARGO_MANIFEST_DIR"),
        &[VALUES, SHARED, ONE_THREAD_AT_A_TIME, LENT],
        &["Joined", "ShmOutbox"],
    );
}
