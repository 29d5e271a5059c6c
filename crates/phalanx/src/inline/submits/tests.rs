//! The table beside that of a process with a thread, and the client through its lives.

use phalanx_core::{Event, GroupId, GroupView, Incarnation, MemberInfo, Sent, Sequence, Uniformity, ViewNumber};
use phalanx_runtime::Handler;

use super::super::app::MessageRef;
use super::super::table::{Adapter, Due, Table};
use super::*;
use crate::domains::Domains;
use crate::message::Message;
use crate::replica::{Replica, Replicating};
use crate::submit::{Execute, execute};

/// All payloads. What executes one gives how many there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    payloads: Vec<Vec<u8>>,
    coming: Vec<u8>,
    told: Vec<(u64, Result<u64, SubmitError>)>,
    sent: Vec<u64>,
    drops_state: bool,
}

impl Count {
    fn add(&mut self, payload: &[u8]) -> u64 {
        self.payloads.push(payload.to_vec());
        self.payloads.len() as u64
    }
}

impl State for Count {
    fn apply(&mut self, message: &Message) {
        self.add(&message.payload);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.payloads)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(|payloads| Self { payloads, ..Self::default() })
    }
}

impl Execute for Count {
    type Output = u64;

    fn execute(&mut self, message: &Message) -> u64 {
        self.add(&message.payload)
    }
}

impl App for Count {
    fn message(&mut self, message: &MessageRef<'_>) {
        self.add(message.payload);
    }

    fn execute(&mut self, message: &MessageRef<'_>, result: &mut Vec<u8>) {
        let count = self.add(message.payload);
        result.extend(postcard::to_allocvec(&count).expect("a number"));
    }

    fn submitted(&mut self, _group: InlineGroup, number: u64, result: Result<&[u8], SubmitError>) {
        self.told.push((number, result.map(|bytes| postcard::from_bytes(bytes).expect("a number"))));
    }

    fn sent(&mut self, _group: InlineGroup, _view: u64, seq: u64) {
        self.sent.push(seq);
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        Some(State::snapshot(self))
    }

    fn taking(&mut self, _group: InlineGroup, _bytes: u64) {
        (self.payloads, self.coming) = Default::default();
    }

    fn restore(&mut self, _group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        self.coming.extend_from_slice(part);
        if is_end {
            self.payloads = Snapshot::new(std::mem::take(&mut self.coming)).decode()?;
        }
        Ok(())
    }

    fn keeps_state(&mut self, _group: InlineGroup) -> bool {
        if self.drops_state {
            self.payloads.clear();
        }
        !self.drops_state
    }
}

const GROUP: GroupId = GroupId(1);
const ME: Incarnation = Incarnation(1);
const OTHER: Incarnation = Incarnation(9);
const BOTH: [&str; 2] = ["", "phalanx.clients"];

fn list(names: &[&str]) -> Arc<[core::Domain]> {
    names.iter().map(|name| core::Domain { name: (*name).to_owned(), version: 1 }).collect()
}

fn view(number: u64, members: &[Incarnation], domains: Option<&[&str]>) -> Arc<GroupView> {
    let domains = domains.map(list);
    Arc::new(GroupView { members: members.to_vec(), domains, ..crate::view::of_nobody(number) })
}

/// A message of the other process. `domain`: the place of the one that it names.
fn delivery(payload: &[u8], domain: Option<u8>) -> Delivery<'_> {
    Delivery {
        group: GROUP,
        view: ViewNumber(1),
        sender: OTHER,
        seq: Sequence(1),
        order: Order::Total,
        uniformity: Uniformity::Uniform,
        position: Some(1),
        replayed: false,
        asked: None,
        domain: domain.map(DomainIndex),
        payload,
    }
}

fn me(incarnation: Incarnation) -> MemberInfo {
    let directory = tempfile::tempdir().expect("a directory");
    let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
    let config = phalanx_runtime::config::Config { runtime_dir, state_dir, ..Default::default() };
    let process = phalanx_runtime::Inline::start(&phalanx_runtime::Options::from(config)).expect("starts");
    MemberInfo { incarnation, ..process.node().settings().me.clone() }
}

