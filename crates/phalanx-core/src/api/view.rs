//! Views of a cell and of a group as the application sees them, and why a process is no longer in one.

use std::sync::Arc;

use super::domain::Domain;
use super::message::GroupTerms;
use crate::id::{CellInstance, GroupId, Incarnation, MemberInfo, ViewNumber};

/// Why a process is no longer in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LeaveReason {
    /// It requested to leave.
    Left,
    /// Its operating system proved it dead.
    Died,
    /// It was silent, or did not answer.
    Unreachable,
    /// It held others back for too long; see [`super::SlowMembers::Expel`].
    TooSlow,
    /// Most members of a group could not make sense of what it sent.
    Nonsense,
    /// Of a group: it could not make sense of what a member sent, or it delivered what most could not make sense of. It
    /// comes back and takes the state of those that stay.
    Anew,
    /// Of a group: as many members could make sense of a packet as could not. Nobody can decide who is at fault, so the
    /// group is over, and its state with it.
    Stopped,
    /// It was heard, and a path to it failed: its data socket did not answer, or long packets did not arrive.
    NoProgress,
}

impl LeaveReason {
    /// Whether a member that leaves a group for this reason lives and did not request it. Such a member neither keeps
    /// the group's state nor delivers to the cut.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::Nonsense | Self::Anew | Self::Stopped => true,
            Self::Left | Self::Died | Self::Unreachable | Self::TooSlow | Self::NoProgress => false,
        }
    }
}

/// How an operating system proved a process dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathProof {
    /// It reported the end of the process.
    Ended,
    /// The lock that the process holds while it lives is free.
    Unlocked,
}

/// A member that left with a view, and what this process knew of it when it installed that view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Its record in the view before.
    pub member: MemberInfo,
    /// Why it left, as was decided.
    pub why: LeaveReason,
    /// The proof that this process's own system gave of its death, whatever reason was decided. `None`: it gave none, and
    /// another member's did if the reason is that it died.
    pub proof: Option<DeathProof>,
    /// Members of the view before that do not hear it, or that it held back, as far as they told this process; this
    /// process among them if it found so itself. At most eight. Empty if it asked to leave or died.
    pub found_by: Vec<Incarnation>,
}

/// What a decree changed, beside the directory that it led to.
#[derive(Clone, Debug, Default)]
pub struct Decree<'a> {
    /// Incarnations that left the cell, and why.
    pub left: &'a [(Incarnation, LeaveReason)],
    /// The groups that have another view.
    pub groups: Vec<GroupDecree<'a>>,
}

/// The next view of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupDecree<'a> {
    /// The group.
    pub group: GroupId,
    /// The view's number.
    pub view: ViewNumber,
    /// Incarnations that left with this view, and why.
    pub left: &'a [(Incarnation, LeaveReason)],
}

/// The decided processes of a cell.
#[derive(Clone, Debug)]
pub struct CellView {
    /// The cell instance, drawn when the cell was founded. The upper 16 bits are its generation, the rest is random. Of
    /// two instances of a cell, the later has the larger number.
    pub instance: CellInstance,
    /// Earlier instances whose groups this one continues, latest first. Empty unless the cell was reformed.
    pub ancestors: Vec<CellInstance>,
    /// The view's number, from 1. It grows by one with each change of the members or of the level.
    pub view: ViewNumber,
    /// The level in force: which features members may use with each other (`docs/levels.md`).
    pub level: u16,
    /// Members in rank order.
    pub members: Vec<MemberInfo>,
    /// Incarnations that entered with this view.
    pub joined: Vec<Incarnation>,
    /// Incarnations that left with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Incarnations that left although members heard them. Beside each: the members that stayed and to which a path
    /// failed, at most eight. It is taken in again when these hear it.
    pub apart: Vec<(Incarnation, Vec<Incarnation>)>,
    /// What this process knows of those that left. It was not agreed: other members may know other things. Empty in the
    /// first view of a process.
    pub departed: Vec<Departed>,
    /// The least members of an adequate view; see [`super::Limits::members_min`].
    pub members_min: usize,
}

impl CellView {
    /// Whether the view has as many members as the cell agreed on. In another view no uniform message is sent, and
    /// services that answer for the cell do not.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        self.members.len() >= self.members_min
    }
}

/// Membership of an incarnation in its cell, as its process believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It looks for its cell; it knows of no view that holds it.
    Searching,
    /// It is in a view and hears a quorum of it.
    Primary,
    /// It is in a view and hears no quorum of it. The others may have continued without it.
    NonPrimary,
    /// A decided view does not hold it. This incarnation is over.
    Excluded,
    /// It left, or a decided view leaves it out because it requested that.
    Over,
}

/// The decided members of a group.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// The view's number, from 1. When another instance of the cell takes the group over, it skips 2^32 numbers.
    pub view: ViewNumber,
    /// The view of the group in which this process was before, if any.
    pub prev: Option<ViewNumber>,
    /// Members in rank order.
    pub members: Vec<Incarnation>,
    /// Their records, in the same order: names and addresses.
    pub infos: Vec<MemberInfo>,
    /// Incarnations that entered with this view.
    pub joined: Vec<Incarnation>,
    /// Incarnations that left with this view, and why.
    pub left: Vec<(Incarnation, LeaveReason)>,
    /// Members that do not have the group's state yet, the same list at all members. Those that entered with this view
    /// take it from the others. Earlier ones are listed if they reported, when the view was decided, that their state
    /// is incomplete; they may have it by the time of this event. Empty if the group is new, or continues from a kept
    /// state. Below level 3 of the cell it has only those that entered. Observers are always listed.
    pub incomplete: Vec<Incarnation>,
    /// Those of them that observe, and never have the state.
    pub observers: Vec<Incarnation>,
    /// Whether the group has a state, as was agreed when it was made. `None`: it was made below level 6 of the cell, and
    /// nothing is agreed.
    pub has_state: Option<bool>,
    /// The domains of its state, the same list at all members. It grows at its end alone. `None`: it has no state, or it
    /// was made below level 10 of the cell and its members have not agreed on a list yet.
    pub domains: Option<Arc<[Domain]>>,
    /// The terms that were agreed when the group was made.
    pub terms: GroupTerms,
    /// Whether enough members are known here to have the group's state, according to its terms.
    /// [`super::Event::GroupAdequacy`] reports changes within the view; [`CellView::is_adequate`] reports on the cell's own
    /// minimum.
    pub adequate: bool,
}

impl GroupView {
    /// An adequate view on default terms, without members.
    #[must_use]
    pub fn new(group: GroupId, name: &str, view: ViewNumber) -> Self {
        Self {
            group,
            name: name.into(),
            view,
            prev: None,
            members: Vec::new(),
            infos: Vec::new(),
            joined: Vec::new(),
            left: Vec::new(),
            incomplete: Vec::new(),
            observers: Vec::new(),
            has_state: None,
            domains: None,
            terms: GroupTerms::default(),
            adequate: true,
        }
    }
}
