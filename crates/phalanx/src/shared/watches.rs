//! All watches of a process, and what they were told last. The protocol thread tells them of a view when the inboxes have it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phalanx_core as core;
use phalanx_core::member::{Directory, GroupEntry};
use phalanx_driver::fork::Home;

use crate::cell_group::CellGroup;
use crate::cell_view::CellView;
use crate::departure::Departure;
use crate::end::End;
use crate::id::{Host, LeaveReason, Member, MemberId};
use crate::waiting::Waiters;
use crate::watch::{CellChange, GroupChange, HostChange, MemberChange, Slot};

/// The watches of a process.
pub(crate) struct Watches {
    list: Mutex<List>,
    /// Who waits for a member to leave.
    pub(crate) told: Waiters,
    /// Some watch of a group was made, and not told how the group stands.
    has_new: AtomicBool,
    /// Some group is watched.
    has_groups: AtomicBool,
    home: Home,
}

#[derive(Default)]
struct List {
    /// The view that was told last, of the incarnation that goes on.
    view: Option<CellView>,
    /// The latest members that left, as was told.
    departures: VecDeque<Departure>,
    members: Vec<MemberWatch>,
    hosts: Vec<HostWatch>,
    groups: Vec<GroupWatch>,
    cells: Vec<Arc<Slot<CellChange>>>,
    end: Option<End>,
}

/// A member by its incarnation or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Id(MemberId),
    Named(String),
}

struct MemberWatch {
    whom: Whom,
    /// It was told how the member stands.
    is_begun: bool,
    here: Option<Member>,
    slot: Arc<Slot<MemberChange>>,
}

struct HostWatch {
    host: Host,
    is_begun: bool,
    here: Vec<Member>,
    slot: Arc<Slot<HostChange>>,
}

struct GroupWatch {
    name: String,
    is_begun: bool,
    /// The group as it was decided last, whether or not that was told.
    known: Option<(core::GroupId, GroupEntry)>,
    slot: Arc<Slot<GroupChange>>,
}

/// What the watches of groups are to be told of a decree.
pub(crate) type GroupNews = Vec<(Arc<Slot<GroupChange>>, GroupChange)>;

/// What is known of a member's leaving.
pub(crate) enum Fate {
    /// It is in the view that was told last, or there is none.
    Open,
    Gone(Departure),
    /// Nothing is told any more.
    Over,
}

impl Watches {
    pub(crate) fn new(home: Home) -> Self {
        Self {
            list: Mutex::default(),
            told: Waiters::default(),
            has_new: AtomicBool::new(false),
            has_groups: AtomicBool::new(false),
            home,
        }
    }

    /// Not to be called in a forked child: the lock may be held by a thread that does not exist there.
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Watches begin.

    pub(crate) fn member(&self, whom: Whom) -> Arc<Slot<MemberChange>> {
        let slot = Slot::new(self.home, MemberChange::missed);
        if self.home.is_here() {
            let mut list = self.list();
            let mut watch = MemberWatch { whom, is_begun: false, here: None, slot: Arc::clone(&slot) };
            let goes_on =
                list.end.is_none() && list.view.as_ref().is_none_or(|view| watch.tell(view, &list.departures));
            if goes_on {
                list.forget_dropped();
                list.members.push(watch);
            } else {
                slot.end();
            }
        }
        slot
    }

    pub(crate) fn host(&self, host: Host) -> Arc<Slot<HostChange>> {
        let slot = Slot::new(self.home, HostChange::missed);
        if self.home.is_here() {
            let mut list = self.list();
            let mut watch = HostWatch { host, is_begun: false, here: Vec::new(), slot: Arc::clone(&slot) };
            list.view.iter().for_each(|view| watch.tell(view, &list.departures));
            if list.end.is_some() {
                slot.end();
            } else {
                list.forget_dropped();
                list.hosts.push(watch);
            }
        }
        slot
    }

