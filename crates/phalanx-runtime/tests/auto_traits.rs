//! Which public types may be sent to another thread, shared with one, and kept when a thread panics.

#[path = "../../phalanx-core/tests/auto_traits/probe.rs"]
mod probe;

use phalanx_runtime::Handler;
use phalanx_runtime::driver::{Shm, Udp};
use probe::{Asked, Lacks, table};

// Values without a tie to a thread.
table!(
    VALUES,
    has [SEND, SYNC, UNPIN, UNWIND_SAFE, REF_UNWIND_SAFE],
    lacks [],
    [
        phalanx_runtime::belief::Belief,
        phalanx_runtime::belief::Believed,
        phalanx_runtime::belief::Changed,
        phalanx_runtime::belief::WaitError,
        phalanx_runtime::config::Config,
        phalanx_runtime::config::DriverMode,
        phalanx_runtime::config::Key,
        phalanx_runtime::config::Origin,
        phalanx_runtime::config::Resolved,
        phalanx_runtime::config::SecurityMode,
        phalanx_runtime::config::Shown,
        phalanx_runtime::config::TapMode,
        phalanx_runtime::counters::CountersFile,
        phalanx_runtime::counters::CountersWriter,
        phalanx_runtime::counters::DepartedStatus,
        phalanx_runtime::counters::GroupStatus,
        phalanx_runtime::counters::HolderStatus,
        phalanx_runtime::counters::OrphanStatus,
        phalanx_runtime::counters::Reading,
        phalanx_runtime::counters::Status,
        phalanx_runtime::deaths::Deaths,
        phalanx_runtime::handler::Command<'static>,
        phalanx_runtime::local::Advert,
        phalanx_runtime::local::Founder,
        phalanx_runtime::local::Intent,
        phalanx_runtime::local::Kept,
        phalanx_runtime::local::Live,
        phalanx_runtime::local::LivenessLock,
        phalanx_runtime::local::LocalCell,
        phalanx_runtime::local::RecordFile,
        phalanx_runtime::local::Request,
        phalanx_runtime::local::Role<'static>,
        phalanx_runtime::local::Settled,
        phalanx_runtime::local::Sign,
        phalanx_runtime::local::Standing,
        phalanx_runtime::node::NodeOptions,
        phalanx_runtime::node::PollReport,
        phalanx_runtime::rpc::AfterFailure,
        phalanx_runtime::rpc::Happened,
        phalanx_runtime::rpc::Pending,
        phalanx_runtime::rpc::PortOptions,
        phalanx_runtime::rpc::Recorded,
        phalanx_runtime::rpc::RoutedAttempt,
        phalanx_runtime::rpc::RoutedCall,
        phalanx_runtime::rpc::Step,
        phalanx_runtime::rpc::TimeTrace,
        phalanx_runtime::Options,
        phalanx_runtime::Frozen,
        phalanx_runtime::tap::Place,
        phalanx_runtime::tap::Point,
        phalanx_runtime::tap::PointKind,
        phalanx_runtime::tap::Shown<'static>,
        phalanx_runtime::tap::Stats,
        phalanx_runtime::tap::Wanted,
    ]
);

// Handles that threads share, and errors with a cause from the operating system.
table!(
    SHARED,
    has [SEND, SYNC, UNPIN],
    lacks [],
    [
        phalanx_runtime::config::ConfigError,
        phalanx_runtime::counters::CountersError,
        phalanx_runtime::local::LocalError,
        phalanx_runtime::rpc::Caller,
        phalanx_runtime::StartError,
        phalanx_runtime::tap::Reader,
        phalanx_runtime::tap::TapError,
    ]
);

// May go to another thread, and is used by one at a time.
table!(
    ONE_THREAD_AT_A_TIME,
    has [SEND, UNPIN],
    lacks [SYNC],
    [
        phalanx_runtime::rpc::Client,
        phalanx_runtime::rpc::Port<Shm<Udp>>,
        phalanx_runtime::traced::Recorder<Vec<u8>>,
    ]
);

// Stays on its thread: handlers and snapshots may hold what is bound to it.
table!(
    ONE_THREAD,
    has [UNPIN],
    lacks [SEND, SYNC],
    [
        phalanx_runtime::inline::Inline<Shm<Udp>>,
        phalanx_runtime::node::Node<Udp>,
        phalanx_runtime::traced::Traced<'static, Box<dyn Handler>, Vec<u8>>,
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
