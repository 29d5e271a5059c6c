//! Installing a decided view: streams end at the cut, new ones begin, and the application gets one view event.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::group_streams::{GroupStreams, ViewMeta};
use super::groups::{Ready, refuse_groups};
use super::path_probes::SILENCE_LEVEL;
use super::port::streams_port;
use super::to_one::to_one_port;
use super::{Process, Stage, StageEvent};
use crate::api::{CellView, Departed, Domain, Effects, Event, GroupTerms, GroupView, LeaveReason, Request};
use crate::id::MemberInfo;
use crate::id::{DecreeNumber, Incarnation, Rank, ViewNumber};
use crate::member::{
    Agreed, BallotEvent, Coordinator, Directory, FailureDetector, GroupChange, GroupEntry, GroupNames, LastView,
    PathMonitor, Proposal, RequestList, StateMessage, stayed_to_its_end,
};
use crate::order::{ViewStreams, ViewStreamsSettings};
use crate::time::Instant;
use crate::wire::DropReason;

/// Own messages that were not sent in a view.
type Unsent = Vec<(Request, Bytes)>;

/// State that is carried from one view of a group into the next.
struct EndedView {
    /// Number of the view that ended.
    view: ViewNumber,
    since: ViewNumber,
    told: Option<ViewNumber>,
    told_domains: Option<Arc<[Domain]>>,
    terms: GroupTerms,
    unsent: Unsent,
}

/// Lower bound on a stream's window, in packets.
const WINDOW_MIN: u64 = 16;
/// Upper bound on a stream's window, in packets.
const WINDOW_MAX: u64 = 4096;
/// Lower bound where the receivers' sockets hold little: a smaller window could not keep a sender going.
const RECEIVED_MIN: u64 = 4;
const _: () = assert!(WINDOW_MIN <= WINDOW_MAX, "the windows are an interval");
const _: () = assert!(RECEIVED_MIN <= WINDOW_MIN, "small receive buffers may lower the window");

/// The window of each of `members` senders that share `bytes`, in packets.
fn sent_window(bytes: usize, members: usize, packet_room: usize) -> u64 {
    debug_assert!(members > 0, "a view has a member");
    debug_assert!(packet_room > 0, "a packet has room for frames");
    ((bytes / members / packet_room) as u64).clamp(WINDOW_MIN, WINDOW_MAX)
}

/// The window that keeps the packets of all other members within three quarters of each member's receive buffer. The
/// rest is for messages to it alone. Each packet counts as the longest, however short it is.
fn received_window(members: &[&&MemberInfo]) -> u64 {
    let senders = members.len().saturating_sub(1).max(1) as u64;
    let held = members.iter().map(|m| u64::from(m.receive_packets)).filter(|packets| *packets > 0).min();
    held.map_or(WINDOW_MAX, |packets| (packets * 3 / 4 / senders).max(RECEIVED_MIN))
}

impl Process {
    /// Installs the decided proposal, once its cut is held.
    pub(super) fn try_install(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Some(proposal) = self.decided.clone() else { return };
        assert_eq!(proposal.decree, self.directory.decree.next(), "a decided proposal is the next decree");
        // A process that loses a group's state does not deliver up to its cut.
        let me = self.me();
        let kept = || proposal.groups.iter().filter(|change| !change.is_lost_to(me));
        let cuts = || kept().filter_map(|change| Some((change.group, change.cut.as_ref()?)));
        if self.is_past(cuts()) {
            // Nobody can have decided a cut behind what this member parsed, which its report contained. The sender is
            // faulty, or lies.
            self.decided = None;
            return self.counters.drop(DropReason::Malformed);
        }
        if !self.holds_cuts(cuts()) {
            return self.fetch_soon(now);
        }
        let next = self.directory.after(&proposal);
        self.enter(now, next, proposal, fx);
    }

