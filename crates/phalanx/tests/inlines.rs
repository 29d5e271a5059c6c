//! Processes that one thread polls in turn.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{
    App, Cell, CellBuilder, DecodeError, Guarantee, Inline, InlineGroup, JoinError, LeaveError, LeaveReason, MemberId,
    Message, MessageRef, Next, Order, Place, Replica, SendError, Snapshot, State, View,
};

use crate::states::{Deadly, Dies};

/// A program that writes down all it is told. Its state is the list of payloads.
struct Log {
    takes: bool,
    views: Vec<View>,
    messages: Vec<(MemberId, u64, Vec<u8>)>,
    /// Numbers that were bound to the latest view, and how far they are stable.
    sent: Vec<u64>,
    stable: u64,
    lost: (u64, u64),
    unicasts: Vec<(MemberId, Vec<u8>)>,
    unicasts_in_doubt: Vec<(MemberId, u64)>,
    left: Vec<LeaveReason>,
    excluded: Vec<MemberId>,
    state: Vec<u8>,
    /// Pieces of a state that came, and whether it is complete.
    pieces: usize,
    is_current: bool,
}

impl Log {
    fn new() -> Self {
        Self {
            takes: true,
            views: Vec::new(),
            messages: Vec::new(),
            sent: Vec::new(),
            stable: 0,
            lost: (0, 0),
            unicasts: Vec::new(),
            unicasts_in_doubt: Vec::new(),
            left: Vec::new(),
            excluded: Vec::new(),
            state: Vec::new(),
            pieces: 0,
            is_current: false,
        }
    }

    fn members(&self) -> usize {
        self.views.last().map_or(0, View::len)
    }
}

impl App for Log {
    fn message(&mut self, message: &MessageRef<'_>) {
        self.state.extend_from_slice(message.payload);
        if !message.replayed {
            self.messages.push((message.sender, message.seq, message.payload.to_vec()));
        }
    }

    fn ready(&mut self, _group: InlineGroup) -> bool {
        self.takes
    }

    fn view(&mut self, _group: InlineGroup, view: &View) {
        self.views.push(view.clone());
        self.sent.clear();
    }

    fn sent(&mut self, _group: InlineGroup, _view: u64, seq: u64) {
        self.sent.push(seq);
    }

    fn stable(&mut self, _group: InlineGroup, _view: u64, seq: u64) {
        self.stable = seq;
    }

    fn lost(&mut self, _group: InlineGroup, not_sent: u64, in_doubt: u64) {
        self.lost = (self.lost.0 + not_sent, self.lost.1 + in_doubt);
    }

    fn unicast(&mut self, from: MemberId, payload: &[u8]) {
        self.unicasts.push((from, payload.to_vec()));
    }

    fn unicasts_in_doubt(&mut self, to: MemberId, messages: u64) {
        self.unicasts_in_doubt.push((to, messages));
    }

    fn left(&mut self, _group: InlineGroup, reason: LeaveReason) {
        self.left.push(reason);
    }

    fn excluded(&mut self, was: MemberId) {
        self.excluded.push(was);
    }

    fn snapshot(&mut self, _group: InlineGroup) -> Option<Snapshot> {
        let pieces: Vec<Vec<u8>> = self.state.chunks(1_000).map(<[u8]>::to_vec).collect();
        let bytes = self.state.len() as u64 + pieces.len() as u64 * Snapshot::FRAME_BYTES;
        Some(Snapshot::pieces(bytes, pieces))
    }

    fn taking(&mut self, _group: InlineGroup, bytes: u64) {
        self.state = Vec::with_capacity(usize::try_from(bytes).expect("short"));
    }

    fn restore(&mut self, _group: InlineGroup, part: &[u8], is_end: bool) -> Result<(), DecodeError> {
        self.pieces += usize::from(is_end);
        self.state.extend_from_slice(part);
        Ok(())
    }

    fn current(&mut self, _group: InlineGroup) {
        self.is_current = true;
    }
}

type Member = (Inline, Log);

fn builder(directory: &Path, name: &str) -> CellBuilder {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .set("timing.turn_gap_max", "1s")
}

fn start(directory: &Path, name: &str) -> Member {
    (builder(directory, name).inline().expect("starts"), Log::new())
}

