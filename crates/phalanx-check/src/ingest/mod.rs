//! Reads traces into the model, record by record.

mod accepted;
mod call;
mod domains;
mod group;
mod harness;
mod object;
mod stream;
mod submits;
mod told;

use std::collections::BTreeSet;

use phalanx_trace::{Event, Header, Record};

use crate::findings::Place;
use crate::model::accepted::What;
use crate::model::intern::{FastMap, Messages};
use crate::model::{
    Adequacy, AfterOver, AskRecord, CellInstall, EpochEnd, EpochIx, Forgotten, GroupJoin, Kept, Kinds, Model, Moment,
    Over, Proc, ProcIx, Receipt, ReplayedView, Step, Terms, ToOneMessage, ToldStable, TraceInfo, Transfer,
};
use stream::StreamRules;

/// Builds a model from traces. Call `begin`, `record` for each record, and `end`, for one trace after the other.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    model: Model,
    procs: FastMap<u64, ProcIx>,
    groups: FastMap<(u64, u32), usize>,
    messages: Messages,
    now: Reader,
}

/// State of the trace being read.
#[derive(Debug, Default)]
struct Reader {
    trace: usize,
    index: usize,
    /// `None` for the harness.
    proc: Option<ProcIx>,
    /// 0 for the harness.
    incarnation: u64,
    rules: StreamRules,
    /// The cell instance of the last cell view, 0 before.
    instance: u64,
    /// The first in the chain of instances whose groups this instance goes on with.
    lineage: u64,
    /// The stay in force in each group.
    open: FastMap<u32, EpochIx>,
    transfers: FastMap<u32, Transfer>,
    /// Groups whose state the application refused, until it is told that it is out of them.
    senseless: Vec<String>,
    /// Sends bound to views that the application has not installed yet, by group.
    early: FastMap<u32, Vec<(u64, Step)>>,
    /// Requests to join groups: the name, and whether with state.
    asked: Vec<(String, bool)>,
    /// The inboxes of groups that have one of their own.
    inboxes: FastMap<String, u32>,
    /// Operations without an answer: the call and the group.
    calls: FastMap<u64, (usize, u32)>,
    /// Calls and runs of calls, by their numbers.
    made: FastMap<u64, usize>,
    runs: FastMap<u64, usize>,
    /// Multicasts accepted and not yet sent, by group.
    queues: FastMap<u32, accepted::Queue>,
    /// Messages of the present lives, by group.
    ledgers: told::Ledgers,
    /// Sends without an acceptance. They matter only if the process records acceptances.
    unasked: Vec<Moment>,
    accepts: bool,
    over: Option<(Over, Place)>,
    ended: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Notes a file without a header: its writer was killed before it wrote one.
    pub(crate) fn note_empty(&mut self, file: String) {
        self.model.empty_files.push(file);
    }

    /// Begins a trace.
    pub(crate) fn begin(&mut self, label: String, header: &Header) {
        let trace = self.model.traces.len();
        self.model.traces.push(TraceInfo {
            label,
            cell: header.cell.clone(),
            clock: header.clock.clone(),
            format: header.format,
            records: 0,
            last_at_ns: 0,
            last_active_ns: 0,
            truncated: false,
            kinds: Kinds::default(),
        });
        self.now = Reader { trace, incarnation: header.incarnation, ..Reader::default() };
        if header.is_harness() {
            self.model.harness.trace = Some(trace);
            return;
        }
        let ix = self.proc(header.incarnation);
        self.now.proc = Some(ix);
        let proc = &mut self.model.procs[ix];
        proc.name = Some(header.node.clone());
        // With write-ahead, a trace that just stops is complete.
        proc.tail_complete = header.write_ahead;
        if proc.trace.replace(trace).is_some() {
            self.malformed("a second trace of the same incarnation");
        }
    }

    /// Reads the trace's next record.
    pub(crate) fn record(&mut self, record: &Record) {
        let moment = Moment { place: self.place(), at_ns: record.at_ns };
        if let Some(what) = self.now.rules.handle(record, self.now.proc.is_none()) {
            self.malformed(what);
        }
        let info = &mut self.model.traces[self.now.trace];
        info.records += 1;
        info.last_at_ns = info.last_at_ns.max(record.at_ns);
        info.kinds.count(&record.event, self.now.incarnation);
        if self.now.proc.is_some() && is_activity(&record.event) {
            info.last_active_ns = info.last_active_ns.max(record.at_ns);
        }
        match self.now.proc {
            // The harness records the kills after its own end.
            None if self.now.ended && matches!(record.event, Event::Crash { .. }) => self.killed_after(&record.event),
            _ if self.now.ended => self.malformed("a record after the end"),
            None => self.harness_event(&record.event, moment),
            Some(proc) => match self.now.over {
                Some((over, told)) if !may_follow_the_end(&record.event) => {
                    self.model.after_over.push(AfterOver { over, told, place: moment.place });
                }
                _ => self.process_event(proc, &record.event, moment),
            },
        }
        self.now.ended |= record.event == Event::End;
        self.now.index += 1;
    }