    /// Enters the view that `proposal` decided. `next` is the directory after it.
    pub(super) fn enter(&mut self, now: Instant, next: Directory, proposal: Arc<Proposal>, fx: &mut dyn Effects) {
        let me = self.me();
        let first = matches!(self.stage, Stage::Searching(_));
        assert_eq!(next.decree, proposal.decree, "a directory has the number of its decree");
        assert!(first || next.decree == self.directory.decree.next(), "decrees are installed one after the other");
        assert!(!matches!(self.stage, Stage::Over), "a process that is over enters no view");
        self.counters.decrees += 1;
        self.decided = None;
        self.welcomes.stop_taking();
        self.recovering = None;
        self.fetch_at = None;
        self.fetch_turn = 0;
        Coordinator::end(&mut self.coordinator, BallotEvent::Learn);
        let begun = self.acceptor.begun(&proposal).unwrap_or(now);
        self.acceptor.install();
        // The ballots of each decree count their rounds anew.
        self.max_round = 0;
        self.installed_at = now;
        self.attention = true;

        let view_changed = first || proposal.view != self.directory.view;
        let decree = next.decree;
        self.note_removed(now, &proposal);
        let apart = self.directory.apart(&proposal);
        let departed = self.waiting.departed(now, &self.directory, &self.failure_detector, &proposal);
        self.counters.removed_behind_a_link += apart.len() as u64;
        self.former = self.directory.members.iter().map(|m| m.incarnation).collect();
        self.counters.levels_risen += u64::from(!first && next.level > self.directory.level);
        let former_level = if first { next.level } else { self.directory.level };
        if let Some(stop) = &mut self.leaving {
            stop.note(now, &self.directory.members, &proposal);
        }
        self.directory = next;
        fx.installed(&self.directory, &proposal.shown());
        let directory = &self.directory;
        let is_empty = !view_changed && proposal.groups.is_empty();
        self.waits.install(now, is_empty, |who| directory.rank(who).is_some());
        // The directory names them, so that members that joined beside them know as well.
        self.outcasts = self.directory.outcasts();
        self.state_holders.forget_departed(&self.directory);
        self.forget_out();
        self.adopt_settings();
        self.meet_members(now);
        // The application's order: the rest of the old group views, the cell view, the new group views. So a cell view
        // never runs ahead of messages of members that it leaves out.
        let ended: Vec<_> = proposal.groups.iter().map(|change| self.end_group(change, fx)).collect();
        if view_changed && self.directory.rank(me).is_some() {
            self.announce_cell_view(&proposal, apart, departed);
        }
        for (change, ended) in proposal.groups.iter().zip(ended) {
            self.begin_group(now, change, ended);
        }
        to_one_port!(self).sweep();
        self.check_orphans(now);
        let refused = refuse_groups(&self.directory, &mut self.wants, &mut self.app, me);
        refused.iter().for_each(|name| self.start_over(name, now));
        self.bring_group_minima(former_level);
        for (to, transfer) in self.transfers.risen(former_level, self.directory.level) {
            self.send_state(to, &StateMessage::Abort { transfer });
        }
        self.evaluate_adequacy();
        self.go_on(now, fx);
        for (who, _) in &proposal.left {
            self.leavers.remove(who);
            self.requests.remove(who);
        }
        // Members report what they cannot read with each heartbeat, under the decree in force.
        self.unreadable.clear();
        // A request is valid for the decree it was made in. Its sender repeats what still stands.
        let names = LazyCell::new(|| GroupNames::of(&self.directory));
        let is_open = |who, list: &RequestList| list.groups.iter().any(|wish| names.leaves_open(who, wish));
        let of_others = self.requests.iter().filter(|(who, list)| **who != me && list.decree < decree);
        let open = of_others.filter(|(who, list)| is_open(**who, list)).map(|(who, _)| *who).collect();
        self.waits.await_repeats(now, open, self.ballot_round(now));
        let requests = self.requests.len();
        self.requests.retain(|_, list| list.decree >= decree);
        self.counters.requests_overtaken += (requests - self.requests.len()) as u64;
        self.last_decision = Some(proposal.clone());
        self.reported_decrees = vec![DecreeNumber::NONE; self.directory.members.len()];

        if self.directory.rank(me).is_none() {
            // A leaver stays for a while: the others still need what it holds.
            self.enter_stage(StageEvent::Leave, Stage::Leaving { since: now });
            self.apply_deaths();
            // The ranks of the old view do not apply to the new one, and a leaver watches nobody. With the old
            // knowledge kept, a replayed heartbeat of a member whose rank the old view did not have once made a leaver
            // panic.
            self.failure_detector = FailureDetector::new(Rank::FIRST, 0, now, self.patience());
            self.progress = PathMonitor::new(Rank::FIRST, 0, now);
            self.announce_out();
            if !self.directory.members.is_empty() {
                self.keep_left(fx);
            }
            return;
        }
        self.enter_stage(StageEvent::Install, Stage::Member);
        self.begin_watching(now, view_changed, &proposal);
        // Not sooner: how far they are is known of their requests alone.
        for who in proposal.joiners() {
            self.joiners.remove(&who);
        }
        if self.directory.level >= SILENCE_LEVEL {
            // All members and joiners go by the record in the directory, so that they hold back the same processes.
            self.removals.adopt(now, begun, self.directory.removals());
        }
        self.removals.install(now, self.directory.members.len());
        let unreadable = self.peers.values().filter(|peer| peer.is_unreadable && peer.rank.is_some()).count();
        self.counters.nonsense_channels_kept += u64::from(view_changed) * unreadable as u64;
        self.distrust();
        self.counters.deaths_applied_later += self.apply_deaths();
        self.next_heartbeat = now; // announces at once that the decree is installed
        // One member welcomes the joiners. If it dies before, they ask again, and any member sends them the decision.
        if self.lowest_survivor() == Some(me) {
            for who in proposal.joiners() {
                self.send_decision(who);
            }
        }
        for (who, why) in &proposal.left {
            self.counters.slow_expelled += u64::from(*why == LeaveReason::TooSlow);
            self.remember_excluded(now, *who);
        }
        if self.cannot_go_on {
            // The cut makes no sense here, although this member reported that it holds it. It cannot continue
            // correctly.
            self.counters.stopped_alone += 1;
            return self.end(Event::Left);
        }
        self.replay_early(now, fx);
        self.advance_intents(now);
        if let Some((from, wedge)) = self.early_wedge.take_if(|(_, w)| w.decree <= decree.next()) {
            self.handle_wedge(now, from, &wedge, fx);
        }
    }

