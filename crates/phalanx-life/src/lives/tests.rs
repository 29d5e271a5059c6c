use bytes::Bytes;
use phalanx_core::{CellInstance, CellView, MemberInfo, MessageToOne, Order, Stability, ToOneOutcome, Uniformity};

use super::*;
use crate::front::Bound;
use crate::messages::{Message, Payloads};

mod asks;
mod to_one;

/// Writes down what it is told, in one order.
#[derive(Default)]
struct Told {
    steps: Vec<String>,
    /// How many of the bound messages had a receipt.
    awaited: usize,
    released: usize,
    released_to: BTreeMap<Incarnation, usize>,
    /// How it answers asks; if not at once, later.
    reply: Option<crate::asks::Reply>,
    /// Its inbox takes nothing.
    is_full: bool,
    /// What it says of a state that comes.
    refuses: Option<&'static str>,
}

impl Front for Told {
    type Group = ();
    type Receipt = &'static str;

    const COUNTS_DELIVERED: bool = true;

    fn deliver(&mut self, _key: Key, (): &mut (), delivery: &Delivery<'_>) {
        self.steps.push(format!("message {}", delivery.seq.0));
    }

    fn sent(&mut self, _key: Key, (): &mut (), (view, seq): (ViewNumber, Sequence), is_awaited: bool) {
        self.awaited += usize::from(is_awaited);
        self.steps.push(format!("sent {}.{}", view.0, seq.0));
    }

    fn step(&mut self, _key: Key, (): &mut (), step: Step<'_>) {
        self.steps.push(match step {
            Step::View(seen) => format!("view {}", seen.view.view.0),
            Step::ViewReplayed(seen) => format!("view {} of the state", seen.view.view.0),
            Step::Reached { stable, delivered, latest } => {
                let latest: Vec<String> = latest.iter().map(|(view, seq)| format!(" {}.{}", view.0, seq.0)).collect();
                format!("stable {stable}, delivered {delivered}{}", latest.concat())
            }
            Step::Ending { is_final } => if is_final { "closing" } else { "ending" }.to_owned(),
            Step::Over { next, not_sent, in_doubt } => {
                format!("life {next}: {not_sent} not sent, {in_doubt} in doubt")
            }
            Step::Unsent { messages } => format!("{messages} refused"),
            Step::Excluded { was } => format!("excluded {}", was.0),
            other => format!("{other:?}"),
        });
    }

    fn asked(
        &mut self,
        _key: Key,
        (): &mut (),
        asked: &crate::asks::Asked<'_>,
        value: &mut Vec<u8>,
    ) -> Option<crate::asks::Reply> {
        let crate::asks::AskId { asker, number: (view, seq), place } = asked.id;
        let how = if asked.delivery.is_some() { "asked" } else { "asked instead" };
        self.steps.push(format!("{how} {}.{} of {} for {}", view.0, seq.0, asker.0, place.0));
        value.extend_from_slice(b"mine");
        self.reply
    }

    fn given_up(&mut self, _key: Key, (): &mut (), id: crate::asks::AskId) {
        self.steps.push(format!("given up {}.{}", id.number.0.0, id.number.1.0));
    }

    fn answered(&mut self, (): &mut (), receipt: &&'static str, answer: &crate::asks::Answer<'_>) -> bool {
        self.steps.push(format!("{receipt}: {:?} of {} by {}", answer.filled, answer.of.0, answer.by.0));
        true
    }

    fn ask_ended(&mut self, (): &mut (), receipt: &'static str, end: crate::asks::AskEnd) {
        self.steps.push(format!("{receipt} ended: {end:?}"));
    }

    fn is_full(&mut self, _key: Key, (): &mut ()) -> bool {
        self.is_full
    }

    fn to_one(&mut self, _key: Key, (): &mut (), message: &MessageToOne<'_>) {
        self.steps.push(format!("from {}, view {}: {:?}", message.sender.0, message.view.0, message.payload));
    }

    fn sent_to_one(&mut self, (): &mut (), receipt: &&'static str, view: ViewNumber) {
        self.steps.push(format!("{receipt} in {}", view.0));
    }

    fn settled(&mut self, _key: Key, (): &mut (), to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.steps.push(format!("{messages} to {} {outcome:?}", to.0));
    }

