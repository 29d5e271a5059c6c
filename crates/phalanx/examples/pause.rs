//! How long a process stands still when it gives its state away: `pause [MIB]`, 64 by default.
//!
//! A member gives a map of so many MiB to a joiner, three times for each kind of snapshot. Meanwhile it sends itself one
//! message after the other in another group, of which it is the only member. The longest wait for one of them is the
//! pause. `nothing` is the same without a joiner.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::marker::PhantomData;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::{Cell, DecodeError, Group, Message, Piece, Replica, Snapshot, State};
use rpds::RedBlackTreeMapSync;

type Map = RedBlackTreeMapSync<u64, Vec<u8>>;

/// How a snapshot is made.
trait Kind: Send + Sync + 'static {
    const NAME: &str;
    fn snapshot(map: &Map, bytes: u64) -> Snapshot;
}

struct Whole;
struct Counted;
struct WithLength;

impl Kind for Whole {
    const NAME: &str = "encoded as a whole";

    fn snapshot(map: &Map, _bytes: u64) -> Snapshot {
        let items: Vec<(&u64, &Vec<u8>)> = map.iter().collect();
        Snapshot::encode(&items)
    }
}

impl Kind for Counted {
    const NAME: &str = "in pieces, counted";

    fn snapshot(map: &Map, _bytes: u64) -> Snapshot {
        Snapshot::encode_each(items(map.clone()))
    }
}

impl Kind for WithLength {
    const NAME: &str = "in pieces, length kept";

    fn snapshot(map: &Map, bytes: u64) -> Snapshot {
        Snapshot::encode_each(items(map.clone())).at_most(bytes)
    }
}

fn items(map: Map) -> impl Iterator<Item = (u64, Vec<u8>)> + Clone + Send {
    let mut last: Option<u64> = None;
    std::iter::from_fn(move || {
        let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let (key, value) = map.range::<u64, _>((from, Bound::Unbounded)).next()?;
        last = Some(*key);
        Some((*key, value.clone()))
    })
}

struct Store<K> {
    map: Map,
    bytes: u64,
    kind: PhantomData<K>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { map: Map::default(), bytes: 0, kind: PhantomData }
    }
}

impl<K: Kind> Store<K> {
    fn insert(&mut self, key: u64, value: Vec<u8>) {
        self.bytes += Snapshot::bytes_of(&(key, &value));
        self.map.insert_mut(key, value);
    }

    fn of(bytes: usize) -> Self {
        let mut store = Self::default();
        (0..(bytes / VALUE_BYTES) as u64).for_each(|key| store.insert(key, vec![7; VALUE_BYTES]));
        store
    }
}

const VALUE_BYTES: usize = 200;

impl<K: Kind> State for Store<K> {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        K::snapshot(&self.map, self.bytes)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        let mut store = Self::default();
        let items: Vec<(u64, Vec<u8>)> = snapshot.decode()?;
        items.into_iter().for_each(|(key, value)| store.insert(key, value));
        Ok(store)
    }

    fn restore_begin() -> Option<Self> {
        Some(Self::default())
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        let (key, value) = piece.decode()?;
        self.insert(key, value);
        Ok(())
    }
}

fn start(directory: &Path, name: &str) -> Result<Cell, Box<dyn Error>> {
    let builder = Cell::builder("pause").name(name);
    Ok(builder.directories(directory.join("run"), directory.join("state")).blocking_start()?)
}

/// The longest wait for a message of one's own, until `act` is over; and how long that took.
fn longest_wait(group: &Group, act: impl FnOnce()) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                let sent = group.send(b"tick").plain().blocking();
                let delivered = sent.map(|sent| sent.blocking_delivered());
                assert!(matches!(delivered, Ok(Ok(()))), "{delivered:?}");
                longest = longest.max(start.elapsed());
            }
            longest
        });
        let start = Instant::now();
        act();
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        (waits.join().unwrap_or_default(), took)
    })
}

fn measure<K: Kind>(bytes: usize) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let ann = start(directory.path(), "ann")?;
    let store = Replica::new(Store::<K>::of(bytes));
    let (_group, inbox) = ann.group("store").state(&store).blocking_join()?;
    drop(inbox);
    let (ticks, inbox) = ann.group("ticks").blocking_join()?;
    drop(inbox);
    for name in ["bob", "cid", "dan"] {
        let (nothing, _) = longest_wait(&ticks, || thread::sleep(Duration::from_millis(500)));
        let joiner = start(directory.path(), name)?;
        let copy = Replica::new(Store::<K>::default());
        let mut joined = None;
        let (pause, took) = longest_wait(&ticks, || joined = Some(joiner.group("store").state(&copy).blocking_join()));
        joined.ok_or("it joined")??;
        assert_eq!(copy.read().map.size(), store.read().map.size());
        let (pause, took, nothing) = (pause.as_secs_f64(), took.as_secs_f64(), nothing.as_secs_f64());
        let name = K::NAME;
        println!("{name}: pause {:.1} ms, join {:.0} ms, nothing {:.1} ms", pause * 1e3, took * 1e3, nothing * 1e3);
        joiner.blocking_leave(Duration::from_secs(20))?;
    }
    ann.blocking_leave(Duration::from_secs(20))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::args().nth(1).map_or(Ok(64), |text| text.parse::<usize>())? << 20;
    measure::<Whole>(bytes)?;
    measure::<Counted>(bytes)?;
    measure::<WithLength>(bytes)
}