    /// The protocol thread tells it first: it alone has the directory of groups.
    pub(crate) fn group(&self, name: String) -> Arc<Slot<GroupChange>> {
        let slot = Slot::new(self.home, GroupChange::missed);
        if self.home.is_here() {
            let mut list = self.list();
            if list.end.is_some() {
                slot.end();
            } else {
                list.forget_dropped();
                list.groups.push(GroupWatch { name, is_begun: false, known: None, slot: Arc::clone(&slot) });
                self.has_groups.store(true, Ordering::SeqCst);
                self.has_new.store(true, Ordering::SeqCst);
            }
        }
        slot
    }

    pub(crate) fn cell(&self) -> Arc<Slot<CellChange>> {
        let slot = Slot::new(self.home, CellChange::missed);
        if self.home.is_here() {
            let mut list = self.list();
            list.view.iter().for_each(|view| slot.tell(CellChange::View(view.clone())));
            if let Some(end) = &list.end {
                slot.tell(CellChange::Over(end.clone()));
                slot.end();
            } else {
                list.forget_dropped();
                list.cells.push(Arc::clone(&slot));
            }
        }
        slot
    }

    /// What was told of a member's leaving.
    pub(crate) fn fate(&self, who: MemberId) -> Fate {
        let list = self.list();
        if let Some(departure) = list.departures.iter().rfind(|departure| departure.member.id == who) {
            return Fate::Gone(departure.clone());
        }
        match &list.view {
            _ if list.end.is_some() => Fate::Over,
            Some(view) if !view.holds(who) => {
                Fate::Gone(Departure::unexplained(Member::unknown(who, String::new()), view.number()))
            }
            _ => Fate::Open,
        }
    }

    /// How the process ended.
    pub(crate) fn end_of_process(&self) -> Option<End> {
        if self.home.is_here() { self.list().end.clone() } else { None }
    }

    // What the protocol thread tells.

    /// What a decree means for groups that are watched.
    pub(crate) fn installed(&self, directory: &Directory, decree: &core::Decree<'_>) -> GroupNews {
        let mut news = Vec::new();
        if self.has_groups.load(Ordering::Relaxed) {
            let mut list = self.list();
            list.forget_dropped();
            self.has_groups.store(!list.groups.is_empty(), Ordering::Relaxed);
            for watch in list.groups.iter_mut().filter(|watch| watch.is_begun) {
                watch.note(directory, decree, &mut news);
            }
        }
        news
    }

    /// Some watch of a group is new; see [`Watches::begin_groups`].
    pub(crate) fn has_new_groups(&self) -> bool {
        self.has_new.load(Ordering::Relaxed)
    }

    /// Tells new watches how their groups stand, by the directory of which all is told.
    pub(crate) fn begin_groups(&self, directory: &Directory) {
        self.has_new.store(false, Ordering::SeqCst);
        for watch in self.list().groups.iter_mut().filter(|watch| !watch.is_begun) {
            watch.begin(directory);
        }
    }

    /// A view that is in the inboxes.
    pub(crate) fn tell_view(&self, view: CellView) {
        let mut list = self.list();
        let List { departures, members, hosts, cells, .. } = &mut *list;
        view.departures().for_each(|departure| log(departures, departure));
        members.retain_mut(|watch| watch.tell(&view, departures));
        hosts.iter_mut().for_each(|watch| watch.tell(&view, departures));
        cells.iter().for_each(|slot| slot.tell(CellChange::View(view.clone())));
        list.view = Some(view);
        drop(list);
        self.told.wake();
    }

    pub(crate) fn tell_cell(&self, change: &CellChange) {
        self.list().cells.iter().for_each(|slot| slot.tell(change.clone()));
    }

