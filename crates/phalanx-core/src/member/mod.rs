//! The cell's membership: what is decided, who hears whom, how the next view is chosen.
//!
//! One consensus decree per number; its acceptors are the incarnations of the view in force (no disk needed).
//! Read [`Directory`] for what a decree decides, [`Acceptor`] and [`Coordinator`] for how, [`Hearing`] for when.
//! Sources: single-decree Paxos ([Lamport 1998]) over successive memberships; the rules that join it to the
//! flush are in `docs/ARCHITECTURE.md`, "View change". Nothing here knows payloads or sockets.

mod acceptor;
mod agreed;
mod coordinator;
mod directory;
mod draft;
mod ending;
mod fitting;
mod founding;
mod graph;
mod hearing;
mod messages;
mod orphan;
mod progress;
mod promise;
mod reform;
mod removals;
mod slow;
mod sparse;
mod terms;
mod verdict;
mod watch;

pub use acceptor::{Acceptor, Promise};
pub use agreed::{Agreed, Mismatch, Rise, mismatch};
pub use coordinator::{Coordinator, Phase, Wishes};
pub use directory::{Directory, GroupEntry, NUMBERED_MAX, is_quorum};
pub use draft::build_proposal;
pub use ending::{End, Ended, Ends, LOST_MAX, Lost};
pub use founding::{
    Choice, FOUNDERS_MAX, FirstView, FounderRecord, FoundingBallot, FoundingMessage, FoundingRefusal, Heard, LastView,
    Mark, choose, fresh_instance, generation, next_generation,
};
pub use graph::WatchGraph;
pub use hearing::{Hearing, Link, Patience};
pub use messages::{
    Ballot, Control, GroupChange, GroupCut, GroupWish, Proposal, RecoveredPacket, Report, StateMessage, Unread,
    Unreadable, Wedge, Welcome, WelcomePart, WishList,
};
pub use orphan::{
    Holder, LIVES_MAX, NAMED_MAX, ORPHANS_LEVEL, ORPHANS_MAX, Orphan, Return, ReturnPoint, Returns, Revived,
};
pub use progress::{Accusation, Case, Findings, Judging, PathKind, Progress, REACHED_MAX, Sent, Silence};
pub use promise::{FaultKind, HELD_BACK, LATE_TURN, muteness, silence, usual, view_change};
pub use reform::{ANCESTORS_MAX, Inheritance};
pub use removals::{ACCUSERS_MAX, BUDGET_WINDOW, Charge, REMOVALS_MAX, Removal, Removals};
pub use slow::{Complaint, Slow};
pub use terms::{read_wished_terms, wished_terms};
pub use verdict::{Outcome, Verdict, judge, judge_all};
pub use watch::{Claim, Targets, Watch};