    /// Starts failure detection anew with each cell view. A decree that changes no view leaves the measured silence
    /// alone: such decrees may follow each other faster than silence is noticed.
    fn begin_watching(&mut self, now: Instant, view_changed: bool, proposal: &Proposal) {
        if view_changed || self.failure_detector.watch().is_some() {
            self.failure_detector =
                FailureDetector::new(self.my_rank(), self.directory.members.len(), now, self.patience());
            if view_changed {
                self.progress = self.fresh_progress(now);
            }
            self.bear_gaps(proposal);
        }
    }

    /// The first member of the view that did not join with it. It welcomes those that did.
    fn lowest_survivor(&self) -> Option<Incarnation> {
        let decision = self.last_decision.as_ref()?;
        let joined: BTreeSet<_> = decision.joiners().collect();
        self.directory.members.iter().map(|m| m.incarnation).find(|who| !joined.contains(who))
    }

    fn meet_members(&mut self, now: Instant) {
        self.peers.clear_ranks();
        let me = self.me();
        let members = self.directory.members.clone();
        for (rank, member) in Rank::enumerate(&members).filter(|(_, m)| m.incarnation != me) {
            self.know(now, member);
            if let Some(peer) = self.peers.get_mut(member.incarnation) {
                peer.rank = Some(rank);
            }
        }
    }

    fn announce_cell_view(
        &mut self,
        proposal: &Proposal,
        apart: Vec<(Incarnation, Vec<Incarnation>)>,
        departed: Vec<Departed>,
    ) {
        self.counters.cell_views += 1;
        let view = Arc::new(CellView {
            instance: self.instance,
            ancestors: self.directory.ancestors(),
            view: proposal.view,
            level: self.directory.level,
            members: self.directory.members.clone(),
            joined: proposal.joiners().collect(),
            left: proposal.left.clone(),
            apart,
            departed,
            members_min: Agreed::members_min(&self.directory.settings),
        });
        if self.founders().is_some() {
            let members = view.members.iter().map(|member| member.name.clone()).collect();
            self.set.record.last = Some(LastView { instance: self.instance, view: view.view, members });
        }
        self.cell_view = Some(view.clone());
        self.app.event(Event::CellView(view));
    }

