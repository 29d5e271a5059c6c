//! The simulated application of one process. It takes deliveries and events, keeps a state for each group, and writes
//! the trace that the checker evaluates. The trace is written here because properties refer to what the application
//! sees.

mod answering;
mod asked;
mod calls;
mod clients;
mod desk;
mod inboxes;
mod machine;
mod named;
mod operations;
mod reading;
mod submits;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_core::member::FounderRecord;
use phalanx_core::rng::Rng;
use phalanx_core::{
    Accepted, CellInstance, CellView, Delivery, Domain, Event, GroupId, GroupView, InboxId, Incarnation, LeaveReason,
    MemberInfo, MessageToOne, Order, Sent, Sequence, Snapshot, ToOneKind, ToOneOutcome, Uniformity, ViewNumber,
};
use phalanx_life::Clients;
use phalanx_runtime::Handler;
use phalanx_runtime::handler::Command;
use phalanx_runtime::traced;
use phalanx_trace as trace;
use phalanx_trace::{Header, Trace, payload_hash};

use crate::app::calls::Calls;
pub(crate) use crate::app::calls::OBJECTS_GROUP;
use crate::app::reading::Reading;
use crate::app::told::Told;
pub(crate) use crate::app::told::{Request, Submit, ToQueue};
use crate::machine::{Both, Held, Maker};
use crate::pace::Pace;
use crate::program::{DOMAINS, Program, is_of_clients, places};
use crate::state::{Frozen, Incoming, State};

/// Name of the cell of every simulation.
pub(crate) const CELL: &str = "sim";
/// The clock of all traces of a run: virtual time.
pub(crate) const CLOCK: &str = "virtual";

/// State of one process's application. It outlives the incarnations of its process.
#[derive(Debug)]
pub(crate) struct App {
    /// Name of its process.
    name: String,
    /// Virtual time, set before each call into the node.
    pub(crate) now_ns: u64,
    /// Whether it takes deliveries now.
    pub(crate) takes: bool,
    /// Its inboxes, and its reading of them.
    pub(crate) reading: Reading,
    /// Whether nothing in this run is a reason to exclude it.
    pub(crate) must_stay: bool,
    /// What the states of its groups hold.
    pub(crate) holds: Holds,
    /// The traces of this process's incarnations, oldest first.
    pub(crate) traces: Vec<Trace>,
    /// Groups of which it is, or is becoming, a member in this incarnation.
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// Groups of its previous, excluded incarnation, with their states.
    kept: BTreeMap<GroupId, Group>,
    /// Groups in which it should be, and whether with their state.
    pub(crate) wanted: BTreeMap<String, bool>,
    /// To what it may send an answer.
    pub(crate) answerable: Answerable,
    /// Content of its state directory. It survives a crash.
    pub(crate) record: FounderRecord,
    /// Whether its state directory takes nothing.
    pub(crate) disk_full: bool,
    /// Why it is in no cell, according to the last event of this incarnation.
    pub(crate) searching: Option<String>,
    /// Other instances of its cell of which it was notified.
    pub(crate) instances_met: Vec<CellInstance>,
    /// Generation of its cell instance.
    generation: u16,
    /// Whether a view change blocks its sends, according to its trace.
    silent: bool,
    /// Whether this incarnation was notified of its end.
    over: bool,
    /// Whether that was because a view excludes it.
    was_excluded: bool,
    /// A uniform message that it sent since the last check. If it heard no quorum all the while, it may send none.
    pub(crate) sent_uniform: Option<(GroupId, Sequence)>,
    /// Whether the cell refuses this incarnation because of its build or a setting.
    pub(crate) kept_out: bool,
    /// Incarnations of this process that were notified of their exclusion.
    pub(crate) excluded: Vec<Incarnation>,
    /// Errors that it found itself: property and text.
    pub(crate) faults: Vec<(&'static str, String)>,
    pub(crate) counts: AppCounts,
    /// Point-to-point messages so far, by peer: accepted, delivered.
    point_to_point: BTreeMap<Incarnation, (u64, u64)>,
    /// Operations on the objects of a group.
    pub(crate) calls: Calls,
    /// What makes the machines of a user, if there is one.
    pub(crate) maker: Option<Maker>,
    /// What it is told of its memberships and messages.
    pub(crate) told: Told,
    /// Which domains its states have.
    pub(crate) program: Program,
}

/// To what an application may send an answer.
#[derive(Debug, Default)]
pub(crate) struct Answerable {
    /// Multicasts of others: the group and the length of the chain so far.
    pub(crate) multicasts: Vec<(GroupId, u8)>,
    /// Senders of messages to this process alone.
    pub(crate) messages: Vec<(GroupId, Incarnation)>,
    /// Members that came with a view.
    pub(crate) newcomers: Vec<(GroupId, Incarnation)>,
}

/// What the state of a group holds beside digests of its messages.
#[derive(Debug)]
pub(crate) struct Holds {
    padding_bytes: u64,
    /// Digests of the group's views. Not where a build is too old to replay them to a joiner.
    views: bool,
    /// How slowly they are given away.
    pub(crate) pace: Pace,
}

/// Counts of an application's events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AppCounts {
    pub(crate) deliveries: u64,
    pub(crate) cell_views: u64,
    pub(crate) group_views: u64,
    pub(crate) exclusions: u64,
    pub(crate) unsent: u64,
    pub(crate) in_doubt: u64,
    pub(crate) ends_in_doubt: u64,
    pub(crate) non_primary: u64,
    pub(crate) transfers: u64,
    /// Notices that a group waits, that a group goes on with its kept state, and that its kept state is of no use.
    pub(crate) orphaned: u64,
    pub(crate) kept: u64,
    pub(crate) forgotten: u64,
    /// Times in which an inbox was not read and held items; of these, those in which another one was given something,
    /// and those at whose end the incarnation was over.
    pub(crate) inboxes_held: u64,
    pub(crate) inboxes_beside: u64,
    pub(crate) inboxes_at_end: u64,
    /// Notices that multicasts are stable while the inbox of their group held items.
    pub(crate) stable_beside: u64,
    /// Multicasts that named a view: sent in it, refused because another one is in force, and not sent at that time.
    pub(crate) named_sent: u64,
    pub(crate) named_refused: u64,
    pub(crate) named_later: u64,
    /// Those refused because no packet holds them.
    pub(crate) named_too_long: u64,
    /// Views inside of state transfers.
    pub(crate) views_replayed: u64,
    /// Messages to one member told not to be delivered, and to be in doubt.
    pub(crate) to_one_not_delivered: u64,
    pub(crate) to_one_in_doubt: u64,
}

