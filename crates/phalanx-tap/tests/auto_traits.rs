//! Public types that may be sent to another thread, shared with one, and used after a panic.

#[path = "../../phalanx-core/tests/auto_traits/probe.rs"]
mod probe;

use probe::{Asked, table};

// Values that are not bound to a thread.
table!(
    VALUES,
    has [SEND, SYNC, UNPIN, UNWIND_SAFE, REF_UNWIND_SAFE],
    lacks [],
    [
        phalanx_tap::BoundMember,
        phalanx_tap::BoundView,
        phalanx_tap::ClearPreamble,
        phalanx_tap::Compiled,
        phalanx_tap::Description<'static>,
        phalanx_tap::Filter,
        phalanx_tap::FilterError,
        phalanx_tap::FilterFault,
        phalanx_tap::Form,
        phalanx_tap::FrameKind,
        phalanx_tap::Instruction,
        phalanx_tap::Layout,
        phalanx_tap::Flags,
        phalanx_tap::NameTable,
        phalanx_tap::NoNames,
        phalanx_tap::Packet<'static>,
        phalanx_tap::Party<'static>,
        phalanx_tap::Program,
        phalanx_tap::ProgramError,
        phalanx_tap::ProgramFault,
        phalanx_tap::Summary,
        phalanx_tap::UdpPreamble,
        phalanx_tap::Unbound,
        phalanx_tap::UnboundKind,
        phalanx_tap::capture::Capture<Vec<u8>>,
        phalanx_tap::capture::NameLine,
        phalanx_tap::capture::NameTexts,
        phalanx_tap::capture::Seen<'static>,
    ]
);

#[test]
fn every_public_type_has_a_row() {
    probe::expect_all_types(env!("CARGO_MANIFEST_DIR"), &[VALUES], &[]);
}