    fn settled_one(&mut self, (): &mut (), receipt: &'static str, outcome: ToOneOutcome) {
        self.steps.push(format!("{receipt} {outcome:?}"));
    }

    fn release_to_one(&mut self, (): &mut (), to: Incarnation, bytes: usize) {
        *self.released_to.entry(to).or_default() += bytes;
    }

    fn answer(&mut self, (): &mut (), receipt: &'static str, outcome: Result<Bound, Refusal>) {
        self.steps.push(match outcome {
            Ok(Bound { view, seq, number }) => format!("{receipt} is {number}, {}.{}", view.0, seq.0),
            Err(why) => format!("{receipt}: {why:?}"),
        });
    }

    fn release(&mut self, (): &mut (), bytes: usize) {
        self.released += bytes;
    }

    fn excluded(&mut self, was: Incarnation) {
        self.steps.push(format!("all excluded {}", was.0));
    }

    fn ended(&mut self, _key: Key, (): (), end: End) {
        self.steps.push(format!("ended {end:?}"));
    }

    fn snapshot(&mut self, _: Key, (): &mut (), _: &Arc<str>, is_sound: bool) -> Option<Box<dyn Snapshot>> {
        self.steps.push(format!("snapshot {is_sound}"));
        None
    }

    fn restore(&mut self, _key: Key, (): &mut (), _chunk: &[u8]) -> Result<(), String> {
        self.refuses.map_or(Ok(()), |why| Err(why.to_owned()))
    }

    fn complete(&mut self, _key: Key, (): &mut ()) -> Result<(), String> {
        self.refuses.map_or(Ok(()), |why| Err(why.to_owned()))
    }

    fn digest(&mut self, _key: Key, (): &mut ()) -> Option<u64> {
        Some(77)
    }

    fn notice(&mut self, text: String) {
        self.steps.push(format!("notice: {text}"));
    }
}

/// A process in one group.
struct Process {
    lives: Lives<(), &'static str>,
    told: Told,
    key: Key,
}

const GROUP: GroupId = GroupId(1);
const ME: Incarnation = Incarnation(5);

fn view(number: u64, adequate: bool) -> Event {
    Event::GroupView(Arc::new(GroupView {
        members: vec![ME],
        adequate,
        ..GroupView::new(GROUP, "g", ViewNumber(number))
    }))
}

impl Process {
    fn new(rejoin: bool) -> Self {
        let mut lives = Lives::new(rejoin);
        let mut told = Told::default();
        lives.begin(ME, &mut told);
        let key = lives.add("g".into(), true, false, ());
        Self { lives, told, key }
    }

    /// In view 7.
    fn member() -> Self {
        let mut process = Self::new(true);
        process.event(view(7, true));
        process.take();
        process
    }

    fn event(&mut self, event: Event) {
        self.lives.event(event, &mut self.told);
    }

    /// What was told since the last call.
    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told.steps)
    }

    fn ask(&mut self, body: Payloads, life: u64, receipt: Option<&'static str>) {
        let (order, stability, in_view) = (Order::Total, Stability::Uniform, None);
        let asked = Queued::Send(Message { life, order, stability, in_view, domain: None, body, receipt });
        self.lives.queue(self.key, asked).expect("the membership goes on");
    }

    fn one(&mut self, receipt: &'static str) {
        self.ask(Payloads::One(Bytes::from_static(b"m")), 0, Some(receipt));
    }

    fn flush(&mut self, receipt: &'static str) {
        self.lives.queue(self.key, Queued::Flush { life: 0, receipt }).expect("the membership goes on");
    }

    fn due(&mut self) -> bool {
        self.lives.due(self.key, &mut self.told).is_some()
    }

    /// The core accepts what is due.
    fn accept(&mut self, sent: Option<(u64, u64)>) {
        assert!(self.due(), "something may be sent");
        let sent = sent.map(|(view, seq)| Sent { view: ViewNumber(view), seq: Sequence(seq) });
        self.lives.accepted(self.key, sent, &mut self.told);
    }

    fn bind(&mut self, view: u64, seq: u64) {
        self.lives.sent(GROUP, ViewNumber(view), Sequence(seq), &mut self.told);
    }

    fn stable(&mut self, view: u64, seq: u64) {
        self.lives.stable(GROUP, ViewNumber(view), Sequence(seq));
    }

    fn tell(&mut self, is_adequate: impl Into<Option<bool>>) {
        let is_adequate = is_adequate.into();
        self.lives.tell(|_| is_adequate, &mut self.told);
    }

    fn deliver(&mut self, seq: u64) {
        let delivery = Delivery {
            group: GROUP,
            view: ViewNumber(7),
            sender: ME,
            seq: Sequence(seq),
            order: Order::Total,
            uniformity: Uniformity::Uniform,
            position: Some(seq),
            replayed: false,
            asked: None,
            domain: None,
            payload: b"m",
        };
        self.lives.deliver(&delivery, &mut self.told);
    }
}

