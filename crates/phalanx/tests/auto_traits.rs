//! Which public types may be sent to another thread, shared with one, and kept when a thread panics.

#[path = "../../phalanx-core/tests/auto_traits/probe.rs"]
mod probe;

use phalanx::Handler;
use phalanx::driver::{Shm, Udp};
use probe::{Asked, Lacks, table};

// Values without a tie to a thread.
table!(
    VALUES,
    has [SEND, SYNC, UNPIN, UNWIND_SAFE, REF_UNWIND_SAFE],
    lacks [],
    [
        phalanx::belief::Belief,
        phalanx::belief::Believed,
        phalanx::belief::Changed,
        phalanx::cell::CallError,
        phalanx::cell::Item,
        phalanx::cell::Message,
        phalanx::config::Config,
        phalanx::config::DriverMode,
        phalanx::config::Key,
        phalanx::config::Origin,
        phalanx::config::Resolved,
        phalanx::config::SecurityMode,
        phalanx::config::Shown,
        phalanx::counters::CountersFile,
        phalanx::counters::CountersWriter,
        phalanx::counters::GroupStatus,
        phalanx::counters::HolderStatus,
        phalanx::counters::OrphanStatus,
        phalanx::counters::Reading,
        phalanx::counters::Status,
        phalanx::deaths::Deaths,
        phalanx::handler::Command<'static>,
        phalanx::local::Advert,
        phalanx::local::Founder,
        phalanx::local::Intent,
        phalanx::local::Kept,
        phalanx::local::Live,
        phalanx::local::LivenessLock,
        phalanx::local::LocalCell,
        phalanx::local::RecordFile,
        phalanx::local::Request,
        phalanx::local::Role<'static>,
        phalanx::local::Settled,
        phalanx::local::Sign,
        phalanx::local::Standing,
        phalanx::node::NodeOptions,
        phalanx::node::PollReport,
        phalanx::rpc::Happened,
        phalanx::rpc::Pending,
        phalanx::rpc::PortOptions,
        phalanx::rpc::Recorded,
        phalanx::rpc::TimeTrace,
        phalanx::rpc::TypedError,
        phalanx::Options,
        phalanx::state::Frozen,
    ]
);

// Handles that threads share, and errors with a cause from the operating system.
table!(
    SHARED,
    has [SEND, SYNC, UNPIN],
    lacks [],
    [
        phalanx::cell::Cell,
        phalanx::cell::CellStream,
        phalanx::cell::Group,
        phalanx::config::ConfigError,
        phalanx::counters::CountersError,
        phalanx::local::LocalError,
        phalanx::rpc::Caller,
        phalanx::StartError,
    ]
);

// May go to another thread, and is used by one at a time.
table!(
    ONE_THREAD_AT_A_TIME,
    has [SEND, UNPIN],
    lacks [SYNC],
    [
        phalanx::cell::JoinOptions,
        phalanx::rpc::Client,
        phalanx::rpc::Port<Shm<Udp>>,
    ]
);

// Stays on its thread: handlers and snapshots may hold what is bound to it.
table!(
    ONE_THREAD,
    has [UNPIN],
    lacks [SEND, SYNC],
    [
        phalanx::inline::Inline<Shm<Udp>>,
        phalanx::node::Node<Udp>,
        phalanx::traced::Traced<Box<dyn Handler>, Vec<u8>>,
    ]
);

#[test]
fn every_public_type_has_a_row() {
    probe::expect_all_types(
        env!("CARGO_MANIFEST_DIR"),
        &[VALUES, SHARED, ONE_THREAD_AT_A_TIME, ONE_THREAD],
        &["Restored"],
    );
}