/// A group as seen by one member.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The view in force; 0 before the first.
    pub(crate) view: ViewNumber,
    pub(crate) members: Vec<Incarnation>,
    /// Whether another group of its name was requested. This one is over, and the notice of that is still to come.
    is_over: bool,
    /// What a multicast without a requested stability is. None before the first view.
    default: Option<Uniformity>,
    /// Number of deliveries in this view.
    pub(crate) delivered: u64,
    state: State,
    /// The clients who submit to it, where the group lists them and this process has the state.
    clients: Option<Clients>,
    /// Hashes of the submits that were executed here. No two are alike.
    executed: BTreeSet<u64>,
    incoming: Option<Incoming>,
    /// The user's machine, if there is one.
    machine: Option<Held>,
    /// Whether its state is complete, which is recorded with the first view.
    is_whole: bool,
    /// Whether the state that came was refused: what is here is not the group's.
    is_refused: bool,
    /// Whether this process observes it.
    pub(crate) is_observed: bool,
    /// Whether the group is known to have no state.
    is_stateless: bool,
    /// The domains that it lists, by the latest view or state.
    pub(crate) list: Option<Arc<[Domain]>>,
}

impl Group {
    /// Takes the list of a view, or of a state that begins, over. What comes to a list that there is begins anew.
    fn adopt(&mut self, list: Option<&Arc<[Domain]>>) -> bool {
        let listed = |list: Option<&Arc<[Domain]>>| list.map(|list| places(list));
        let (former, next) = (listed(self.list.as_ref()), listed(list));
        self.list = list.cloned();
        let (Some(former), Some(next)) = (former, next) else { return false };
        let new = (0..DOMAINS.len()).filter(|at| former[*at].is_none() && next[*at].is_some());
        let new: Vec<usize> = new.collect();
        new.iter().for_each(|at| self.state.begin_domain(*at));
        !new.is_empty()
    }
}

