//! Membership requests: the groups that this process's application joins and leaves, and leaving the cell.

mod intent;

use std::collections::BTreeMap;
use std::time::Duration;

use super::app::AppQueue;
use super::group_streams::GroupStreams;
use super::{Process, Stage};
use crate::api::{CommandError, DomainMismatch, Effects, Event, GroupTerms, OwnDomain, are_domains};
use crate::id::{DecreeNumber, GroupId, InboxId, Incarnation, check_name};
use crate::member::{Control, Directory, DomainsOf, GroupNames, GroupRequest, RequestList, Role, agrees_on_state};
use crate::order::ViewStreams;
use crate::time::Instant;

pub use intent::REQUESTS_MAX;
pub(super) use intent::{GroupIntent, Ready};

/// A leaver that hears no quorum, neither of its view nor of the one without it, ends after this time.
const LEAVE_PATIENCE: Duration = Duration::from_secs(3);
/// Maximum time before a leave in which sent messages may become stable or acknowledged.
pub(super) const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Rounds in which a joiner that has a group's state comes into it: the view change under way, and the one that takes it
/// in, of eight each (`docs/costs.md`).
const JOIN_ROUNDS: u32 = 16;
const _: () =
    assert!(LEAVE_PATIENCE.as_nanos() < DRAIN_PATIENCE.as_nanos(), "a leaver without a quorum waits for less");

impl Process {
    /// Names the inbox of a group, before this process joins it. By default all groups have [`InboxId::MAIN`], and all
    /// items one order. An inbox has one order, too; between two of them there is none.
    pub fn set_inbox(&mut self, name: &str, inbox: InboxId) {
        self.app.assign(name, inbox);
    }

    /// Requests membership of the named group, which is founded if it does not exist. The first [`Event::GroupView`]
    /// with its name carries the [`GroupId`].
    ///
    /// `with_state`: a member's state is transferred first, through [`crate::Effects::snapshot`] there and
    /// [`crate::Effects::restore`] here. If no such group exists, one of the processes that ask for it founds it with
    /// the state that it has, and the others take that. `terms` are agreed for the group if it is founded with this
    /// process as rank 0. [`Event::GroupRefused`] reports that it does not exist and cannot be founded.
    ///
    /// Whether a group has a state is agreed when it is founded, from level 6 on. A process that asks otherwise is not
    /// taken in, and gets [`Event::GroupDiffers`]. An observer suits both kinds of groups ([`Self::request_group`]).
    ///
    /// # Errors
    /// [`CommandError::BadName`], [`CommandError::AlreadyMember`], [`CommandError::Over`]; nothing was asked.
    pub fn join_group(
        &mut self,
        now: Instant,
        name: &str,
        with_state: bool,
        terms: GroupTerms,
    ) -> Result<(), CommandError> {
        let role = if with_state { Role::State } else { Role::Stateless };
        self.request_group(now, name, role, terms, vec![OwnDomain::unnamed()])
    }

    /// The same in a role of the process's choice.
    ///
    /// An observer ([`Role::Observer`]) acknowledges, delivers and installs views like any member. It never has the group's
    /// state: it is listed in [`GroupView::observers`](crate::GroupView::observers), gives no state, does not count for the
    /// group's minimum, and the group does not continue through it. It makes no group: it waits until there is one. Below
    /// level 6 it is a member without the state.
    ///
    /// `own`: what this process has for the group's state, if it takes that; the state itself alone is
    /// [`OwnDomain::unnamed`].
    ///
    /// From level 10 of the cell on a group keeps a list of the domains of its state
    /// ([`GroupView::domains`](crate::GroupView::domains)). A process that lacks one of them, or needs one that is not
    /// listed, is not taken in, and gets [`Event::GroupDomains`]. A domain that all members have is added to the list.
    ///
    /// # Errors
    /// As [`Self::join_group`]; [`CommandError::BadDomains`]. Nothing was asked.
    pub fn request_group(
        &mut self,
        now: Instant,
        name: &str,
        role: Role,
        terms: GroupTerms,
        own: Vec<OwnDomain>,
    ) -> Result<(), CommandError> {
        if !are_domains(own.iter().map(|own| &own.domain)) {
            return Err(CommandError::BadDomains);
        }
        if matches!(self.stage, Stage::Over) {
            return Err(CommandError::Over);
        }
        if check_name(name).is_err() {
            return Err(CommandError::BadName);
        }
        if self.wants.contains_key(name) {
            return Err(CommandError::AlreadyMember);
        }
        let ready = if role == Role::State { Ready::No } else { Ready::Yes };
        self.wants
            .insert(name.to_owned(), GroupIntent { role, terms, own, said: None, leaving: None, ready, seeks: false });
        self.report_orphans(); // it may have to wait, and no view change need come to report it
        let refused = refuse_groups(&self.directory, &mut self.wants, &mut self.app, self.set.me.incarnation);
        refused.iter().for_each(|name| self.start_over(name, now));
        self.advance_intents(now);
        Ok(())
    }

