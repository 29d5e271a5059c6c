//! First figures: totally ordered multicast beside plain UDP, measured alternately in one run.
//!
//! ```text
//! cargo run --release --example figures -- cell 2      a cell of two members, each a process, and raw UDP
//! cargo run --release --example figures -- core        the protocol core alone, no sockets
//! ```
//!
//! Read with `docs/performance.md`, which says what the figures mean and holds a set of them.

#[path = "figures/alloc.rs"]
#[allow(unsafe_code)]
mod alloc;
#[path = "figures/batch.rs"]
#[allow(unsafe_code)]
mod batch;
#[path = "figures/cell.rs"]
mod cell;
#[path = "figures/child.rs"]
mod child;
#[path = "figures/core_loop.rs"]
mod core_loop;
#[path = "figures/member.rs"]
mod member;
#[path = "figures/raw.rs"]
mod raw;
#[path = "figures/table.rs"]
mod table;

use std::env;
use std::error::Error;
use std::io;

use cell::Cell;
use table::Table;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["cell", members] => measure_cell(members.parse()?),
        ["core"] => core_loop::run(ROUNDS, 200_000, &mut io::stdout()),
        ["core", rounds, messages] => core_loop::run(rounds.parse()?, messages.parse()?, &mut io::stdout()),
        // The program's own children.
        ["member", name, directory, security] => member::run(name, directory, security),
        ["raw-echo", waiting] => raw::echo(waiting),
        ["raw-sink", size] => raw::sink(size),
        _ => Err("usage: figures cell <members> | figures core [<rounds> <messages>]".into()),
    }
}

fn measure_cell(members: usize) -> Result<(), Box<dyn Error>> {
    if !(2..=16).contains(&members) {
        return Err("a cell to be measured has 2 to 16 members".into());
    }
    let directory = tempfile::tempdir()?;
    let mut cells =
        [Cell::start(members, directory.path(), "sealed")?, Cell::start(members, directory.path(), "none")?];
    let mut table = Table::default();
    let packet = phalanx::driver::udp::PACKET_BYTES_LOOPBACK as usize;
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        raw::round(&SIZES, &[SIZES[0], SIZES[1], packet], &mut table)?;
        for size in SIZES {
            for cell in &mut cells {
                cell.round(size, &mut table)?;
            }
        }
        ratios(members, &mut table);
    }
    table.print(&format!("{members} members, {ROUNDS} rounds"), &mut io::stdout())?;
    Ok(())
}

/// Each round's figures beside the same round's baseline.
fn ratios(members: usize, table: &mut Table) {
    for size in SIZES {
        for security in ["sealed", "none"] {
            let stream = format!("raw stream, {size} B, datagrams/s");
            for senders in ["one sender", "all senders"] {
                table.ratio(&format!("abcast {security}, {size} B, {senders}, messages/s"), &stream);
            }
            let waits: &[&str] = if members == 2 { &["blocking", "spinning"] } else { &["blocking"] };
            for waiting in waits {
                let ours = format!("abcast {security} ping-pong {waiting}, {size} B, round trip p50 µs");
                table.ratio(&ours, &format!("raw ping-pong {waiting}, {size} B, round trip p50 µs"));
            }
        }
    }
}

/// Rounds; in each, everything is measured once.
const ROUNDS: usize = 5;
/// Bytes of a message.
const SIZES: [usize; 2] = [100, 1_024];