impl App {
    /// `rng`: from which its clients draw.
    pub(crate) fn new(name: String, state_bytes: u64, has_views: bool, rng: Rng) -> Self {
        Self {
            name,
            now_ns: 0,
            takes: true,
            reading: Reading::default(),
            must_stay: false,
            holds: Holds { padding_bytes: state_bytes, views: has_views, pace: Pace::default() },
            traces: Vec::new(),
            groups: BTreeMap::new(),
            kept: BTreeMap::new(),
            wanted: BTreeMap::new(),
            answerable: Answerable::default(),
            record: FounderRecord::default(),
            disk_full: false,
            searching: None,
            instances_met: Vec::new(),
            generation: 0,
            silent: false,
            over: false,
            was_excluded: false,
            sent_uniform: None,
            kept_out: false,
            excluded: Vec::new(),
            faults: Vec::new(),
            counts: AppCounts::default(),
            point_to_point: BTreeMap::new(),
            calls: Calls::default(),
            maker: None,
            told: Told::new(rng),
            program: Program::default(),
        }
    }

    /// Appends to the trace of the current incarnation.
    pub(crate) fn record(&mut self, event: trace::Event) {
        if let Some(trace) = self.traces.last_mut().filter(|_| !self.told.is_silent()) {
            trace.push(self.now_ns, event);
        }
    }

    /// Ends the trace of the current incarnation cleanly.
    pub(crate) fn end_trace(&mut self) {
        let open = |trace: &Trace| trace.records.last().is_some_and(|last| last.event != trace::Event::End);
        if self.traces.last().is_some_and(open) {
            self.record(trace::Event::End);
        }
    }

    /// The group of this name, if its first view was installed here.
    pub(crate) fn member_of(&self, name: &str) -> Option<(GroupId, &Group)> {
        let found = self.groups.iter().find(|(_, group)| group.name == name && group.view > ViewNumber::NONE)?;
        Some((*found.0, found.1))
    }

    /// Records the current digests of all groups.
    pub(crate) fn record_digests(&mut self) {
        let digests: Vec<(GroupId, trace::Event)> = self
            .groups
            .iter_mut()
            .filter(|(_, group)| group.view > ViewNumber::NONE && !group.is_refused)
            .map(|(id, group)| (*id, digest(*id, group)))
            .collect();
        for (id, event) in digests {
            self.record(event);
            self.record_balance(id);
        }
    }

    fn sent_to(&mut self, to: Incarnation, payload: &[u8]) {
        let sent = &mut self.point_to_point.entry(to).or_default().0;
        *sent += 1;
        let event = trace::Event::P2pSend { to: to.0, k: *sent, hash: payload_hash(payload) };
        self.record(event);
    }

    fn cell_view(&mut self, view: &Arc<CellView>) {
        self.counts.cell_views += 1;
        self.kept_out = false;
        self.generation = view.instance.generation();
        self.record(trace::Event::CellView {
            instance: view.instance.0,
            view: view.view.0,
            members: view.members.iter().map(|m| (m.incarnation.0, m.name.clone())).collect(),
            left: traced::left(&view.left),
        });
        if !view.ancestors.is_empty() {
            self.record(trace::Event::Ancestors {
                instances: view.ancestors.iter().map(|ancestor| ancestor.0).collect(),
            });
        }
        let known = view.members.iter().map(|m| m.level).min().unwrap_or_default();
        self.record(trace::Event::Level { level: view.level, known });
        self.record(trace::Event::CellMinimum { members: view.members_min as u64 });
    }

    /// What a multicast to the group without a requested stability is.
    pub(crate) fn default_of(&self, group: GroupId) -> Option<Uniformity> {
        self.groups.get(&group).and_then(|group| group.default)
    }

