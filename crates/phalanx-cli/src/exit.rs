//! Exit codes and final messages of all commands.

use std::fmt::Display;
use std::process::ExitCode;

/// Meaning of an exit code. Listed in the long help and in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything held.
    Good = 0,
    /// Something did not hold, or failed.
    Failure = 1,
    /// The command line is invalid. Clap uses the same code.
    Usage = 2,
    /// The target cannot be reached: no cell, no member, no directory.
    Unreachable = 3,
    /// The cell is reachable but degraded: there is no primary partition.
    Degraded = 5,
    /// The time limit has passed.
    TimedOut = 6,
    /// The configuration is wrong.
    Configuration = 7,
    /// The last members left, and something of the cell may be lost: groups wait for members that are cut off. Or what became
    /// of an ask is unknown.
    InDoubt = 8,
    /// An ask got fewer answers than it wanted.
    TooFew = 9,
    /// A member ended an ask.
    Aborted = 10,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a command ends early: the problem, its remedy, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into() }
    }
}

/// Converts an error into a [`Failure`] that names the attempted operation.
pub(crate) trait While<T> {
    /// "`doing`: error", with exit code 1.
    fn when(self, doing: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> While<T> for Result<T, E> {
    fn when(self, doing: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Exit::Failure, format!("{doing}: {error}")))
    }
}

/// The exit codes, as in the long help.
pub(crate) const HELP: &str = "\
Exit codes:
  0    good
  1    failure: something did not hold
  2    usage: the command line makes no sense
  3    cannot reach the cell, a member or a directory of this host
  5    degraded: no primary partition
  6    timed out
  7    configuration error
  8    in doubt: left as one of the last members while others were cut off, or it is unknown what became of an ask
  9    an ask got fewer answers than it wanted
  10   a member aborted an ask
  130  interrupted";
