//! Which members leave when some readers cannot parse a packet of a member's stream (`docs/fail-stop.md`).
//!
//! Nobody knows who is at fault, so the members of the ballot vote, the sender included. Each has reported how far it
//! can read: to the longest prefix reported, or to the packet that it cannot parse.

use std::collections::BTreeSet;

use crate::id::Rank;
use crate::link::StreamReport;

/// The verdict on one stream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The end of the stream for the members that keep their state.
    pub cut: u64,
    /// Whether the sender leaves the group.
    pub sender_goes: bool,
    /// The members that take the state anew, by rank.
    pub anew: BTreeSet<Rank>,
    /// Whether the group stops, because nobody can know who is at fault.
    pub stops: bool,
}

/// Evaluates `sender`'s stream from the reports of the members that take part, by rank.
///
/// - A packet that fewer than half cannot read is in the cut, and those members take the state anew.
/// - A packet that more than half cannot read is outside the cut. The sender goes, and members that acted upon it take
///   the state anew. The others are evaluated again, because they may have stopped at different packets.
/// - Half against half stops the group. If the sender is gone already, the longer prefix counts.
#[must_use]
pub fn evaluate(sender: Rank, said: &[Option<StreamReport>]) -> Verdict {
    let present = |rank: Rank| said.get(rank.index()).copied().flatten();
    let mut voters: BTreeSet<Rank> = Rank::all(said.len()).filter(|&rank| present(rank).is_some()).collect();
    debug_assert!(sender.index() < said.len(), "the sender is one of the members");
    let mut sender_votes = voters.contains(&sender);
    let mut verdict = Verdict::default();
    loop {
        verdict.cut = voters.iter().filter_map(|&rank| present(rank)).map(|said| said.prefix).max().unwrap_or(0);
        // Only nonsense is a vote. A member may also be short because a packet did not reach it.
        let stopped = |said: StreamReport| said.nonsense && said.prefix < verdict.cut;
        let short: BTreeSet<Rank> = voters.iter().copied().filter(|&rank| present(rank).is_some_and(stopped)).collect();
        let against = 2 * short.len();
        // Half against half: no majority can say who is at fault.
        if against == voters.len() && sender_votes && !short.is_empty() {
            return Verdict { stops: true, ..Verdict::default() };
        }
        if against <= voters.len() {
            verdict.anew.extend(short);
            break;
        }
        debug_assert!(short.len() < voters.len(), "the member that reads farthest is short: the loop does not end");
        verdict.sender_goes |= sender_votes;
        (voters, sender_votes) = (short, false);
    }
    verdict
        .anew
        .extend(Rank::all(said.len()).filter(|&rank| present(rank).is_some_and(|said| said.read > verdict.cut)));
    if verdict.sender_goes {
        // It leaves as the one at fault. Taking the state anew would keep it in the group.
        verdict.anew.remove(&sender);
    }
    verdict
}

/// The verdict on a group, all its streams taken together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupVerdict {
    /// The end of each stream.
    pub cut: Vec<u64>,
    /// The senders that leave the group, by rank.
    pub gone: BTreeSet<Rank>,
    /// The members that take the state anew, by rank.
    pub anew: BTreeSet<Rank>,
    /// Whether the group stops: no member continues.
    pub stops: bool,
}

