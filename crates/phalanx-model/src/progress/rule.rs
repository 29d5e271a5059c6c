//! The removal rule: the members that go, from what is known of the links. Members with the same knowledge reach the
//! same result.

use super::MEMBERS;
use crate::rules::Rules;

const RULES: Rules = Rules { without: None };

/// Failed links, found from either end: for each member, the set of members at the other ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Links that fail for any kind of packet.
    pub any: [u8; MEMBERS],
    /// Links that fail for heartbeats.
    pub silent: [u8; MEMBERS],
}

impl Links {
    /// Adds a failed probe between two members.
    pub fn add(&mut self, a: usize, b: usize, is_beat: bool) {
        self.any[a] |= 1 << b;
        self.any[b] |= 1 << a;
        if is_beat {
            self.silent[a] |= 1 << b;
            self.silent[b] |= 1 << a;
        }
    }
}

/// Variants of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// A member that is never named, because it takes itself for healthy.
    pub never: Option<usize>,
    /// The member with most failed links goes, repeatedly, until no failed link is left.
    pub greedy: bool,
    /// Of a cover that is too large, as many members go as the budget allows.
    pub part: bool,
    /// There is no removal budget.
    pub unbounded: bool,
    /// Members that no remaining member hears count against the budget too.
    pub silent_counts: bool,
    /// There is no second attempt with heartbeats' links alone.
    pub no_second_look: bool,
}

/// The removal budget of a window, by the view at its beginning: a minority, and of two members the younger.
#[must_use]
pub fn budget(members: u32) -> u32 {
    (members.saturating_sub(1) / 2).max(u32::from(members == 2))
}

/// The cover: the smallest set of members that holds an end of each link. Of several such sets the one with the
/// youngest member, then with the next youngest.
#[must_use]
pub fn cover(links: &[u8; MEMBERS], members: u8, variant: Variant) -> u8 {
    if variant.greedy {
        return greedy(links, members);
    }
    let never = variant.never.map_or(0, |m| 1 << m);
    let covers = |set: u8| in_set(members & !set).all(|m| links[m] & members & !set == 0);
    let sets = (0..=members).filter(|set| set & !members == 0 && set & never == 0 && covers(*set));
    sets.min_by_key(|set| (set.count_ones(), u8::MAX - set)).unwrap_or(0)
}

fn greedy(links: &[u8; MEMBERS], members: u8) -> u8 {
    let mut out = 0;
    loop {
        let count = |m: usize| (links[m] & members & !out).count_ones();
        let worst = in_set(members & !out).map(|m| (count(m), m)).filter(|w| w.0 > 0).max();
        let Some((_, worst)) = worst else { return out };
        out |= 1 << worst;
    }
}

/// The number of members in a set that some remaining member hears: these count against the budget.
#[must_use]
pub fn counted(links: &Links, goes: u8, stays: u8) -> u32 {
    in_set(goes).filter(|m| stays & !links.silent[*m] != 0).count() as u32
}

/// Whether the remaining members are a quorum of the view.
#[must_use]
pub fn is_quorum(stays: u8, members: u8) -> bool {
    let lowest = 1 << members.trailing_zeros();
    RULES.is_quorum(stays.count_ones() as usize, members.count_ones() as usize, stays & lowest != 0)
}

/// The members of a view that go, when `left` may still be removed in this window. All failed links are tried first; if
/// their cover may not go, those of heartbeats alone.
#[must_use]
pub fn goes(links: &Links, members: u8, left: u32, variant: Variant) -> u8 {
    let may_go = |goes: u8| {
        let stays = members & !goes;
        let count = if variant.silent_counts { goes.count_ones() } else { counted(links, goes, stays) };
        is_quorum(stays, members) && (count <= left || variant.unbounded)
    };
    let all = cover(&links.any, members, variant);
    if may_go(all) {
        return all;
    }
    if variant.part {
        // The youngest first.
        let parts = (1..=all).rev().filter(|set| set & !all == 0 && may_go(*set));
        return parts.max_by_key(|set| set.count_ones()).unwrap_or(0);
    }
    let silent = cover(&links.silent, members, variant);
    if !variant.no_second_look && may_go(silent) { silent } else { 0 }
}

/// The members of a set, in ascending order.
pub fn in_set(set: u8) -> impl Iterator<Item = usize> {
    (0..MEMBERS).filter(move |m| set & 1 << m != 0)
}
