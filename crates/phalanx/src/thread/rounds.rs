//! What was decided and is not told to the watches, because inboxes do not have it yet.

use std::collections::VecDeque;
use std::time::Duration;

use phalanx_core::member::Directory;
use phalanx_core::{Decree, GroupId, Incarnation, Instant, ViewNumber};

use crate::cell_view::CellView;
use crate::id::{LeaveReason, Member};
use crate::shared::watches::{GroupNews, Watches};
use crate::watch::CellChange;

/// Rounds that wait, oldest first. One that is told late holds those behind it back, so that watches keep the order.
#[derive(Default)]
pub(super) struct Rounds {
    held: VecDeque<Round>,
    /// The number of the cell view of the latest decree.
    view: ViewNumber,
}

/// What is told at once.
struct Round {
    what: What,
    /// Views that the inboxes of this process must have.
    awaits: Vec<(GroupId, ViewNumber)>,
    since: Instant,
}

enum What {
    /// A decree. `is_due`: its view of the cell is still to come from the core.
    Decree {
        view: Option<CellView>,
        is_due: bool,
        groups: GroupNews,
    },
    Cell(CellChange),
    /// This incarnation is over.
    End {
        me: Member,
        why: Option<LeaveReason>,
        comes_back: bool,
    },
}

impl Rounds {
    /// A decree was installed. `shows`: whether this process is in a view of that group, and has an inbox for it.
    pub(super) fn installed(
        &mut self,
        now: Instant,
        me: Incarnation,
        directory: &Directory,
        decree: &Decree<'_>,
        groups: GroupNews,
        mut shows: impl FnMut(GroupId) -> bool,
    ) {
        let is_new = std::mem::replace(&mut self.view, directory.view) != directory.view;
        let is_due = is_new && directory.rank(me).is_some();
        if !is_due && groups.is_empty() {
            return;
        }
        let goes_on = |group: &GroupId| directory.groups.get(group).is_some_and(|entry| entry.members.contains(&me));
        let shown = decree.groups.iter().filter(|change| goes_on(&change.group) && shows(change.group));
        let awaits = shown.map(|change| (change.group, change.view)).collect();
        self.push(Round { what: What::Decree { view: None, is_due, groups }, awaits, since: now });
    }

    /// The core hands over the view of a decree.
    pub(super) fn view(&mut self, seen: &CellView) {
        let due = self.held.iter_mut().find_map(|round| match &mut round.what {
            What::Decree { view, is_due, .. } if *is_due => Some((view, is_due)),
            _ => None,
        });
        debug_assert!(due.is_some(), "a view comes after its decree");
        if let Some((view, is_due)) = due {
            (*view, *is_due) = (Some(seen.clone()), false);
        }
    }

    pub(super) fn cell(&mut self, now: Instant, change: CellChange) {
        self.push(Round { what: What::Cell(change), awaits: Vec::new(), since: now });
    }

    /// This incarnation is over. The core handed over all that came before to all inboxes, or nothing more of it comes.
    pub(super) fn end(&mut self, now: Instant, me: Member, why: Option<LeaveReason>, comes_back: bool) {
        self.view = ViewNumber::NONE;
        self.settle();
        self.push(Round { what: What::End { me, why, comes_back }, awaits: Vec::new(), since: now });
    }

    /// Nothing of what is held is awaited any more.
    fn settle(&mut self) {
        for round in &mut self.held {
            round.awaits.clear();
            if let What::Decree { is_due, .. } = &mut round.what {
                *is_due = false;
            }
        }
    }

    fn push(&mut self, round: Round) {
        self.held.push_back(round);
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How long the oldest waits for inboxes at most, from `now` on. `None`: for none.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.held.front().filter(|round| round.is_here()).map(|round| (round.since + PATIENCE).since(now))
    }

    /// Tells what is due. `is_shown`: whether an inbox has a view of its group, and all before it.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        watches: &Watches,
        mut is_shown: impl FnMut(GroupId, ViewNumber) -> bool,
    ) {
        while let Some(round) = self.held.front() {
            let is_late = now.since(round.since) >= PATIENCE || self.held.len() > ROUNDS_MAX;
            let mut is_due = || is_late || round.awaits.iter().all(|(group, view)| is_shown(*group, *view));
            if !round.is_here() || !is_due() {
                return;
            }
            self.held.pop_front().into_iter().for_each(|round| round.tell(watches));
        }
    }

    /// Nobody fills the inboxes any more: tells all that is held.
    pub(super) fn tell_all(&mut self, watches: &Watches) {
        self.held.drain(..).for_each(|round| round.tell(watches));
    }
}

impl Round {
    /// Whether all of it came from the core.
    fn is_here(&self) -> bool {
        !matches!(self.what, What::Decree { is_due: true, .. })
    }

    fn tell(self, watches: &Watches) {
        match self.what {
            What::Decree { view, groups, .. } => {
                view.into_iter().for_each(|view| watches.tell_view(view));
                groups.into_iter().for_each(|(slot, change)| slot.tell(change));
            }
            What::Cell(change) => watches.tell_cell(&change),
            What::End { me, why, comes_back } => watches.tell_own_end(me, why, comes_back),
        }
    }
}