    /// Ends a group's view, if this process was in it. Returns what is carried into the next one.
    fn end_group(&mut self, change: &GroupChange, fx: &mut dyn Effects) -> Option<EndedView> {
        let space = self.space_of(change.group)?;
        let mut old = self.group_streams.remove(&space)?;
        debug_assert!(change.cut.is_some(), "a view with streams here ends at a cut");
        let me = self.me();
        if let Some(cut) = change.cut.as_ref().filter(|_| !change.is_lost_to(me)) {
            let mut port = streams_port!(self, fx, &old.meta);
            match old.view_streams.finish(&cut.prefixes, &mut port) {
                Some(discarded) => self.counters.discarded += discarded,
                // A member that leaves the group goes on without it, whatever of the cut it could read.
                None => self.cannot_go_on |= change.left.iter().all(|(who, _)| *who != me),
            }
        }
        if !change.is_lost_to(me) {
            to_one_port!(self).end_view(change.group, old.meta.view, &old.view_streams);
        }
        self.counters.carried_over_cut += u64::from(old.view_streams.is_cut_off());
        self.counters.add_token(old.view_streams.token_counts());
        self.left_undelivered = self.app.len();
        // Accepted and not sent, so bound to no view: they go out in the next one.
        let unsent = old.view_streams.take_outbox();
        let ViewMeta { view, since, told, terms, .. } = old.meta;
        let told_domains = old.meta.told_domains.clone();
        let other = self.past.insert(space, old);
        debug_assert!(other.is_none(), "a packet space is that of one view");
        Some(EndedView { view, since, told, told_domains, terms, unsent })
    }

