//! An ask that its asker delivered: the places to be filled, and how it ends.

use phalanx_core::{Expected, GroupView, Incarnation, Rank};

use super::{Ask, AskEnd, AskNumber, Reply, Want};

/// An ask that waits for answers.
#[derive(Debug)]
pub(crate) struct Open<R> {
    pub(crate) number: AskNumber,
    pub(crate) ask: Box<Ask<R>>,
    places: Vec<Place>,
    /// Places without an answer.
    waiting: usize,
    /// Places filled with a value.
    values: usize,
    /// Places of members that have left.
    left: usize,
    /// The front has as many answers as it wants.
    pub(crate) is_enough: bool,
    aborted_by: Option<Incarnation>,
    /// Those that are to answer, as the ask names them.
    expected: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    rank: Rank,
    /// The member of that rank.
    of: Incarnation,
    /// Who is to fill it.
    by: Incarnation,
    is_filled: bool,
    /// How often it was forwarded.
    hops: usize,
}

/// What an answer means for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is filled, with what came.
    Filled,
    /// It is filled with nothing: there is nobody to whom it can be forwarded.
    Vain,
    /// Who is to fill it now has left.
    Left(Incarnation),
    /// This member is to be asked.
    Forward(Incarnation),
}

impl<R> Open<R> {
    pub(super) fn new(
        number: AskNumber,
        ask: Box<Ask<R>>,
        expected: Expected<'_>,
        view: &GroupView,
        me: Incarnation,
    ) -> Self {
        let place = |rank: usize| {
            let of = *view.members.get(rank)?;
            Some(Place { rank: Rank::from_index(rank), of, by: of, is_filled: false, hops: 0 })
        };
        let is_asked = |place: &Place| ask.with_self || place.of != me;
        let places: Vec<_> = expected.ranks().filter_map(place).filter(is_asked).collect();
        let waiting = places.len();
        let expected = expected.bits().into();
        let (values, left, is_enough, aborted_by) = (0, 0, false, None);
        Self { number, ask, places, waiting, values, left, is_enough, aborted_by, expected }
    }

