//! Which public types may be sent to another thread, shared with one, and kept when a thread panics.

#[path = "../../phalanx-core/tests/auto_traits/probe.rs"]
mod probe;

use phalanx::State;
use probe::{Asked, Lacks, table};

struct Nothing;

impl State for Nothing {
    fn apply(&mut self, _message: &phalanx::Message) {}

    fn snapshot(&self) -> phalanx::Snapshot {
        phalanx::Snapshot::new("")
    }

    fn restore(_snapshot: phalanx::Snapshot) -> Result<Self, phalanx::DecodeError> {
        Ok(Self)
    }
}

// Values without a tie to a thread.
table!(
    VALUES,
    has [SEND, SYNC, UNPIN, UNWIND_SAFE, REF_UNWIND_SAFE],
    lacks [],
    [
        phalanx::CallError,
        phalanx::CellChange,
        phalanx::CellBuilder,
        phalanx::CellEvent,
        phalanx::CellGroup,
        phalanx::CellView,
        phalanx::DecodeError,
        phalanx::Departure,
        phalanx::DescriptorError,
        phalanx::End,
        phalanx::FlushError,
        phalanx::Answer,
        phalanx::AnswerError,
        phalanx::AnswerRef<'static>,
        phalanx::Answers,
        phalanx::AskEnd,
        phalanx::AskError,
        phalanx::AskOptions,
        phalanx::AskedRef<'static>,
        phalanx::GroupChange,
        phalanx::Host,
        phalanx::HostChange,
        phalanx::InDoubt,
        phalanx::InlineAsk,
        phalanx::InlineGroup,
        phalanx::InlineReply,
        phalanx::Instance,
        phalanx::JoinError,
        phalanx::LeaveError,
        phalanx::LeaveReason,
        phalanx::LimitError,
        phalanx::Guarantee,
        phalanx::Member,
        phalanx::MemberChange,
        phalanx::MemberId,
        phalanx::Message,
        phalanx::MessageRef<'static>,
        phalanx::MessageToOne,
        phalanx::MessageToOneRef<'static>,
        phalanx::Next,
        phalanx::Order,
        phalanx::OutcomeError,
        phalanx::Piece<'static>,
        phalanx::Place,
        phalanx::Polled,
        phalanx::Proof,
        phalanx::Reply,
        phalanx::ReplyRef<'static>,
        phalanx::SendError,
        phalanx::Standing,
        phalanx::StartError,
        phalanx::SubmitError,
        phalanx::To,
        phalanx::Transfer,
        phalanx::Undelivered,
        phalanx::View,
        phalanx::WaitError,
        phalanx::Want,
        phalanx::WatchError,
        phalanx::Reason,
        phalanx::simulate::Failure,
        phalanx::simulate::Report,
    ]
);

// Handles that threads and tasks share, and futures that move between them.
table!(
    SHARED,
    has [SEND, SYNC, UNPIN],
    lacks [],
    [
        phalanx::Arrival,
        phalanx::Asked,
        phalanx::Cell,
        phalanx::Call<u64>,
        phalanx::Calling<u64>,
        phalanx::Changed,
        phalanx::Client,
        phalanx::Events,
        phalanx::Group,
        phalanx::Inbox,
        phalanx::Left,
        phalanx::Merged,
        phalanx::Multicast,
        phalanx::Outcome,
        phalanx::Replica<Nothing>,
        phalanx::Request<u64, u64>,
        phalanx::SendTo,
        phalanx::Sent,
        phalanx::SentTo,
        phalanx::Server<u64, u64>,
        phalanx::ServerBuilder<u64, u64>,
        phalanx::Submit<u64>,
        phalanx::SubmitClient<Nothing>,
        phalanx::Submitting<u64>,
        phalanx::Watch<u64>,
        phalanx::simulate::OfState,
        phalanx::simulate::Sender<'static, Nothing>,
        phalanx::simulate::Simulation<Nothing>,
    ]
);

// May go to another thread, and is used by one at a time.
table!(
    ONE_THREAD_AT_A_TIME,
    has [SEND, UNPIN],
    lacks [SYNC],
    [
        phalanx::AnswerStream,
        phalanx::Ask,
        phalanx::Asking,
        phalanx::GroupBuilder,
        phalanx::Joining,
        phalanx::Sending,
        phalanx::SendingTo,
        phalanx::Snapshot,
        phalanx::Starting,
    ]
);

// Stays on its thread: handlers and snapshots may hold what is bound to it.
table!(
    ONE_THREAD,
    has [UNPIN],
    lacks [SEND, SYNC],
    [
        phalanx::Inline,
        phalanx::InlineJoin<'static>,
    ]
);

// Is counted by the thread that holds it.
table!(COUNTED, has [SYNC, UNPIN], lacks [SEND], [phalanx::ReadGuard<'static, Nothing>]);

#[test]
fn every_public_type_has_a_row() {
    let tables = [VALUES, SHARED, ONE_THREAD_AT_A_TIME, ONE_THREAD, COUNTED];
    probe::expect_all_types(env!("CARGO_MANIFEST_DIR"), &tables, &[]);
}
