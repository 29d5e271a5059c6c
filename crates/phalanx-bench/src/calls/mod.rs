//! Processes that make or answer calls: with all guarantees, with none, and over TCP.

mod carriers;
mod end;
mod load;
mod plan;
mod role;
mod tcp;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, TryRecvError};

use phalanx_runtime::core::Instant;
use phalanx_runtime::driver::Lossy;
use phalanx_runtime::rpc::{Recorded, slowest};

use crate::choice::Waiting;
use crate::commands::{listen, say};
use crate::error::BenchError;
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{Command, Mark, Report};
use carriers::{Reliable, Unreliable, seed};
use end::{End, Heard, LOOK, bytes};
use tcp::Tcp;

pub(crate) use plan::Load;
pub(crate) use role::{CallRole, Carrier, Place, Tuning};

/// Main function of a child process with this role.
pub(crate) fn run(role: &CallRole) -> Result<(), BenchError> {
    let faults = phalanx_runtime::driver::Faults { loss_ppm: role.tuning.loss_ppm, ..Default::default() };
    match role.carrier {
        Carrier::Reliable if role.tuning.loss_ppm > 0 => {
            fill(role, |at| Reliable::start(role, |driver| Lossy::new(driver, faults, seed(role, at))))
        }
        Carrier::Reliable => fill(role, |_| Reliable::start(role, |driver| driver)),
        Carrier::Plain => fill(role, |_| Unreliable::start(role)),
        Carrier::Tcp => fill(role, |_| Tcp::start(role)),
    }
}

fn fill<E: End>(role: &CallRole, start: impl Fn(usize) -> Result<E, BenchError>) -> Result<(), BenchError> {
    if role.endpoints > 1 && role.wait == Waiting::Block {
        return Err(BenchError::Usage("one process cannot block on several endpoints; let it spin".to_owned()));
    }
    let mut ends = (0..role.endpoints).map(start).collect::<Result<Vec<E>, _>>()?;
    for end in &mut ends {
        role.servers.iter().for_each(|server| end.meet(server));
    }
    say(&Report::Places(ends.iter().map(End::place).collect()))?;
    let commands = listen(|| {})?;
    if role.servers.is_empty() {
        return serve(role, &mut ends, &commands);
    }
    for command in &commands {
        match command {
            Command::Call { load, nanos } => say(&Report::Called(load::offer(role, &mut ends, &load, nanos)?))?,
            Command::Count => say(&count(&ends))?,
            Command::KeepTrace => ends[0].keep_trace(),
            Command::Slowest => {
                let records = ends[0].trace();
                let time = slowest(&records).map(|(_, time)| time);
                say(&Report::Happened { lines: time.map(|time| lines(&records, &time)).unwrap_or_default() })?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn serve(role: &CallRole, ends: &mut [impl End], commands: &Receiver<Command>) -> Result<(), BenchError> {
    let mut heard = Heard { answer: role.answer.map(bytes), ..Heard::default() };
    let mut laps = 0_u32;
    loop {
        let mut came = false;
        for end in &mut *ends {
            came |= end.poll(&mut heard)?;
        }
        laps = laps.wrapping_add(1);
        if !came && role.wait == Waiting::Block {
            ends[0].sleep(LOOK)?;
        } else if !laps.is_multiple_of(LAPS) {
            // A check for commands with each poll would slow down a process that spins.
            std::hint::spin_loop();
            continue;
        }
        match commands.try_recv() {
            Ok(Command::Mark) => {
                let kernel_drops = ends.iter().map(End::kernel_drops).sum();
                say(&Report::Mark(Mark { at_ns: now_ns(), cpu_ns: cpu_ns(), kernel_drops, ..Mark::default() }))?;
            }
            Ok(Command::Meet { clients }) => {
                for end in &mut *ends {
                    clients.iter().for_each(|client| end.meet(client));
                }
            }
            Ok(Command::Count) => say(&count(ends))?,
            Ok(Command::KeepTrace) => ends[0].keep_trace(),
            Ok(Command::During { from_ns, to_ns }) => {
                let lines = lines(&ends[0].trace(), &(Instant(from_ns)..=Instant(to_ns)));
                say(&Report::Happened { lines })?;
            }
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

fn count(ends: &[impl End]) -> Report {
    let mut counted = BTreeMap::new();
    for end in ends {
        end.counters(&mut |name, value| *counted.entry(name.to_owned()).or_default() += value);
    }
    Report::Counted(counted)
}

/// Formats the records that fall within `time`.
fn lines(records: &[Recorded], time: &RangeInclusive<Instant>) -> Vec<(u64, String)> {
    let during = records.iter().filter(|record| time.contains(&record.at));
    during.map(|record| (record.at.0, record.to_string())).collect()
}

/// Polls between two such checks, for a process that spins.
const LAPS: u32 = 256;