/// An inline process in one group that takes submits.
struct Process {
    table: Table,
    app: Count,
    group: InlineGroup,
}

impl Process {
    fn new() -> Self {
        Self::of(ME)
    }

    fn of(who: Incarnation) -> Self {
        let mut table = Table::new(true);
        let group = table.add("g", true, false, Some(Submits::new()));
        let mut process = Self { table, app: Count::default(), group };
        process.adapter().begin(&me(who));
        process
    }

    /// In the first view of a group that has the table.
    fn member() -> Self {
        let mut process = Self::new();
        process.event(Event::GroupView(view(1, &[ME, OTHER], Some(&BOTH))));
        process
    }

    fn adapter(&mut self) -> Adapter<'_, Count> {
        Adapter::new(&mut self.table, &mut self.app)
    }

    fn event(&mut self, event: Event) {
        self.adapter().event(event);
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.adapter().deliver(delivery);
    }

    fn snapshot(&mut self) -> Vec<u8> {
        read(&mut *self.adapter().snapshot(GROUP).expect("it gives one"))
    }

    fn begin(&mut self, bytes: &[u8], domains: Option<&[&str]>) {
        let domains = domains.map(list);
        self.event(Event::StateBegin {
            group: GROUP,
            name: "g".into(),
            bytes: bytes.len() as u64,
            view: None,
            domains,
        });
        bytes.chunks(7).for_each(|chunk| self.adapter().restore(GROUP, chunk));
    }

    fn submit(&mut self, payload: &[u8]) -> Result<u64, SendError> {
        self.table.note_submits();
        let own = self.table.lives.own(self.group.0).expect("the membership goes on");
        own.submits.as_mut().expect("it takes submits").submit(payload)
    }

    /// What is sent now. The core takes it, from message `seq` of the view on.
    fn send(&mut self, seq: &mut u64) -> Vec<Bytes> {
        let mut adapter = self.adapter();
        adapter.look_at_submits();
        let mut all = Vec::new();
        while let Some((key, due)) = adapter.due(0) {
            let Some(Due::Multicast(next)) = due else { break };
            *seq += 1;
            let options = next.options;
            assert_eq!((options.order, options.stability), (Order::Total, Stability::Uniform));
            assert_eq!(options.domain, Some(DomainIndex(1)));
            all.push(next.payload);
            adapter.end_multicast(key, Ok(Some(Sent { view: ViewNumber(1), seq: Sequence(*seq) })));
        }
        all
    }

    fn deliver_own(&mut self, sender: Incarnation, payload: &[u8]) {
        self.deliver(&Delivery { sender, ..delivery(payload, Some(1)) });
    }

    fn tell(&mut self, is_adequate: bool) -> Vec<(u64, Result<u64, SubmitError>)> {
        let mut adapter = self.adapter();
        adapter.tell_outcomes(|_| Some(is_adequate));
        adapter.look_at_submits();
        std::mem::take(&mut self.app.told)
    }
}

fn read(snapshot: &mut dyn core::Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < snapshot.len_bytes() {
        let before = bytes.len();
        snapshot.read(before as u64, 11, &mut bytes);
        assert!(bytes.len() > before, "it goes on");
    }
    bytes
}

/// A process with a thread.
struct Threaded {
    domains: Domains,
    replica: Replica<Count>,
}

impl Threaded {
    fn new() -> Self {
        let replica = Replica::new(Count::default());
        replica.set_execute(execute);
        let table = ClientTable::domain(&replica.handle.submits);
        let parts = vec![(String::new(), replica.for_group(None)), (clients_domain(""), table)];
        Self { domains: Domains::new(parts), replica }
    }

    fn view(&mut self, view: &Arc<GroupView>) {
        self.domains.view(&View::new(Arc::clone(view), ME));
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.domains.apply(&[Message::of(delivery, Bytes::copy_from_slice(delivery.payload))]);
    }

