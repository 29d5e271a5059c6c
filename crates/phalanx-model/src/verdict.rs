//! The outcome for a stream with a packet that makes no sense to some of its readers.
//!
//! By then every member that takes part in the view change has reported how far it can read: up to the longest prefix
//! that any member holds, or up to the first nonsense. The sender counts as able to read.

use crate::rules::{Mutant, Rules};

/// One member's report on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The held prefix that makes sense to it.
    pub prefix: u8,
    /// The prefix that it acted upon: parsed while its gate was open. It may deliver that at any time.
    pub read: u8,
    /// It holds the next packet, which makes no sense to it.
    pub nonsense: bool,
}

/// The decision on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The cut of the stream, for members that stay.
    pub cut: u8,
    /// The sender leaves the group.
    pub sender_goes: bool,
    /// Members that take the state anew, a bit each.
    pub anew: u8,
    /// It cannot be known which side is at fault: the group stops.
    pub stops: bool,
}

/// Decides on a stream, by the reports of the members that take part, indexed by rank.
///
/// If a minority cannot read a packet, the packet is in the cut and the minority takes the state anew. If a majority
/// cannot read it, it is outside the cut: the sender goes, and the members that acted upon it take the state anew. The
/// same question is then put to the remaining members, because they may have stopped at different packets. Half against
/// half stops the group, unless the sender is gone anyway: then the longer prefix counts.
#[must_use]
pub fn judge(rules: Rules, sender: usize, said: &[Option<Said>]) -> Verdict {
    let present = ranks(said, |_, _| true);
    let mut verdict = Verdict::default();
    let (mut voters, mut sender_votes) = (present, present & 1 << sender != 0);
    loop {
        let of_voters = |r: usize| voters & 1 << r != 0;
        let top = ranks_prefix(said, of_voters);
        let stopped = |r: usize, s: Said| of_voters(r) && s.prefix < top && s.nonsense;
        let short = ranks(said, stopped);
        verdict.cut = top;
        if short == 0 || rules.lacks(Mutant::NobodyTakesAnew) {
            break;
        }
        let no_vote = sender_votes && rules.lacks(Mutant::SenderHasNoVote);
        let (against, all) = (2 * short.count_ones(), voters.count_ones() - u32::from(no_vote));
        if against == all && (sender_votes || rules.lacks(Mutant::TieStopsWithoutSender)) {
            return Verdict { stops: true, ..Verdict::default() };
        }
        if against <= all {
            verdict.anew |= short;
            break;
        }
        verdict.sender_goes |= sender_votes;
        if rules.lacks(Mutant::LongestCutWithoutSender) {
            break;
        }
        (voters, sender_votes) = (short, false);
    }
    if !rules.lacks(Mutant::PastTheCutStays) && !rules.lacks(Mutant::PastTheCutGoesByItself) {
        verdict.anew |= ranks(said, |_, s| s.read > verdict.cut);
    }
    if verdict.sender_goes {
        verdict.anew &= !(1 << sender);
    }
    verdict
}

/// The decision on a group, over all its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Senders that leave the group, a bit each.
    pub gone: u8,
    /// Members that take the state anew, a bit each.
    pub anew: u8,
    /// The group stops: no member leaves, and none continues.
    pub stops: bool,
}

/// Combines the verdicts on all streams. The group continues only with a member that keeps its state.
#[must_use]
pub fn together(verdicts: impl Iterator<Item = (usize, Verdict)>, members: u8) -> Outcome {
    let mut all = Outcome::default();
    for (sender, verdict) in verdicts {
        all.gone |= u8::from(verdict.sender_goes) << sender;
        all.anew |= verdict.anew;
        all.stops |= verdict.stops;
    }
    all.anew &= !all.gone;
    let keeps_state = members & !all.gone & !all.anew != 0;
    if all.stops || !keeps_state { Outcome { stops: true, ..Outcome::default() } } else { all }
}

/// The set of ranks whose report satisfies `which`.
fn ranks(said: &[Option<Said>], which: impl Fn(usize, Said) -> bool) -> u8 {
    let taken = said.iter().enumerate().filter(|(r, s)| s.is_some_and(|s| which(*r, s)));
    taken.fold(0, |set, (r, _)| set | 1 << r)
}

