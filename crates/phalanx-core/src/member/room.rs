//! Room for new groups. Groups that wait for their members (`docs/orphans.md`) stay in the directory, which every joiner
//! gets, though nobody is in them. So their bytes are bounded, and each process that may be cut off has a share of them.

use std::collections::BTreeMap;

use super::{Directory, GroupEntry, GroupRequest};
use crate::id::{GroupId, Incarnation, MemberInfo};

/// From this number of bytes on that waiting groups take in the directory, no group is made. No member is excluded for
/// it.
pub const WAITING_BYTES_MAX: usize = 256 * 1024;

/// From this number of bytes on that groups take which wait for a process, it makes no group. More than this of one
/// process does not count for the others.
pub const SEAT_BYTES_MAX: usize = WAITING_BYTES_MAX / 4;

/// Bytes of a group's entry beside its name and its tail: number, view and packet-number space.
const ENTRY_BYTES: usize = 16;

/// Whose share it is: that of all starts in one state directory, or of one incarnation without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    Seat(u64),
    Life(Incarnation),
}

/// Room for new groups in a directory.
#[derive(Clone, Debug, Default)]
pub struct GroupRoom {
    is_numbered: bool,
    /// Number of waiting groups.
    waiting: usize,
    /// Their bytes, in equal parts to those for which each waits.
    bytes: BTreeMap<Share, usize>,
}

/// Why a process cannot make a group now: too much waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Number of waiting groups.
    pub waiting: usize,
    /// Their bytes, as far as they count: those of all groups, or of those that wait for this process.
    pub bytes: usize,
    /// How many bytes may wait.
    pub bytes_max: usize,
}

impl GroupRoom {
    /// The room in this directory.
    #[must_use]
    pub fn of(directory: &Directory) -> Self {
        let mut room = Self { is_numbered: directory.can_number_groups(), ..Self::default() };
        for (_, entry, orphan) in directory.orphans() {
            room.waiting += 1;
            let part = (ENTRY_BYTES + entry.name.len() + entry.tail.as_bytes().len()).div_ceil(orphan.holders.len());
            for holder in &orphan.holders {
                let share = if holder.seat == 0 { Share::Life(holder.who) } else { Share::Seat(holder.seat) };
                *room.bytes.entry(share).or_default() += part;
            }
        }
        room
    }

    /// Whether this member may make a group. What it asks for is no reason for a decree otherwise.
    #[must_use]
    pub fn takes(&self, asker: &MemberInfo) -> bool {
        self.is_numbered && self.lack(asker).is_none()
    }

    /// What keeps this member from making a group, if too much waits.
    #[must_use]
    pub fn lack(&self, asker: &MemberInfo) -> Option<NoRoom> {
        let lack =
            |bytes, bytes_max| (bytes >= bytes_max).then_some(NoRoom { waiting: self.waiting, bytes, bytes_max });
        let is_own = |share: &Share| match share {
            Share::Seat(seat) => *seat == asker.seat(),
            Share::Life(who) => asker.is_or_keeps(*who),
        };
        let own = self.bytes.iter().filter(|(share, _)| is_own(share)).map(|(_, bytes)| bytes).sum();
        let all = self.bytes.values().map(|bytes| (*bytes).min(SEAT_BYTES_MAX)).sum();
        lack(own, SEAT_BYTES_MAX).or_else(|| lack(all, WAITING_BYTES_MAX))
    }
}

/// The groups of a directory by name, for many questions at once.
#[derive(Clone, Debug)]
pub struct GroupNames<'a>(BTreeMap<&'a str, (GroupId, &'a GroupEntry)>);

impl<'a> GroupNames<'a> {
    /// The groups of this directory.
    #[must_use]
    pub fn of(directory: &'a Directory) -> Self {
        Self(directory.groups.iter().map(|(id, entry)| (entry.name.as_str(), (*id, entry))).collect())
    }

    /// The group with this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(GroupId, &'a GroupEntry)> {
        self.0.get(name).copied()
    }

    /// Whether a process's request is not fulfilled, and a decree can fulfil it.
    #[must_use]
    pub fn leaves_open(&self, who: Incarnation, wish: &GroupRequest) -> bool {
        let is_open = |entry: &GroupEntry| !entry.is_orphan() && entry.members.contains(&who) != wish.join;
        self.get(&wish.name).map_or(wish.join, |(_, entry)| is_open(entry))
    }
}

#[cfg(test)]
mod tests;