#[test]
fn each_message_ends_as_stable_in_doubt_or_not_sent() {
    let mut process = Process::member();
    for receipt in ["a", "b", "c", "d"] {
        process.one(receipt);
        process.accept(None);
    }
    assert!(process.take().is_empty(), "none is bound to a view");
    process.bind(7, 1);
    process.bind(7, 2);
    process.bind(8, 1);
    assert_eq!(process.take(), ["sent 7.1", "a is 1, 7.1", "sent 7.2", "b is 2, 7.2", "sent 8.1", "c is 3, 8.1"]);
    // View 7 ended, and all survivors have what was sent in it. That is learnt after a message is bound to view 8.
    process.stable(7, 2);
    assert_eq!(process.lives.unstable(process.key), Some(4), "not told yet");
    process.tell(true);
    assert_eq!(
        (process.take(), process.lives.unstable(process.key)),
        (vec!["stable 2, delivered 0 7.2".to_owned()], Some(2))
    );
    process.one("e");
    process.event(Event::GroupLeft { group: GROUP, why: LeaveReason::Anew });
    assert_eq!(process.take(), ["ending", "d: NotSent", "e: NotSent", "life 1: 2 not sent, 1 in doubt", "Anew(Anew)"]);

    // The next life counts from the start, and tells nothing about the one before.
    process.event(view(9, true));
    process.ask(Payloads::One(Bytes::from_static(b"m")), 1, Some("f"));
    process.accept(Some((9, 1)));
    process.stable(9, 1);
    process.tell(true);
    assert_eq!(process.take(), ["view 9", "sent 9.1", "f is 1, 9.1", "stable 1, delivered 0 9.1"]);
}

#[test]
fn what_is_stable_is_told_however_many_views_withheld_it() {
    let mut process = Process::member();
    for number in 7..=10 {
        process.event(view(number, false));
        process.one("m");
        process.accept(Some((number, 1)));
        process.stable(number, 1);
        process.tell(true);
    }
    assert!(!process.take().iter().any(|step| step.starts_with("stable")));
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(10), adequate: true });
    process.tell(true);
    assert_eq!(process.take().last().expect("steps"), "stable 4, delivered 0 7.1 8.1 9.1 10.1");
    assert_eq!(process.lives.unstable(process.key), Some(0));
}

/// The place of a domain is that in the list of the view that was told.
#[test]
fn a_message_to_a_domain_that_is_not_listed_is_refused() {
    let mut process = Process::member();
    let to = |process: &mut Process, domain: &str, receipt: Option<&'static str>| {
        let (order, stability, in_view, domain) = (Order::Total, Stability::Plain, None, Some(domain.into()));
        let body = Payloads::One(Bytes::from_static(b"m"));
        let asked = Queued::Send(Message { life: 0, order, stability, in_view, domain, body, receipt });
        process.lives.queue(process.key, asked).expect("the membership goes on");
        process.lives.due(process.key, &mut process.told).map(|due| due.options.domain)
    };
    assert_eq!(to(&mut process, "", Some("a")), None, "the group keeps no list");
    assert_eq!(process.take(), ["a: NoSuchDomain"]);
    let listed = ["", "x"].map(|name| phalanx_core::Domain { name: name.into(), version: 1 });
    let view = GroupView { domains: Some(listed.into()), ..GroupView::new(GROUP, "g", ViewNumber(8)) };
    process.event(Event::GroupView(Arc::new(view)));
    process.take();
    assert_eq!(to(&mut process, "y", None), None);
    assert_eq!(process.take(), ["1 refused"]);
    assert_eq!(to(&mut process, "x", Some("b")), Some(Some(phalanx_core::DomainIndex(1))));
    process.lives.refused(process.key, Refusal::NotToDomain, &mut process.told);
    assert_eq!(process.take(), ["b: NotToDomain"]);
}

