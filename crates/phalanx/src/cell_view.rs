//! Views of the cell.

use std::fmt;
use std::sync::Arc;

use phalanx_core as core;

use crate::departure::Departure;
use crate::id::{Instance, LeaveReason, Member, MemberId};

/// The agreed members of the cell, equal at all members that install it. Cheap to clone.
#[derive(Clone)]
pub struct CellView {
    view: Arc<core::CellView>,
    me: core::Incarnation,
}

impl CellView {
    pub(crate) fn new(view: Arc<core::CellView>, me: core::Incarnation) -> Self {
        Self { view, me }
    }

    /// Its number, from 1. It grows with each change of the members or of the level. With the generation of
    /// [`CellView::instance`] it is a fencing token (`docs/fencing.md`).
    #[must_use]
    pub fn number(&self) -> u64 {
        self.view.view.0
    }

    pub(crate) fn holds(&self, who: MemberId) -> bool {
        self.view.members.iter().any(|member| member.incarnation == who.incarnation())
    }

    /// Which founding of the cell it belongs to.
    #[must_use]
    pub fn instance(&self) -> Instance {
        Instance::of(self.view.instance)
    }

    /// The level in force (`docs/levels.md`).
    #[must_use]
    pub fn level(&self) -> u16 {
        self.view.level
    }

    /// The members by rank, the oldest first.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member> {
        self.view.members.iter().map(Member::of)
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.members.len()
    }

    /// Never: a view holds at least this process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.members.is_empty()
    }

    /// This process in this view.
    #[must_use]
    pub fn me(&self) -> MemberId {
        MemberId::of(self.me)
    }

    /// The members that entered with this view.
    pub fn joined(&self) -> impl ExactSizeIterator<Item = MemberId> {
        self.view.joined.iter().map(|who| MemberId::of(*who))
    }

    /// The members that left with this view, and why.
    pub fn left(&self) -> impl ExactSizeIterator<Item = (MemberId, LeaveReason)> {
        self.view.left.iter().map(|(who, why)| (MemberId::of(*who), LeaveReason::of(*why)))
    }

    /// The members that left with this view, with what this process knows of it beside the reason. Unlike
    /// [`CellView::left`] it may differ between members, and the first view of a process has none.
    pub fn departures(&self) -> impl ExactSizeIterator<Item = Departure> {
        self.view.departed.iter().map(|departed| Departure::of(&self.view, departed))
    }

    /// Members that left although they were heard. Beside each: those that stayed and to which a path failed, at most eight.
    /// Mend the path, and it is taken in again.
    pub fn apart(&self) -> impl ExactSizeIterator<Item = (MemberId, Vec<MemberId>)> {
        let of = |(who, from): &(core::Incarnation, Vec<core::Incarnation>)| {
            (MemberId::of(*who), from.iter().map(|who| MemberId::of(*who)).collect())
        };
        self.view.apart.iter().map(of)
    }

    /// The least members with which uniform messages are sent (`limits.members_min`).
    #[must_use]
    pub fn members_min(&self) -> usize {
        self.view.members_min
    }

    /// Whether it has as many. While not, uniform messages wait, and no outcome is reported.
    #[must_use]
    pub fn is_adequate(&self) -> bool {
        self.view.is_adequate()
    }
}

impl fmt::Debug for CellView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.view.members.iter().map(|member| &member.name[..]).collect();
        f.debug_struct("CellView")
            .field("instance", &self.instance())
            .field("number", &self.number())
            .field("level", &self.level())
            .field("members", &names)
            .finish()
    }
}

impl PartialEq for CellView {
    fn eq(&self, other: &Self) -> bool {
        (self.number(), self.instance(), &self.view.members) == (other.number(), other.instance(), &other.view.members)
    }
}

impl Eq for CellView {}
