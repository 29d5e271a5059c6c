//! The application of a torture member: keeps a state for each group, and reports what it observes.

use std::collections::BTreeMap;

use phalanx_runtime::core::{Delivery, Event, GroupId, GroupView, InboxId, Incarnation, MemberInfo, Order, Snapshot};
use phalanx_runtime::{Frozen, Handler};
use rustix::process::{Signal, getpid, kill_process};

use super::report::Report;
use super::tally::Tally;

/// The group of all members.
pub(super) const WORK: &str = "work";
/// The group of every other member.
pub(super) const SIDE: &str = "side";

#[derive(Debug, Default)]
pub(super) struct App {
    me: Option<Incarnation>,
    names: BTreeMap<Incarnation, String>,
    /// The other members of the cell view, for messages to one process.
    pub(super) peers: Vec<Incarnation>,
    groups: BTreeMap<GroupId, Group>,
    /// Groups of excluded incarnations. A group may go on with this state.
    kept: BTreeMap<GroupId, Group>,
    /// Number of the last message from each sender in [`WORK`].
    pub(super) heard: BTreeMap<Incarnation, u64>,
    /// The same for uniform abcasts only.
    pub(super) uniform: BTreeMap<Incarnation, u64>,
    /// Whether it stops taking events.
    pub(super) hangs: bool,
    /// Whether it stops its own process as soon as a transfer has begun.
    pub(super) stops_in_transfer: bool,
    /// Whether it left [`WORK`] on order and is to join it again.
    pub(super) to_join: bool,
    /// Groups with deliveries to which it may send an answer.
    pub(super) answerable: Vec<GroupId>,
    pub(super) reports: Vec<Report>,
}

#[derive(Debug, Default)]
struct Group {
    name: String,
    tally: Tally,
    incoming: Option<Vec<u8>>,
}

impl Group {
    /// Whether a view of the group was installed in this incarnation.
    fn is_joined(&self) -> bool {
        !self.name.is_empty()
    }
}

/// Bytes at the beginning of every payload: the sender's incarnation, and the message's number.
pub(super) const HEAD_BYTES: usize = 16;

impl App {
    /// This incarnation; 0 before the first.
    pub(super) fn incarnation(&self) -> u64 {
        self.me.map_or(0, |me| me.0)
    }

    /// Groups it is a member of.
    pub(super) fn joined(&self) -> impl Iterator<Item = (GroupId, &str)> {
        self.groups.iter().filter(|(_, group)| group.is_joined()).map(|(id, group)| (*id, group.name.as_str()))
    }

    pub(super) fn id_of(&self, name: &str) -> Option<GroupId> {
        self.joined().find(|(_, joined)| *joined == name).map(|(id, _)| id)
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.reports.push(Report::Wrong { what: what.into() });
    }

    /// Completes a state transfer. The donor's state is complete as soon as any other event follows it.
    fn take_over(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let Some(bytes) = group.incoming.take() else { return };
        // An empty state: nobody had one, so the group is new.
        if bytes.is_empty() {
            return;
        }
        match Tally::restore(&bytes) {
            Some(tally) => group.tally = tally,
            None => {
                let what = format!("the state of group {} came damaged, {} bytes of it", id.0, bytes.len());
                self.wrong(what);
            }
        }
    }

    /// Restores the kept state of a group that goes on with it. Its first view in this incarnation is still to come.
    fn go_on(&mut self, id: GroupId) {
        match self.kept.remove(&id) {
            Some(kept) => _ = self.groups.insert(id, Group { name: String::new(), ..kept }),
            None => self.wrong(format!("group {} goes on with a state that is not kept", id.0)),
        }
    }

    fn names_of(&self, members: &[Incarnation]) -> Vec<String> {
        members.iter().map(|who| self.names.get(who).cloned().unwrap_or_else(|| who.to_string())).collect()
    }

    fn group_view(&mut self, view: &GroupView) {
        self.groups.entry(view.group).or_default().name = view.name.to_string();
        if &*view.name == WORK {
            self.heard.retain(|who, _| view.members.contains(who));
            self.uniform.retain(|who, _| view.members.contains(who));
            self.reports.push(Report::Work { view: view.view, members: self.names_of(&view.members) });
        }
    }

    fn note_sender(&mut self, delivery: &Delivery<'_>) {
        let Some((sender, rest)) = delivery.payload.split_at_checked(8) else {
            return self.wrong("a message without its head was delivered");
        };
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        if word(sender) != delivery.sender.0 {
            return self.wrong(format!("a message of {:016x} was delivered as {}", word(sender), delivery.sender));
        }
        let number = word(rest.get(..8).unwrap_or_default());
        if delivery.uniformity.is_uniform() && delivery.order == Order::Total {
            self.uniform.insert(delivery.sender, number);
        }
        let last = self.heard.insert(delivery.sender, number).unwrap_or(0);
        // Plain messages may overtake uniform messages of another order. The checker verifies the order.
        if number < last {
            self.heard.insert(delivery.sender, last);
        }
    }
}

impl Handler for App {
    fn begin(&mut self, me: &MemberInfo) {
        let (reports, mut kept) = (std::mem::take(&mut self.reports), std::mem::take(&mut self.kept));
        let stops_in_transfer = self.stops_in_transfer;
        kept.extend(std::mem::take(&mut self.groups).into_iter().filter(|(_, group)| group.is_joined()));
        *self = Self { me: Some(me.incarnation), reports, kept, hangs: self.hangs, ..Self::default() };
        self.stops_in_transfer = stops_in_transfer;
        self.reports.push(Report::Begin { incarnation: me.incarnation.0 });
    }