    /// Ends the trace.
    pub(crate) fn end(&mut self, truncated: bool) {
        self.end_accepts();
        self.model.traces[self.now.trace].truncated = truncated;
    }

    /// Completes the model after the last trace.
    pub(crate) fn finish(mut self) -> Model {
        self.model.link();
        self.model
    }

    fn process_event(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        let proc = &mut self.model.procs[me];
        match event {
            Event::Start => proc.started = proc.started.or(Some(moment)),
            Event::JoinAsked { cell } => {
                proc.join_asked = proc.join_asked.or(Some(moment));
                if *cell != self.model.traces[self.now.trace].cell {
                    self.malformed("asked to join another cell than that of its trace");
                }
            }
            Event::LeaveAsked => proc.leave_asked = proc.leave_asked.or(Some(moment)),
            Event::CellView { .. } => self.cell_view(me, event, moment),
            Event::Level { level, known } => {
                if let Some(&install) = self.model.procs[me].installs.last() {
                    self.model.installs[install].level = Some((*level, *known));
                }
            }
            Event::CellMinimum { members } => {
                if let Some(install) = proc.installs.last().map(|&ix| &mut self.model.installs[ix]) {
                    install.minimum = Some(*members);
                    let adequate = install.members.len() as u64 >= *members;
                    proc.adequacy.push(Adequacy { group: None, adequate, moment });
                }
            }
            Event::GroupTerms { group, uniform, members_min, adequate } => {
                let terms = Terms { uniform: *uniform, members_min: *members_min };
                if let Some(&epoch) = self.now.open.get(group) {
                    self.model.epochs[epoch].terms = Some(terms);
                }
                proc.adequacy.push(Adequacy { group: Some(*group), adequate: *adequate, moment });
            }
            Event::GroupIncomplete { group, who } => {
                let who: Vec<ProcIx> = who.iter().map(|who| self.proc(*who)).collect();
                if let Some(&epoch) = self.now.open.get(group) {
                    self.model.epochs[epoch].incomplete = who;
                }
            }
            Event::GroupObservers { group, who } => {
                let who: Vec<ProcIx> = who.iter().map(|who| self.proc(*who)).collect();
                if let Some(&epoch) = self.now.open.get(group) {
                    self.model.epochs[epoch].observers = who;
                }
            }
            Event::Observes { name } => {
                let asked = proc.group_joins.iter_mut().rfind(|join| join.name == *name);
                asked.into_iter().for_each(|join| join.observes = true);
            }
            Event::GroupAdequacy { group, adequate, .. } => {
                proc.adequacy.push(Adequacy { group: Some(*group), adequate: *adequate, moment });
            }
            Event::StateKept { group, was, view, digest } => {
                let was = self.proc(*was);
                let kept = Kept { was, view: *view, digest: *digest, place: moment.place };
                self.now.transfers.insert(*group, Transfer { kept: Some(kept), ..Transfer::default() });
            }
            Event::Forgotten { group, view, kept } => {
                let (group, view, went_on) = (*group, *view, kept.is_some());
                proc.forgotten.push(Forgotten { group, view, went_on, moment });
            }
            Event::GivenUp { name } => self.model.given_up.push((name.clone(), moment)),
            Event::Ancestors { instances } => {
                self.now.lineage = instances.last().copied().unwrap_or(self.now.instance);
                self.model.lineages.insert(self.now.instance, self.now.lineage);
            }
            Event::FoundAnew | Event::ReformAsked => self.model.anew_asked.push(moment),
            Event::RiseAsked { level } => self.model.rises_asked.push((*level, moment)),
            Event::Differs { setting, cell, own } => {
                let kept_out = (setting.clone(), cell.clone(), own.clone(), moment);
                self.model.procs[me].kept_out.push(kept_out);
            }
            Event::GroupJoinAsked { name, with_state } => {
                proc.group_joins.push(GroupJoin {
                    name: name.clone(),
                    with_state: *with_state,
                    observes: false,
                    asked: moment,
                });
                self.now.asked.retain(|(n, _)| n != name);
                self.now.asked.push((name.clone(), *with_state));
            }
            Event::Inbox { name, inbox } => {
                if *inbox != 0 {
                    proc.own_inboxes.insert(name.clone());
                }
                self.now.inboxes.insert(name.clone(), *inbox);
            }
            Event::GroupLeaveAsked { group } => proc.group_leaves.push((*group, moment)),
            Event::GroupView { .. } => self.group_view(me, event, moment),
            Event::GroupLost { group, why } => match self.now.open.get(group) {
                Some(&epoch) => self.model.epochs[epoch].lost = Some((*why, moment)),
                None => self.malformed("lost a group it is not in"),
            },
            Event::GroupLeft { group } => match self.now.open.remove(group) {
                Some(epoch) => {
                    self.model.epochs[epoch].end = EpochEnd::GroupLeft;
                    self.model.epochs[epoch].left_at = Some(moment);
                    self.now.early.remove(group);
                    self.forsake(me, *group, moment);
                }
                None => self.malformed("left a group it is not in"),
            },
            Event::Send { group, view, order, uniform, hash, .. } => {
                self.now.ledgers.sent(*group, *view);
                self.sent(me, *group, What { order: *order, uniform: *uniform, hash: *hash }, moment);
                self.send(me, event, moment);
            }
            Event::Accept { group, order, uniform, hash } => {
                self.now.ledgers.accepted(*group);
                self.accept(me, *group, What { order: *order, uniform: *uniform, hash: *hash }, moment);
            }
            Event::ToldStable { group, view, seq } => {
                self.now.ledgers.stable(*group, *view, *seq);
                let of = self.group(*group);
                let (view, seq) = (self.view(of, *view), *seq);
                self.model.procs[me].told.stable.push(ToldStable { view, seq, moment });
            }
            &Event::ToldLost { group, not_sent, in_doubt } => {
                proc.told.lives.push(self.now.ledgers.end(group, not_sent, in_doubt, moment));
            }
            // Who refused the group's state is in it without, until it has left.
            Event::ToldStep { name, .. } if self.now.senseless.contains(name) => {}
            Event::ToldStep { name, what } => proc.told.steps.push((name.clone(), *what, moment)),
            Event::ToldSenseless { name } => {
                proc.told.senseless.push((name.clone(), moment));
                self.now.senseless.push(name.clone());
            }
            Event::MembershipEnded { name, why } => {
                proc.told.ended.push((name.clone(), *why, moment));
                self.now.senseless.retain(|refused| refused != name);
            }
            Event::Unsent { group, messages } => self.unsent(me, *group, *messages, moment),
            Event::Deliver { .. } => self.deliver(event, moment),
            Event::Stable { group, view, seq } => {
                let (stay, outside) = (self.now.open.get(group).copied(), proc.nonprimary);
                let of = self.group(*group);
                let (view, seq) = (self.view(of, *view), *seq);
                self.model.procs[me].receipts.push(Receipt { view, seq, stay, outside, moment });
            }
            Event::SnapshotOut { group, view, .. } => self.snapshot_out(*group, *view),
            Event::SnapshotIn { group, bytes } => self.snapshot_in(me, *group, *bytes, moment),
            Event::SnapshotView { group, .. } | Event::GroupViewReplayed { group, .. } => {
                view_of_transfer(self, *group, event, moment.place);
            }
            Event::StateEnd { group, digest } => self.state_end(*group, *digest, moment.place),
            Event::Digest { group, view, delivered, digest } => {
                self.digest((*group, *view), *delivered, *digest, moment.place);
            }
            Event::NonPrimary | Event::Primary => {
                let primary = *event == Event::Primary;
                proc.nonprimary = !primary;
                proc.primacy.push((primary, moment));
            }
            Event::Block => proc.blocks.push((moment, None)),
            Event::Unblock => {
                if let Some((_, end)) = proc.blocks.last_mut() {
                    end.get_or_insert(moment);
                }
            }
            Event::Renounced { .. } => self.incarnation_over(me, Over::Renounced, moment),
            Event::Excluded { view } => self.incarnation_over(me, Over::Excluded(*view), moment),
            Event::Left => self.incarnation_over(me, Over::Left, moment),
            Event::P2pSend { to, hash, .. } => {
                let to = self.proc(*to);
                let p2p = &mut self.model.procs[me].p2p;
                p2p.sent.entry(to).or_default().push((*hash, moment.place));
                p2p.sent_ns.entry(to).or_default().push(moment.at_ns);
            }
            Event::P2pDeliver { from, hash, .. } => {
                let from = self.proc(*from);
                self.model.procs[me].p2p.delivered.entry(from).or_default().push((*hash, moment.place));
            }
            Event::ToOneSend { group, view, to, is_answer, hash } => {
                let to = self.proc(*to);
                let message = ToOneMessage { view: *view, is_answer: *is_answer, hash: *hash, moment };
                self.model.procs[me].to_one.sent.entry((*group, to)).or_default().push(message);
            }
            Event::ToOneDeliver { group, view, from, is_answer, hash } => {
                let from = self.proc(*from);
                let message = ToOneMessage { view: *view, is_answer: *is_answer, hash: *hash, moment };
                self.model.procs[me].to_one.delivered.entry((*group, from)).or_default().push(message);
            }
            Event::ToOneSettled { group, to, outcome, messages } => {
                let to = self.proc(*to);
                let settled = &mut self.model.procs[me].to_one.settled;
                settled.entry((*group, to)).or_default().push((*outcome, *messages, moment));
            }
            Event::OwnDomains { .. } | Event::GroupDomains { .. } | Event::DeliveredTo { .. } => {
                domains::read(self, me, event, moment);
            }
            Event::Ask { group, asker, view, seq, what } => {
                let record = AskRecord { ask: (*group, self.proc(*asker), *view, *seq), what: what.clone(), moment };
                self.model.procs[me].asks.push(record);
            }
            Event::Submit { .. } => submits::read(self, me, event, moment),
            Event::InDoubt { to, messages } => {
                let to = self.proc(*to);
                self.model.procs[me].p2p.in_doubt.insert(to, (*messages, moment.place));
            }
            Event::EndInDoubt { .. } => proc.is_in_doubt = true,
            Event::End => proc.ended = proc.ended.or(Some(moment)),
            // The stream rules (E1) report these.
            Event::Stop { .. }
            | Event::Cont { .. }
            | Event::Crash { .. }
            | Event::Phase { .. }
            | Event::Cut { .. }
            | Event::Mend { .. }
            | Event::Attack { .. }
            | Event::Trouble { .. }
            | Event::Gauge { .. }
            | Event::Traffic { .. }
            | Event::Impaired { .. }
            | Event::Unread { .. }
            | Event::About { .. } => {}
            Event::Invoke { .. } | Event::Return { .. } | Event::Guard { .. } | Event::Balance { .. } => {
                self.object_event(me, event, moment);
            }
            Event::Endpoint { .. }
            | Event::CallMade { .. }
            | Event::CallDeadline { .. }
            | Event::CallEnded { .. }
            | Event::CallRan { .. }
            | Event::CallAnswered { .. } => self.call_event(me, event, moment),
        }
    }