    fn group_view(&mut self, view: &Arc<GroupView>) {
        self.counts.group_views += 1;
        self.answerable.newcomers.extend(view.joined.iter().map(|who| (view.group, *who)));
        let brings_state = view.members == view.joined && self.wanted.get(&*view.name) == Some(&true);
        let state = if brings_state { State::brought_by(self.calls.me) } else { State::default() };
        let has_views = self.holds.views;
        let group = self.groups.entry(view.group).or_insert_with(|| Group { state, ..Group::default() });
        let has_grown = group.adopt(view.domains.as_ref());
        if has_views {
            group.state.view(view);
        }
        self.clients_view(view);
        if has_grown {
            self.program.note("lists of domains that grew at a member");
        }
        self.machine_view(view);
        if let Some(group) = self.groups.get_mut(&view.group)
            && std::mem::take(&mut group.is_whole)
        {
            self.record_whole(view.group);
        }
        self.record(trace::Event::GroupView {
            group: view.group.0,
            name: view.name.to_string(),
            view: view.view.0,
            prev: view.prev.map(|view| view.0),
            members: view.members.iter().map(|m| m.0).collect(),
            joined: view.joined.iter().map(|m| m.0).collect(),
            left: traced::left(&view.left),
        });
        self.record(trace::Event::GroupTerms {
            group: view.group.0,
            uniform: view.terms.uniformity.is_uniform(),
            members_min: u64::from(view.terms.members_min),
            adequate: view.adequate,
        });
        let lists = [traced::group_incomplete(view), traced::group_observers(view), traced::group_domains(view)];
        for record in lists.into_iter().flatten() {
            self.record(record);
        }
        let group = self.groups.entry(view.group).or_default();
        if group.name.is_empty() {
            group.name = view.name.to_string();
        }
        group.view = view.view;
        group.is_stateless = view.has_state == Some(false);
        group.is_observed = view.observers.contains(&Incarnation(self.calls.me));
        group.default = Some(view.terms.uniformity);
        group.members.clone_from(&view.members);
        group.delivered = 0;
        // The checker compares the digests of all members at the start of a view (X4).
        if !group.is_refused {
            let event = digest(view.group, group);
            self.record(event);
            self.record_balance(view.group);
        }
        self.void_grants(view);
    }

    fn state_begin(
        &mut self,
        id: GroupId,
        name: &str,
        bytes: u64,
        view: Option<ViewNumber>,
        list: Option<&Arc<[Domain]>>,
    ) {
        self.record(trace::Event::SnapshotIn { group: id.0, bytes });
        if let Some(view) = view {
            self.record(traced::snapshot_view(id, view));
            list.into_iter().for_each(|list| self.record(traced::listed(id, view, list)));
        }
        let group = self.groups.entry(id).or_default();
        if group.view > ViewNumber::NONE {
            self.faults.push(("X3", format!("a state transfer begins for group {} it is a member of", id.0)));
            return;
        }
        (group.state, group.clients) = (State::default(), None);
        group.executed.clear();
        (group.is_refused, group.list) = (false, list.cloned());
        let machine = group.machine.take().or_else(|| self.machine_of(id, name));
        let own_bytes = machine.as_ref().map_or(bytes, |_| bytes.min(Frozen::bytes(self.holds.padding_bytes)));
        let group = self.groups.entry(id).or_default();
        group.incoming = Some(Incoming::new(own_bytes));
        group.machine = machine;
        if let Some(machine) = &mut group.machine {
            machine.begin(bytes - own_bytes, list);
        }
    }

    fn state_kept(&mut self, id: GroupId, was: Incarnation, view: ViewNumber) {
        self.counts.kept += 1;
        let Some(mut kept) = self.kept.remove(&id) else {
            return self.faults.push(("X3", format!("group {} goes on with a state that is not kept", id.0)));
        };
        if let Some(machine) = &mut kept.machine {
            machine.keep();
        }
        let digest = kept.digest();
        self.record(trace::Event::StateKept { group: id.0, was: was.0, view: view.0, digest });
        // Its first view in this incarnation is still to come.
        let members = Vec::new();
        self.groups
            .insert(id, Group { view: ViewNumber::NONE, default: None, members, delivered: 0, incoming: None, ..kept });
    }

    /// Takes over a transferred snapshot. It is complete when the first replayed delivery or the end comes.
    fn take_state(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let Some(incoming) = group.incoming.take() else { return };
        match incoming.finish() {
            Ok(came) => (group.state, group.clients) = came,
            Err(wrong) => self.faults.push(("X1", wrong)),
        }
    }

