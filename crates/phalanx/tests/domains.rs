//! The list of domains that a group keeps, and messages to one of them, over real sockets.

use std::path::Path;
use std::thread;
use std::time::Instant;

use phalanx::{
    App, Cell, CellEvent, DecodeError, Guarantee, Inbox, Inline, InlineGroup, JoinError, Message, MessageRef, Next,
    Order, Replica, SendError, Snapshot, State, View,
};

use crate::common::{PATIENCE, patient};

/// All numbers so far, and 0 for each view.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log<const VERSION: u32>(Vec<u32>);

impl<const V: u32> State for Log<V> {
    const VERSION: u32 = V;

    fn apply(&mut self, message: &Message) {
        self.0.extend(message.decode::<u32>());
    }

    fn view(&mut self, _view: &View) {
        self.0.push(0);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

type First = Log<1>;

fn start(directory: &Path, name: &str) -> Cell {
    patient(directory, name).blocking_start().expect("starts")
}

fn listed(view: Option<View>) -> Vec<(String, u32)> {
    let view = view.expect("it is a member");
    let list = view.domains().expect("the group keeps a list");
    list.map(|(name, version)| (name.to_owned(), version)).collect()
}

fn numbers(replica: &Replica<First>) -> Vec<u32> {
    replica.read().0.iter().copied().filter(|number| *number > 0).collect()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        thread::yield_now();
    }
}

fn messages(inbox: &mut Inbox) -> Vec<u32> {
    let items = std::iter::from_fn(|| inbox.try_next());
    items.filter_map(|next| if let Next::Message(message) = next { message.decode().ok() } else { None }).collect()
}

#[test]
fn a_message_to_a_domain_is_applied_there_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob"].map(|name| start(directory.path(), name));
    let made = || [(); 3].map(|()| Replica::new(First::default()));
    let both = [made(), made()];
    let mut members = Vec::new();
    for (cell, [state, prices, locks]) in cells.iter().zip(&both) {
        let builder = cell.group("g").state(state).domain("prices", prices).tool_domain("tool.locks", locks);
        members.push(builder.blocking_join().expect("joins"));
    }
    let list = [("", 1), ("prices", 1), ("tool.locks", 1)].map(|(name, version)| (name.to_owned(), version));
    let (group, _) = &members[0];
    assert_eq!(listed(group.view()), list);
    group.send_value(&1_u32).blocking().expect("it is sent");
    group.send_value(&2_u32).to_domain("prices").blocking().expect("it is sent");
    group.send_value(&3_u32).to_domain("").plain().blocking().expect("it is sent");
    group.send_value(&4_u32).to_domain("tool.locks").blocking_post().expect("it is queued");
    assert_eq!(group.send_value(&5_u32).to_domain("nothing").blocking().err(), Some(SendError::NoSuchDomain));
    assert_eq!(group.send_value(&5_u32).causal().to_domain("").blocking().err(), Some(SendError::NotToDomain));
    group.send_value(&6_u32).blocking().expect("it is sent").blocking_delivered().expect("it is here");
    for [state, prices, locks] in &both {
        until("all came", || numbers(locks).len() == 1 && numbers(prices).len() == 3);
        assert_eq!([state, prices, locks].map(numbers), [vec![1, 3, 6], vec![1, 2, 6], vec![4]]);
        assert!(locks.read().0.contains(&0), "a tool sees the views");
    }
    for (_, inbox) in &mut members {
        assert_eq!(messages(inbox), [1, 6], "no inbox has what goes to a domain");
    }
    // A later joiner takes all of them as they are.
    let cid = start(directory.path(), "cid");
    let [state, prices, locks] = made();
    let builder = cid.group("g").state(&state).domain("prices", &prices).tool_domain("tool.locks", &locks);
    let _member = builder.blocking_join().expect("joins");
    assert_eq!([&state, &prices, &locks].map(numbers), [vec![1, 3, 6], vec![1, 2, 6], vec![4]]);
}

#[test]
fn who_does_not_suit_the_list_is_told_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob] = ["ann", "bob"].map(|name| start(directory.path(), name));
    let (state, prices) = (Replica::new(First::default()), Replica::new(First::default()));
    let _member = ann.group("g").state(&state).domain("prices", &prices).blocking_join().expect("joins");
    let (own, other, later) =
        (Replica::new(First::default()), Replica::new(First::default()), Replica::new(Log::<2>::default()));
    let lacks = bob.group("g").state(&own).blocking_join().expect_err("it lacks one");
    assert_eq!(lacks, JoinError::LacksDomain { group: "g".into(), domain: "prices".into(), version: 1 });
    assert_eq!(
        lacks.to_string(),
        "group g has version 1 of domain prices of the state, and this process does not: start the members' version"
    );
    let lacks =
        bob.group("g").state(&later).domain("prices", &other).blocking_join().expect_err("its version is another");
    assert_eq!(lacks, JoinError::LacksDomain { group: "g".into(), domain: String::new(), version: 1 });
    let third = Replica::new(First::default());
    let needs = bob.group("g").state(&own).domain("prices", &other).domain("more", &third);
    let needs = needs.blocking_join().expect_err("it needs another one");
    assert_eq!(needs, JoinError::NeedsDomain { group: "g".into(), domain: "more".into(), version: 1 });
    assert_eq!([lacks.number(), needs.number()], [210, 211]);
    assert!([&own, &other].iter().all(|replica| !replica.is_current() && replica.read().0.is_empty()), "nothing came");
    let told = bob.notices();
    assert!(told.iter().all(|notice| !notice.contains("makes no sense")), "{told:?}");
    let bad = |name| {
        let asked = bob.group("h").domain(name, &third).blocking_join();
        matches!(asked, Err(JoinError::BadDomain(_)))
    };
    assert!(bad("tool.locks") && bad("phalanx.locks"));
    let asked = bob.group("h").tool_domain("locks", &third).blocking_join();
    assert!(matches!(asked, Err(JoinError::BadDomain(why)) if why.contains("begins with tool.")));
}