/// Polls all in turn until `done`.
fn run(members: &mut [Member], mut done: impl FnMut(&mut [Member]) -> bool) {
    let ends = Instant::now() + PATIENCE;
    while !done(members) {
        assert!(Instant::now() < ends, "it does not come to that");
        let mut idle = true;
        for (member, app) in members.iter_mut() {
            let polled = member.poll(app);
            idle &= !polled.more && polled.received == 0;
        }
        if idle {
            members[0].0.wait(Some(Duration::from_millis(1))).expect("waits");
        }
    }
}

fn leave(members: &mut [Member]) {
    for (member, app) in members.iter_mut() {
        member.leave(app);
    }
    run(members, |members| members.iter().all(|(member, _)| member.is_over()));
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn processes_that_one_thread_polls_see_one_order() {
    const EACH: u64 = 300;
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = [start(directory.path(), "ann"), start(directory.path(), "bob")];
    let groups = members.each_mut().map(|(member, app)| member.group("g").join(app).expect("joins"));
    let (ann, app) = &mut members[0];
    assert_eq!(ann.group("g").join(app), Err(JoinError::AlreadyMember("g".to_owned())));
    let early = ann.multicast(groups[0], Order::Total, Guarantee::Uniform, b"early", app);
    assert_eq!(early, Err(SendError::NoView), "it is in no view yet");
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2));
    assert_eq!(members[0].1.views.last(), members[1].1.views.last());
    assert_eq!(members[0].0.standing().place, Place::Primary);
    assert_eq!(members[0].0.members().len(), 2);

    let mut accepted = [0; 2];
    run(&mut members, |members| {
        for (at, (member, app)) in members.iter_mut().enumerate() {
            while accepted[at] < EACH {
                let payload = accepted[at].to_le_bytes();
                match member.multicast(groups[at], Order::Total, Guarantee::Uniform, &payload, app) {
                    Ok(()) => accepted[at] += 1,
                    Err(SendError::Full) => break,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        members
            .iter()
            .zip(groups)
            .all(|((member, app), group)| app.messages.len() as u64 == 2 * EACH && member.unstable(group) == Some(0))
    });
    assert_eq!(members[0].1.messages, members[1].1.messages, "one order for both");
    for (member, app) in &members {
        let own: Vec<u64> =
            app.messages.iter().filter(|(from, ..)| *from == member.me().id).map(|(_, seq, _)| *seq).collect();
        assert_eq!((own, app.stable), ((1..=EACH).collect::<Vec<_>>(), EACH));
        assert_eq!(app.sent, (1..=EACH).collect::<Vec<_>>(), "each was bound once, in order");
    }

    let (bob, app) = &mut members[1];
    bob.leave_group(groups[1], app).expect("asks");
    run(&mut members, |members| members[0].1.members() == 1 && !members[1].1.left.is_empty());
    let (bob, app) = &mut members[1];
    assert_eq!(app.left, [LeaveReason::Left]);
    let late = bob.multicast(groups[1], Order::Total, Guarantee::Uniform, b"late", app);
    assert_eq!((late, bob.unstable(groups[1])), (Err(SendError::NotMember), None));
    assert_eq!(bob.leave_group(groups[1], app), Err(LeaveError::Already(LeaveReason::Left)));
    // The slot is used again, and the old handle does not stand for the new membership.
    let again = bob.group("g").join(app).expect("joins");
    assert_ne!(again, groups[1]);
    run(&mut members, |members| members[0].1.members() == 2);
    leave(&mut members);
    assert_eq!(members.each_ref().map(|(_, app)| app.lost), [(0, 0); 2]);
    let (ann, app) = &mut members[0];
    assert_eq!(ann.group("other").join(app), Err(JoinError::Over));
    assert_eq!(ann.multicast(groups[0], Order::Fifo, Guarantee::Plain, b"x", app), Err(SendError::Over));
}

/// Whatever groups they are in, and whether or not the program takes messages of groups.
#[test]
fn a_unicast_comes_to_one_member_alone_and_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let ids = members.each_ref().map(|(member, _)| member.me().id);
    let (ann, app) = &mut members[0];
    assert_eq!(ann.unicast(ids[1], b"early", app), Err(SendError::NoSuchMember), "it is in no view yet");
    run(&mut members, |members| members.iter().all(|(member, _)| member.members().len() == 3));
    assert_eq!(members[0].0.unicast(ids[0], b"own", &mut members[0].1), Err(SendError::NoSuchMember));

    members[1].1.takes = false;
    let payloads: Vec<Vec<u8>> = (0..200_u64).map(|number| number.to_le_bytes().repeat(100)).collect();
    let mut accepted = 0;
    run(&mut members, |members| {
        let (ann, app) = &mut members[0];
        while let Some(payload) = payloads.get(accepted) {
            match ann.unicast(ids[1], payload, app) {
                Ok(()) => accepted += 1,
                Err(error) => {
                    assert_eq!(error, SendError::Full);
                    break;
                }
            }
        }
        members[1].1.unicasts.len() == payloads.len()
    });
    let expected: Vec<_> = payloads.into_iter().map(|payload| (ids[0], payload)).collect();
    assert_eq!(members[1].1.unicasts, expected);
    assert!(members[2].1.unicasts.is_empty(), "it is for one member");
    let long = vec![0; (64 << 20) + 1];
    let (bob, app) = &mut members[1];
    assert_eq!(bob.unicast(ids[2], &long, app), Err(SendError::TooLong(long.len())));
    leave(&mut members);
    let (bob, app) = &mut members[1];
    assert_eq!(bob.unicast(ids[2], b"late", app), Err(SendError::Over));
    assert!(members.iter().all(|(_, app)| app.unicasts_in_doubt.is_empty()), "all were acknowledged");
}

/// What a trace records as a silence, and the one that orders.
#[test]
fn a_view_change_and_the_sequencer_are_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = vec![start(directory.path(), "ann")];
    let (ann, app) = &mut members[0];
    let group = ann.group("g").join(app).expect("joins");
    assert_eq!(ann.sequencer(group), None, "it is in no view yet");
    run(&mut members, |members| members[0].1.members() == 1);
    assert_eq!(members[0].0.sequencer(group), Some(members[0].0.me()));
    // Alone it decides at once; with another one it has to wait.
    members.push(start(directory.path(), "bob"));
    run(&mut members, |members| members[0].0.members().len() == 2);
    run(&mut members, |members| !members[0].0.is_changing_view());
    let mut has_changed = false;
    let (bob, app) = &mut members[1];
    let other = bob.group("g").join(app).expect("joins");
    run(&mut members, |members| {
        has_changed |= members[0].0.is_changing_view();
        members.iter().all(|(_, app)| app.members() == 2)
    });
    assert!(has_changed, "ann was held up by the join");
    run(&mut members, |members| members.iter().all(|(member, _)| !member.is_changing_view()));
    assert_eq!(members[1].0.sequencer(other), members[0].0.sequencer(group));
    leave(&mut members);
    assert_eq!(members[0].0.sequencer(group), None);
}