    /// A state is complete, or it never comes: no member that has it is left. What came of it is dropped then, and a
    /// user's machine goes on as it is.
    fn state_end(&mut self, id: GroupId, has_come: bool) {
        self.counts.transfers += 1;
        self.take_state(id);
        let machine = self.groups.get_mut(&id).and_then(|group| group.machine.as_mut());
        let taken = machine.map_or(Ok(()), |machine| {
            if has_come {
                return machine.complete();
            }
            machine.keep();
            Ok(())
        });
        if let Err(wrong) = taken {
            refuse(self, id, wrong);
        }
        match self.groups.get_mut(&id) {
            Some(group) if group.is_refused => {}
            // The others are compared as they are after the view that follows. Clients learn of it.
            Some(group) if self.holds.views || self.program.has_domains || group.machine.is_some() => {
                group.is_whole = true;
            }
            _ => self.record_whole(id),
        }
    }

    /// Records a complete state.
    fn record_whole(&mut self, id: GroupId) {
        let digest = self.groups.get_mut(&id).map_or(0, Group::digest);
        self.record(trace::Event::StateEnd { group: id.0, digest });
        self.record_balance(id);
    }
}

/// A view inside of a state transfer.
fn view_replayed(app: &mut App, view: &Arc<GroupView>) {
    app.counts.views_replayed += 1;
    app.take_state(view.group);
    app.record(traced::group_view_replayed(view));
    traced::group_domains(view).into_iter().for_each(|record| app.record(record));
    let has_views = app.holds.views;
    let Some(group) = app.groups.get_mut(&view.group).filter(|group| group.view == ViewNumber::NONE) else {
        return app
            .faults
            .push(("X8", format!("view {} of group {} is replayed outside of a transfer", view.view, view.group.0)));
    };
    let has_grown = group.adopt(view.domains.as_ref());
    if has_views {
        group.state.view(view);
    }
    if let Some(machine) = &mut group.machine {
        machine.view_replayed(view, Incarnation(app.calls.me));
    }
    app.clients_view(view);
    if has_grown {
        app.program.note("lists of domains that grew inside of a transfer");
    }
}

fn has_state(app: &App, id: GroupId) -> bool {
    app.groups.get(&id).is_none_or(|group| app.wanted.get(&group.name) != Some(&false) && !group.is_observed)
}

/// The state that came is refused, and the group is left, or that is a violation.
fn refuse(app: &mut App, id: GroupId, why: String) {
    let text = format!("the snapshot of another member makes no sense: {why}");
    if !app.maker.as_ref().is_some_and(Maker::may_refuse) {
        return app.faults.push(("restore", text));
    }
    app.told.refuse(text, app.now_ns);
    if let Some(group) = app.groups.get_mut(&id) {
        group.is_refused = true;
    }
}

/// Ends an iteration: shows the application what changed, and records what it was told.
pub(crate) fn publish(app: &mut App, is_adequate: impl Fn(GroupId) -> Option<bool>) {
    let App { told, reading, takes, groups, faults, .. } = app;
    for (id, group) in groups {
        if group.machine.as_mut().is_some_and(Held::take_torn) {
            faults.push(("shown", format!("a state of group {} before it is complete", id.0)));
        }
    }
    told.publish(is_adequate, |inbox| *takes && !reading.unread.contains(&inbox));
    record_told(app);
}

/// Queues what the clients of an application are to send. False: there is nothing.
pub(crate) fn queue_submits(app: &mut App) -> bool {
    let is_due = app.told.queue_submits();
    if is_due {
        record_told(app);
    }
    is_due
}

/// Records what an application was told since the last call.
pub(crate) fn record_told(app: &mut App) {
    let (records, is_mistaken) = app.told.settle();
    records.into_iter().for_each(|record| app.record(record));
    if is_mistaken {
        app.faults.push(("restore", "a state was refused, and each that members give makes sense".to_owned()));
    }
    app.faults.extend(app.told.take_faults().into_iter().map(|text| ("shown", text)));
}

fn digest(id: GroupId, group: &mut Group) -> trace::Event {
    trace::Event::Digest { group: id.0, view: group.view.0, delivered: group.delivered, digest: group.digest() }
}