/// For how long an inbox without room is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most rounds that are held. Beyond it the oldest waits for no inbox.
const ROUNDS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use phalanx_driver::fork::Home;

    use super::*;
    use crate::departure::tests::{info, view_of};
    use crate::shared::watches::Whom;
    use crate::shared::watches::tests::{decree, directory, group, left};
    use crate::watch::{MemberChange, Watch};
    use phalanx_core::LeaveReason as Why;

    const ME: Incarnation = Incarnation(1);
    const BEGAN: Instant = Instant(5_000_000_000);

    /// Rounds of member 1, in group 1 with member 2, which dies by the latest decree; and a watch of it.
    fn held() -> (Rounds, Watches, Watch<MemberChange>) {
        let (mut rounds, watches) = (Rounds::default(), Watches::new(Home::here()));
        let mut watch = Watch::new(watches.member(Whom::Named("m2".to_owned())));
        for (view, members, gone) in [(1, &[1, 2][..], &[][..]), (2, &[1], &[(2, Why::Died)])] {
            let next = directory(view, members, &[(1, group("g", view, members))]);
            rounds.installed(BEGAN, ME, &next, &decree(&next, &left(gone), &[1]), Vec::new(), |_| true);
            rounds.tell(BEGAN, &watches, |_, _| true);
            assert!(watch.try_next().is_none(), "the core has the view still");
            rounds.view(&CellView::new(std::sync::Arc::new(view_of(view, 2, gone)), ME));
            if view == 1 {
                rounds.tell(BEGAN, &watches, |_, _| true);
                assert!(matches!(watch.try_next(), Some(MemberChange::Here(_))));
            }
        }
        (rounds, watches, watch)
    }

    fn is_gone(watch: &mut Watch<MemberChange>) -> bool {
        matches!(watch.try_next(), Some(MemberChange::Gone(_)))
    }

    #[test]
    fn a_death_is_told_when_the_inboxes_have_the_view() {
        let (mut rounds, watches, mut watch) = held();
        let mut asked = Vec::new();
        rounds.tell(BEGAN, &watches, |group, view| {
            asked.push((group, view));
            false
        });
        assert_eq!((asked, watch.try_next()), (vec![(GroupId(1), ViewNumber(2))], None));
        rounds.tell(BEGAN, &watches, |_, _| true);
        assert!(is_gone(&mut watch) && rounds.is_empty() && rounds.patience(BEGAN).is_none());
    }

    #[test]
    fn an_inbox_without_room_is_waited_for_a_second() {
        let (mut rounds, watches, mut watch) = held();
        let late = BEGAN + PATIENCE;
        let early = Instant(late.0 - 1);
        assert_eq!(rounds.patience(BEGAN), Some(PATIENCE));
        rounds.tell(early, &watches, |_, _| false);
        assert_eq!((watch.try_next(), rounds.patience(early)), (None, Some(Duration::from_nanos(1))));
        rounds.tell(late, &watches, |_, _| false);
        assert!(is_gone(&mut watch));
    }

    /// Also what waits for no inbox itself comes in its place.
    #[test]
    fn watches_keep_the_order_of_what_happened() {
        let (mut rounds, watches, mut watch) = held();
        let mut cell = Watch::new(watches.cell());
        rounds.cell(BEGAN, CellChange::NonPrimary { heard: 1, needed: 2 });
        rounds.tell(BEGAN, &watches, |_, _| false);
        assert!(
            matches!(cell.try_next(), Some(CellChange::View(view)) if view.number() == 1) && cell.try_next().is_none()
        );
        // The end of an incarnation comes when all inboxes have all of it.
        rounds.end(BEGAN, Member::of(&info(1)), None, true);
        rounds.tell(BEGAN, &watches, |_, _| false);
        assert!(is_gone(&mut watch));
        assert!(matches!(cell.try_next(), Some(CellChange::View(view)) if view.number() == 2));
        assert!(matches!(cell.try_next(), Some(CellChange::NonPrimary { heard: 1, needed: 2 })));
        assert!(matches!(cell.try_next(), Some(CellChange::Excluded { .. })));
    }

    #[test]
    fn a_view_that_never_comes_keeps_nobody_awake_and_nothing_for_good() {
        let (mut rounds, watches) = (Rounds::default(), Watches::new(Home::here()));
        let next = directory(1, &[1], &[]);
        rounds.installed(BEGAN, ME, &next, &decree(&next, &[], &[]), Vec::new(), |_| true);
        assert_eq!((rounds.is_empty(), rounds.patience(BEGAN)), (false, None));
        rounds.end(BEGAN, Member::of(&info(1)), None, true);
        rounds.tell(BEGAN, &watches, |_, _| false);
        assert!(rounds.is_empty());
    }

    #[test]
    fn what_is_held_is_bounded() {
        let (mut rounds, watches, mut watch) = held();
        (0..ROUNDS_MAX).for_each(|_| rounds.cell(BEGAN, CellChange::Primary));
        rounds.tell(BEGAN, &watches, |_, _| false);
        assert!(is_gone(&mut watch), "the oldest waits no longer");
    }

    /// A group that this process leaves, or is in no view of, has nothing to put into an inbox.
    #[test]
    fn only_inboxes_that_are_in_a_view_and_stay_are_awaited() {
        for (members, shows) in [(&[2][..], true), (&[1, 2], false)] {
            let (mut rounds, watches) = (Rounds::default(), Watches::new(Home::here()));
            let mut cell = Watch::new(watches.cell());
            let next = directory(1, &[1, 2], &[(1, group("g", 1, members))]);
            rounds.installed(BEGAN, ME, &next, &decree(&next, &[], &[1]), Vec::new(), |_| shows);
            rounds.view(&CellView::new(std::sync::Arc::new(view_of(1, 2, &[])), ME));
            rounds.tell(BEGAN, &watches, |_, _| false);
            assert!(cell.try_next().is_some(), "{members:?}");
        }
    }
}