/// A later version of the program, with a domain that the earlier one lacks, beside it.
#[test]
fn a_domain_comes_when_the_last_member_without_it_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let old = Replica::new(First::default());
    let (group, _inbox) = ann.group("g").state(&old).blocking_join().expect("joins");
    let made = || (Replica::new(First::default()), Replica::new(Log(vec![9])));
    let new = [made(), made()];
    let mut members = Vec::new();
    for (cell, (state, added)) in [&bob, &cid].into_iter().zip(&new) {
        let builder = cell.group("g").state(state).optional_domain("more", added);
        members.push(builder.blocking_join().expect("joins"));
    }
    group.send_value(&1_u32).blocking().expect("it is sent").blocking_stable().expect("all have it");
    let (later, _) = &members[0];
    assert_eq!(later.send_value(&2_u32).to_domain("more").blocking().err(), Some(SendError::NoSuchDomain));
    assert!(new.iter().all(|(_, added)| numbers(added) == [9] && !added.is_current()), "it takes no part yet");
    ann.blocking_leave(PATIENCE).expect("leaves");
    for (group, _) in &members {
        until("the domain came", || {
            group.view().is_some_and(|view| view.domains().is_some_and(|list| list.len() == 2))
        });
    }
    later.send_value(&3_u32).to_domain("more").blocking().expect("it is sent").blocking_stable().expect("all have it");
    for (state, added) in &new {
        until("it came", || numbers(added).last() == Some(&3));
        assert_eq!((numbers(state), numbers(added)), (vec![1], vec![3]), "it began as the default");
        assert!(added.is_current());
    }
    assert_eq!(*new[0].1.read(), *new[1].1.read(), "with the same views");
    let dan = start(directory.path(), "dan");
    let refused = dan.group("g").state(&old).blocking_join().expect_err("its version is over");
    assert_eq!(refused, JoinError::LacksDomain { group: "g".into(), domain: "more".into(), version: 1 });
}

/// Writes down what it is told.
#[derive(Default)]
struct Program {
    members: usize,
    numbers: Vec<(u32, bool)>,
    refused: bool,
    told: Vec<String>,
}

impl App for Program {
    fn message(&mut self, message: &MessageRef<'_>) {
        self.numbers.extend(message.decode().map(|number: u32| (number, message.is_to_domain())));
    }

    fn view(&mut self, _group: InlineGroup, view: &View) {
        self.members = view.len();
    }

    fn refused(&mut self, _group: InlineGroup) {
        self.refused = true;
    }

    fn event(&mut self, event: &CellEvent) {
        if let CellEvent::GroupDomains { .. } = event {
            self.told.push(event.to_string());
        }
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        let numbers: Vec<u32> = self.numbers.iter().map(|(number, _)| *number).collect();
        Some(Snapshot::encode(&numbers))
    }

    fn restore(&mut self, _group: InlineGroup, _part: &[u8], _is_end: bool) -> Result<(), DecodeError> {
        Ok(())
    }
}

fn poll(member: &mut Inline, app: &mut Program, what: &str, done: impl Fn(&Program) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done(app) {
        assert!(Instant::now() < end, "{what}");
        member.poll(app);
    }
}

#[test]
fn a_program_that_polls_keeps_one_domain_and_sends_to_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut member = patient(directory.path(), "ann").inline().expect("starts");
    let mut app = Program::default();
    let group = member.group("g").with_state().join(&mut app).expect("it asks");
    poll(&mut member, &mut app, "the first view", |app| app.members == 1);
    let send = |member: &mut Inline, app: &mut Program, domain: &str| {
        let payload = 7_u32.to_le_bytes().map(|byte| byte & 0x7f);
        member.multicast_to_domain(group, domain, Guarantee::Plain, &payload[..1], app)
    };
    assert_eq!(send(&mut member, &mut app, ""), Ok(()));
    assert_eq!(send(&mut member, &mut app, "prices"), Err(SendError::NoSuchDomain));
    member.multicast(group, Order::Total, Guarantee::Plain, &[8], &mut app).expect("it is queued");
    poll(&mut member, &mut app, "both came", |app| app.numbers.len() == 2);
    assert_eq!(app.numbers, [(7, true), (8, false)]);
    // It joins no group that has another domain.
    let bob = start(directory.path(), "bob");
    let (state, prices) = (Replica::new(First::default()), Replica::new(First::default()));
    let joins = thread::spawn(move || {
        let member = bob.group("h").state(&state).domain("prices", &prices).blocking_join().expect("joins");
        (member, bob)
    });
    while !joins.is_finished() {
        member.poll(&mut app);
    }
    let _member = joins.join().expect("no panic");
    member.group("h").with_state().join(&mut app).expect("it asks");
    poll(&mut member, &mut app, "it is refused", |app| app.refused);
    assert_eq!(
        app.told,
        ["group h is not joined: it has version 1 of domain prices of the state, and this process does not"]
    );
}
