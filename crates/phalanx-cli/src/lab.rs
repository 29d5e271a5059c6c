//! The laboratory: the commands that test and measure Phalanx itself. Users do not need them, so packages leave them out
//! (`absent.rs`).

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::{bench, sim, torture};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Sim(sim::Sim),
    Torture(torture::Torture),
    #[command(hide = true)]
    TortureMember(torture::Member),
    #[command(hide = true)]
    TortureBusy(torture::Busy),
    Bench(bench::Bench),
    #[command(hide = true)]
    BenchChild(bench::Child),
}

pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Sim(sim) => sim::run(sim),
        Command::Torture(torture) => torture::run(torture),
        Command::TortureMember(member) => torture::run_member(member),
        Command::TortureBusy(busy) => torture::run_busy(busy),
        Command::Bench(bench) => bench::run(bench),
        Command::BenchChild(child) => bench::run_child(child),
    }
}
