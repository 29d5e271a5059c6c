//! A compact encoding of lists with one entry per member. Few of a thousand streams hold anything, and the others must
//! not cost bytes in a report or a cut.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decree::GroupCut;
use crate::id::{GroupId, Incarnation};

/// The most members of a cell. Bounds what a short message can make its reader allocate.
const RANKS_MAX: u32 = 65_536;

/// The ranks for which `held` is true, each as its distance from the one before.
fn gaps(held: impl Iterator<Item = bool>) -> impl Iterator<Item = (u32, usize)> {
    let mut next = 0;
    // The reader sums them up again, and refuses a rank beyond the members.
    held.enumerate().filter(|(_, holds)| *holds).map(move |(rank, _)| {
        let gap = rank - std::mem::replace(&mut next, rank + 1);
        (u32::try_from(gap).unwrap_or(u32::MAX), rank)
    })
}

/// Expands the entries into a list of `members`; `None` if a rank is out of range.
fn fill<T: Clone>(members: u32, nothing: &T, held: impl Iterator<Item = (u32, T)>) -> Option<Vec<T>> {
    // Before the allocation, because the number comes from a peer.
    if members > RANKS_MAX {
        return None;
    }
    let mut all = vec![nothing.clone(); usize::try_from(members).ok()?];
    let mut next = 0_usize;
    for (gap, value) in held {
        let rank = next.checked_add(usize::try_from(gap).ok()?)?;
        *all.get_mut(rank)? = value;
        next = rank + 1;
    }
    Some(all)
}

/// The encoded form of a [`GroupCut`].
#[derive(Serialize, Deserialize)]
pub(super) struct SparseCut {
    members: u32,
    held: Vec<(u32, u64, Incarnation)>,
}

impl From<GroupCut> for SparseCut {
    fn from(cut: GroupCut) -> Self {
        let members = u32::try_from(cut.prefixes.len()).unwrap_or(u32::MAX);
        let held = gaps(cut.prefixes.iter().map(|prefix| *prefix > 0));
        let holder = |rank: usize| cut.holders.get(rank).copied().unwrap_or(Incarnation::NONE);
        Self { members, held: held.map(|(gap, rank)| (gap, cut.prefixes[rank], holder(rank))).collect() }
    }
}

impl TryFrom<SparseCut> for GroupCut {
    type Error = &'static str;

    fn try_from(sparse: SparseCut) -> Result<Self, Self::Error> {
        if sparse.held.iter().any(|(_, prefix, _)| *prefix == 0) {
            return Err("a holder of nothing");
        }
        let held = sparse.held.into_iter().map(|(gap, prefix, holder)| (gap, (prefix, holder)));
        let all = fill(sparse.members, &(0, Incarnation::NONE), held).ok_or("a cut beyond its members")?;
        let (prefixes, holders) = all.into_iter().unzip();
        Ok(Self { prefixes, holders })
    }
}

/// The encoding of a report's prefixes.
pub(super) mod prefixes {
    use super::{Deserialize, Deserializer, GroupId, Serialize, Serializer, fill, gaps};

    type Sparse = (GroupId, u32, Vec<(u32, u64)>);

    pub(in crate::member) fn serialize<S: Serializer>(
        prefixes: &[(GroupId, Vec<u64>)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let sparse = prefixes.iter().map(|(group, streams)| {
            let held = gaps(streams.iter().map(|prefix| *prefix > 0)).map(|(gap, rank)| (gap, streams[rank]));
            (*group, u32::try_from(streams.len()).unwrap_or(u32::MAX), held.collect())
        });
        sparse.collect::<Vec<Sparse>>().serialize(to)
    }

    pub(in crate::member) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(GroupId, Vec<u64>)>, D::Error> {
        let sparse: Vec<Sparse> = Vec::deserialize(from)?;
        let dense =
            sparse.into_iter().map(|(group, members, held)| Some((group, fill(members, &0, held.into_iter())?)));
        let dense: Option<Vec<_>> = dense.collect();
        dense.ok_or_else(|| serde::de::Error::custom("a prefix beyond the group's members"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::DecreeNumber;
    use crate::member::{Ballot, Report};

    fn cut(members: usize) -> GroupCut {
        let mut cut = GroupCut { prefixes: vec![0; members], holders: vec![Incarnation::NONE; members] };
        for rank in [0, 3, members - 1] {
            cut.prefixes[rank] = 7 + rank as u64;
            cut.holders[rank] = Incarnation(99);
        }
        cut
    }

    #[test]
    fn what_is_written_is_read_and_costs_what_is_held() {
        for members in [4, 1000] {
            let cut = cut(members);
            let bytes = postcard::to_allocvec(&cut).expect("a cut");
            assert!(bytes.len() < 24, "{} bytes", bytes.len());
            assert_eq!(postcard::from_bytes::<GroupCut>(&bytes), Ok(cut.clone()));
            let prefixes = vec![(GroupId(1), cut.prefixes), (GroupId(2), vec![0; 3])];
            let report = Report {
                decree: DecreeNumber(2),
                ballot: Ballot::default(),
                accepted: None,
                prefixes,
                ..Report::default()
            };
            let bytes = postcard::to_allocvec(&report).expect("a report");
            assert!(bytes.len() < 32, "{} bytes", bytes.len());
            assert_eq!(postcard::from_bytes::<Report>(&bytes), Ok(report));
        }
    }

    #[test]
    fn who_holds_nothing_is_not_named() {
        let sparse = |prefix| SparseCut { members: 3, held: vec![(0, prefix, Incarnation(1))] };
        let read = |prefix| {
            let bytes = postcard::to_allocvec(&sparse(prefix)).expect("a cut");
            postcard::from_bytes::<GroupCut>(&bytes)
        };
        assert!(read(0).is_err());
        assert!(read(1).is_ok());
    }

    #[test]
    fn a_rank_beyond_the_members_is_refused() {
        for (members, gap) in [(3_u32, 3_u32), (0, 0), (3, u32::MAX), (u32::MAX, 0)] {
            let sparse = SparseCut { members, held: vec![(gap, 1, Incarnation(1))] };
            let bytes = postcard::to_allocvec(&sparse).expect("a cut");
            assert!(postcard::from_bytes::<GroupCut>(&bytes).is_err(), "{members} {gap}");
        }
    }

    #[test]
    fn as_many_ranks_as_a_view_may_have_are_read_and_no_more() {
        let read = |members| {
            let sparse = SparseCut { members, held: vec![(members - 1, 7, Incarnation(1))] };
            let bytes = postcard::to_allocvec(&sparse).expect("a cut");
            postcard::from_bytes::<GroupCut>(&bytes).map(|cut| cut.prefixes.len())
        };
        assert_eq!(read(RANKS_MAX), Ok(RANKS_MAX as usize));
        assert!(read(RANKS_MAX + 1).is_err());
    }
}