#[test]
fn a_flush_waits_for_what_was_sent_before_it() {
    let mut process = Process::member();
    process.flush("nothing");
    assert!(!process.due());
    assert_eq!(process.take(), ["nothing is 0, 0.0"], "nothing was sent");
    process.one("a");
    process.accept(None);
    process.flush("flush");
    assert!(!process.due() && process.take().is_empty(), "it waits");
    process.bind(7, 1);
    assert_eq!(process.take(), ["sent 7.1", "a is 1, 7.1", "flush is 1, 7.1"]);
    process.lives.queue(process.key, Queued::Flush { life: 3, receipt: "late" }).expect("the membership goes on");
    assert!(!process.due());
    assert_eq!(process.take(), ["late: NotSent"], "it was asked for in another life");
}

#[test]
fn the_receipt_of_a_batch_is_that_of_its_last_message() {
    let mut process = Process::member();
    let batch = || Payloads::batch(Bytes::from_static(b"ab"), vec![1, 2]);
    process.ask(batch(), 0, Some("batch"));
    process.accept(Some((7, 1)));
    assert_eq!((process.take(), process.told.awaited, process.told.released), (vec!["sent 7.1".to_owned()], 0, 0));
    process.accept(Some((7, 2)));
    assert_eq!(process.take(), ["sent 7.2", "batch is 2, 7.2"]);
    assert_eq!((process.told.awaited, process.told.released), (1, batch().bytes()));
    assert_eq!((process.lives.busy(0), process.due(), process.lives.busy(0)), (Some(process.key), false, None));
}

/// Room that a refused message kept would be lost to its group for ever, and an empty batch must hold nobody up.
#[test]
fn what_is_refused_or_empty_gives_its_room_back() {
    let mut process = Process::member();
    let none = || Payloads::batch(Bytes::new(), Vec::new());
    let two = || Payloads::batch(Bytes::from_static(b"ab"), vec![1, 2]);
    process.ask(none(), 0, Some("empty"));
    process.ask(two(), 7, Some("of another life"));
    process.ask(two(), 0, None);
    assert!(process.due());
    assert_eq!(process.take(), ["empty is 0, 0.0", "2 refused", "of another life: NotSent"]);
    process.lives.refused(process.key, Refusal::OtherView, &mut process.told);
    assert_eq!(process.take(), ["2 refused"], "nobody awaits them");
    process.ask(two(), 0, Some("awaited"));
    assert!(process.due());
    process.lives.refused(process.key, Refusal::TooLong(9), &mut process.told);
    assert_eq!(process.take(), ["awaited: TooLong(9)"]);
    assert_eq!(process.told.released, none().bytes() + 3 * two().bytes());
}

/// The core was left out while the application had yet to learn that a view had too few members.
#[test]
fn what_the_application_has_not_read_decides_when_the_core_is_out() {
    let mut process = Process::member();
    process.one("m");
    process.accept(Some((8, 1)));
    process.stable(8, 1);
    process.take();
    process.tell(None);
    assert!(process.take().is_empty());
    process.event(view(8, false));
    process.event(Event::GroupLeft { group: GROUP, why: LeaveReason::Anew });
    assert_eq!(process.take(), ["view 8", "ending", "life 1: 0 not sent, 1 in doubt", "Anew(Anew)"]);
}

/// While too few members hold the state, what is reached is not told; if the life ends then, it is in doubt.
#[test]
fn outcomes_are_withheld_while_too_few_hold_the_state() {
    let mut process = Process::member();
    for seq in 1..=2 {
        process.one("m");
        process.accept(Some((7, seq)));
    }
    process.stable(7, 1);
    process.deliver(1);
    process.take();
    process.tell(false);
    assert!(process.take().is_empty() && process.lives.has_news(), "the core knows of too few");
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(7), adequate: false });
    process.tell(true);
    assert_eq!(process.take(), ["Adequate(false)"], "the last view that was handed over has too few");
    process.event(Event::GroupAdequacy { group: GROUP, view: ViewNumber(7), adequate: true });
    process.tell(true);
    assert_eq!(process.take(), ["Adequate(true)", "stable 1, delivered 1 7.1"]);
    process.stable(7, 2);
    process.event(view(8, false));
    process.event(Event::Excluded { view: ViewNumber(3) });
    assert_eq!(
        process.take(),
        ["view 8", "ending", "life 1: 0 not sent, 1 in doubt", "all excluded 5", "excluded 5"],
        "it was withheld"
    );
}