    /// An incarnation of this process is over. `why`: if it asked to leave.
    pub(crate) fn tell_own_end(&self, me: Member, why: Option<LeaveReason>, comes_back: bool) {
        let mut list = self.list();
        let view = list.view.take().map_or(0, |view| view.number() + 1);
        if comes_back {
            list.cells.iter().for_each(|slot| slot.tell(CellChange::Excluded { was: me.id }));
        }
        let List { departures, members, .. } = &mut *list;
        let departure = Departure { why, ..Departure::unexplained(me, view) };
        members.retain_mut(|watch| watch.tell_own_end(&departure));
        log(departures, departure);
        drop(list);
        self.told.wake();
    }

    /// This process is over.
    pub(crate) fn end(&self, end: End) {
        let mut list = self.list();
        let List { members, hosts, groups, cells, .. } = &mut *list;
        members.drain(..).for_each(|watch| watch.slot.end());
        hosts.drain(..).for_each(|watch| watch.slot.end());
        groups.drain(..).for_each(|watch| watch.slot.end());
        for slot in cells.drain(..) {
            slot.tell(CellChange::Over(end.clone()));
            slot.end();
        }
        list.end = Some(end);
        drop(list);
        self.told.wake();
    }
}

impl List {
    /// Forgets watches whose readers are gone.
    fn forget_dropped(&mut self) {
        self.members.retain(|watch| Arc::strong_count(&watch.slot) > 1);
        self.hosts.retain(|watch| Arc::strong_count(&watch.slot) > 1);
        // One that news holds is forgotten with the next decree.
        self.groups.retain(|watch| Arc::strong_count(&watch.slot) > 1);
        self.cells.retain(|slot| Arc::strong_count(slot) > 1);
    }
}

fn log(departures: &mut VecDeque<Departure>, departure: Departure) {
    if departures.len() == DEPARTURES_MAX {
        departures.pop_front();
    }
    departures.push_back(departure);
}

/// What is known of one that was in a view and is not in this one.
fn departure_of(member: &Member, view: &CellView, departures: &VecDeque<Departure>) -> Departure {
    let known = departures.iter().rfind(|departure| departure.member.id == member.id);
    known.cloned().unwrap_or_else(|| Departure::unexplained(member.clone(), view.number()))
}

impl MemberWatch {
    /// False: nothing follows.
    fn tell(&mut self, view: &CellView, departures: &VecDeque<Departure>) -> bool {
        let is_meant = |member: &Member| match &self.whom {
            Whom::Id(id) => member.id == *id,
            Whom::Named(name) => member.name == *name,
        };
        let now = view.members().find(is_meant);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if let Some(was) = self.here.take_if(|was| now.as_ref().is_none_or(|now| now.id != was.id)) {
            self.slot.tell(MemberChange::Gone(departure_of(&was, view, departures)));
            if matches!(self.whom, Whom::Id(_)) {
                self.slot.end();
                return false;
            }
        }
        match (&now, &self.whom) {
            (Some(now), _) if self.here.is_none() => self.slot.tell(MemberChange::Here(now.clone())),
            (None, Whom::Id(id)) if is_first => {
                if let Some(gone) = departures.iter().rfind(|departure| departure.member.id == *id) {
                    self.slot.tell(MemberChange::Gone(gone.clone()));
                    self.slot.end();
                    return false;
                }
                self.slot.tell(MemberChange::Absent);
            }
            (None, Whom::Named(_)) if is_first => self.slot.tell(MemberChange::Absent),
            _ => {}
        }
        self.here = now;
        true
    }

    /// False: nothing follows.
    fn tell_own_end(&mut self, departure: &Departure) -> bool {
        if self.here.take_if(|here| here.id == departure.member.id).is_some() {
            self.slot.tell(MemberChange::Gone(departure.clone()));
            if matches!(self.whom, Whom::Id(_)) {
                self.slot.end();
                return false;
            }
        }
        true
    }
}

