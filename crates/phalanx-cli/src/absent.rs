//! The laboratory's commands in a build without it (`lab.rs`): they are not listed, and each names its remedy.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    #[command(hide = true)]
    Sim(Absent),
    #[command(hide = true)]
    Torture(Absent),
    #[command(hide = true)]
    Bench(Absent),
}

/// A command of the laboratory, which is not in this build
///
/// Build it from Phalanx's sources: cargo build --profile quick -p phalanx-cli
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Absent {
    /// Whatever follows: no flag of it is known here
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    let name = match command {
        Command::Sim(_) => "sim",
        Command::Torture(_) => "torture",
        Command::Bench(_) => "bench",
    };
    let what = format!(
        "'phalanx {name}' belongs to the laboratory, which is not in this build. In Phalanx's sources, build it with: \
         cargo build --profile quick -p phalanx-cli"
    );
    Err(Failure::new(Exit::Usage, what))
}
