//! States that are sent and taken in pieces, and that have domains, over real sockets.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use phalanx::{
    Bytes, Cell, CellEvent, DecodeError, Inbox, JoinError, LeaveError, LeaveReason, Message, Next, Piece, Replica,
    Snapshot, State, View,
};

fn start(directory: &Path, name: &str) -> Cell {
    Cell::builder("default")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set("timing.suspect_after", "5s")
        .blocking_start()
        .expect("starts")
}

const PATIENCE: Duration = Duration::from_secs(20);

/// 8 MiB in blocks that are copied on write.
struct Blocks(Vec<Arc<[u8; BLOCK_BYTES]>>);

const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 128;

/// Pieces that were made, and that were taken.
static MADE: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The most that were made and not taken.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static JOINER: OnceLock<Replica<Blocks>> = OnceLock::new();

impl State for Blocks {
    fn apply(&mut self, message: &Message) {
        if let Ok((block, at)) = message.decode::<(usize, usize)>() {
            let byte = &mut Arc::make_mut(&mut self.0[block])[at];
            *byte = byte.wrapping_mul(3).wrapping_add(1);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let make = |block: Arc<[u8; BLOCK_BYTES]>| {
            MADE.fetch_add(1, Ordering::Relaxed);
            Bytes::copy_from_slice(&*block)
        };
        MADE.store(0, Ordering::Relaxed);
        let bytes = BLOCKS as u64 * (BLOCK_BYTES as u64 + Snapshot::FRAME_BYTES);
        Snapshot::pieces(bytes, self.0.clone().into_iter().map(make))
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        panic!("it comes in pieces");
    }

    fn restore_begin() -> Option<Self> {
        TAKEN.store(0, Ordering::Relaxed);
        Some(Self(Vec::new()))
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        UNDER_WAY.fetch_max(MADE.load(Ordering::Relaxed) - taken, Ordering::Relaxed);
        let progress = JOINER.get().and_then(Replica::progress).expect("a transfer is under way");
        assert!(progress.taken >= (taken * BLOCK_BYTES) as u64 && progress.taken < progress.bytes, "{progress:?}");
        let block = <[u8; BLOCK_BYTES]>::try_from(piece.bytes());
        self.0.push(Arc::new(block.map_err(|_other| DecodeError::new("a block has another length"))?));
        Ok(())
    }
}

fn blocks() -> Replica<Blocks> {
    Replica::new(Blocks((0..BLOCKS).map(|_| Arc::new([0; BLOCK_BYTES])).collect()))
}

#[test]
fn a_state_goes_over_in_pieces_that_are_made_when_they_are_sent_while_messages_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ann, bob) = (start(directory.path(), "ann"), start(directory.path(), "bob"));
    let (first, second) = (blocks(), blocks());
    JOINER.set(second.clone()).ok().expect("once");
    let (group, inbox) = ann.group("g").state(&first).blocking_join().expect("joins");
    drop(inbox);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, group) = (&done, &group);
        let traffic = scope.spawn(move || {
            for number in 0_usize.. {
                let place = (number * 37 % BLOCKS, number * 101 % BLOCK_BYTES);
                let sent = group.send_value(&place).blocking().expect("goes out");
                sent.blocking_delivered().expect("delivered");
                if done.load(Ordering::Relaxed) {
                    return number;
                }
            }
            0
        });
        let (_group, mut inbox) = bob.group("g").state(&second).blocking_join().expect("joins");
        let is_taking = |next: Next| matches!(next, Next::Taking { bytes } if bytes > (BLOCKS * BLOCK_BYTES) as u64);
        assert!(std::iter::from_fn(|| inbox.try_next()).any(is_taking));
        assert_eq!(second.progress(), None, "it is over");
        done.store(true, Ordering::Relaxed);
        assert!(traffic.join().expect("no panic") > 0, "nothing was sent meanwhile");
        let last = group.send("an end").blocking().expect("goes out");
        last.blocking_delivered().expect("delivered");
        while inbox.blocking_next().is_some_and(|next| !matches!(next, Next::Message(m) if m.payload == "an end"[..])) {
        }
    });
    assert!(first.read().0 == second.read().0, "the copies differ");
    assert_eq!(TAKEN.load(Ordering::Relaxed), BLOCKS);
    let under_way = UNDER_WAY.load(Ordering::Relaxed);
    assert!(under_way < BLOCKS / 2, "{under_way} of {BLOCKS} pieces were made before they could be sent");
    ann.blocking_leave(PATIENCE).expect("leaves");
    bob.blocking_leave(PATIENCE).expect("leaves");
}