    fn cell_view(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        let Event::CellView { instance, view, members, left } = event else { return };
        if *instance != self.now.instance {
            self.close_all();
            self.forsake_all(me, None);
            (self.now.instance, self.now.lineage) = (*instance, *instance);
        }
        let names = members.iter().map(|(_, name)| name.clone()).collect();
        let members = members.iter().map(|(incarnation, name)| {
            let ix = self.proc(*incarnation);
            self.model.procs[ix].name.get_or_insert_with(|| name.clone());
            ix
        });
        let members = members.collect();
        let left = left.iter().map(|&(p, reason)| (self.proc(p), reason)).collect();
        let ix = self.model.installs.len();
        let proc = &mut self.model.procs[me];
        proc.nonprimary = false;
        let prev = proc.installs.iter().copied().rfind(|&i| self.model.installs[i].instance == *instance);
        proc.installs.push(ix);
        // Without a record of a minimum there is none, so the view counts as adequate.
        proc.adequacy.push(Adequacy { group: None, adequate: true, moment });
        let (level, minimum) = (None, None);
        let install = CellInstall {
            proc: me,
            instance: *instance,
            view: *view,
            members,
            names,
            left,
            level,
            minimum,
            prev,
            moment,
        };
        self.model.installs.push(install);
        self.model.cells.entry(*instance).or_default().entry(*view).or_default().push(ix);
    }