#[test]
fn a_multicast_without_credit_is_refused_and_nothing_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = [start(directory.path(), "ann"), start(directory.path(), "bob")];
    let groups = members.each_mut().map(|(member, app)| member.group("g").join(app).expect("joins"));
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2));

    // Bob takes nothing, so that Ann's window is used up in the end.
    members[1].1.takes = false;
    let (payload, mut accepted) = (vec![7; 50_000], 0);
    run(&mut members, |members| {
        let (ann, app) = &mut members[0];
        match ann.multicast(groups[0], Order::Fifo, Guarantee::Plain, &payload, app) {
            Ok(()) => accepted += 1,
            Err(error) => assert_eq!(error, SendError::Full),
        }
        // Refused in poll after poll: it is not only that the last poll did not send yet.
        for _ in 0..20 {
            members.iter_mut().for_each(|(member, app)| {
                member.poll(app);
            });
        }
        let (ann, app) = &mut members[0];
        let outcome = ann.multicast(groups[0], Order::Fifo, Guarantee::Plain, &payload, app);
        accepted += u64::from(outcome.is_ok());
        outcome == Err(SendError::Full)
    });
    assert!(members[1].1.messages.is_empty(), "nothing was handed over");
    assert!(members[0].0.unstable(groups[0]).is_some_and(|unstable| unstable <= accepted));
    members[1].1.takes = true;
    run(&mut members, |members| members[1].1.messages.len() as u64 == accepted);
    run(&mut members, |members| members[0].0.unstable(groups[0]) == Some(0));
    leave(&mut members);
}

