//! A group's terms, agreed when it is founded. They travel in the tails of messages and of the group's entry
//! (`docs/levels.md`).

use crate::api::{GroupTerms, Uniformity};
use crate::wire::codec::{Reader, put_varint};
use crate::wire::{Malformed, Tags};

/// Tag in the tail of requests about groups: the terms with which the sender would found each, in order.
const REQUESTED: u64 = 1;
/// Tag in the tail of requests: the indexes of those that end instead of waiting. Builds that do not know it make
/// groups that wait.
const REQUESTED_ALONE: u64 = 5;

/// Tag in the tail of a group's change and entry: 1 if its default is uniform.
const UNIFORM: u64 = 1;
/// Tag in the same: the least members with its state in an adequate view.
const MEMBERS_MIN: u64 = 2;
/// Tag in the same: 1 if it ends instead of waiting for members that are cut off.
const ENDS_ALONE: u64 = 7;

impl GroupTerms {
    /// The terms of a group made by a build that does not know terms.
    const UNSPECIFIED: Self = Self { uniformity: Uniformity::Plain, members_min: 1, ends_alone: false };

    /// The entries of a group's tail.
    #[must_use]
    pub fn tags(self) -> Tags {
        let mut tags = Tags::default();
        tags.put_number(UNIFORM, u64::from(self.uniformity.is_uniform()));
        tags.put_number(MEMBERS_MIN, u64::from(self.members_min.max(1)));
        if self.ends_alone {
            tags.put_number(ENDS_ALONE, 1);
        }
        tags
    }

    /// The terms of a group with this tail. A malformed entry counts as absent: all members read the same, so they
    /// agree.
    #[must_use]
    pub fn of(tail: &Tags) -> Self {
        let number = |tag| tail.number(tag).ok().flatten();
        let members_min = number(MEMBERS_MIN).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        Self {
            uniformity: number(UNIFORM).map_or(Self::UNSPECIFIED.uniformity, |n| Uniformity::from_flag(n == 1)),
            members_min: members_min.unwrap_or(Self::UNSPECIFIED.members_min),
            ends_alone: number(ENDS_ALONE) == Some(1),
        }
    }

    /// The terms as a number above 0: twice the minimum, minus one if they are plain.
    fn to_number(self) -> u64 {
        2 * u64::from(self.members_min.max(1)) - u64::from(!self.uniformity.is_uniform())
    }

    fn from_number(number: u64) -> Result<Self, Malformed> {
        let members_min = u16::try_from(number.div_ceil(2)).map_err(|_too_large| Malformed)?;
        let uniformity = Uniformity::from_flag(number.is_multiple_of(2));
        Ok(Self { uniformity, members_min, ends_alone: false })
    }
}

/// The tail of a message with requests about groups.
#[must_use]
pub fn requested_terms(requests: impl Iterator<Item = Option<GroupTerms>>) -> Tags {
    let (mut numbers, mut told, mut alone) = (Vec::new(), false, Vec::new());
    for (place, terms) in (0u32..).zip(requests) {
        told |= terms.is_some();
        alone.extend(terms.filter(|terms| terms.ends_alone).map(|_| place));
        put_varint(&mut numbers, terms.map_or(0, GroupTerms::to_number));
    }
    let mut tags = Tags::default();
    if told {
        tags.put(REQUESTED, &numbers);
    }
    if !alone.is_empty() {
        tags.put_value(REQUESTED_ALONE, &alone);
    }
    tags
}

/// Reads the tail of [`requested_terms`] into the requests. An earlier build sends none.
///
/// # Errors
/// [`Malformed`] if the entry is malformed, or is for another number of requests.
pub fn read_requested_terms<'a>(
    tail: &Tags,
    requests: impl Iterator<Item = &'a mut Option<GroupTerms>>,
) -> Result<(), Malformed> {
    let Some(numbers) = tail.get(REQUESTED) else { return Ok(()) };
    let mut r = Reader::new(numbers);
    let alone: Vec<u32> = tail.value(REQUESTED_ALONE)?.unwrap_or_default();
    for (place, wish) in (0u32..).zip(requests) {
        *wish = match r.varint()? {
            0 => None,
            number => Some(GroupTerms { ends_alone: alone.contains(&place), ..GroupTerms::from_number(number)? }),
        };
    }
    if r.is_empty() { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<GroupTerms> {
        let with = |members_min, ends_alone| {
            [Uniformity::Plain, Uniformity::Uniform].map(|uniformity| GroupTerms {
                uniformity,
                members_min,
                ends_alone,
            })
        };
        [1, 2, 300, u16::MAX].into_iter().flat_map(|n| [with(n, false), with(n, true)].concat()).collect()
    }

    #[test]
    fn an_entry_tells_the_terms_and_a_group_without_one_is_plain() {
        for terms in all() {
            assert_eq!(GroupTerms::of(&terms.tags()), terms);
        }
        assert_eq!(GroupTerms::of(&Tags::default()), GroupTerms::UNSPECIFIED);
        for odd in [&b"xx"[..], &[0], &[0x80, 0x80, 4]] {
            let mut tags = Tags::default();
            tags.put(UNIFORM, odd);
            tags.put(MEMBERS_MIN, odd);
            assert_eq!(GroupTerms::of(&tags), GroupTerms::UNSPECIFIED, "{odd:?}");
        }
        assert_eq!(
            GroupTerms::of(&GroupTerms { members_min: 0, ..GroupTerms::default() }.tags()),
            GroupTerms::default()
        );
    }

    #[test]
    fn requests_are_read_as_they_were_told_and_only_for_as_many_groups() {
        let mut told = vec![None];
        told.extend(all().into_iter().map(Some));
        let tail = requested_terms(told.iter().copied());
        let mut read = vec![None; told.len()];
        assert_eq!(read_requested_terms(&tail, read.iter_mut()), Ok(()));
        assert_eq!(read, told);
        for count in [told.len() - 1, told.len() + 1] {
            assert_eq!(read_requested_terms(&tail, vec![None; count].iter_mut()), Err(Malformed), "{count} requests");
        }
        assert_eq!(read_requested_terms(&Tags::default(), read.iter_mut()), Ok(()));
        assert!(requested_terms([None, None].into_iter()).is_empty());
        let mut bad = Tags::default();
        bad.put(REQUESTED, &[0x80, 0x80, 0x80, 1]);
        assert_eq!(read_requested_terms(&bad, [None].iter_mut()), Err(Malformed));
    }

    /// Requests and their terms fit into one message, whatever they are.
    #[test]
    fn the_longest_list_of_terms_fits_in_a_tail() {
        let longest = all().into_iter().max_by_key(|terms| terms.to_number());
        let tail = requested_terms(std::iter::repeat_n(longest, crate::process::REQUESTS_MAX));
        assert_eq!(Tags::parse(tail.as_bytes()), Ok(tail));
    }
}