/// With fewer members than were agreed on the cell may be decided over. What such a view has is no outcome.
#[test]
fn outcomes_are_withheld_while_the_cell_has_too_few_members() {
    let cell = |members: u64, members_min| {
        let member = |incarnation| {
            let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            MemberInfo::new(Incarnation(incarnation), format!("m{incarnation}"), nowhere, nowhere)
        };
        Event::CellView(Arc::new(CellView {
            instance: CellInstance(1),
            ancestors: Vec::new(),
            view: ViewNumber(3),
            level: 7,
            members: (5..5 + members).map(member).collect(),
            joined: Vec::new(),
            left: Vec::new(),
            apart: Vec::new(),
            departed: Vec::new(),
            members_min,
        }))
    };
    let mut process = Process::member();
    process.one("m");
    process.accept(Some((7, 1)));
    process.stable(7, 1);
    process.take();
    process.event(cell(1, 2));
    process.tell(true);
    assert!(process.take().is_empty() && process.lives.has_news(), "it is withheld");
    process.event(cell(2, 2));
    process.tell(true);
    assert_eq!(process.take(), ["stable 1, delivered 0 7.1"]);
    process.one("n");
    process.accept(Some((7, 2)));
    process.stable(7, 2);
    process.event(cell(1, 2));
    process.take();
    process.event(Event::Excluded { view: ViewNumber(3) });
    assert_eq!(process.take()[1], "life 1: 0 not sent, 1 in doubt", "it was withheld");
}

/// A state that comes holds what this process sent in an earlier incarnation, too. That was no message of this life.
#[test]
fn what_is_replayed_is_not_counted_as_delivered() {
    let mut process = Process::member();
    process.one("m");
    process.accept(Some((7, 1)));
    process.take();
    let delivery = Delivery {
        group: GROUP,
        view: ViewNumber(6),
        sender: ME,
        seq: Sequence(1),
        order: Order::Total,
        uniformity: Uniformity::Uniform,
        position: Some(1),
        replayed: true,
        asked: None,
        domain: None,
        payload: b"m",
    };
    process.lives.deliver(&delivery, &mut process.told);
    process.tell(true);
    assert_eq!(process.take(), ["message 1"]);
    process.deliver(1);
    process.tell(true);
    assert_eq!(process.take(), ["message 1", "stable 0, delivered 1"]);
}

/// The view that has too few may still wait for the application, so that the core alone knows of it. An incarnation that
/// the process gives up by itself takes that knowledge with it, and so does the end of its thread.
#[test]
fn what_was_withheld_is_in_doubt_when_nobody_asks_the_core_any_more() {
    let ends: [fn(&mut Process); 2] = [
        |process| process.lives.begin(Incarnation(6), &mut process.told),
        |process| process.lives.end(&mut process.told),
    ];
    for (end, last) in ends.into_iter().zip(["excluded 5", "ended Over"]) {
        let mut process = Process::member();
        process.one("m");
        process.accept(Some((7, 1)));
        process.stable(7, 1);
        process.tell(false);
        process.take();
        end(&mut process);
        let steps = process.take();
        assert_eq!(steps[1], "life 1: 0 not sent, 1 in doubt", "{steps:?}");
        assert_eq!(steps.last().expect("steps"), last);
    }
}

/// What was reached, and what came to nothing, is told before the end that explains it.
#[test]
fn an_exclusion_tells_outcomes_first_and_its_reason_last() {
    let mut process = Process::new(false);
    process.event(view(7, true));
    for seq in 1..=2 {
        process.one("m");
        process.accept(Some((7, seq)));
    }
    process.stable(7, 1);
    process.take();
    process.event(Event::Excluded { view: ViewNumber(3) });
    let told = [
        "closing",
        "stable 1, delivered 0 7.1",
        "life 1: 0 not sent, 1 in doubt",
        "all excluded 5",
        "excluded 5",
        "ended Left(Unreachable)",
    ];
    assert_eq!(process.take(), told);
    assert_eq!(process.lives.take_core_notes().forgotten, ["g".into()]);
}