    fn snapshot(&mut self) -> Vec<u8> {
        read(&mut *self.domains.snapshot(Box::new(|why| panic!("{why}"))))
    }
}

/// What a client of the other process says: it is opened, and submits three messages.
fn commands() -> Vec<Bytes> {
    let (mut client, mut group) = (Submitter::random(), Clients::default());
    client.begin_life();
    for payload in [&b"a"[..], b"b", b"c"] {
        client.submit(client.next_number(), payload.into(), ());
    }
    let mut all = Vec::new();
    while let Some(out) = client.due(&mut || 7) {
        if let Taken::Told(told) = group.take(OTHER, &out.payload) {
            client.applied(&told);
        }
        all.push(out.payload);
    }
    all
}

/// The state and the table are the same bytes as at a process with a thread, whatever comes, and either kind takes them from the
/// other one.
#[test]
fn both_kinds_of_process_hold_and_give_the_same_state() {
    let submitted = commands();
    let [open, first, second, third] = &submitted[..] else { panic!("{submitted:?}") };
    let (mut inline, mut threaded) = (Process::new(), Threaded::new());
    let both_view = |inline: &mut Process, threaded: &mut Threaded, view: Arc<GroupView>| {
        threaded.view(&view);
        inline.event(Event::GroupView(view));
        assert_eq!(inline.snapshot(), threaded.snapshot());
    };
    let both = |inline: &mut Process, threaded: &mut Threaded, payload: &[u8], domain| {
        let delivery = delivery(payload, domain);
        inline.deliver(&delivery);
        threaded.deliver(&delivery);
        assert_eq!(inline.snapshot(), threaded.snapshot());
    };
    // Without a list all take part. With the first one all go on.
    both_view(&mut inline, &mut threaded, view(1, &[ME, OTHER], None));
    both_view(&mut inline, &mut threaded, view(2, &[ME, OTHER], Some(&BOTH)));
    for (payload, domain) in [(&open[..], Some(1)), (b"x", None), (first, Some(1)), (b"y", Some(0)), (first, Some(1))] {
        both(&mut inline, &mut threaded, payload, domain);
    }
    both(&mut inline, &mut threaded, b"no command", Some(1));
    assert_eq!(inline.app.payloads, [&b"x"[..], b"a", b"y"]);
    both_view(&mut inline, &mut threaded, view(3, &[ME], Some(&BOTH)));
    let bytes = inline.snapshot();

    // A joiner of each kind takes what the other kind gives, and what followed.
    let (mut joiner, mut other) = (Process::new(), Threaded::new());
    joiner.begin(&bytes, Some(&BOTH));
    other.domains.begin(bytes.len() as u64, Some(&list(&BOTH)));
    bytes.chunks(5).try_for_each(|chunk| other.domains.restore(chunk)).expect("it makes sense");
    let replayed = Delivery { replayed: true, ..delivery(second, Some(1)) };
    let between = view(4, &[ME, OTHER], Some(&BOTH));
    inline.deliver(&replayed);
    inline.event(Event::GroupView(Arc::clone(&between)));
    joiner.deliver(&replayed);
    joiner.event(Event::GroupViewReplayed(Arc::clone(&between)));
    other.deliver(&replayed);
    other.domains.view_replayed(&View::replayed(between, ME));
    joiner.event(Event::StateEnd { group: GROUP });
    other.domains.complete().expect("it is whole");
    let next = view(5, &[ME, OTHER], Some(&BOTH));
    [&mut inline, &mut joiner].into_iter().for_each(|process| process.event(Event::GroupView(Arc::clone(&next))));
    other.view(&next);
    both(&mut joiner, &mut other, third, Some(1));
    inline.deliver(&delivery(third, Some(1)));
    assert_eq!(joiner.snapshot(), inline.snapshot());
    assert_eq!(joiner.app.payloads, [&b"x"[..], b"a", b"y", b"b", b"c"]);
    assert_eq!(other.replica.read().payloads, joiner.app.payloads);
}