impl HostWatch {
    fn tell(&mut self, view: &CellView, departures: &VecDeque<Departure>) {
        let now: Vec<Member> = view.members().filter(|member| member.host == Some(self.host)).collect();
        let was = std::mem::replace(&mut self.here, now.clone());
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if was == now {
            if is_first {
                self.slot.tell(HostChange::Absent);
            }
            return;
        }
        let stays = |member: &Member| now.iter().any(|other| other.id == member.id);
        let gone = was.iter().filter(|was| !stays(was)).map(|was| departure_of(was, view, departures)).collect();
        self.slot.tell(match now.is_empty() {
            true => HostChange::Gone { gone },
            false => HostChange::Here { members: now, gone },
        });
    }
}

impl GroupWatch {
    fn find<'a>(&self, directory: &'a Directory) -> Option<(core::GroupId, &'a GroupEntry)> {
        let is_meant = |(_, entry): &(core::GroupId, &GroupEntry)| entry.name == self.name;
        // Its number spares the look at all groups, unless it is over.
        let known = self.known.as_ref().and_then(|(number, _)| Some((*number, directory.groups.get(number)?)));
        let all = || directory.groups.iter().map(|(number, entry)| (*number, entry));
        known.filter(is_meant).or_else(|| all().find(is_meant))
    }

    fn begin(&mut self, directory: &Directory) {
        self.is_begun = true;
        let found = self.find(directory);
        self.slot.tell(match found {
            None => GroupChange::Absent,
            Some((number, entry)) => change(number, entry, entry.members.clone(), Vec::new()),
        });
        self.known = found.map(|(number, entry)| (number, entry.clone()));
    }

    /// Notes what a decree means for it.
    fn note(&mut self, directory: &Directory, decree: &core::Decree<'_>, news: &mut GroupNews) {
        let now = self.find(directory);
        if now == self.known.as_ref().map(|(number, entry)| (*number, entry)) {
            return;
        }
        let was = std::mem::replace(&mut self.known, now.map(|(number, entry)| (number, entry.clone())));
        let reason = |number: core::GroupId, who: core::Incarnation| {
            let change = decree.groups.iter().find(|change| change.group == number);
            let mut left = change.map_or(&[][..], |change| change.left).iter().chain(decree.left);
            let why = left.find(|(left, _)| *left == who).map(|(_, why)| LeaveReason::of(*why));
            (MemberId::of(who), why)
        };
        let mut before = Vec::new();
        if let Some((number, entry)) = was {
            if now.is_some_and(|(next, _)| next == number) {
                before = entry.members;
            } else {
                let left = entry.members.into_iter().map(|who| reason(number, who)).collect();
                news.push((Arc::clone(&self.slot), GroupChange::Gone { number: number.0, left }));
            }
        }
        if let Some((number, entry)) = now {
            let joined = entry.members.iter().filter(|who| !before.contains(who)).copied().collect();
            let left = before.iter().filter(|who| !entry.members.contains(who));
            let left = left.map(|who| reason(number, *who)).collect();
            news.push((Arc::clone(&self.slot), change(number, entry, joined, left)));
        }
    }
}

fn change(
    number: core::GroupId,
    entry: &GroupEntry,
    joined: Vec<core::Incarnation>,
    left: Vec<(MemberId, Option<LeaveReason>)>,
) -> GroupChange {
    let group = CellGroup::of(number, entry);
    match group.members.is_empty() {
        true => GroupChange::Waiting { group, left },
        false => GroupChange::Members { group, joined: joined.into_iter().map(MemberId::of).collect(), left },
    }
}