/// Evaluates all streams of a group. `said`: each reporter's report on each stream, by rank. `stays`: the members that
/// would stay.
///
/// The group stops unless a member that stays keeps its state.
#[must_use]
pub fn evaluate_all(said: &[Option<Vec<StreamReport>>], stays: impl Fn(Rank) -> bool) -> GroupVerdict {
    let mut all = GroupVerdict::default();
    for sender in Rank::all(said.len()) {
        let of_stream: Vec<Option<StreamReport>> =
            said.iter().map(|said| said.as_ref()?.get(sender.index()).copied()).collect();
        let verdict = evaluate(sender, &of_stream);
        all.cut.push(verdict.cut);
        all.anew.extend(verdict.anew);
        all.stops |= verdict.stops;
        if verdict.sender_goes {
            all.gone.insert(sender);
        }
    }
    all.anew.retain(|rank| !all.gone.contains(rank));
    let keeps = |rank: Rank| stays(rank) && !all.gone.contains(&rank) && !all.anew.contains(&rank);
    all.stops |= !Rank::all(said.len()).any(keeps);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks<const N: usize>(ranks: [u16; N]) -> BTreeSet<Rank> {
        BTreeSet::from(ranks.map(Rank))
    }

    fn stopped(prefix: u64) -> Option<StreamReport> {
        Some(StreamReport { prefix, read: prefix, nonsense: true })
    }

    fn reads(prefix: u64) -> Option<StreamReport> {
        Some(StreamReport { prefix, read: prefix, nonsense: false })
    }

    #[test]
    fn the_fewer_take_the_state_anew() {
        let verdict = evaluate(Rank(0), &[reads(4), stopped(2), reads(4)]);
        assert_eq!(verdict, Verdict { cut: 4, anew: ranks([1]), ..Verdict::default() });
        let verdict = evaluate(Rank(0), &[reads(4), stopped(2), stopped(3), reads(4), reads(4)]);
        assert_eq!(verdict, Verdict { cut: 4, anew: ranks([1, 2]), ..Verdict::default() });
    }

    #[test]
    fn the_sender_goes_when_the_more_cannot_read_it() {
        let verdict = evaluate(Rank(0), &[reads(4), stopped(2), stopped(2)]);
        assert_eq!(verdict, Verdict { cut: 2, sender_goes: true, ..Verdict::default() });
        // One of them acted upon what the others cannot read.
        let verdict = evaluate(Rank(0), &[reads(4), stopped(2), stopped(2), stopped(2), reads(4)]);
        assert_eq!(verdict, Verdict { cut: 2, sender_goes: true, anew: ranks([4]), ..Verdict::default() });
    }

    #[test]
    fn half_against_half_stops_the_group_while_the_sender_is_there() {
        assert!(evaluate(Rank(0), &[reads(4), stopped(2)]).stops);
        assert!(evaluate(Rank(1), &[stopped(2), reads(4), reads(4), stopped(3)]).stops);
        let verdict = evaluate(Rank(0), &[None, reads(4), stopped(2)]);
        assert_eq!(verdict, Verdict { cut: 4, anew: ranks([2]), ..Verdict::default() });
    }

    #[test]
    fn what_nobody_that_is_present_can_read_is_outside_of_the_cut() {
        assert_eq!(evaluate(Rank(0), &[None, stopped(2), stopped(2)]), Verdict { cut: 2, ..Verdict::default() });
        assert_eq!(evaluate(Rank(0), &[None, None]), Verdict::default());
    }

    #[test]
    fn readers_that_stop_at_different_packets_are_asked_again() {
        let verdict = evaluate(Rank(0), &[reads(2), stopped(0), stopped(1), stopped(1), stopped(1)]);
        assert_eq!(verdict, Verdict { cut: 1, sender_goes: true, anew: ranks([1]), stops: false });
    }

    #[test]
    fn who_holds_more_than_the_cut_without_acting_upon_it_stays() {
        let fetched = Some(StreamReport { prefix: 1, read: 0, nonsense: false });
        let verdict = evaluate(Rank(0), &[reads(1), stopped(0), stopped(0), stopped(0), fetched]);
        assert_eq!(verdict, Verdict { sender_goes: true, ..Verdict::default() });
    }

    /// Three senders each cannot read the one before. All would take the state anew, and no member would have it.
    #[test]
    fn a_group_of_which_nobody_keeps_the_state_stops() {
        let own = |prefix| StreamReport { prefix, read: prefix, nonsense: false };
        let blind = StreamReport { prefix: 0, read: 0, nonsense: true };
        let reader = |blind_to: usize| Some((0..3).map(|s| if s == blind_to { blind } else { own(1) }).collect());
        let all = [reader(2), reader(0), reader(1)];
        assert!(evaluate_all(&all, |_| true).stops);
        let two = [reader(2), reader(0), reader(9)];
        let outcome = evaluate_all(&two, |_| true);
        assert_eq!((outcome.anew, outcome.stops, outcome.cut), (ranks([0, 1]), false, vec![1, 1, 1]));
        assert!(evaluate_all(&two, |rank| rank != Rank(2)).stops, "the one that could keep it leaves");
    }
}