/// A table that comes to the list begins anew, also in a state that is on its way.
#[test]
fn a_table_takes_part_from_the_view_that_lists_it() {
    let (open, first) = (&commands()[0], &commands()[1]);
    let short = |number| view(number, &[ME, OTHER], Some(&[""]));
    let (mut inline, mut threaded) = (Process::new(), Threaded::new());
    threaded.view(&short(1));
    inline.event(Event::GroupView(short(1)));
    let bytes = inline.snapshot();
    assert_eq!(bytes, threaded.snapshot(), "it is not given");
    let mut joiner = Process::new();
    joiner.begin(&bytes, Some(&[""]));
    let long = view(2, &[ME, OTHER], Some(&BOTH));
    threaded.view(&long);
    inline.event(Event::GroupView(Arc::clone(&long)));
    joiner.event(Event::GroupViewReplayed(Arc::clone(&long)));
    for payload in [open, first] {
        let delivery = delivery(payload, Some(1));
        threaded.deliver(&delivery);
        inline.deliver(&delivery);
        joiner.deliver(&Delivery { replayed: true, ..delivery });
    }
    joiner.event(Event::StateEnd { group: GROUP });
    joiner.event(Event::GroupView(view(3, &[ME, OTHER], Some(&BOTH))));
    let expected = threaded.snapshot();
    assert_eq!((inline.snapshot() == expected, joiner.snapshot() == expected), (true, true));
    assert_eq!(joiner.app.payloads, [b"a"]);
    // It was listed before, and goes on in a view of the same list, and in a group that this process makes.
    for number in [3, 1] {
        inline.event(Event::GroupView(view(number, &[ME, OTHER], Some(&BOTH))));
        inline.deliver(&delivery(first, Some(1)));
        assert_eq!((inline.snapshot(), inline.app.payloads.len()), (expected.clone(), 1), "it is executed once");
    }
}

/// The table is part of the program's state: when that is gone, nobody is known.
#[test]
fn a_table_goes_with_the_state_of_the_program() {
    let (open, first) = (&commands()[0], &commands()[1]);
    let table = |process: &mut Process| {
        let own = process.table.lives.own(process.group.0).expect("the membership goes on");
        own.submits.as_mut().expect("it takes submits").table.size().0
    };
    let known = || {
        let mut process = Process::member();
        [open, first].into_iter().for_each(|command| process.deliver(&delivery(command, Some(1))));
        assert_eq!(table(&mut process), 1);
        process
    };
    let bytes = known().snapshot();
    let anew = || Event::StateAnew { group: GROUP, name: "g".into() };
    let mut process = known();
    process.event(anew());
    assert_eq!(table(&mut process), 0);

    for half in [bytes.len() / 2, bytes.len()] {
        // The donor dies, or this process is excluded, before all came that belongs to it.
        let mut process = known();
        process.begin(&bytes[..half], Some(&BOTH));
        process.event(anew());
        process.event(Event::GroupView(view(1, &[ME], Some(&BOTH))));
        assert_eq!(table(&mut process), 0, "after {half} bytes");
        let mut process = known();
        process.begin(&bytes[..half], Some(&BOTH));
        process.event(Event::Excluded { view: ViewNumber(2) });
        assert_eq!(table(&mut process), 0, "after {half} bytes");
        // The next one's takes its place.
        let mut process = known();
        process.begin(&bytes[..half], Some(&BOTH));
        process.begin(&bytes, Some(&BOTH));
        process.event(Event::StateEnd { group: GROUP });
        process.event(Event::GroupView(view(2, &[ME], Some(&BOTH))));
        assert_eq!((table(&mut process), process.app.payloads.len()), (1, 1), "after {half} bytes");
    }

    for drops_state in [false, true] {
        let mut process = known();
        process.app.drops_state = drops_state;
        process.event(Event::Excluded { view: ViewNumber(2) });
        assert_eq!(process.adapter().keeps_state(GROUP), !drops_state);
        process.event(Event::StateKept { group: GROUP, name: "g".into(), was: ME, view: ViewNumber(1) });
        assert_eq!(table(&mut process), usize::from(!drops_state));
    }

    // A donor that leaves it out, and bytes that are no table.
    let alone = {
        let mut process = Process::new();
        process.event(Event::GroupView(view(1, &[ME], Some(&[""]))));
        process.snapshot()
    };
    let mut senseless = Outgoing::new(Box::new(|why| panic!("{why}")));
    senseless.add("", false, Snapshot::encode(&Vec::<Vec<u8>>::new()));
    senseless.add(BOTH[1], true, Snapshot::new("no table"));
    for (bytes, why) in [(alone, "it lacks domain phalanx.clients"), (read(&mut senseless), "makes no sense")] {
        let mut process = Process::new();
        process.begin(&bytes, Some(&BOTH));
        process.event(Event::StateEnd { group: GROUP });
        let notices = process.table.take_notices();
        assert!(notices.iter().any(|notice| notice.contains(why)), "{notices:?}");
    }
}