/// The process does not join a group again that it had asked to leave, so nothing would ever end the membership.
#[test]
fn who_is_excluded_while_it_leaves_a_group_has_left_it() {
    let mut process = Process::member();
    process.lives.want_leave(process.key).expect("it goes on");
    assert_eq!(process.lives.to_leave(), Some((process.key, GROUP)));
    process.lives.leave_asked(process.key);
    process.event(Event::Excluded { view: ViewNumber(3) });
    assert_eq!(process.take().last().expect("steps"), "ended Left(Left)");
    assert_eq!(process.lives.want_leave(process.key), Err(End::Left(LeaveReason::Left)));

    // One that had not asked yet comes back, and leaves then.
    let mut process = Process::member();
    process.one("m");
    process.lives.want_leave(process.key).expect("it goes on");
    assert_eq!(process.lives.to_leave(), None, "a message waits to be sent");
    process.event(Event::Excluded { view: ViewNumber(3) });
    process.lives.begin(Incarnation(6), &mut process.told);
    assert_eq!((process.lives.to_leave(), process.lives.wants_leave()), (None, true));
    process.lives.take_untidy();
    process.event(view(9, true));
    assert!(process.lives.take_untidy());
    assert_eq!(process.lives.to_leave(), Some((process.key, GROUP)));
}

#[test]
fn a_state_that_makes_no_sense_is_not_kept_and_its_group_is_left() {
    let begin = |process: &mut Process| {
        let (group, name) = (GROUP, "g".into());
        process.event(Event::StateBegin { group, name, bytes: 8, view: None, domains: None });
        process.take();
    };
    for in_piece in [true, false] {
        let mut process = Process::new(true);
        begin(&mut process);
        process.told.refuses = (!in_piece).then_some("it is odd");
        if in_piece {
            process.told.refuses = Some("it is odd");
            process.lives.restore(GROUP, b"bytes", &mut process.told);
            process.lives.restore(GROUP, b"bytes", &mut process.told);
        }
        process.event(Event::StateEnd { group: GROUP });
        let notice = "notice: the state of group g makes no sense here: it is odd; it is left";
        assert_eq!(process.take(), [notice, "Senseless"], "once");
        assert_eq!(
            process.lives.take_core_notes().refused,
            [GROUP],
            "the core counts this process among the holders until then"
        );
        assert_eq!(process.lives.take_core_notes().refused, []);
        process.deliver(1);
        assert!(process.take().is_empty(), "no message is handed over");
        process.event(view(7, true));
        assert_eq!(process.lives.to_leave(), Some((process.key, GROUP)));
        assert!(!process.lives.keeps_state(GROUP, &mut process.told));
        process.lives.snapshot(GROUP, &mut process.told);
        assert_eq!(process.take(), ["view 7", "snapshot false"]);

        // Another one may come before it has left.
        process.told.refuses = None;
        begin(&mut process);
        process.event(Event::StateEnd { group: GROUP });
        process.event(view(8, true));
        assert_eq!(process.take(), ["Current", "view 8"]);
        assert_eq!(process.lives.take_core_notes().refused, []);
        assert!(process.lives.keeps_state(GROUP, &mut process.told));
    }
}

/// A slow application reads that it left, and comes again, behind the state that it refused. What it says of that state
/// must not count for the one that it was given since.
#[test]
fn a_refusal_ends_with_its_stay() {
    let mut process = Process::new(true);
    process.event(Event::StateBegin { group: GROUP, name: "g".into(), bytes: 8, view: None, domains: None });
    process.told.refuses = Some("it is odd");
    process.event(Event::StateEnd { group: GROUP });
    process.event(view(7, true));
    process.event(Event::GroupLeft { group: GROUP, why: LeaveReason::Anew });
    assert_eq!(process.lives.take_core_notes().refused, []);
}

/// The last member with the state went, and a member without one goes with it. The core does not come again for a process
/// that asked to leave, so its membership would otherwise wait for good.
#[test]
fn who_asked_to_leave_and_goes_with_the_last_holder_has_left() {
    let anew = || Event::GroupLeft { group: GROUP, why: LeaveReason::Anew };
    let mut process = Process::member();
    process.event(anew());
    assert_eq!(process.take().last().expect("steps"), "Anew(Anew)", "it did not ask");
    let mut process = Process::member();
    process.lives.want_leave(process.key).expect("the membership goes on");
    assert_eq!(process.lives.to_leave(), Some((process.key, GROUP)));
    process.lives.leave_asked(process.key);
    process.event(anew());
    assert_eq!(process.take().last().expect("steps"), "ended Left(Left)");
}

