//! Output for people: one line each on standard error, beside the data on standard output.

use std::io::{IsTerminal, Write};

/// Prints one line for the user. A closed standard error is no reason to stop.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "phalanx: {line}");
}

/// Writes one line of data. False: standard output is closed.
pub(crate) fn data(line: impl std::fmt::Display) -> bool {
    writeln!(std::io::stdout().lock(), "{line}").is_ok()
}

/// Whether standard output is a terminal that takes colours and redrawn lines.
pub(crate) fn lively() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
