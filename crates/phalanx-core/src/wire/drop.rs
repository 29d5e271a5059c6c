//! Drop reasons: why a received packet, or a part of it, was discarded.

use crate::wire::codec::Malformed;

/// Why a received packet was dropped. Dropping changes nothing but a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Too short to hold a header and a tag.
    Short,
    /// Another major version of the format.
    Version,
    /// The tag of another cell's name.
    OtherCell,
    /// No known kind of packet.
    Kind,
    /// The tag does not fit the bytes: damaged, forged, or not meant for this process.
    BadTag,
    /// Already received.
    Replayed,
    /// Authentic, but it makes no sense.
    Malformed,
    /// From an incarnation this process has no dealings with.
    UnknownPeer,
    /// In a packet space nobody announced here.
    UnknownSpace,
    /// From, or for, an incarnation that is over.
    OldIncarnation,
    /// There was no room for it within the bounds.
    Overload,
    /// A join that does not answer a fresh challenge.
    BadCookie,
    /// Too far ahead of what is expected to be kept.
    Ahead,
}

impl DropReason {
    /// Every reason, in the order of [`Self::index`].
    pub const ALL: [Self; 13] = [
        Self::Short,
        Self::Version,
        Self::OtherCell,
        Self::Kind,
        Self::BadTag,
        Self::Replayed,
        Self::Malformed,
        Self::UnknownPeer,
        Self::UnknownSpace,
        Self::OldIncarnation,
        Self::Overload,
        Self::BadCookie,
        Self::Ahead,
    ];

    /// The reason's name in `snake_case`, for counters. Never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Version => "version",
            Self::OtherCell => "other_cell",
            Self::Kind => "kind",
            Self::BadTag => "bad_tag",
            Self::Replayed => "replayed",
            Self::Malformed => "malformed",
            Self::UnknownPeer => "unknown_peer",
            Self::UnknownSpace => "unknown_space",
            Self::OldIncarnation => "old_incarnation",
            Self::Overload => "overload",
            Self::BadCookie => "bad_cookie",
            Self::Ahead => "ahead",
        }
    }

    /// The reason's place in [`Self::ALL`], for arrays of counters.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl From<Malformed> for DropReason {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::DropReason;

    #[test]
    fn index_is_the_place_in_all() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index, "{reason:?}");
        }
    }

    #[test]
    fn names_are_distinct_and_snake_case() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        let fits = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(|name| fits(name)));
    }
}