/// The most members that left and are remembered, for who asks late.
const DEPARTURES_MAX: usize = 256;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use phalanx_core::wire::{Space, Tags};
    use phalanx_core::{DecreeNumber, GroupId, Incarnation, LeaveReason as Why, ViewNumber};

    use super::*;
    use crate::departure::tests::{info, view_of};
    use crate::id::LeaveReason;
    use crate::watch::Watch;

    /// Group 1 of that name, in a view of these members.
    pub(crate) fn group(name: &str, view: u64, members: &[u64]) -> GroupEntry {
        GroupEntry {
            name: name.to_owned(),
            view: ViewNumber(view),
            space: Space(9),
            members: members.iter().map(|who| Incarnation(*who)).collect(),
            tail: Tags::default(),
        }
    }

    pub(crate) fn directory(view: u64, members: &[u64], groups: &[(u32, GroupEntry)]) -> Directory {
        Directory {
            decree: DecreeNumber(view),
            view: ViewNumber(view),
            members: members.iter().map(|who| info(*who)).collect(),
            groups: groups.iter().map(|(number, entry)| (GroupId(*number), entry.clone())).collect::<BTreeMap<_, _>>(),
            departed: Vec::new(),
            next_group: 10,
            next_space: Space(10),
            level: core::LEVEL,
            settings: Tags::default(),
            tail: Tags::default(),
        }
    }

    pub(crate) fn left(left: &[(u64, Why)]) -> Vec<(Incarnation, Why)> {
        left.iter().map(|(who, why)| (Incarnation(*who), *why)).collect()
    }

    /// The decree that leads to a directory. `left`: from each of the groups that have a new view, and from the cell.
    pub(crate) fn decree<'a>(next: &Directory, left: &'a [(Incarnation, Why)], groups: &[u32]) -> core::Decree<'a> {
        let change = |number: &u32| {
            let group = GroupId(*number);
            core::GroupDecree { group, view: next.groups[&group].view, left }
        };
        core::Decree { left, groups: groups.iter().map(change).collect() }
    }

    fn id(number: u64) -> MemberId {
        MemberId::of(Incarnation(number))
    }

    fn member(number: u64) -> Member {
        Member::of(&info(number))
    }

    /// The view `number` of 6 members without those that left, as member 1 has it.
    fn view(number: u64, left: &[(u64, Why)]) -> CellView {
        CellView::new(Arc::new(view_of(number, 6, left)), Incarnation(1))
    }

    fn all<T>(watch: &mut Watch<T>) -> Vec<T> {
        std::iter::from_fn(|| watch.try_next()).collect()
    }

    #[test]
    fn a_member_is_told_to_be_here_and_gone_with_reason_and_evidence() {
        let watches = Watches::new(Home::here());
        let mut early = Watch::new(watches.member(Whom::Id(id(6))));
        assert!(all(&mut early).is_empty(), "no view, no item");
        watches.tell_view(view(1, &[]));
        let mut late = Watch::new(watches.member(Whom::Id(id(6))));
        watches.tell_view(view(2, &[(6, Why::Unreachable)]));
        for watch in [&mut early, &mut late] {
            let [MemberChange::Here(here), MemberChange::Gone(gone)] = &all(watch)[..] else {
                panic!("here, then gone")
            };
            assert_eq!((here, &gone.member, gone.view), (&member(6), &member(6), 2));
            assert_eq!((gone.why, &gone.found_by[..]), (Some(LeaveReason::Unreachable), &[id(1)][..]));
            assert_eq!(watch.blocking_next(), None, "an incarnation does not come back");
        }
        // Who asks when it is gone is told the same, while it is remembered.
        let mut after = Watch::new(watches.member(Whom::Id(id(6))));
        assert!(matches!(&all(&mut after)[..], [MemberChange::Gone(gone)] if gone.why.is_some()));
        let mut unknown = Watch::new(watches.member(Whom::Id(id(77))));
        assert_eq!(all(&mut unknown), [MemberChange::Absent]);
    }

    #[test]
    fn a_name_goes_and_comes_with_each_incarnation() {
        let watches = Watches::new(Home::here());
        let mut named = Watch::new(watches.member(Whom::Named("m6".to_owned())));
        watches.tell_view(view(1, &[(6, Why::Left)]));
        watches.tell_view(view(2, &[]));
        let mut again = view_of(3, 6, &[(6, Why::Died)]);
        again.members.push(core::MemberInfo { incarnation: Incarnation(66), ..info(6) });
        watches.tell_view(CellView::new(Arc::new(again), Incarnation(1)));
        let told = all(&mut named);
        let [MemberChange::Absent, MemberChange::Here(first), MemberChange::Gone(gone), MemberChange::Here(second)] =
            &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((first.id, gone.member.id, second.id), (id(6), id(6), id(66)));
        assert_eq!((gone.why, gone.proof.is_some()), (Some(LeaveReason::Died), true));
    }

    /// Two members each share a host.
    #[test]
    fn a_host_is_gone_with_the_last_of_its_processes() {
        let watches = Watches::new(Home::here());
        let mut host = Watch::new(watches.host(member(6).host.expect("it has one")));
        watches.tell_view(view(1, &[]));
        watches.tell_view(view(2, &[(2, Why::Left)]));
        watches.tell_view(view(3, &[(5, Why::Died)]));
        watches.tell_view(view(4, &[(6, Why::Unreachable), (5, Why::Died)]));
        let told = all(&mut host);
        let [
            HostChange::Here { members, gone: none },
            HostChange::Here { members: rest, gone: first },
            HostChange::Gone { gone },
        ] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((members, none.len(), rest), (&vec![member(5), member(6)], 0, &vec![member(6)]));
        assert_eq!((first[0].why, gone[0].why), (Some(LeaveReason::Died), Some(LeaveReason::Unreachable)));
        let mut nobody = Watch::new(watches.host(member(99).host.expect("it has one")));
        assert_eq!(all(&mut nobody), [HostChange::Absent]);
    }

    /// Members that left while this process was away left for a reason that nobody told it.
    #[test]
    fn who_left_while_this_process_was_away_left_for_an_unknown_reason() {
        let watches = Watches::new(Home::here());
        watches.tell_view(view(1, &[]));
        let mut other = Watch::new(watches.member(Whom::Id(id(6))));
        let mut own = Watch::new(watches.member(Whom::Named("m1".to_owned())));
        let mut cell = Watch::new(watches.cell());
        watches.tell_own_end(member(1), None, true);
        assert!(matches!(watches.fate(id(1)), Fate::Gone(_)) && matches!(watches.fate(id(6)), Fate::Open));
        let mut back = view_of(9, 5, &[]);
        back.members[0].incarnation = Incarnation(11);
        watches.tell_view(CellView::new(Arc::new(back), Incarnation(11)));
        let told = all(&mut other);
        let [MemberChange::Here(_), MemberChange::Gone(gone)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((gone.why, gone.member.id, gone.view), (None, id(6), 9));
        let told = all(&mut own);
        assert!(matches!(&told[..], [MemberChange::Here(_), MemberChange::Gone(_), MemberChange::Here(_)]), "{told:?}");
        let told = all(&mut cell);
        assert!(
            matches!(&told[..], [CellChange::View(_), CellChange::Excluded { .. }, CellChange::View(_)]),
            "{told:?}"
        );
    }

    #[test]
    fn the_end_of_the_process_ends_every_watch_and_one_tells_how_it_came() {
        let watches = Watches::new(Home::here());
        watches.tell_view(view(1, &[]));
        let mut early = (Watch::new(watches.member(Whom::Id(id(6)))), Watch::new(watches.cell()));
        watches.tell_own_end(member(1), Some(LeaveReason::Left), false);
        watches.end(End::Left);
        let mut late = (Watch::new(watches.member(Whom::Id(id(6)))), Watch::new(watches.cell()));
        for (member, cell) in [&mut early, &mut late] {
            assert!(!all(member).iter().any(|change| matches!(change, MemberChange::Gone(_))), "nobody knows that");
            assert_eq!(member.blocking_next(), None);
            let told = all(cell);
            assert!(matches!(told.last(), Some(CellChange::Over(End::Left))), "{told:?}");
            assert!(cell.blocking_next().is_none());
        }
        assert!(matches!(watches.fate(id(6)), Fate::Over) && watches.end_of_process() == Some(End::Left));
        assert_eq!(Watch::new(watches.group("g".to_owned())).blocking_next(), None);
        assert_eq!(Watch::new(watches.host(member(6).host.expect("it has one"))).blocking_next(), None);
    }

    #[test]
    fn a_group_is_told_from_its_first_member_to_its_end_and_is_another_after_it() {
        let watches = Watches::new(Home::here());
        let mut watch = Watch::new(watches.group("g".to_owned()));
        let none = directory(1, &[1, 2], &[(1, group("other", 1, &[1]))]);
        assert!(watches.installed(&none, &decree(&none, &[], &[])).is_empty() && watches.has_new_groups());
        watches.begin_groups(&none);
        assert!(!watches.has_new_groups());
        let install = |next: &Directory, gone: &[(u64, Why)], groups: &[u32]| {
            let news = watches.installed(next, &decree(next, &left(gone), groups));
            let count = news.len();
            news.into_iter().for_each(|(slot, change)| slot.tell(change));
            count
        };
        let first = directory(2, &[1, 2], &[(2, group("g", 1, &[1, 2]))]);
        assert_eq!(install(&first, &[], &[2]), 1);
        assert_eq!(install(&directory(3, &[1, 2], &[(2, group("g", 1, &[1, 2]))]), &[], &[]), 0, "no news");
        let fewer = directory(4, &[1], &[(2, group("g", 2, &[1]))]);
        assert_eq!(install(&fewer, &[(2, Why::Died)], &[2]), 1);
        assert_eq!(install(&directory(5, &[1], &[(2, group("g", 3, &[]))]), &[], &[2]), 1);
        let anew = directory(6, &[1], &[(3, group("g", 1, &[1]))]);
        assert_eq!(install(&anew, &[], &[3]), 2);
        let told = all(&mut watch);
        let [
            GroupChange::Absent,
            GroupChange::Members { group: made, joined, .. },
            GroupChange::Members { left, .. },
            GroupChange::Waiting { left: last, .. },
            GroupChange::Gone { number: 2, left: nobody },
            GroupChange::Members { group: again, joined: founder, .. },
        ] = &told[..]
        else {
            panic!("{told:?}")
        };
        assert_eq!((made.number, &joined[..]), (2, &[id(1), id(2)][..]));
        assert_eq!((&left[..], &last[..]), (&[(id(2), Some(LeaveReason::Died))][..], &[(id(1), None)][..]));
        assert_eq!((nobody.len(), again.number, &founder[..]), (0, 3, &[id(1)][..]));
        // A reader that comes now is told how the group stands.
        let mut late = Watch::new(watches.group("g".to_owned()));
        watches.begin_groups(&anew);
        assert!(matches!(&all(&mut late)[..], [GroupChange::Members { group, .. }] if group.number == 3));
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let watches = Watches::new(Home::here());
        for _ in 0..3 {
            drop(Watch::new(watches.member(Whom::Id(id(1)))));
            drop(Watch::new(watches.host(member(1).host.expect("it has one"))));
            drop(Watch::new(watches.group("g".to_owned())));
            drop(Watch::new(watches.cell()));
        }
        let _kept = watches.cell();
        let list = watches.list();
        assert_eq!([list.members.len(), list.hosts.len(), list.groups.len(), list.cells.len()], [0, 0, 0, 1]);
    }

    /// An id of long ago is forgotten, and is gone all the same.
    #[test]
    fn the_latest_that_left_are_remembered() {
        let watches = Watches::new(Home::here());
        let most = DEPARTURES_MAX as u64;
        for number in 0..=most {
            watches.tell_view(view(number + 1, &[(100 + number, Why::Left)]));
        }
        let why = |who| match watches.fate(id(who)) {
            Fate::Gone(departure) => departure.why,
            Fate::Open | Fate::Over => panic!("it left"),
        };
        assert_eq!((why(100), why(101), why(100 + most)), (None, Some(LeaveReason::Left), Some(LeaveReason::Left)));
    }
}
