//! What a coordinator knows of groups that wait: which of their holders are back, what these said, and since when the
//! others are waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::{GroupId, Incarnation};
use crate::member::{Directory, Orphan, RequestList, Return, Returns};
use crate::time::Instant;

/// Time after the first holder of an orphan's state is back in which others may come: they may hold more.
const GATHER: Duration = Duration::from_secs(1);

/// What returned members said of one group that waits.
///
/// It concerns the group's last view, and holds for as long as that is the last and the member is in the cell. Decrees
/// about other groups void nothing of it: they may come faster than the time in which others are waited for.
#[derive(Default)]
struct Gathering {
    /// When the first of them said that it can bring the group back.
    since: Option<Instant>,
    /// The last statement of each, by the member and the holder that it was.
    said: BTreeMap<(Incarnation, Incarnation), Return>,
}

impl Gathering {
    /// Brings the time up to date with the statements.
    fn review(&mut self, now: Instant) {
        let is_back = self.said.values().any(|said| said.from.is_some());
        self.since = is_back.then(|| self.since.unwrap_or(now));
    }
}

/// The lists of requests that a coordinator knows, by member.
type Requests = BTreeMap<Incarnation, RequestList>;

/// What returned members said of groups that wait.
#[derive(Default)]
pub(in crate::process) struct Gatherings(BTreeMap<GroupId, Gathering>);

impl Gatherings {
    /// Notes what a member says of groups that wait, which need not be said in the decree in force. Returns whether it
    /// says anything of use.
    pub(in crate::process) fn note(
        &mut self,
        now: Instant,
        directory: &Directory,
        who: Incarnation,
        list: &RequestList,
    ) -> bool {
        let Some(rank) = directory.rank(who).filter(|_| !list.returns.is_empty()) else { return false };
        let info = &directory.members[rank.index()];
        let mut is_noted = false;
        for said in &list.returns {
            let entry = directory.groups.get(&said.group);
            let Some((entry, orphan)) = entry.and_then(|entry| Some((entry, entry.orphan()?))) else { continue };
            let streams = usize::try_from(orphan.members).unwrap_or(usize::MAX);
            let fits = said.from.as_ref().is_none_or(|from| {
                from.view == entry.view && from.prefixes.len() == streams && from.counts.len() == streams
            });
            // Only the holder itself, or a process whose member info names the holder as an earlier incarnation, may
            // speak for it.
            if fits && orphan.holders.iter().any(|holder| holder.who == said.was) && info.is_or_keeps(said.was) {
                let gathering = self.0.entry(said.group).or_default();
                gathering.said.insert((who, said.was), said.clone());
                gathering.review(now);
                is_noted = true;
            }
        }
        is_noted
    }

    /// Forgets after an installed view what members said that are out, or of groups that wait no more for them.
    pub(super) fn review(
        &mut self,
        now: Instant,
        directory: &Directory,
        orphans: &BTreeMap<GroupId, Orphan>,
        requests: &Requests,
    ) {
        self.0.retain(|group, gathering| {
            let (Some(orphan), Some(entry)) = (orphans.get(group), directory.groups.get(group)) else { return false };
            gathering.said.retain(|(who, was), said| {
                let is_of_last_view = said.from.as_ref().is_none_or(|from| from.view == entry.view);
                let is_listed = orphan.holders.iter().any(|holder| holder.who == *was);
                is_of_last_view && is_listed && directory.rank(*who).is_some()
            });
            gathering.review(now);
            !gathering.said.is_empty()
        });
        // Some may have installed the decree earlier, and spoke of a group that did not wait here yet.
        for (who, list) in requests {
            self.note(now, directory, *who, list);
        }
    }

    /// The changes that the next view should bring to groups that wait.
    pub(in crate::process) fn requested_returns(
        &self,
        now: Instant,
        directory: &Directory,
        requests: &Requests,
    ) -> BTreeMap<GroupId, Returns> {
        let mut all = BTreeMap::new();
        let nothing = Gathering::default();
        // Without a number for the next view nothing can be done about a group.
        for (group, entry, orphan) in directory.orphans().filter(|(_, entry, _)| entry.next_view().is_some()) {
            let is_listed = |who: &Incarnation| orphan.holders.iter().any(|holder| holder.who == *who);
            // A holder is struck off by a proof of death, by its own statement, or by an operator. Silence strikes
            // nobody off: a member that is cut off may still have the state.
            let mut struck = BTreeSet::new();
            let in_force = |(who, list): &(&Incarnation, &RequestList)| {
                list.decree == directory.decree && directory.rank(**who).is_some()
            };
            for (_, list) in requests.iter().filter(in_force) {
                if list.given_up.contains(&entry.name) {
                    struck.extend(orphan.holders.iter().map(|holder| holder.who));
                }
                struck.extend(list.dead.iter().copied().filter(is_listed));
            }
            let Gathering { since, said } = self.0.get(&group).unwrap_or(&nothing);
            struck.extend(said.values().filter(|said| said.from.is_none()).map(|said| said.was));
            let back = || said.iter().filter(|(_, said)| said.from.is_some());
            let has_answered = |who: Incarnation| struck.contains(&who) || back().any(|(_, said)| said.was == who);
            let by_some = !orphan.holders.iter().all(|holder| has_answered(holder.who));
            // A plain message may be known to one holder alone, and is lost if another one is the donor. So all
            // holders are waited for, but not for ever.
            let is_due = since.is_some_and(|since| now.since(since) >= GATHER || !by_some);
            let held = |back: &Return| back.from.iter().flat_map(|from| &from.prefixes).sum::<u64>();
            // The holder of most packets is the donor, because whatever it lacks is lost. The incarnation breaks ties,
            // so that the choice does not depend on the order of requests.
            let most = back().filter(|_| is_due).max_by_key(|((who, _), said)| (held(said), *who));
            let donor = most.map(|((who, _), said)| (*who, said.clone()));
            if donor.is_some() || !struck.is_empty() {
                all.insert(group, Returns { donor, by_some, struck: struck.into_iter().collect() });
            }
        }
        all
    }
}