    fn incarnation_over(&mut self, me: ProcIx, over: Over, moment: Moment) {
        self.close_all();
        self.forsake_all(me, Some((over, moment)));
        self.model.procs[me].over = Some((over, moment));
        self.now.over = Some((over, moment.place));
    }

    /// Ends all group stays of the process, and discards state taken for a first view.
    fn close_all(&mut self) {
        for (_, epoch) in self.now.open.drain() {
            self.model.epochs[epoch].end = EpochEnd::Over;
        }
        self.now.transfers.clear();
        self.now.early.clear();
    }

    fn proc(&mut self, incarnation: u64) -> ProcIx {
        *self.procs.entry(incarnation).or_insert_with(|| {
            self.model.procs.push(Proc::unknown(incarnation));
            self.model.procs.len() - 1
        })
    }

    fn place(&self) -> Place {
        Place { trace: self.now.trace, index: self.now.index }
    }

    fn malformed(&mut self, what: impl Into<String>) {
        let place = self.place();
        self.model.malformed.push((place, what.into()));
    }
}

/// Reads a record within a state transfer: the view of its snapshot, or a view that is replayed.
fn view_of_transfer(builder: &mut Builder, group: u32, event: &Event, place: Place) {
    if let Some(&epoch) = builder.now.open.get(&group) {
        return builder.model.epochs[epoch].transfer.get_or_insert_default().misplaced.push(place);
    }
    match event {
        Event::SnapshotView { view, .. } => {
            builder.now.transfers.entry(group).or_default().frozen_in = Some(*view);
        }
        Event::GroupViewReplayed { view: number, members, joined, left, .. } => {
            let members = members.iter().map(|&m| builder.proc(m)).collect();
            let joined = joined.iter().map(|&m| builder.proc(m)).collect();
            let left = left.iter().map(|&(m, reason)| (builder.proc(m), reason)).collect();
            let view = ReplayedView { number: *number, members, joined, left, place };
            builder.now.transfers.entry(group).or_default().views.push(view);
        }
        _ => {}
    }
}

