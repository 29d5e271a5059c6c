//! Views: the agreed members of a group or of the cell.

use std::fmt;
use std::sync::Arc;

use phalanx_core as core;
use phalanx_life::ShownView;

use crate::id::{LeaveReason, Member, MemberId};

/// The agreed members of a group, equal at all members that install it. Cheap to clone.
#[derive(Clone)]
pub struct View {
    view: Arc<core::GroupView>,
    me: core::Incarnation,
    is_replayed: bool,
}

impl View {
    pub(crate) fn new(view: Arc<core::GroupView>, me: core::Incarnation) -> Self {
        Self { view, me, is_replayed: false }
    }

    /// A view before the first one of `me`.
    pub(crate) fn replayed(view: Arc<core::GroupView>, me: core::Incarnation) -> Self {
        Self { view, me, is_replayed: true }
    }

    pub(crate) fn of(seen: ShownView<'_>) -> Self {
        Self::new(Arc::clone(seen.view), seen.me)
    }

    pub(crate) fn with_adequate(&self, adequate: bool) -> Self {
        let view = Arc::new(core::GroupView { adequate, ..core::GroupView::clone(&self.view) });
        Self { view, ..self.clone() }
    }

    /// Its number, from 1. It grows with each view of the group. A group that was over and is founded again begins at 1
    /// again, so it is no fencing token: [`Standing`](crate::Standing) has one. Views of the cell have numbers of their own.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.view.view.0
    }

    /// The group's name.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.view.name
    }

    /// The domains of the group's state, each with its version, in the order of the group's list, which is the same at all
    /// members and grows at its end alone. `None`: the group keeps no list, because it has no state, or was founded below level
    /// 10 of the cell and not all members have said yet what they have.
    #[must_use]
    pub fn domains(&self) -> Option<impl ExactSizeIterator<Item = (&str, u32)>> {
        self.list().map(|list| list.iter().map(|domain| (domain.name.as_str(), domain.version)))
    }

    pub(crate) fn list(&self) -> Option<&Arc<[core::Domain]>> {
        self.view.domains.as_ref()
    }

    /// The members by rank, the oldest first.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member> {
        self.view.infos.iter().map(Member::of)
    }

    /// The members' ids by rank, the oldest first.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = MemberId> {
        self.view.members.iter().map(|who| MemberId::of(*who))
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.members.len()
    }

    /// Never: a view has at least one member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.members.is_empty()
    }

    /// Whether it is part of a state transfer: the members installed it before this process was one of them. Only
    /// [`State::view`](crate::State::view) and [`App::view`](crate::App::view) are called with such a view. It does not hold this
    /// process: [`View::me`] is none of [`View::members`].
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.is_replayed
    }

    /// This process. It is a member of this view, unless [`View::is_replayed`].
    #[must_use]
    pub fn me(&self) -> MemberId {
        MemberId::of(self.me)
    }

    /// The rank of a member: 0 for the oldest. Ranks of one view are the same at all members, so each of them can
    /// compute a role from its rank without a message: rank 0 leads.
    #[must_use]
    pub fn rank_of(&self, who: MemberId) -> Option<usize> {
        self.view.members.iter().position(|member| MemberId::of(*member) == who)
    }

    /// The rank of this process. `usize::MAX`, which is no rank, if [`View::is_replayed`].
    #[must_use]
    pub fn my_rank(&self) -> usize {
        self.rank_of(self.me()).unwrap_or(usize::MAX)
    }

    /// The members that entered with this view.
    pub fn joined(&self) -> impl ExactSizeIterator<Item = Member> {
        self.view.joined.iter().map(|who| self.member(*who))
    }

    /// The members that left with this view, and why.
    pub fn left(&self) -> impl ExactSizeIterator<Item = (MemberId, LeaveReason)> {
        self.view.left.iter().map(|(who, why)| (MemberId::of(*who), LeaveReason::of(*why)))
    }

    /// Whether at least [`members_min`](crate::GroupBuilder::members_min) members have the group's state, as far as is known
    /// here. While not, uniform messages wait, and no outcome is reported.
    ///
    /// A view is a value, and this is as of when it was got: [`Next::Adequate`](crate::Next::Adequate) says when it changes
    /// within the view, and [`Group::view`](crate::Group::view) then gives the new one. With a minimum of 2 or more the first
    /// view of a joiner is not adequate: the others have not said yet that they have the state. The least members of the cell
    /// (`limits.members_min`) do not count here. As this may differ between the members, no state may depend on it. In a view
    /// that is replayed all members count that the view does not list as joiners.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        self.view.adequate
    }

    /// The least members with the group's state with which uniform messages are sent;
    /// [`members_min`](crate::GroupBuilder::members_min) of the group's founder.
    #[must_use]
    pub fn members_min(&self) -> u16 {
        self.view.terms.members_min
    }

    /// Whether messages of [`Guarantee::GroupDefault`](crate::Guarantee::GroupDefault) are uniform.
    #[must_use]
    pub fn is_uniform_by_default(&self) -> bool {
        self.view.terms.uniformity.is_uniform()
    }

    /// Whether the group ends when nobody in the cell has its state; see [`ends_alone`](crate::GroupBuilder::ends_alone).
    #[must_use]
    pub fn ends_alone(&self) -> bool {
        self.view.terms.ends_alone
    }

    fn member(&self, who: core::Incarnation) -> Member {
        let info = self.view.infos.iter().find(|info| info.incarnation == who);
        info.map_or_else(|| Member::unknown(MemberId::of(who), who.to_string()), Member::of)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.members().map(|member| member.name).collect();
        f.debug_struct("View")
            .field("group", &self.group())
            .field("number", &self.number())
            .field("members", &names)
            .finish()
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        (self.number(), self.group(), &self.view.members) == (other.number(), other.group(), &other.view.members)
    }
}

impl Eq for View {}

/// A view of group 1, "g", without members.
#[cfg(test)]
pub(crate) fn of_nobody(number: u64) -> core::GroupView {
    core::GroupView::new(core::GroupId(1), "g", core::ViewNumber(number))
}