/// Its result is told once it was delivered, and enough members have the state.
#[test]
fn a_submit_is_told_once_it_may_be_and_its_commands_are_none_of_the_programs() {
    let mut process = Process::member();
    let mut seq = 0;
    assert_eq!((process.submit(b"m"), process.submit(b"n")), (Ok(1), Ok(2)));
    let open = process.send(&mut seq);
    assert_eq!(open.len(), 1, "it is opened first");
    process.deliver_own(ME, &open[0]);
    let sent = process.send(&mut seq);
    assert_eq!(sent.len(), 2);
    process.deliver_own(ME, &sent[0]);
    assert_eq!(process.tell(false), [], "too few have the state");
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(1), adequate: false });
    process.deliver_own(ME, &sent[1]);
    assert_eq!(process.tell(true), [], "the program was told so");
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(1), adequate: true });
    assert_eq!(process.tell(true), [(1, Ok(1)), (2, Ok(2))]);
    // What somebody else sends again is not told.
    process.deliver_own(OTHER, &sent[1]);
    assert_eq!(process.tell(true), []);
    // That one may be told says nothing of the next.
    assert_eq!(process.submit(b"o"), Ok(3));
    let sent = process.send(&mut seq);
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(1), adequate: false });
    process.deliver_own(ME, &sent[0]);
    assert_eq!(process.tell(true), []);
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(1), adequate: true });
    assert_eq!(process.tell(true), [(3, Ok(3))]);
    // A multicast of the program has its place among them.
    let group = process.group;
    process.adapter().accepted(group, Some(Sent { view: ViewNumber(1), seq: Sequence(seq + 1) }));
    assert_eq!(process.app.sent, [5]);
}