    /// Begins a group's next view, if this process is in it.
    fn begin_group(&mut self, now: Instant, change: &GroupChange, ended: Option<EndedView>) {
        let me = self.me();
        let prev = ended.as_ref().map(|ended| ended.view);
        let new = || EndedView {
            view: ViewNumber::NONE,
            since: change.view,
            told: None,
            told_domains: None,
            terms: GroupTerms::default(),
            unsent: Unsent::new(),
        };
        let EndedView { since, told, told_domains, terms: former_terms, unsent, .. } = ended.unwrap_or_else(new);
        let entry = self.directory.groups.get(&change.group);
        let (members, terms) =
            entry.map(|entry| (entry.members.clone(), GroupTerms::of(&entry.tail))).unwrap_or_default();
        let (has_state, observers) = entry.map(|entry| (entry.has_state(), entry.observers())).unwrap_or_default();
        let domains: Option<Arc<[Domain]>> = entry.and_then(GroupEntry::domains).map(Into::into);
        let Some(my_rank) = members.iter().position(|who| *who == me).map(Rank::from_index) else {
            if let Some(view) = prev {
                // Nobody else has the view's last messages, and no later view will tell this process that more have them.
                let few = self.asks_for_members(former_terms)
                    && stayed_to_its_end(change, entry) < usize::from(former_terms.members_min);
                self.leave_behind(change, few.then_some(view), unsent.len());
            }
            return;
        };
        self.counters.group_views += 1;
        let by_incarnation: BTreeMap<_, _> = self.directory.members.iter().map(|m| (m.incarnation, m)).collect();
        let infos: Vec<_> = members.iter().filter_map(|who| by_incarnation.get(who)).collect();
        let packet_bytes = infos.iter().map(|m| m.packet_bytes_max).min().unwrap_or(1200);
        debug_assert_eq!(infos.len(), members.len(), "a group's members are members of the cell");
        let n = members.len();
        let packet_room = self.room(packet_bytes);
        let window = sent_window(self.set.limits.group_window_bytes, n, packet_room).min(received_window(&infos));
        let addresses: Vec<_> = infos.iter().map(|m| m.data).collect();
        let infos: Vec<MemberInfo> = infos.into_iter().map(|info| (*info).clone()).collect();
        let others = Rank::enumerate(&addresses).filter(|(r, _)| *r != my_rank).map(|(_, a)| *a).collect();
        let settings = ViewStreamsSettings {
            group: change.group,
            view: change.view,
            space: change.space,
            members: members.clone(),
            me: my_rank,
            packet_room,
            window,
            ack_delay: self.set.timing.ack_delay,
            outbox_bytes: self.set.limits.outbox_bytes,
            token_tally: self.set.limits.token_tally,
        };
        let adequate = self.enter_adequacy(change, prev.is_none(), terms);
        let name: Arc<str> = change.name.as_str().into();
        let mut view_streams = ViewStreams::new(settings, now);
        view_streams.set_primary(self.primary);
        view_streams.set_congested(self.congested);
        self.counters.carried_over += unsent.len() as u64;
        self.counters.carried_over_long += unsent.iter().filter(|(_, m)| m.len() >= packet_room).count() as u64;
        view_streams.put_outbox(unsent);
        let incomplete = change.incomplete(&members);
        let meta = ViewMeta {
            group: change.group,
            name: name.clone(),
            view: change.view,
            since,
            told,
            told_domains,
            space: change.space,
            members: members.clone(),
            addresses,
            others,
            incomplete: incomplete.clone(),
            domains: domains.as_ref().map_or(0, |list| list.len()),
            terms,
            adequate,
        };
        let other = self.group_streams.insert(change.space, GroupStreams::new(view_streams, meta));
        debug_assert!(other.is_none(), "a packet space is that of one view");
        let view = Arc::new(GroupView {
            group: change.group,
            name,
            view: change.view,
            prev,
            members: members.clone(),
            infos,
            joined: change.joined.clone(),
            left: change.left.clone(),
            incomplete,
            observers,
            has_state,
            domains,
            terms,
            adequate,
        });
        to_one_port!(self).enter(&view);
        if prev.is_none() {
            self.go_on_from_kept(change);
            self.begin_state(&view);
        }
        // The view waits behind the group's state, if that is still on its way.
        self.transfers.hold(&mut self.app, super::app::Item::Event(Event::GroupView(view)), change.group);
        self.announce_state_to_new_members(change, prev.is_none());
    }

    /// Ends this process's membership of a group, with `unsent` multicasts not sent. A process that lost the group's
    /// state, or has not had it yet, comes back by itself. `few`: the view that ended, if too few have what came last.
    fn leave_behind(&mut self, change: &GroupChange, few: Option<ViewNumber>, unsent: usize) {
        let me = self.me();
        let why = change.left.iter().find(|(who, _)| *who == me).map_or(LeaveReason::Left, |(_, why)| *why);
        self.counters.state_anew += u64::from(why == LeaveReason::Anew);
        self.counters.outcast += u64::from(why == LeaveReason::Nonsense);
        self.counters.groups_stopped += u64::from(why == LeaveReason::Stopped);
        to_one_port!(self).leave(change.group);
        let was_told = self.transfers.group_left(change.group, &mut self.app);
        // A member that lost the state, or was still taking it, joins again like any joiner, without a command of its
        // application.
        if (why == LeaveReason::Anew || !was_told)
            && let Some(want) = self.wants.get_mut(&change.name).filter(|want| want.leaving.is_none())
        {
            want.ready = if want.takes_state() { Ready::No } else { Ready::Yes };
        } else if was_told {
            self.wants.remove(&change.name);
        }
        if was_told {
            let few = few.map(|view| Event::GroupAdequacy { group: change.group, view, adequate: false });
            few.into_iter().for_each(|few| self.app.event(few));
            self.app.unsent(change.group, unsent);
            self.app.event(Event::GroupLeft { group: change.group, why });
        }
    }