#[test]
fn an_observer_never_keeps_a_state() {
    let mut lives = Lives::new(true);
    let mut told = Told::default();
    lives.begin(ME, &mut told);
    for (observes, keeps) in [(true, false), (false, true)] {
        let key = lives.add("g".into(), false, observes, ());
        lives.event(view(7, true), &mut told);
        assert_eq!(lives.keeps_state(GROUP, &mut told), keeps);
        lives.remove(key);
    }
}

/// A trace compares a kept state before the group goes on with it.
#[test]
fn a_digest_is_asked_for_of_a_state_that_is_the_groups() {
    let mut process = Process::member();
    let digest = |process: &mut Process| process.lives.digest(GROUP, &mut process.told);
    assert_eq!(digest(&mut process), Some(77));
    process.event(Event::Excluded { view: ViewNumber(9) });
    process.lives.begin(Incarnation(6), &mut process.told);
    assert_eq!(digest(&mut process), Some(77), "it is kept");
    process.event(Event::StateBegin { group: GROUP, name: "g".into(), bytes: 8, view: None, domains: None });
    process.told.refuses = Some("nonsense");
    process.lives.restore(GROUP, b"what", &mut process.told);
    assert_eq!(digest(&mut process), None, "it makes no sense");

    let mut lives = Lives::new(true);
    lives.begin(ME, &mut process.told);
    lives.add("g".into(), false, false, ());
    lives.event(view(7, true), &mut process.told);
    assert_eq!(lives.digest(GROUP, &mut process.told), None, "it has no state");
}

/// The only member with the state died in the middle of its transfer. Nothing is wrong with what came.
#[test]
fn a_state_whose_donors_are_gone_ends_no_membership() {
    let mut process = Process::new(true);
    process.event(Event::StateBegin { group: GROUP, name: "g".into(), bytes: 8, view: None, domains: None });
    process.lives.restore(GROUP, b"half", &mut process.told);
    process.event(Event::StateAnew { group: GROUP, name: "g".into() });
    process.event(view(1, true));
    assert_eq!(process.take(), ["Taking { bytes: 8, domains: None }", "OwnState", "view 1"]);
    assert_eq!(process.lives.to_leave(), None);
    assert!(process.lives.keeps_state(GROUP, &mut process.told));
}

#[test]
fn views_within_a_state_are_told_to_who_has_it() {
    for with_state in [true, false] {
        let mut lives = Lives::new(true);
        let mut told = Told::default();
        lives.begin(ME, &mut told);
        let key = lives.add("g".into(), with_state, false, ());
        lives.event(
            Event::StateBegin { group: GROUP, name: "g".into(), bytes: 0, view: Some(ViewNumber(3)), domains: None },
            &mut told,
        );
        let Event::GroupView(view) = view(4, true) else { panic!("a view") };
        lives.event(Event::GroupViewReplayed(view), &mut told);
        assert_eq!(lives.number_in_view(key), Some(None), "it is in no view yet");
        assert_eq!(told.steps.last().expect("steps") == "view 4 of the state", with_state);
    }
}

#[test]
fn a_key_stands_for_one_membership() {
    let mut process = Process::member();
    let old = process.key;
    process.stable(7, 1);
    process.event(Event::GroupRefused { name: "g".into() });
    assert_eq!(process.take().last().expect("steps"), "ended Refused");
    let new = process.lives.add("g".into(), false, false, ());
    assert_eq!((new.slot, new.membership), (old.slot, old.membership + 1));
    assert!(process.lives.take_core_notes().forgotten.is_empty(), "a group of that name is joined again");
    assert!(process.lives.own(old).is_none() && process.lives.own(new).is_some());
    assert!(process.lives.queue(old, Queued::Flush { life: 0, receipt: "late" }).is_err());
    assert_eq!(process.lives.number_in_view(new), Some(None), "the group's number was the other's");
    process.lives.sent(GROUP, ViewNumber(7), Sequence(1), &mut process.told);
    process.tell(true);
    assert!(process.take().is_empty(), "nothing of the old one is told");
    assert_eq!(process.lives.want_leave(old), Err(End::Refused));
}