/// The sum of all numbers of each sender's turn: sent as a whole.
#[derive(Default)]
struct Sums(BTreeMap<u32, u64>);

impl State for Sums {
    fn apply(&mut self, message: &Message) {
        if let Ok(number) = message.decode::<u32>() {
            *self.0.entry(number % 7).or_default() += 1;
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

/// All numbers: sent in pieces.
#[derive(Default)]
struct All(Vec<u32>);

impl State for All {
    fn apply(&mut self, message: &Message) {
        self.0.extend(message.decode::<u32>());
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode_each(self.0.clone())
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode_each().collect::<Result<_, _>>().map(Self)
    }
}

fn await_end(inbox: &mut Inbox) -> Next {
    let mut last = None;
    while let Some(next) = inbox.blocking_next_timeout(PATIENCE).expect("it goes on") {
        last = Some(next);
    }
    last.expect("an item")
}

#[test]
fn domains_move_together_and_a_joiner_without_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    let replicas = || (Replica::new(Sums::default()), Replica::new(All::default()));
    let [(first_sums, first_all), (sums, all), (alone, other)] = [replicas(), replicas(), replicas()];
    let bad = |name: &str| {
        let builder = cells[0].group("g").state(&first_sums).domain("all", &first_all).domain(name, &other);
        match builder.blocking_join() {
            Err(JoinError::BadDomain(why)) => why,
            outcome => panic!("{outcome:?}"),
        }
    };
    assert_eq!(
        bad("phalanx.locks"),
        "names that begin with phalanx. are the library's own, and those with tool. are tools'"
    );
    assert_eq!(bad("all"), "all was given twice");
    assert!(bad("").contains("1 to 200 bytes"));
    let same = cells[0].group("g").state(&first_sums).domain("again", &first_sums).blocking_join();
    assert!(matches!(same, Err(JoinError::BadDomain(why)) if why.contains("a replica was given twice")));

    let founder = cells[0].group("g").state(&first_sums).domain("all", &first_all);
    let (group, inbox) = founder.blocking_join().expect("joins");
    drop(inbox);
    (0..1_000_u32).for_each(|number| group.send_value(&number).blocking_post().expect("goes out"));
    group.blocking_flush().expect("all is sent");

    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Nobody sees one domain ahead of the other, neither when they are taken nor when a message is applied.
            while !done.load(Ordering::Relaxed) {
                let (sums, all) = (sums.read(), all.read());
                assert_eq!(sums.0.values().sum::<u64>(), all.0.len() as u64);
            }
        });
        let (_group, inbox) = cells[1].group("g").state(&sums).domain("all", &all).blocking_join().expect("joins");
        drop(inbox);
        let mut sent = None;
        for number in 1_000..1_500_u32 {
            sent = Some(group.send_value(&number).blocking().expect("goes out"));
        }
        sent.expect("some").blocking_stable().expect("all have it");
        while all.read().0.len() < 1_500 {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(all.read().0.iter().copied().eq(0..1_500));
    assert_eq!(sums.read().0, first_sums.read().0);

    let refused = cells[2].group("g").state(&alone).blocking_join();
    assert!(matches!(refused, Err(JoinError::LacksDomain { domain, .. }) if domain == "all"));
    assert!(!alone.is_current() && alone.read().0.is_empty());
    let (_group, mut inbox) = cells[2]
        .group("g")
        .state(&alone)
        .optional_domain("more", &other)
        .domain("all", &Replica::new(All::default()))
        .blocking_join()
        .expect("joins");
    assert!(std::iter::from_fn(|| inbox.try_next()).any(|next| matches!(next, Next::Current)));
    assert!(!other.is_current() && other.read().0.is_empty(), "the group lists no such domain");
    assert_eq!(alone.read().0, sums.read().0);
    for cell in cells {
        cell.blocking_leave(PATIENCE).expect("leaves");
    }
}

/// Where the only member that has the state dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Dies {
    Never,
    /// When it freezes its state: nothing of it is sent yet.
    Freezing,
    /// When it makes this piece of it.
    AtPiece(u8),
    /// When it installs the view in which the joiner is a member: all bytes are there, and not their end.
    WithJoiner,
}