    /// Handles the first view of a group here. Its state may still be on its way. Or this process was taken in without
    /// it, because the transfer failed after the request, or because all holders are gone.
    fn begin_state(&mut self, view: &Arc<GroupView>) {
        let group = view.group;
        if self.transfers.entered(view) {
            return;
        }
        let Some(want) = self.wants.get_mut(&*view.name) else { return };
        let holders_remain = view.members.iter().any(|who| !view.joined.contains(who));
        if want.ready != Ready::Yes && holders_remain {
            return self.transfers.retreat(group);
        }
        want.ready = Ready::Yes;
        if std::mem::take(&mut want.seeks) {
            self.app.event(Event::StateAnew { group, name: view.name.clone() });
        }
    }

    /// Lets groups go on in their view that were wedged and do not change.
    fn go_on(&mut self, now: Instant, fx: &mut dyn Effects) {
        for view_streams in self.group_streams.values_mut() {
            let mut port = streams_port!(self, &mut *fx, &view_streams.meta);
            view_streams.view_streams.unwedge(now, &mut port);
            view_streams.touched = true;
        }
    }

    /// Forgets the streams of ended views once every member has installed the decree in force: until then a member may
    /// fetch from them.
    pub(super) fn forget_past(&mut self) {
        if !self.past.is_empty() && self.all_installed() {
            self.past.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GroupId;
    use crate::member::GroupEntry;
    use crate::process::tests::by_hand::{NOW, in_cell};
    use crate::wire::{Space, Tags};

    /// That a state was there and is gone does not depend on how much of it had come.
    #[test]
    fn who_sought_a_state_and_founds_the_group_is_told_once() {
        let (group, me) = (GroupId(1), Incarnation(1));
        for exists in [true, false] {
            let (mut process, _) = in_cell(me, 2);
            let entry = GroupEntry {
                name: "g".into(),
                view: ViewNumber(3),
                space: Space(1),
                members: vec![Incarnation(2)],
                tail: Tags::default(),
            };
            process.directory.groups.extend(exists.then_some((group, entry)));
            process.join_group(NOW, "g", true, GroupTerms::default()).expect("a good name");
            // Nothing has come of it when the member is gone.
            assert_eq!(process.transfers.taken_group("g").is_some(), exists, "it asks who has the state");
            // The same decree ends the group and founds the next one.
            let view = Arc::new(GroupView {
                members: vec![me],
                joined: vec![me],
                has_state: Some(true),
                ..GroupView::new(GroupId(2), "g", ViewNumber(1))
            });
            let before = process.app.len();
            for _ in 0..2 {
                process.begin_state(&view);
                assert_eq!(process.app.len() - before, usize::from(exists), "the group existed: {exists}");
                assert_eq!(process.transfers.taken_group("g"), None, "nothing more of it comes");
                assert!(!process.transfers.holds_back(GroupId(2)), "the view waits for no state");
            }
        }
    }

    #[test]
    fn a_window_is_no_larger_and_no_smaller_than_it_may_be() {
        let bytes = |packets: usize| packets * 1000;
        assert_eq!(sent_window(bytes(4096), 1, 1000), WINDOW_MAX);
        assert_eq!(sent_window(bytes(4097), 1, 1000), WINDOW_MAX);
        assert_eq!(sent_window(bytes(4095), 1, 1000), WINDOW_MAX - 1);
        assert_eq!((sent_window(bytes(17), 1, 1000), sent_window(1, 65_536, 65_507)), (17, WINDOW_MIN));
    }

    /// All other members may send at once: they share three quarters of the smallest buffer.
    #[test]
    fn a_window_keeps_within_the_smallest_receive_buffer() {
        let window = |held: &[u32]| {
            let with = |&receive_packets: &u32| MemberInfo { receive_packets, ..crate::process::tests::member() };
            let members: Vec<MemberInfo> = held.iter().map(with).collect();
            let members: Vec<&MemberInfo> = members.iter().collect();
            received_window(&members.iter().collect::<Vec<_>>())
        };
        assert_eq!(window(&[0, 0, 0]), WINDOW_MAX, "no member reports its buffer");
        assert_eq!(window(&[400, 0, 800]), 150, "two senders share 300");
        assert_eq!((window(&[400]), window(&[400, 400])), (300, 300), "one sender");
        assert_eq!(window(&[8, 8, 8, 8]), RECEIVED_MIN);
    }
}