/// Whether the record may follow that of the incarnation's end: memberships may be over after it, and with them submits.
fn may_follow_the_end(event: &Event) -> bool {
    use phalanx_trace::SubmitStep as Step;
    let is_outcome = |what: &Step| matches!(what, Step::NotExecuted | Step::Unknown);
    match event {
        Event::End | Event::MembershipEnded { .. } => true,
        Event::Submit { what, .. } => is_outcome(what),
        _ => false,
    }
}

/// Whether the record shows activity of the application, or of the membership.
fn is_activity(event: &Event) -> bool {
    matches!(
        event,
        Event::JoinAsked { .. }
            | Event::LeaveAsked
            | Event::CellView { .. }
            | Event::GroupJoinAsked { .. }
            | Event::GroupLeaveAsked { .. }
            | Event::GroupView { .. }
            | Event::GroupLeft { .. }
            | Event::Accept { .. }
            | Event::Send { .. }
            | Event::ToOneSend { .. }
            | Event::Ask { .. }
            | Event::Submit { .. }
            | Event::P2pSend { .. }
            | Event::StateEnd { .. }
    )
}

impl Proc {
    fn unknown(incarnation: u64) -> Self {
        Self {
            incarnation,
            name: None,
            trace: None,
            tail_complete: false,
            started: None,
            join_asked: None,
            leave_asked: None,
            ended: None,
            over: None,
            is_in_doubt: false,
            kept_out: Vec::new(),
            nonprimary: false,
            primacy: Vec::new(),
            adequacy: Vec::new(),
            blocks: Vec::new(),
            crashed: None,
            killed_after: false,
            installs: Vec::new(),
            epochs: Vec::new(),
            own_inboxes: BTreeSet::new(),
            group_joins: Vec::new(),
            group_leaves: Vec::new(),
            begun: Vec::new(),
            forgotten: Vec::new(),
            p2p: crate::model::P2p::default(),
            to_one: crate::model::ToOne::default(),
            asks: Vec::new(),
            receipts: Vec::new(),
            told: crate::model::Told::default(),
            endpoint: None,
        }
    }
}

impl Kinds {
    fn count(&mut self, event: &Event, me: u64) {
        use phalanx_trace::Order;
        match event {
            Event::CellView { .. } => self.cell_views += 1,
            Event::GroupView { .. } => self.group_views += 1,
            Event::Send { .. } => self.sends += 1,
            Event::Accept { .. } => self.accepts += 1,
            Event::Stable { .. } => self.receipts += 1,
            Event::Deliver { replayed: true, .. } => self.replayed += 1,
            Event::Deliver { order, sender, seq, .. } => {
                self.deliveries += 1;
                self.from_others += u64::from(*sender != me);
                self.later += u64::from(*seq > 1);
                self.total += u64::from(*order == Order::Total);
            }
            Event::StateEnd { .. } => self.state_ends += 1,
            Event::P2pDeliver { .. } => self.p2p += 1,
            _ => {}
        }
    }
}
