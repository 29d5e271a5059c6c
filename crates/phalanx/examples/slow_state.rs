//! A member whose state takes long to give away: `slow_state [MIB] [MILLISECONDS]`, 8 and 1 by default.
//!
//! The state is a list of blocks of 4 KiB, MIB in all, which the process that founds the group `blocks` makes. They are
//! sent one by one, and each takes MILLISECONDS to make. What happens in the group is printed, one line for each item of
//! the inbox, and how much of a state has come. The line `leave` on standard input ends it. The settings are
//! those of the environment (`docs/configuration.md`). Three processes on one host suffice, each in a terminal:
//!
//! ```text
//! PHALANX_CELL=slow-state phalanx node
//! PHALANX_NAME=holder cargo run --release -p phalanx --example slow_state
//! PHALANX_NAME=joiner cargo run --release -p phalanx --example slow_state
//! ```
//!
//! Kill the holder with `kill -9` while the joiner takes the state: it is told that it founds the group anew, and stays a
//! member. The first process keeps the cell's quorum. `tests/namespaces/only_holder.sh` does so.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use phalanx::{Bytes, Cell, DecodeError, Message, Next, Piece, Replica, Snapshot, State};

type Block = Arc<[u8]>;

const BLOCK_BYTES: usize = 4 << 10;

struct Blocks {
    blocks: Vec<Block>,
    /// How long one takes to be made.
    pause: Duration,
}

impl State for Blocks {
    fn apply(&mut self, _message: &Message) {}

    fn snapshot(&self) -> Snapshot {
        let pause = self.pause;
        let bytes = self.blocks.len() as u64 * (BLOCK_BYTES as u64 + Snapshot::FRAME_BYTES);
        Snapshot::pieces(
            bytes,
            self.blocks.clone().into_iter().map(move |block| {
                thread::sleep(pause);
                Bytes::from_owner(block)
            }),
        )
    }

    fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
        Err(DecodeError::new("it comes in pieces"))
    }

    fn restore_begin() -> Option<Self> {
        Some(Self { blocks: Vec::new(), pause: Duration::ZERO })
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        self.blocks.push(piece.bytes().into());
        Ok(())
    }
}

/// The argument at a place, if there is one.
fn number(place: usize, default: usize) -> Result<usize, std::num::ParseIntError> {
    std::env::args().nth(place).map_or(Ok(default), |text| text.parse())
}

/// Leaves when a line asks for it. The end of the input does not: the process may run without one.
fn leave_when_asked(cell: Cell) {
    thread::spawn(move || {
        if std::io::stdin().lines().map_while(Result::ok).any(|line| line == "leave")
            && let Err(error) = cell.blocking_leave(Duration::from_secs(20))
        {
            println!("{error}");
        }
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mib, pause) = (number(1, 8)?, Duration::from_millis(number(2, 1)? as u64));
    let block: Block = vec![7; BLOCK_BYTES].into();
    let copy = Replica::new(Blocks { blocks: vec![block; (mib << 20) / BLOCK_BYTES], pause });
    let name = std::env::var("PHALANX_CELL").unwrap_or_else(|_| "slow-state".to_owned());
    let cell = Cell::builder(name).environment().blocking_start()?;
    leave_when_asked(cell.clone());
    let mut inbox = cell.merged();
    let joining = {
        let joining = cell.group("blocks").state(&copy).join_into(&inbox);
        thread::spawn(move || phalanx::wait_for(joining, Duration::MAX))
    };
    let mut last = 0;
    loop {
        match inbox.blocking_next_timeout(Duration::from_millis(10)) {
            Ok(Some((_, Next::View(view)))) => {
                let names: Vec<String> = view.members().map(|member| member.name).collect();
                let blocks = copy.read().blocks.len();
                println!("view {}: {}; {blocks} blocks", view.number(), names.join(", "));
            }
            Ok(Some((_, item))) => println!("{item:?}"),
            Ok(None) => break,
            Err(_) => {
                let percent = copy.progress().map_or(0, |transfer| transfer.taken * 100 / transfer.bytes);
                if percent / 10 != last / 10 {
                    println!("{percent} % have come");
                }
                last = percent;
            }
        }
        for event in cell.notices() {
            println!("notice: {event}");
        }
    }
    if let Ok(joined) = joining.join() {
        joined??;
    }
    Ok(())
}