#[test]
fn a_joiner_takes_the_state_in_pieces() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = vec![start(directory.path(), "ann")];
    let (ann, app) = &mut members[0];
    app.state = vec![1; 300_000];
    let group = ann.group("g").with_state().join(app).expect("joins");
    run(&mut members, |members| members[0].1.members() == 1);
    members.push(start(directory.path(), "bob"));
    let (bob, app) = &mut members[1];
    bob.group("g").with_state().join(app).expect("joins");
    // Messages go on meanwhile.
    let mut count = 0;
    run(&mut members, |members| {
        let (ann, app) = &mut members[0];
        if count < 200 && ann.multicast(group, Order::Total, Guarantee::GroupDefault, b"m", app).is_ok() {
            count += 1;
        }
        count == 200 && members[0].1.state.len() == 300_200 && members.iter().all(|(_, app)| app.members() == 2)
    });
    run(&mut members, |members| members[1].1.state == members[0].1.state);
    assert!(members[1].1.is_current && members[1].1.pieces > 1, "{} pieces", members[1].1.pieces);
    leave(&mut members);
}

/// The program drops what came of the state: by default it is told of an empty one.
#[test]
fn who_takes_a_state_whose_only_holder_dies_begins_the_group_with_its_own() {
    for dies in [Dies::Freezing, Dies::AtPiece(32), Dies::WithJoiner] {
        let directory = tempfile::tempdir().expect("a directory");
        // The oldest is beside the group: without it the joiner is no quorum.
        let [oldest, ann] =
            ["oldest", "ann"].map(|name| builder(directory.path(), name).blocking_start().expect("starts"));
        let holder = Replica::new(Deadly::of_holder(dies));
        let (_group, inbox) = ann.group("g").state(&holder).blocking_join().expect("founds it");
        drop(inbox);
        let mut members = [start(directory.path(), "bob")];
        let (bob, app) = &mut members[0];
        bob.group("g").with_state().join(app).expect("asks");
        run(&mut members, |members| members[0].1.members() == 1);
        let (bob, app) = &mut members[0];
        assert_eq!((app.state.len(), app.is_current, app.views[0].number()), (0, true, 1), "{dies:?}");
        assert_eq!((app.pieces > 0, app.pieces < 64), (dies != Dies::Freezing, dies != Dies::WithJoiner), "{dies:?}");
        assert!(bob.notices().iter().any(|notice| notice.starts_with("group g is founded anew by this process")));
        leave(&mut members);
        assert_eq!(members[0].1.left, [LeaveReason::Left], "it stayed a member until it left");
        assert_eq!(ann.blocking_leave(PATIENCE), Err(LeaveError::Panicked));
        oldest.blocking_leave(PATIENCE).expect("leaves");
    }
}

#[test]
fn it_is_a_member_among_processes_with_a_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let other = builder(directory.path(), "ann").blocking_start().expect("starts");
    let (group, mut inbox) = other.group("g").blocking_join().expect("joins");
    let mut members = [start(directory.path(), "bob")];
    let (bob, app) = &mut members[0];
    let waker = bob.waker();
    let mine = bob.group("g").join(app).expect("joins");
    run(&mut members, |members| members[0].1.members() == 2);
    let sender = thread::spawn(move || {
        group.send("hello").blocking().expect("goes out").blocking_stable().expect("all have it");
        waker.wake();
        group
    });
    run(&mut members, |members| !members[0].1.messages.is_empty() && sender.is_finished());
    let _group = sender.join().expect("it was sent");
    let (bob, app) = &mut members[0];
    bob.multicast(mine, Order::Causal, Guarantee::Plain, b"and back", app).expect("there is credit");
    run(&mut members, |members| members[0].0.unstable(mine) == Some(0));
    // It cannot take a message to it alone, and says so once.
    let (bob, app) = &mut members[0];
    (0..2).for_each(|_| bob.unicast(other.me().id, b"for ann", app).expect("there is room"));
    leave(&mut members);
    let notices = other.notices();
    let told = |notice: &&String| notice.contains("sends messages to this process alone");
    assert_eq!(notices.iter().filter(told).count(), 1, "{notices:?}");
    let mut payloads = Vec::new();
    while payloads.len() < 2 {
        if let Next::Message(message) = inbox.blocking_next().expect("it goes on") {
            payloads.push(message.payload);
        }
    }
    assert_eq!(payloads, ["hello", "and back"]);
    other.blocking_leave(PATIENCE).expect("leaves");
}