impl Handler for App {
    fn begin(&mut self, me: &MemberInfo) {
        if self.told.has_panicked() {
            return; // its process is ended after this iteration
        }
        // The trace of the earlier incarnation ends with the reason of its end: a crash in the harness's trace, or the
        // exclusion.
        let left = std::mem::take(&mut self.groups);
        if self.was_excluded {
            let has_state = |group: &Group| group.view > ViewNumber::NONE && !group.is_refused;
            self.kept.extend(left.into_iter().filter(|(_, group)| has_state(group)));
        } else {
            self.kept.clear(); // its process was restarted
        }
        self.was_excluded = false;
        self.answerable = Answerable::default();
        self.point_to_point.clear();
        (self.silent, self.over, self.kept_out) = (false, false, false);
        self.searching = None;
        self.calls = Calls::begin(me.incarnation);
        self.traces.push(Trace::new(Header::process(CELL, &self.name, me.incarnation.0, CLOCK)));
        self.record(trace::Event::Start);
        self.record(trace::Event::JoinAsked { cell: CELL.into() });
        self.begin_reading();
        self.told.begin(me.incarnation);
        record_told(self);
    }

    fn command(&mut self, command: &Command<'_>) {
        match *command {
            Command::JoinGroup { name, with_state, observes, domains } => {
                // The request was accepted, so the earlier group is over, whether or not its end was announced.
                self.groups.values_mut().filter(|group| group.name == name).for_each(|group| group.is_over = true);
                let name = name.to_owned();
                let asked = observes.then(|| trace::Event::Observes { name: name.clone() });
                let own = traced::own_domains(&name, with_state, domains);
                self.record(trace::Event::GroupJoinAsked { name, with_state });
                own.into_iter().for_each(|own| self.record(own));
                asked.into_iter().for_each(|asked| self.record(asked));
            }
            Command::LeaveGroup { group } => self.record(trace::Event::GroupLeaveAsked { group: group.0 }),
            Command::GiveUpGroup { name } => self.record(trace::Event::GivenUp { name: name.to_owned() }),
            Command::Reform => self.record(trace::Event::ReformAsked),
            Command::FoundAnew => self.record(trace::Event::FoundAnew),
            Command::RaiseLevel { level } => self.record(trace::Event::RiseAsked { level }),
            Command::Leave => self.record(trace::Event::LeaveAsked),
            Command::Send { to, payload } => self.sent_to(to, payload),
            Command::SendTo { group, view, to, kind, parts } => {
                let hash = payload_hash(&parts.concat());
                self.record(traced::sent_to_one(group, view, to, kind, hash));
            }
            Command::Multicast { group, order, accepted: Accepted { uniformity, sent }, parts } => {
                let payload = parts.concat();
                self.told.accepted(group);
                if let Some(Sent { view, seq }) = sent {
                    self.sent(group, view, seq, order, uniformity, &payload);
                }
                let (hash, uniform) = (payload_hash(&payload), uniformity.is_uniform());
                self.record(trace::Event::Accept { group: group.0, order: traced::order(order), uniform, hash });
            }
            // Commands without a record in the trace format.
            _ => {}
        }
    }

    fn keep_record(&mut self, record: &FounderRecord) -> bool {
        if !self.disk_full {
            self.record = record.clone();
        }
        !self.disk_full
    }

    fn silent(&mut self, silent: bool) {
        if silent != self.silent && !self.over {
            self.silent = silent;
            self.record(if silent { trace::Event::Block } else { trace::Event::Unblock });
        }
    }

    fn ready(&mut self, inbox: InboxId) -> bool {
        self.takes && self.reads(inbox)
    }

    fn sent(
        &mut self,
        group: GroupId,
        view: ViewNumber,
        seq: Sequence,
        order: Order,
        uniformity: Uniformity,
        payload: &[u8],
    ) {
        if uniformity.is_uniform() {
            self.sent_uniform = Some((group, seq));
        }
        self.record(traced::sent(group, Sent { view, seq }, order, uniformity, payload_hash(payload)));
        self.told.sent(group, view, seq);
    }

    fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.told_stable(group);
        self.record(trace::Event::Stable { group: group.0, view: view.0, seq: seq.0 });
        self.told.stable(group, view, seq);
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.counts.deliveries += 1;
        self.took(delivery.group);
        self.told.deliver(delivery);
        let hash = payload_hash(delivery.payload);
        let record = trace::Event::Deliver {
            group: delivery.group.0,
            view: delivery.view.0,
            sender: delivery.sender.0,
            seq: delivery.seq.0,
            order: traced::order(delivery.order),
            uniform: delivery.uniformity.is_uniform(),
            position: delivery.position,
            hash,
            replayed: delivery.replayed,
        };
        if self.told.has_panicked() {
            // An ask may have been shown, which comes behind its message.
            if delivery.asked.is_some() && !delivery.replayed {
                self.record(record);
            }
            record_told(self);
            return self.told.fall_silent();
        }
        if delivery.replayed {
            self.take_state(delivery.group);
        }
        self.record(record);
        if let Some(record) = traced::delivered_to(delivery) {
            self.record(record);
            self.program.note(if delivery.replayed {
                "messages to a domain replayed"
            } else {
                "messages to a domain delivered"
            });
        }
        if delivery.asked.is_some() {
            record_told(self);
        }
        if let Some(group) = self.groups.get_mut(&delivery.group) {
            group.state.apply(delivery.order, delivery.sender.0, hash);
            if let Some(list) = &group.list {
                group.state.apply_to_domains(&places(list), delivery, hash);
            }
            let is_command = group.list.as_ref().is_some_and(|list| is_of_clients(list, delivery));
            let applied = if is_command { None } else { group.state.objects.apply(delivery, self.generation) };
            if let Some(machine) = &mut group.machine {
                machine.apply(delivery);
            }
            if !delivery.replayed {
                group.delivered += 1;
                if let Some(chain) = delivery.payload.first().filter(|_| !is_command) {
                    self.answerable.multicasts.push((delivery.group, *chain));
                }
            }
            if let Some((op, outcome)) = applied {
                self.answered(delivery, op, outcome);
            }
            if is_command {
                self.command_of_client(delivery);
            }
        }
    }

    fn event(&mut self, event: Event) {
        self.took_event(&event);
        let told = event.clone();
        // What an end leaves behind is told before the end is.
        let is_end =
            matches!(event, Event::GroupLeft { .. } | Event::Excluded { .. } | Event::Renounced { .. } | Event::Left);
        if is_end {
            self.told.event(told.clone());
            record_told(self);
        }
        match event {
            Event::CellView(view) => self.cell_view(&view),
            Event::GroupView(view) => self.group_view(&view),
            Event::GroupAdequacy { group, view, adequate } => {
                self.record(trace::Event::GroupAdequacy { group: group.0, view: view.0, adequate });
            }
            Event::Unsent { group, messages } => {
                self.counts.unsent += messages;
                self.record(trace::Event::Unsent { group: group.0, messages });
            }
            Event::InDoubt { to, messages } => {
                self.counts.in_doubt += messages;
                self.record(trace::Event::InDoubt { to: to.0, messages });
            }
            Event::EndInDoubt { groups, members } => {
                self.counts.ends_in_doubt += 1;
                self.record(trace::Event::EndInDoubt { groups, members });
            }
            Event::GroupLeft { group, why } => {
                if let Some(lost) = traced::lost(group, why) {
                    self.record(lost);
                }
                self.record(trace::Event::GroupLeft { group: group.0 });
                if let Some(left) = self.groups.remove(&group) {
                    if left.name == OBJECTS_GROUP {
                        self.calls.left(group);
                    }
                    if matches!(why, LeaveReason::Nonsense | LeaveReason::Stopped) && !left.is_over {
                        self.wanted.remove(&left.name); // to be joined again in the next step
                    }
                }
            }
            Event::NonPrimary { .. } => {
                self.counts.non_primary += 1;
                self.record(trace::Event::NonPrimary);
            }
            Event::Primary => self.record(trace::Event::Primary),
            Event::Excluded { view } => {
                self.counts.exclusions += 1;
                (self.over, self.was_excluded) = (true, true);
                self.excluded.extend(self.traces.last().map(|trace| Incarnation(trace.header.incarnation)));
                if self.must_stay {
                    self.faults
                        .push(("false_exclusion", format!("excluded by view {view}, and nothing failed for long")));
                }
                // What it keeps from here on must be what a group that waited goes on with (X3).
                self.record_digests();
                self.record(trace::Event::Excluded { view: view.0 });
                self.calls.close();
            }
            Event::Renounced { generation } => {
                if generation <= self.generation {
                    let text =
                        format!("gave up generation {} of its cell for generation {generation}", self.generation);
                    self.faults.push(("yield", text));
                }
                (self.over, self.was_excluded) = (true, true);
                self.excluded.extend(self.traces.last().map(|trace| Incarnation(trace.header.incarnation)));
                self.record_digests();
                self.record(trace::Event::Renounced { generation });
                self.calls.close();
            }
            Event::Left => {
                self.over = true;
                self.record(trace::Event::Left);
                self.calls.close();
            }
            Event::GroupViewReplayed(view) => view_replayed(self, &view),
            Event::StateBegin { group, name, bytes, view, domains } => {
                self.state_begin(group, &name, bytes, view, domains.as_ref());
            }
            Event::GroupDomains { name, mismatch } => {
                self.program.refused(&name, &mismatch);
                self.wanted.remove(&*name); // to be joined again in the next step
            }
            Event::StateAnew { group, name } => {
                self.state_begin(group, &name, 0, None, None);
                self.state_end(group, false);
            }
            Event::StateKept { group, was, view, .. } => self.state_kept(group, was, view),
            Event::GroupForgotten { group, view, kept, .. } => {
                self.counts.forgotten += 1;
                let kept = kept.map(|kept| kept.into_iter().map(|(who, count)| (who.0, count)).collect());
                self.record(trace::Event::Forgotten { group: group.0, view: view.0, kept });
            }
            Event::GroupOrphaned { .. } => self.counts.orphaned += 1,
            Event::StateEnd { group } => self.state_end(group, true),
            Event::Differs { setting, cell, own } => {
                self.kept_out = true;
                self.record(trace::Event::Differs { setting, cell, own });
            }
            Event::Searching { why, .. } => self.searching = Some(why),
            Event::OtherInstance { instance, .. } => self.instances_met.push(instance),
            // The other events are information for people and not evaluated.
            _ => {}
        }
        if !is_end {
            self.told.event(told);
            record_told(self);
        }
    }

    fn message(&mut self, from: Incarnation, payload: &[u8]) {
        self.took_from(InboxId::MAIN);
        let delivered = &mut self.point_to_point.entry(from).or_default().1;
        *delivered += 1;
        let event = trace::Event::P2pDeliver { from: from.0, k: *delivered, hash: payload_hash(payload) };
        self.record(event);
    }

    fn to_one(&mut self, message: &MessageToOne<'_>) {
        self.took(message.group);
        self.record(traced::to_one(message));
        if message.kind.is_answer() {
            self.told.hear(message);
            record_told(self);
        }
        if message.kind == ToOneKind::Message {
            self.answerable.messages.push((message.group, message.sender));
        }
    }

    fn settled(&mut self, group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.took(group);
        self.record(traced::settled(group, to, outcome, messages));
        match outcome {
            ToOneOutcome::Delivered => {}
            ToOneOutcome::NotDelivered => self.counts.to_one_not_delivered += messages,
            ToOneOutcome::InDoubt => self.counts.to_one_in_doubt += messages,
        }
    }

    /// A member that did not ask for the state has none, but in a group of which nobody has one.
    fn keeps_state(&mut self, id: GroupId) -> bool {
        self.groups.get(&id).is_none_or(|group| {
            let has_one = group.is_stateless || self.wanted.get(&group.name) != Some(&false);
            has_one && !group.is_observed && !group.is_refused
        })
    }

    fn snapshot(&mut self, id: GroupId) -> Option<Box<dyn Snapshot>> {
        // Who refused a state has one that ends the transfer.
        if !has_state(self, id) {
            return None;
        }
        let group = self.groups.get_mut(&id)?;
        let (view, digest) = (group.view, group.digest());
        let own = Frozen::new(&group.state, group.clients.as_ref(), self.holds.padding_bytes);
        let machine = group.machine.as_mut().map(Held::snapshot);
        self.record(trace::Event::SnapshotOut { group: id.0, view: view.0, digest });
        Some(self.holds.pace.slow(match machine {
            Some(machine) => Box::new(Both { own, machine }),
            None => Box::new(own),
        }))
    }

    fn restore(&mut self, id: GroupId, chunk: &[u8]) {
        self.took(id);
        match self.groups.get_mut(&id) {
            Some(Group { incoming: Some(incoming), machine, .. }) => {
                let rest = incoming.take(chunk);
                if let Some(machine) = machine {
                    machine.restore(rest);
                } else if !rest.is_empty() {
                    self.faults.push(("X1", format!("{} bytes more than announced came", rest.len())));
                }
            }
            _ => self.faults.push(("X3", format!("a chunk of state came for group {} outside of a transfer", id.0))),
        }
    }
}