    fn ready(&mut self, _inbox: InboxId) -> bool {
        !self.hangs
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.take_over(delivery.group);
        let Some(group) = self.groups.get_mut(&delivery.group) else {
            return self.wrong(format!("a message for group {} was delivered, which was not joined", delivery.group.0));
        };
        group.tally.apply(delivery.order, delivery.sender.0, delivery.payload);
        if delivery.replayed {
            return;
        }
        self.answerable.push(delivery.group);
        if self.groups.get(&delivery.group).is_some_and(|group| group.name == WORK) {
            self.note_sender(delivery);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::CellView(view) => {
                self.names = view.members.iter().map(|m| (m.incarnation, m.name.clone())).collect();
                self.peers = view.members.iter().map(|m| m.incarnation).filter(|who| Some(*who) != self.me).collect();
                let members = view.members.iter().map(|m| m.name.clone()).collect();
                self.reports.push(Report::Cell { view: view.view, members });
            }
            Event::GroupView(view) => self.group_view(&view),
            Event::GroupLeft { group, .. } => {
                self.groups.remove(&group);
                self.to_join = true;
            }
            Event::StateBegin { group, .. } => {
                if std::mem::take(&mut self.stops_in_transfer) {
                    // No system refuses this to a process for itself. The harness waits for the stop, and continues the
                    // process later.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                self.groups.insert(group, Group { incoming: Some(Vec::new()), ..Group::default() });
            }
            Event::StateEnd { group } => self.take_over(group),
            Event::StateKept { group, .. } => self.go_on(group),
            Event::GroupForgotten { group, .. } => _ = self.kept.remove(&group),
            Event::NonPrimary { .. } => self.reports.push(Report::Primary { primary: false }),
            Event::Primary => self.reports.push(Report::Primary { primary: true }),
            Event::Excluded { .. } => self.reports.push(Report::Excluded),
            _ => {}
        }
    }

    fn snapshot(&mut self, id: GroupId) -> Option<Box<dyn Snapshot>> {
        let group = self.groups.get(&id)?;
        Some(Box::new(Frozen::new(group.tally.snapshot())))
    }

    fn restore(&mut self, id: GroupId, chunk: &[u8]) {
        match self.groups.get_mut(&id).and_then(|group| group.incoming.as_mut()) {
            Some(incoming) => incoming.extend_from_slice(chunk),
            None => self.wrong(format!("a piece of state came for group {} outside of a transfer", id.0)),
        }
    }

    fn keeps_state(&mut self, id: GroupId) -> bool {
        self.kept.contains_key(&id) || self.groups.get(&id).is_some_and(Group::is_joined)
    }

    fn digest(&mut self, id: GroupId) -> Option<u64> {
        self.take_over(id);
        // The digest of a kept state is compared before the group goes on with it.
        self.groups.get(&id).or_else(|| self.kept.get(&id)).map(|group| group.tally.digest())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use phalanx_runtime::core::{Sequence, Uniformity, ViewNumber};

    use super::*;

    const GROUP: GroupId = GroupId(3);

    fn begin(app: &mut App, life: u64) {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        app.begin(&MemberInfo::new(Incarnation(life), "n", nowhere, nowhere));
    }

    fn view(view: ViewNumber, life: u64) -> Event {
        Event::GroupView(Arc::new(GroupView {
            members: vec![Incarnation(life)],
            joined: vec![Incarnation(life)],
            ..GroupView::new(GROUP, SIDE, view)
        }))
    }

    fn deliver(app: &mut App, number: u64, replayed: bool) {
        let payload = [1_u64.to_le_bytes(), number.to_le_bytes()].concat();
        app.deliver(&Delivery {
            group: GROUP,
            view: ViewNumber(1),
            sender: Incarnation(1),
            seq: Sequence(number),
            order: Order::Total,
            uniformity: Uniformity::Uniform,
            position: Some(number),
            replayed,
            payload: &payload,
        });
    }

    /// A member that saw two messages, and was excluded twice.
    fn excluded() -> App {
        let mut app = App::default();
        begin(&mut app, 1);
        app.event(view(ViewNumber(1), 1));
        (1..=2).for_each(|number| deliver(&mut app, number, false));
        for life in 2..=3 {
            assert!(app.keeps_state(GROUP));
            app.event(Event::Excluded { view: ViewNumber(life) });
            begin(&mut app, life);
            assert_eq!(app.joined().count(), 0);
        }
        app
    }

    #[test]
    fn a_group_goes_on_with_the_state_that_was_kept() {
        let mut app = excluded();
        let digest = app.digest(GROUP);
        assert!(digest.is_some());
        let name: Arc<str> = SIDE.into();
        app.event(Event::StateKept { group: GROUP, name, was: Incarnation(1), view: ViewNumber(1) });
        assert_eq!(app.digest(GROUP), digest, "as it was left");
        deliver(&mut app, 3, true);
        app.event(view(ViewNumber(2), 3));
        assert_ne!(app.digest(GROUP), digest, "what is replayed belongs to it");
        assert_eq!(app.joined().collect::<Vec<_>>(), [(GROUP, SIDE)]);
        assert!(!app.reports.iter().any(|report| matches!(report, Report::Wrong { .. })), "{:?}", app.reports);
    }

    #[test]
    fn a_group_that_is_made_anew_begins_with_no_state() {
        let mut app = excluded();
        let name: Arc<str> = SIDE.into();
        app.event(Event::GroupForgotten { group: GROUP, name: Arc::clone(&name), view: ViewNumber(1), kept: None });
        assert!(!app.keeps_state(GROUP));
        assert_eq!(app.digest(GROUP), None);
        app.event(Event::StateKept { group: GROUP, name, was: Incarnation(1), view: ViewNumber(1) });
        assert!(app.reports.iter().any(|report| matches!(report, Report::Wrong { .. })), "it is not kept");
    }
}