#[test]
fn one_that_stays_away_is_excluded_and_comes_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name| {
        let builder = Cell::builder("default").name(name).set("timing.suspect_after", "1s");
        let member = builder.directories(directory.path().join("run"), directory.path().join("state")).inline();
        (member.expect("starts"), Log::new())
    };
    let mut members = [start("ann"), start("bob")];
    let (ann, app) = &mut members[0];
    ann.group("g").with_state().join(app).expect("joins");
    run(&mut members[..1], |members| members[0].1.members() == 1);
    let (bob, app) = &mut members[1];
    let group = bob.group("g").with_state().join(app).expect("joins");
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2));
    let (bob, app) = &mut members[1];
    let (was, ann) = (bob.me().id, bob.members()[0].id);
    for _ in 0..3 {
        bob.multicast(group, Order::Total, Guarantee::Uniform, b"lost", app).expect("there is credit");
        bob.unicast(ann, b"lost", app).expect("there is room");
    }
    run(&mut members[..1], |members| members[0].1.members() == 1);
    run(&mut members, |members| members.iter().all(|(_, app)| app.members() == 2) && !members[1].1.excluded.is_empty());
    let (bob, app) = &mut members[1];
    assert_eq!(app.excluded, [was]);
    assert_ne!(bob.me().id, was);
    assert_eq!((app.lost.0 + app.lost.1, &app.left[..]), (3, &[][..]));
    assert_eq!(app.unicasts_in_doubt, [(ann, 3)], "nobody acknowledged them");
    assert_eq!(bob.unstable(group), Some(0), "the new incarnation has sent nothing");
    bob.multicast(group, Order::Total, Guarantee::Uniform, b"again", app).expect("the handle is the same");
    run(&mut members, |members| members.iter().all(|(_, app)| app.state.ends_with(b"again")));
    assert_eq!(members[0].1.state, members[1].1.state);
    leave(&mut members);
}

/// The payloads one after the other, as [`Log`] keeps them.
struct Joined(Vec<u8>);

impl State for Joined {
    fn apply(&mut self, message: &Message) {
        self.0.extend_from_slice(&message.payload);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.0.clone())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self(snapshot.into_bytes().to_vec()))
    }
}

#[test]
fn states_move_between_it_and_processes_with_a_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let ann = builder(directory.path(), "ann").blocking_start().expect("starts");
    let first = Replica::new(Joined(b"abc".to_vec()));
    let (group, mut inbox) = ann.group("g").state(&first).blocking_join().expect("joins");
    group.send("def").blocking().expect("goes out").blocking_stable().expect("all have it");
    let mut members = [start(directory.path(), "bob")];
    let (bob, app) = &mut members[0];
    bob.group("g").with_state().join(app).expect("joins");
    run(&mut members, |members| members[0].1.members() == 2);
    assert_eq!((&members[0].1.state[..], members[0].1.is_current), (&b"abcdef"[..], true));

    // Ann goes, and another takes the state from Bob.
    let left = thread::spawn(move || ann.blocking_leave(PATIENCE));
    run(&mut members, |members| members[0].1.members() == 1 && left.is_finished());
    left.join().expect("it left").expect("in order");
    while inbox.blocking_next().is_some() {}
    let path = directory.path().to_owned();
    let joined = thread::spawn(move || {
        let cid = builder(&path, "cid").blocking_start().expect("starts");
        let replica = Replica::new(Joined(Vec::new()));
        let joined = cid.group("g").state(&replica).blocking_join().expect("joins");
        (cid, joined, replica)
    });
    run(&mut members, |members| members[0].1.members() == 2 && joined.is_finished());
    let (_cid, _joined, replica) = joined.join().expect("it joined");
    assert_eq!(replica.read().0, b"abcdef");
    leave(&mut members);
}

#[test]
fn a_wait_ends_by_its_waker_and_by_a_descriptor() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut member, mut app) = start(directory.path(), "ann");
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::write(&writer, b"x").expect("written");
    use std::os::fd::AsFd;
    assert_eq!(member.wait_also(Some(PATIENCE), &[reader.as_fd()]), Ok(1));
    member.waker().wake();
    let begun = Instant::now();
    member.wait(Some(PATIENCE)).expect("waits");
    while member.poll(&mut app).more {}
    assert!(begun.elapsed() < PATIENCE / 2, "the wake-up came first");
}
