//! Membership of the cell: the directory, the failure detector, and how the next view is decided.
//!
//! One consensus decree per number; its acceptors are the incarnations of the view in force (no disk needed). Read
//! [`Directory`] for what a decree decides, [`Acceptor`] and [`Coordinator`] for how, [`FailureDetector`] for when.
//! Sources: single-decree Paxos ([Lamport 1998]) over successive memberships; the rules that join it to the flush are
//! in `docs/ARCHITECTURE.md`, "View change". Nothing here knows payloads or sockets.

mod acceptor;
mod agreed;
mod ballot;
mod coordinator;
mod decree;
mod directory;
mod domains;
mod ending;
mod failure_detector;
mod fault_bounds;
mod founding;
mod graph;
mod kind;
mod membership_requests;
mod messages;
mod orphan;
mod path_monitor;
mod proposal;
mod reform;
mod removals;
mod request_list;
mod room;
mod slow;
mod sparse;
mod terms;
mod validation;
mod verdict;
mod waiting;
mod watch;

pub use acceptor::{Acceptor, Promise};
pub use agreed::{Agreed, Mismatch, Rise, mismatch};
pub use ballot::{Ballot, Report, Unread, Unreadable, Wedge};
pub(crate) use coordinator::BallotEvent;
pub use coordinator::{Coordinator, NonsenseVotes, Phase};
pub use decree::{GroupChange, GroupCut, Proposal};
pub use directory::{Directory, GroupEntry, NUMBERED_MAX, is_quorum, stayed_to_its_end};
pub use domains::{DOMAINS_LEVEL, DomainsOf, lists_domains};
pub use ending::{End, Ended, Ends, LOST_MAX, Lost};
pub use failure_detector::{FailureDetector, Link, Patience};
pub use fault_bounds::{FaultKind, HELD_BACK, LATE_TURN, muteness, silence, usual, view_change};
pub use founding::{
    BootstrapMarker, Choice, FOUNDERS_MAX, FirstView, FounderRecord, FoundingBallot, FoundingMessage, FoundingRefusal,
    Heard, LastView, choose, passed_on,
};
pub use graph::WatchGraph;
pub use kind::{KIND_LEVEL, Role, agrees_on_state, has_agreed_state};
pub use membership_requests::MembershipRequests;
pub use messages::{
    Control, REPLAYED_VIEWS_LEVEL, RecoveredPacket, ReplayedView, StateMessage, Welcome, WelcomePart, replayed_bytes,
};
pub use orphan::{
    INCARNATIONS_MAX, NAMED_MAX, ORPHANS_LEVEL, Orphan, OrphanHolder, Return, ReturnPoint, Returns, Revived, awaited,
    holders,
};
pub use path_monitor::{Case, Evaluation, Findings, PathKind, PathMonitor, REACHED_MAX, SendKind, Silence, Suspicion};
pub use proposal::build_proposal;
pub use reform::Inheritance;
pub use removals::{BUDGET_WINDOW, REMOVALS_MAX, Removal, RemovalEvidence, Removals, SUSPECTERS_MAX, budget_of};
pub use request_list::{GroupRequest, RequestList};
pub use room::{GroupNames, GroupRoom, NoRoom, SEAT_BYTES_MAX, WAITING_BYTES_MAX};
pub use slow::{Slow, SlowReport};
pub use terms::{read_requested_terms, requested_terms};
pub use verdict::{GroupVerdict, Verdict, evaluate, evaluate_all};
pub use waiting::{ANCESTORS_MAX, PASSED_ON_BYTES_MAX, PASSED_ON_LEVEL, Waiting};
pub use watch::{HeardCount, LinkReport, Targets, Watch};
