//! The streams of a group view at a process, when they are to be polled, and what their packets need.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::api::{Delivery, Domain, GroupTerms, Order};
use crate::id::{GroupId, Incarnation, Rank, ViewNumber};
use crate::order::{Deliverable, ViewStreams};
use crate::time::Instant;
use crate::wire::Space;

/// A view's streams and what their packets need.
pub(super) struct GroupStreams {
    pub(super) view_streams: ViewStreams,
    pub(super) meta: ViewMeta,
    /// Whether something changed since its last poll.
    pub(super) touched: bool,
    /// When the next poll is due although nothing changes, as of the last one.
    due: Option<Instant>,
}

impl GroupStreams {
    pub(super) fn new(view_streams: ViewStreams, meta: ViewMeta) -> Self {
        Self { view_streams, meta, touched: true, due: None }
    }

    /// Whether a poll has something to do.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.touched || self.due.is_some_and(|at| at <= now)
    }

    /// Notes that it was polled. If it `worked`, the next poll checks it again.
    pub(super) fn rests(&mut self, worked: bool) {
        self.touched = worked;
        self.due = self.view_streams.deadline();
    }

    /// When its next poll is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.touched { self.view_streams.deadline() } else { self.due }
    }
}

/// Facts on a group view beside its streams.
pub(super) struct ViewMeta {
    pub(super) group: GroupId,
    pub(super) name: Arc<str>,
    pub(super) view: ViewNumber,
    /// The first view of this group that this process was in.
    pub(super) since: ViewNumber,
    /// The latest view since then that the application was notified of. Before the first, the application sends
    /// nothing.
    pub(super) told: Option<ViewNumber>,
    /// The domains that the group lists in that view.
    pub(super) told_domains: Option<Arc<[Domain]>>,
    pub(super) space: Space,
    pub(super) members: Vec<Incarnation>,
    /// Data addresses by rank. `others` has them without this process's own.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) others: Vec<SocketAddr>,
    /// Members whose state was not known to be complete when the view was decided.
    pub(super) incomplete: Vec<Incarnation>,
    /// How many domains the group lists; 0 if it lists none.
    pub(super) domains: usize,
    /// Terms agreed for the group.
    pub(super) terms: GroupTerms,
    /// Whether enough members hold the group's state, as last reported to the application.
    pub(super) adequate: bool,
}

impl ViewMeta {
    /// Turns a delivery of one of the streams into what the application gets.
    #[inline]
    pub(super) fn delivery<'a>(&self, d: Deliverable<'a>, replayed: bool) -> Delivery<'a> {
        Delivery {
            group: self.group,
            view: self.view,
            sender: self.members[d.rank.index()],
            seq: d.seq,
            order: d.order,
            uniformity: d.uniformity,
            position: d.position,
            replayed,
            asked: d.asked,
            domain: d.domain,
            payload: d.payload,
        }
    }

    /// Whether a message is for this domain of the group, or for all of it. The same at all members.
    #[inline]
    pub(super) fn is_addressed(&self, d: &Deliverable<'_>) -> bool {
        d.domain.is_none_or(|domain| domain.index() < self.domains && d.order == Order::Total)
    }

    pub(super) fn rank(&self, who: Incarnation) -> Option<Rank> {
        self.members.iter().position(|&m| m == who).map(Rank::from_index)
    }
}