    /// Requests to leave a group. What was sent becomes stable first. [`Event::GroupLeft`] reports the end.
    ///
    /// # Errors
    /// [`CommandError::NotMember`]; nothing was asked.
    pub fn leave_group(&mut self, now: Instant, group: GroupId) -> Result<(), CommandError> {
        let name = self
            .group_streams
            .values()
            .find(|f| f.meta.group == group)
            .map(|f| f.meta.name.to_string())
            .ok_or(CommandError::NotMember)?;
        let want = self.wants.entry(name).or_insert(GroupIntent {
            role: Role::Stateless,
            terms: GroupTerms::default(),
            own: vec![OwnDomain::unnamed()],
            said: None,
            leaving: None,
            ready: Ready::Yes,
            seeks: false,
        });
        want.leaving.get_or_insert(now);
        self.advance_intents(now);
        Ok(())
    }

    /// Whether this process is in the group of that name, or has requested it and may not request it again yet.
    ///
    /// After a group's end it is true only if the application has requested the next group of that name, which it may
    /// do before it takes [`Event::GroupLeft`].
    #[must_use]
    pub fn wants_group(&self, name: &str) -> bool {
        self.wants.contains_key(name)
    }

    /// Moves every pending request on, as far as possible now.
    pub(super) fn advance_intents(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::Member) {
            return;
        }
        let names = GroupNames::of(&self.directory);
        let seeking = self.wants.iter().filter(|(_, want)| want.ready != Ready::Yes);
        let seeking = seeking.map(|(name, _)| (name.clone(), names.get(name).map(|(group, _)| group)));
        for (name, group) in seeking.collect::<Vec<_>>() {
            self.seek_state(now, &name, group);
        }
        let (groups, domains) = self.open_requests(now);
        let (decree, level) = (self.directory.decree, self.level_requested());
        let mut requests = RequestList { decree, groups, level, domains, ..RequestList::default() };
        self.requests_of_orphans(&mut requests);
        // A coordinator reads no more of a list. The others follow when these are fulfilled.
        self.counters.requests_cut += requests.cut(REQUESTS_MAX) as u64;
        let coordinator = if requests.domains.is_empty() { None } else { self.coordinator_now(now) };
        let to = coordinator.map(|coordinator| (decree, coordinator));
        if has_news(&mut self.wants, to, &requests) {
            self.send_requests(now, requests);
        }
    }

    /// Membership requests that no decree has fulfilled yet.
    fn open_requests(&self, now: Instant) -> (Vec<GroupRequest>, Vec<DomainsOf>) {
        let me = self.me();
        // What joiners say of their domains goes first: a list that is cut must not lose it while it keeps the request.
        let (mut requests, mut domains, mut of_members) = (Vec::new(), Vec::new(), Vec::new());
        let names = GroupNames::of(&self.directory);
        for (name, want) in &self.wants {
            let entry = names.get(name);
            let is_member = entry.is_some_and(|(_, e)| e.members.contains(&me));
            let drained = |at: Instant| {
                let view_streams = entry.and_then(|(_, e)| self.group_streams.get(&e.space)).map(|f| &f.view_streams);
                let gives = entry.is_some_and(|(id, _)| self.gives_and_waits(now, id, at));
                let owes =
                    entry.is_some_and(|(id, _)| self.app.to_one.is_owed(Some(id))) && now.since(at) <= DRAIN_PATIENCE;
                !gives && !owes && view_streams.is_none_or(|view_streams| has_drained(view_streams, now.since(at)))
            };
            let terms = Some(want.terms);
            let role = if agrees_on_state(&self.directory) { want.role } else { Role::default() };
            let wish = |join, only_new| GroupRequest { name: name.clone(), join, only_new, terms, role };
            match want.leaving {
                // It was taken in without the state, and leaves to come again, whatever its application wants.
                _ if entry.is_some_and(|(id, _)| self.transfers.retreats_from(id)) => {
                    requests.push(wish(false, false));
                }
                Some(at) if is_member && drained(at) => {
                    requests.push(wish(false, false));
                }
                None if role == Role::Observer && entry.is_none_or(|(_, entry)| entry.is_orphan()) => {
                    // It makes no group, and brings none back.
                }
                None if !is_member && want.ready != Ready::No => {
                    // It has a state of its own, or took one of a group of that name that is over.
                    let only_new = want.takes_state() && entry.is_none();
                    requests.push(wish(true, only_new));
                    domains.extend(want.said_to_join(&self.directory, name));
                }
                None if is_member => {
                    of_members.extend(entry.and_then(|(_, entry)| want.said_as_member(&self.directory, entry)));
                }
                _ => {}
            }
        }
        domains.extend(of_members);
        (requests, domains)
    }

    fn send_requests(&mut self, now: Instant, requests: RequestList) {
        debug_assert!(requests.groups.len() <= REQUESTS_MAX, "a coordinator cuts longer lists");
        debug_assert!(
            requests.groups.iter().all(|wish| check_name(&wish.name).is_ok()),
            "a coordinator drops lists with bad names"
        );
        debug_assert_eq!(requests.decree, self.directory.decree, "requests are valid in the decree in force");
        let Some(coordinator) = self.coordinator_now(now) else { return };
        if coordinator == self.me() {
            self.waiting.gathering.note(now, &self.directory, coordinator, &requests);
            self.requests.insert(coordinator, requests);
            self.attention = true;
        } else {
            self.send_control(coordinator, &Control::MembershipRequests(requests));
        }
    }

    /// The member that takes requests: the lowest-ranked one that can coordinate.
    pub(super) fn coordinator_now(&self, now: Instant) -> Option<Incarnation> {
        self.lowest_eligible(now).map(|rank| self.directory.members[rank.index()].incarnation)
    }

    /// Repeats open requests to the current coordinator, with each heartbeat. A request is void after each decree, and
    /// the coordinator may have changed.
    pub(super) fn resend_requests(&mut self, now: Instant) {
        self.advance_intents(now);
        if self.leaving.is_some() && matches!(self.stage, Stage::Member) {
            self.ask_to_leave(now);
        }
    }

    /// Sends the leave request to the coordinator, unless something has to be waited for. Returns whether it did.
    fn ask_to_leave(&mut self, now: Instant) -> bool {
        let Some(stop) = &self.leaving else { return false };
        let (since, end_wait) = (stop.since, self.set.timing.end_wait);
        let goes = |f: &GroupStreams| {
            has_drained(&f.view_streams, now.since(since)) && !self.gives_and_waits(now, f.meta.group, since)
        };
        if !self.group_streams.values().all(goes) || self.awaits_acks() && now.since(since) <= DRAIN_PATIENCE {
            return false;
        }
        let waits = stop.waits(now, end_wait, &self.directory);
        let me = self.me();
        match self.coordinator_now(now) {
            Some(coordinator) if coordinator != me => self.send_control(coordinator, &Control::Leave { waits }),
            Some(_) => {
                self.leavers.insert(me, waits);
                self.attention = true;
            }
            None => return false,
        }
        true
    }

    /// Whether some member has not acknowledged a point-to-point message.
    fn awaits_acks(&self) -> bool {
        self.peers
            .values()
            .any(|peer| peer.rank.is_some() && (peer.data_channel.unreceived() > 0 || !peer.to_one_channel.is_idle()))
            || self.app.to_one.is_owed(None)
    }

    /// Whether this process asked to leave the group or the cell, and first has to give the group's state to a joiner.
    pub(super) fn gives_while_leaving(&self, now: Instant, group: GroupId) -> bool {
        let name = self.directory.groups.get(&group).map(|entry| &entry.name);
        let of_group = name.and_then(|name| self.wants.get(name)).and_then(|want| want.leaving);
        let of_cell = self.leaving.as_ref().map(|stop| stop.since);
        [of_cell, of_group].into_iter().flatten().any(|since| self.gives_and_waits(now, group, since))
    }

    /// Whether this process wants the group's state and is no member, or is one that leaves only to come again.
    pub(super) fn seeks_state_of(&self, group: GroupId) -> bool {
        let Some(entry) = self.directory.groups.get(&group) else { return false };
        let wants = self.wants.get(&entry.name).is_some_and(|want| want.takes_state() && want.leaving.is_none());
        wants && (!entry.members.contains(&self.me()) || self.transfers.retreats_from(group))
    }

    /// Whether a leave requested at `since` still waits for joiners that take the group's state from this process.
    ///
    /// A joiner that was given all of it is waited for longer, because a decree may take it in any time:
    ///
    /// 1. It asks for membership, and the leaver's patience ends.
    /// 2. One decree takes the joiner in and lets the leaver go.
    /// 3. The rest of the record is lost. The joiner leaves the group, begins anew with another donor, and comes back by a
    ///    third decree. Between far members that takes many seconds each time.
    pub(super) fn gives_and_waits(&self, now: Instant, group: GroupId, since: Instant) -> bool {
        let is_patient = now.since(since) <= DRAIN_PATIENCE;
        let is_to_be_joined = || {
            let patience = DRAIN_PATIENCE.max(self.ballot_round(now) * JOIN_ROUNDS);
            self.transfers.is_to_be_joined(now, group, patience)
        };
        self.directory.has_orphans() && self.transfers.gives_in(group) && (is_patient || is_to_be_joined())
    }

    /// Advances the leave under way. A process that is alone, or outside the primary, just ends.
    pub(super) fn leave_step(&mut self, now: Instant, fx: &mut dyn Effects) {
        if let Stage::Leaving { since } = self.stage {
            let waited = now.since(since);
            if self.directory.members.is_empty() {
                if self.is_end_known(waited) {
                    self.keep_ended(fx);
                    self.end_in_order();
                }
            } else if self.will_survive() || waited > LEAVE_PATIENCE {
                // The decision must not vanish with this process, which may be part of the quorum that made it.
                self.end(Event::Left);
            }
            return;
        }
        let Some(stop) = &mut self.leaving else { return };
        let (waited, end_wait) = (now.since(stop.since), self.set.timing.end_wait);
        let waits = stop.waits(now, end_wait, &self.directory);
        if waits && let Some((groups, members)) = stop.news(now, &self.directory) {
            self.app.event(Event::EndWaits { groups, members, at_most: end_wait });
        }
        let alone = self.directory.members.len() == 1;
        let drained = self.group_streams.values().all(|f| f.view_streams.is_drained());
        let stuck = !self.primary && waited > LEAVE_PATIENCE;
        let ends_alone = alone && (drained || waited > DRAIN_PATIENCE) && !waits;
        if ends_alone || stuck || waited > DRAIN_PATIENCE * 2 + end_wait {
            if alone {
                self.keep_ended(fx);
            }
            self.end_in_order();
        } else if drained && !self.leavers.contains_key(&self.me()) {
            // Once for each decree. Heartbeats repeat it.
            if self.leave_asked != self.directory.decree && self.ask_to_leave(now) {
                self.leave_asked = self.directory.decree;
            }
        }
    }
}

