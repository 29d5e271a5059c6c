//! The rare conditions and their names.

/// A condition that ordinary plans hardly ever meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rare {
    /// What founders say in a ballot comes after the next ballot was promised.
    LateFounders,
    /// What a founder must not forget cannot be written.
    FullDisk,
    /// A member of a later instance hears no quorum, and meets a member of an earlier one.
    EarlierInstance,
    /// A joiner of an earlier build waits while the level rises.
    UnfitJoiner,
    /// A packet makes no sense while a member takes the state of its group.
    Incomplete,
    /// A member cannot be read on its channel, and the view changes.
    UnreadPeer,
    /// The last members leave in one decree.
    LastLeavers,
    /// A member is removed again that was heard the first time, and is not heard now.
    RemovedAgain,
    /// Orders, token passes and what abcasts rest on are lost with their holders, again and again.
    Orders,
}

impl Rare {
    /// All conditions.
    pub const ALL: [Self; 9] = [
        Self::LateFounders,
        Self::FullDisk,
        Self::EarlierInstance,
        Self::UnfitJoiner,
        Self::Incomplete,
        Self::UnreadPeer,
        Self::LastLeavers,
        Self::RemovedAgain,
        Self::Orders,
    ];

    /// Its name in the counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LateFounders => "plans of late founders",
            Self::FullDisk => "plans of full disks",
            Self::EarlierInstance => "plans of earlier instances",
            Self::UnfitJoiner => "plans of unfit joiners",
            Self::Incomplete => "plans of incomplete members",
            Self::UnreadPeer => "plans of unread peers",
            Self::LastLeavers => "plans of last leavers",
            Self::RemovedAgain => "plans of repeated removals",
            Self::Orders => "plans of lost orders",
        }
    }
}