    /// The ranks that are to answer.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.places.iter().map(|place| place.rank)
    }

    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected::of(&self.expected)
    }

    /// Places without an answer, and who is to fill each.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (Rank, Incarnation)> {
        self.places.iter().filter(|place| !place.is_filled).map(|place| (place.rank, place.by))
    }

    /// The member of a place.
    pub(crate) fn member_at(&self, rank: Rank) -> Option<Incarnation> {
        self.places.iter().find(|place| place.rank == rank).map(|place| place.of)
    }

    /// An answer of `from` for a place. `members`: of the view in force. `None`: it does not count.
    pub(crate) fn hear(
        &mut self,
        rank: Rank,
        from: Incarnation,
        reply: Reply,
        members: &[Incarnation],
    ) -> Option<Heard> {
        let target = match reply {
            Reply::Forward(to) => self.member_at(to),
            Reply::Value | Reply::Null | Reply::Abort => None,
        };
        let hops_max = self.places.len();
        let place = self.places.iter_mut().find(|place| place.rank == rank && place.by == from && !place.is_filled)?;
        let heard = match (reply, target) {
            (Reply::Forward(_), Some(to)) if place.hops < hops_max => {
                (place.by, place.hops) = (to, place.hops + 1);
                if members.contains(&to) {
                    return Some(Heard::Forward(to));
                }
                Heard::Left(to)
            }
            (Reply::Forward(_), _) => Heard::Vain,
            (Reply::Value | Reply::Null | Reply::Abort, _) => Heard::Filled,
        };
        place.is_filled = true;
        self.waiting -= 1;
        self.left += usize::from(matches!(heard, Heard::Left(_)));
        self.values += usize::from(reply == Reply::Value);
        if reply == Reply::Abort {
            self.aborted_by.get_or_insert(from);
        }
        Some(heard)
    }

    /// Fills the place of one that is in the view no more: its rank, its member, and who has left.
    pub(crate) fn take_left(&mut self, members: &[Incarnation]) -> Option<(Rank, Incarnation, Incarnation)> {
        let is_gone = |place: &&mut Place| !place.is_filled && !members.contains(&place.by);
        let place = self.places.iter_mut().find(is_gone)?;
        place.is_filled = true;
        (self.waiting, self.left) = (self.waiting - 1, self.left + 1);
        Some((place.rank, place.of, place.by))
    }

    /// How it has ended, if it has.
    pub(super) fn end(&self) -> Option<AskEnd> {
        let Self { places, waiting, values, left, is_enough, aborted_by, .. } = self;
        if let Some(by) = aborted_by {
            return Some(AskEnd::Aborted(*by));
        }
        let needed = match self.ask.want {
            Want::Majority => places.len() / 2 + 1,
            Want::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Want::All | Want::Until => 0,
        };
        let is_met = match self.ask.want {
            Want::All => *waiting == 0 && *left == 0 && !places.is_empty(),
            Want::Majority | Want::Count(_) => *values >= needed,
            Want::Until => *is_enough,
        };
        if is_met {
            return Some(AskEnd::Met);
        }
        (*waiting == 0 || values + waiting < needed).then_some(AskEnd::Complete)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use phalanx_core::{GroupId, GroupTerms, Order, SendOptions, Sequence, Stability, ViewNumber};

    use super::*;

    const AT: AskNumber = (ViewNumber(3), Sequence(1));

    /// Of the members 10, 11, .. by member 10, all of which are to answer.
    fn open(members: u64, want: Want, with_self: bool) -> (Open<()>, Vec<Incarnation>) {
        let members: Vec<_> = (10..10 + members).map(Incarnation).collect();
        let view = GroupView {
            group: GroupId(1),
            name: Arc::from("g"),
            view: AT.0,
            prev: None,
            members: members.clone(),
            infos: Vec::new(),
            joined: Vec::new(),
            left: Vec::new(),
            incomplete: Vec::new(),
            observers: Vec::new(),
            has_state: None,
            domains: None,
            terms: GroupTerms::default(),
            adequate: true,
        };
        let options = SendOptions { asks: true, ..SendOptions::new(Order::Total, Stability::Plain) };
        let ask =
            Ask { number: 1, life: 0, options, payload: Bytes::new(), want, with_self, deadline: None, receipt: () };
        let open = Open::new(AT, Box::new(ask), Expected::of(&[0xff]), &view, members[0]);
        (open, members)
    }

    /// Each rank answers with its letter: v value, n null, l left, - not. How it stands then.
    fn after(want: Want, with_self: bool, answers: &str) -> Option<AskEnd> {
        let (mut open, members) = open(answers.len() as u64, want, with_self);
        for (at, letter) in answers.chars().enumerate() {
            let (rank, from) = (Rank::from_index(at), members[at]);
            let reply = match letter {
                'v' => Reply::Value,
                'n' => Reply::Null,
                'a' => Reply::Abort,
                'l' => {
                    let others: Vec<_> = members.iter().copied().filter(|who| *who != from).collect();
                    assert_eq!(open.take_left(&others), Some((rank, from, from)));
                    continue;
                }
                _ => continue,
            };
            assert_eq!(open.hear(rank, from, reply, &members), Some(Heard::Filled));
            assert_eq!(open.hear(rank, from, reply, &members), None, "once");
        }
        open.end()
    }

    #[test]
    fn an_ask_ends_when_its_want_is_met_or_cannot_be() {
        let (met, complete) = (Some(AskEnd::Met), Some(AskEnd::Complete));
        for (want, answers, end) in [
            (Want::All, "vv-", None),
            (Want::All, "vvv", met),
            (Want::All, "vnv", met),
            (Want::All, "vlv", complete),
            (Want::Majority, "v---", None),
            (Want::Majority, "vv--", None),
            (Want::Majority, "vvv-", met),
            (Want::Majority, "vnn-", complete),
            (Want::Majority, "vvl-", None),
            (Want::Majority, "vvll", complete),
            (Want::Majority, "vvvl", met),
            (Want::Majority, "vv-", met),
            (Want::Count(1), "n--", None),
            (Want::Count(1), "nv-", met),
            (Want::Count(1), "nll", complete),
            (Want::Count(4), "---", complete),
            (Want::Until, "vv-", None),
            (Want::Until, "vvv", complete),
            (Want::All, "va-", Some(AskEnd::Aborted(Incarnation(11)))),
        ] {
            assert_eq!(after(want, true, answers), end, "{want:?} of {answers}");
        }
        assert_eq!(after(Want::All, false, "-vv"), met, "without the asker");
        assert_eq!(after(Want::All, false, "-"), complete, "of nobody");
    }

    #[test]
    fn a_place_that_is_forwarded_waits_for_another_member() {
        let (mut open, members) = open(3, Want::All, true);
        let [a, b, c] = [members[0], members[1], members[2]];
        let place = Rank(1);
        assert_eq!(open.hear(place, c, Reply::Value, &members), None, "it was not asked for that place");
        assert_eq!(open.hear(place, b, Reply::Forward(Rank(2)), &members), Some(Heard::Forward(c)));
        assert_eq!(open.hear(place, b, Reply::Value, &members), None, "it gave its place away");
        assert_eq!(open.take_left(&[a, c]), None, "who forwarded may go");
        assert_eq!(open.hear(place, c, Reply::Forward(Rank(1)), &[a, c]), Some(Heard::Left(b)), "b is gone");
        let mut by = a;
        for hop in 0..3 {
            let (to, next) = if by == a { (Rank(2), c) } else { (Rank(0), a) };
            assert_eq!(open.hear(Rank(0), by, Reply::Forward(to), &members), Some(Heard::Forward(next)), "hop {hop}");
            by = next;
        }
        assert_eq!(open.hear(Rank(0), by, Reply::Forward(Rank(0)), &members), Some(Heard::Vain), "round and round");
        assert_eq!(open.hear(Rank(2), c, Reply::Forward(Rank(7)), &members), Some(Heard::Vain), "nobody has that rank");
        assert_eq!(open.end(), Some(AskEnd::Complete));
    }
}