/// Whether requests are to be sent `to` the coordinator in a decree: they are repeated with each heartbeat, until a decree
/// fulfils them. What members say of their domains alone may stand for long, and is said once.
fn has_news(
    wants: &mut BTreeMap<String, GroupIntent>,
    to: Option<(DecreeNumber, Incarnation)>,
    requests: &RequestList,
) -> bool {
    let mut is_news = false;
    for said in &requests.domains {
        if let Some(want) = wants.get_mut(&said.group) {
            is_news |= std::mem::replace(&mut want.said, to) != to;
        }
    }
    is_news || !requests.says_domains_alone() && !requests.is_empty()
}

/// Drops the wanted groups that cannot be joined, and reports each to the application: those that differ in whether they
/// have a state or in its domains, and new ones if the numbers of groups are used up. Returns their names: a state that comes
/// for one of them is of no use any more.
#[must_use]
pub(super) fn refuse_groups(
    directory: &Directory,
    wants: &mut BTreeMap<String, GroupIntent>,
    app: &mut AppQueue,
    me: Incarnation,
) -> Vec<String> {
    if directory.can_number_groups() && !agrees_on_state(directory) {
        return Vec::new();
    }
    let names = GroupNames::of(directory);
    let mut suits = |name: &String, want: &GroupIntent| {
        let Some((_, entry)) = names.get(name) else {
            let can_be_made = directory.can_number_groups();
            if !can_be_made {
                app.event(Event::GroupRefused { name: name.as_str().into() });
            }
            return can_be_made;
        };
        let differs = entry.has_state().filter(|_| !entry.suits(want.role) && !entry.members.contains(&me));
        if let Some(has_state) = differs {
            app.event(Event::GroupDiffers { name: name.as_str().into(), has_state });
            return false;
        }
        let is_joiner = want.takes_state() && !entry.members.contains(&me);
        let list = if is_joiner { entry.domains() } else { None };
        let mismatch = list.and_then(|list| DomainMismatch::of(&list, &want.own));
        let suits = mismatch.is_none();
        if let Some(mismatch) = mismatch {
            app.event(Event::GroupDomains { name: name.as_str().into(), mismatch });
        }
        suits
    };
    let mut refused = Vec::new();
    wants.retain(|name, want| {
        let is_kept = suits(name, want);
        refused.extend((!is_kept).then(|| name.clone()));
        is_kept
    });
    refused
}

/// Whether a member that asked to leave `waited` ago may go: its messages are sent, and stable unless
/// [`DRAIN_PATIENCE`] is over. The patience excuses only messages that were sent; unsent ones would be lost without
/// notice.
fn has_drained(view_streams: &ViewStreams, waited: Duration) -> bool {
    view_streams.is_drained() || waited > DRAIN_PATIENCE && view_streams.is_sent()
}