/// A state of 2 MiB whose donor dies where it is told to.
pub(super) struct Deadly {
    pub(super) bytes: Vec<u8>,
    pub(super) dies: Dies,
}

impl Deadly {
    const PIECES: u8 = 64;
    const PIECE_BYTES: usize = 32 << 10;

    pub(super) fn of_holder(dies: Dies) -> Self {
        Self { bytes: vec![1; usize::from(Self::PIECES) * Self::PIECE_BYTES], dies }
    }
}

impl State for Deadly {
    fn apply(&mut self, message: &Message) {
        self.bytes.extend_from_slice(&message.payload);
    }

    fn view(&mut self, view: &View) {
        assert!(self.dies != Dies::WithJoiner || view.len() == 1, "dies on purpose");
    }

    fn snapshot(&self) -> Snapshot {
        let dies = self.dies;
        assert_ne!(dies, Dies::Freezing, "dies on purpose");
        let make = move |piece| {
            assert_ne!(dies, Dies::AtPiece(piece), "dies on purpose");
            vec![1; Self::PIECE_BYTES]
        };
        let bytes = u64::from(Self::PIECES) * (Self::PIECE_BYTES as u64 + Snapshot::FRAME_BYTES);
        Snapshot::pieces(bytes, (0..Self::PIECES).map(make))
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        Ok(Self { bytes: snapshot.into_bytes().into(), dies: Dies::Never })
    }
}

/// Wherever the holder dies, the joiner shows no state that is not whole, and is told what it founds.
#[test]
fn who_takes_a_state_whose_only_holder_dies_founds_the_group_anew_and_is_told() {
    for dies in [Dies::Freezing, Dies::AtPiece(9), Dies::AtPiece(32), Dies::AtPiece(63), Dies::WithJoiner] {
        let directory = tempfile::tempdir().expect("a directory");
        // The oldest is beside the group: without it the joiner is no quorum.
        let [oldest, ann, bob] = ["oldest", "ann", "bob"].map(|name| start(directory.path(), name));
        let (holder, copy) =
            (Replica::new(Deadly::of_holder(dies)), Replica::new(Deadly { bytes: b"own".to_vec(), dies: Dies::Never }));
        let (_group, inbox) = ann.group("g").state(&holder).blocking_join().expect("founds it");
        drop(inbox);
        let mut events = bob.events();
        let (group, mut inbox) = bob.group("g").state(&copy).blocking_join().expect("joins");
        let mut items = Vec::new();
        let view = loop {
            match inbox.blocking_next_timeout(PATIENCE).expect("it goes on").expect("it stays a member") {
                Next::View(view) if view.len() == 1 => break view,
                item => items.push(item),
            }
        };
        assert!(matches!(items.last(), Some(Next::FoundedAnew)), "{dies:?}: {items:?}");
        assert!(!items.iter().any(|item| matches!(item, Next::Current)), "{dies:?}: {items:?}");
        assert_eq!(items.iter().any(|item| matches!(item, Next::Taking { .. })), dies != Dies::Freezing);
        assert_eq!((view.number(), view.my_rank()), (1, 0), "{dies:?}");
        let told = std::iter::from_fn(|| events.try_next())
            .filter(|event| matches!(event, CellEvent::GroupFoundedAnew { group } if &**group == "g"));
        assert_eq!(told.count(), 1);
        assert!(bob.notices().iter().any(|notice| notice.starts_with("group g is founded anew by this process")));
        assert_eq!(copy.progress(), None);
        let sent = group.send(" and more").blocking().expect("it is a member");
        sent.blocking_stable().expect("it goes on");
        assert!(copy.is_current() && copy.read().bytes == b"own and more", "{dies:?}");
        assert_eq!(ann.blocking_leave(PATIENCE), Err(LeaveError::Panicked));
        for cell in [bob, oldest] {
            cell.blocking_leave(PATIENCE).expect("leaves");
        }
    }
}