/// It is ordered and not heard, or never sent, and this process comes back.
#[test]
fn a_submit_goes_on_in_the_next_life_and_ends_with_the_membership() {
    let mut process = Process::member();
    let (mut seq, next) = (0, Incarnation(2));
    assert_eq!(process.submit(b"m"), Ok(1));
    let open = process.send(&mut seq);
    process.deliver_own(ME, &open[0]);
    let first = process.send(&mut seq);
    assert_eq!(process.submit(b"n"), Ok(2));
    process.adapter().look_at_submits();
    // The others executed the first, and go on.
    let mut donor = Process::of(OTHER);
    donor.event(Event::GroupView(view(1, &[ME, OTHER], Some(&BOTH))));
    donor.deliver_own(ME, &open[0]);
    donor.deliver_own(ME, &first[0]);
    donor.event(Event::GroupView(view(2, &[OTHER], Some(&BOTH))));
    process.event(Event::Excluded { view: ViewNumber(2) });
    assert_eq!(process.submit(b"o"), Ok(3), "it waits");
    assert_eq!(process.send(&mut seq), [] as [Bytes; 0]);
    process.adapter().begin(&me(next));
    process.begin(&donor.snapshot(), Some(&BOTH));
    process.event(Event::StateEnd { group: GROUP });
    process.event(Event::GroupView(view(3, &[next, OTHER], Some(&BOTH))));
    let mut seq = 0;
    let again = process.send(&mut seq);
    assert_eq!(again.len(), 3, "the client is open");
    again.iter().for_each(|payload| process.deliver_own(next, payload));
    assert_eq!(process.app.payloads, [b"m", b"n", b"o"]);
    assert_eq!(process.tell(true), [(1, Ok(1)), (2, Ok(2)), (3, Ok(3))]);

    for payload in [b"p", b"q"] {
        process.submit(payload).expect("there is room");
    }
    let sent = process.send(&mut seq);
    process.submit(b"r").expect("there is room");
    process.adapter().look_at_submits();
    process.deliver_own(next, &sent[0]);
    process.event(Event::GroupLeft { group: GROUP, why: core::LeaveReason::Left });
    let over = SubmitError::Refused(SendError::NotMember);
    assert_eq!(process.app.told, [(4, Ok(4)), (5, Err(SubmitError::Unknown)), (6, Err(over))]);
}

#[test]
fn submits_under_way_are_bounded_and_those_that_are_refused_are_told_so() {
    let mut process = Process::new();
    assert_eq!(process.submit(&vec![0; SUBMIT_BYTES + 1]), Err(SendError::TooLong(SUBMIT_BYTES + 1)));
    for number in 1..=256 {
        assert_eq!(process.submit(b"m"), Ok(number));
    }
    assert_eq!(process.submit(b"m"), Err(SendError::Full));
    // The group does not list the table.
    process.event(Event::GroupView(view(1, &[ME], Some(&[""]))));
    let mut adapter = process.adapter();
    adapter.look_at_submits();
    assert!(adapter.due(0).is_some_and(|(_, due)| due.is_none()), "nothing is sent");
    let refused = Err(SubmitError::Refused(SendError::NoSuchDomain));
    assert_eq!(process.tell(true), (1..=256).map(|number| (number, refused)).collect::<Vec<_>>());
    assert_eq!(process.submit(b"m"), Ok(257));
}

/// So the checker finds the end by which a submit is executed once or never, and nothing that was sent behind it.
#[test]
fn what_was_submitted_is_recorded_and_the_outcome_behind_the_end() {
    let mut process = Process::new();
    process.table.record();
    process.event(Event::GroupView(view(1, &[ME, OTHER], Some(&BOTH))));
    let mut seq = 0;
    assert_eq!(process.submit(b"m"), Ok(1));
    let open = process.send(&mut seq);
    process.deliver_own(ME, &open[0]);
    let sent = process.send(&mut seq);
    process.deliver_own(ME, &sent[0]);
    assert_eq!(process.tell(true), [(1, Ok(1))]);
    assert_eq!(process.submit(b"n"), Ok(2));
    process.send(&mut seq);
    let mut records = process.adapter().told();
    process.event(Event::GroupLeft { group: GROUP, why: core::LeaveReason::Left });
    records.append(&mut process.table.take_records());
    let shown = |record: &trace::Event| match record {
        trace::Event::Submit { group: 1, number, what, .. } => Some(match what {
            trace::SubmitStep::Sent { .. } => format!("{number} sent"),
            trace::SubmitStep::Executed { view: 1, .. } => format!("{number} executed"),
            trace::SubmitStep::Told { .. } => format!("{number} told"),
            what => format!("{number} {what:?}"),
        }),
        trace::Event::MembershipEnded { .. } => Some("ended".to_owned()),
        _ => None,
    };
    let shown: Vec<_> = records.iter().filter_map(shown).collect();
    assert_eq!(shown, ["1 sent", "1 executed", "1 told", "2 sent", "ended", "2 Unknown"]);
    assert!(process.table.take_records().is_empty());
}