/// The longest prefix among the ranks that satisfy `which`.
fn ranks_prefix(said: &[Option<Said>], which: impl Fn(usize) -> bool) -> u8 {
    let prefixes = said.iter().enumerate().filter(|(r, _)| which(*r)).filter_map(|(_, s)| s.map(|s| s.prefix));
    prefixes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { without: None };

    /// A packet of rank 0 that makes no sense to `blind`, in a view of which `present` take part. All other present
    /// members acted upon it.
    fn one_packet(rules: Rules, present: u8, blind: u8, of: usize) -> Verdict {
        let said: Vec<Option<Said>> = (0..of)
            .map(|r| {
                let read = u8::from(blind & 1 << r == 0);
                (present & 1 << r != 0).then_some(Said { prefix: read, read, nonsense: read == 0 })
            })
            .collect();
        judge(rules, 0, &said)
    }

    #[test]
    fn the_fewer_take_the_state_anew() {
        assert_eq!(one_packet(RULES, 0b111, 0b010, 3), Verdict { cut: 1, anew: 0b010, ..Verdict::default() });
        assert_eq!(one_packet(RULES, 0b11111, 0b00110, 5), Verdict { cut: 1, anew: 0b00110, ..Verdict::default() });
    }

    #[test]
    fn the_sender_goes_when_the_more_cannot_read_it() {
        let gone = Verdict { sender_goes: true, ..Verdict::default() };
        assert_eq!(one_packet(RULES, 0b111, 0b110, 3), gone);
        assert_eq!(one_packet(RULES, 0b11111, 0b01110, 5), Verdict { anew: 0b10000, ..gone });
    }

    #[test]
    fn half_against_half_stops_the_group_while_the_sender_is_there() {
        assert!(one_packet(RULES, 0b11, 0b10, 2).stops);
        assert!(one_packet(RULES, 0b1111, 0b1100, 4).stops);
        assert_eq!(one_packet(RULES, 0b0110, 0b0100, 3), Verdict { cut: 1, anew: 0b100, ..Verdict::default() });
    }

    #[test]
    fn what_nobody_that_is_present_can_read_is_outside_of_the_cut() {
        assert_eq!(one_packet(RULES, 0b110, 0b110, 3), Verdict::default());
    }

    #[test]
    fn readers_that_stop_at_different_packets_are_asked_again() {
        let at = |prefix, nonsense| Some(Said { prefix, read: prefix, nonsense });
        // The sender wrote two packets; one reader stops at the first, three at the second.
        let said = [at(2, false), at(0, true), at(1, true), at(1, true), at(1, true)];
        let expected = Verdict { cut: 1, sender_goes: true, anew: 0b00010, stops: false };
        assert_eq!(judge(RULES, 0, &said), expected);
    }

    /// A member that only fetched a packet, and did not act upon it, stays.
    #[test]
    fn who_holds_more_than_the_cut_without_acting_upon_it_stays() {
        let fetched = Some(Said { prefix: 1, read: 0, nonsense: false });
        let blind = Some(Said { prefix: 0, read: 0, nonsense: true });
        let said = [Some(Said { prefix: 1, read: 1, nonsense: false }), blind, blind, blind, fetched];
        assert_eq!(judge(RULES, 0, &said), Verdict { sender_goes: true, ..Verdict::default() });
    }

    /// For up to five members and three packets, and every pattern of reading and acting: members that keep the state
    /// can reach the cut and did not act upon more, at least one member keeps it, and nothing that all acted upon is
    /// lost.
    #[test]
    fn who_keeps_the_state_is_at_the_cut_in_every_pattern() {
        let stopped = |prefix| Said { prefix, read: prefix, nonsense: true };
        let reads_all = |read| Said { prefix: 3, read, nonsense: false };
        let reader = |n: usize| if n < 3 { stopped(n as u8) } else { reads_all(n as u8 - 3) };
        let mut judged = 0;
        for readers in 1..=4 {
            for pattern in 0..7_usize.pow(readers) {
                let each = (0..readers).map(|r| Some(reader(pattern / 7_usize.pow(r) % 7)));
                for sender in [None, Some(reads_all(3))] {
                    let said: Vec<_> = [sender].into_iter().chain(each.clone()).collect();
                    let verdict = judge(RULES, 0, &said);
                    if verdict.stops {
                        assert!(sender.is_some(), "{said:?}");
                        continue;
                    }
                    let gone = verdict.anew | u8::from(verdict.sender_goes);
                    let keep: Vec<Said> =
                        (0..).zip(&said).filter(|(r, _)| gone & 1 << r == 0).filter_map(|(_, s)| *s).collect();
                    assert!(!keep.is_empty(), "{said:?}");
                    assert!(keep.iter().all(|s| s.read <= verdict.cut && verdict.cut <= s.prefix), "{said:?}");
                    assert!(said.iter().flatten().any(|s| s.read <= verdict.cut), "{said:?}");
                    judged += 1;
                }
            }
        }
        assert_eq!(judged, 5_489);
    }

    /// Three senders, each of which cannot read the one before: all would take the state anew, and no donor would be
    /// left.
    #[test]
    fn a_group_of_which_nobody_keeps_the_state_stops() {
        let verdicts = [0, 1, 2].map(|s| (s, Verdict { cut: 1, anew: 1 << ((s + 1) % 3), ..Verdict::default() }));
        let outcome = |count: usize| together(verdicts.into_iter().take(count), 0b111);
        assert_eq!(outcome(3), Outcome { stops: true, ..Outcome::default() });
        assert_eq!(outcome(2), Outcome { anew: 0b110, ..Outcome::default() });
    }

    /// One member is at fault, and any members not needed for a majority of the view may be silent. Counts how often a
    /// healthy member has to go and how often the group stops, over all patterns.
    fn single_faults(rules: Rules) -> (u32, u32, u32) {
        let (mut wrong, mut stops, mut all) = (0, 0, 0);
        for of in 2..=7_u8 {
            let everybody = (1_u16 << of) as u8 - 1;
            for present in (1..=everybody).filter(|p| 2 * p.count_ones() > u32::from(of) && p & 1 != 0) {
                for faulty in (0..of).filter(|f| present & 1 << f != 0) {
                    let blind = if faulty == 0 { everybody & !1 } else { 1 << faulty };
                    let verdict = one_packet(rules, present, blind & present, usize::from(of));
                    let out = verdict.anew | u8::from(verdict.sender_goes);
                    wrong += u32::from(out & !(1 << faulty) != 0);
                    stops += u32::from(verdict.stops);
                    all += 1;
                }
            }
        }
        (wrong, stops, all)
    }

    /// The group stops only where two members are left, and there the faulty one cannot be known.
    #[test]
    fn one_fault_costs_no_healthy_member_its_place() {
        let (wrong, stops, all) = single_faults(RULES);
        assert_eq!((wrong, stops, all), (0, 6, 330));
    }

    #[test]
    fn a_sender_without_a_vote_costs_healthy_members_their_place() {
        let (wrong, stops, _) = single_faults(Rules { without: Some(Mutant::SenderHasNoVote) });
        assert_eq!((wrong, stops), (3, 20));
    }
}