/// A state that takes none.
struct Fussy;

impl State for Fussy {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("")
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Err(DecodeError::new("not like this"))
    }
}

/// A program that is scheduled late asks whether it joined when the membership is over already. The process is not.
#[test]
fn a_membership_that_ended_before_the_join_was_looked_at_is_told_by_its_inbox() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob"].map(|name| start(directory.path(), name));
    let replicas = (Replica::new(Sums::default()), Replica::new(Fussy));
    let founder = cells[0].group("g").state(&replicas.0);
    let (_founder, mut views) = founder.blocking_join().expect("founds it");
    let mut joining = pin!(cells[1].group("g").state(&replicas.1).join());
    assert!(joining.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The joiner refuses the state: it comes, and goes again.
    let members = std::iter::from_fn(|| views.blocking_next_timeout(PATIENCE).expect("it goes on"))
        .filter_map(|item| if let Next::View(view) = item { Some(view.members().len()) } else { None });
    assert_eq!(members.skip_while(|members| *members < 2).find(|members| *members < 2), Some(1));
    while cells[1]
        .group("g")
        .state(&replicas.1)
        .blocking_join()
        .is_err_and(|error| matches!(error, JoinError::AlreadyMember(_)))
    {
        thread::yield_now();
    }
    let Poll::Ready(joined) = joining.poll(&mut Context::from_waker(Waker::noop())) else { panic!("it ended") };
    let (_group, mut inbox) = joined.expect("it was in");
    assert!(matches!(await_end(&mut inbox), Next::Left(LeaveReason::Left)));
    for cell in cells {
        cell.blocking_leave(PATIENCE).expect("leaves");
    }
}

#[test]
fn processes_that_ask_for_a_group_at_once_have_the_state_of_one_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = ["ann", "bob", "cid"].map(|name| start(directory.path(), name));
    // All are in the cell first, so that one decree finds several requests.
    while cells.iter().any(|cell| cell.members().len() < cells.len()) {
        thread::sleep(Duration::from_millis(1));
    }
    for round in 0..10 {
        // Each brings a state of its own.
        let replicas = [0, 1, 2].map(|number| Replica::new(Sums(BTreeMap::from([(number, 1)]))));
        let joined: Vec<_> = thread::scope(|scope| {
            let join = |(cell, replica): (&Cell, _)| {
                let group = cell.group(format!("g{round}"));
                let (group, mut inbox) = group.state(replica).blocking_join().expect("joins");
                assert!(inbox.try_next().is_some(), "who has joined finds the first items");
                (group, inbox)
            };
            let threads: Vec<_> = cells.iter().zip(&replicas).map(|each| scope.spawn(move || join(each))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        while joined.iter().any(|(group, _)| group.view().is_none_or(|view| view.len() < cells.len())) {
            thread::sleep(Duration::from_millis(1));
        }
        let brought = replicas.each_ref().map(|replica| replica.read().0.clone());
        assert!(brought.iter().all(|state| *state == brought[0]), "{brought:?}");
    }
    for cell in cells {
        cell.blocking_leave(PATIENCE).expect("leaves");
    }
}
