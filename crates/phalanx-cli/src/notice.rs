//! What is said to people: on standard error, one line each, beside the data on standard output.

use std::io::{IsTerminal, Write};

/// Says one line to the user. A closed standard error is no reason to stop.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "phalanx: {line}");
}

/// Writes one line of data. False: nobody reads it any more.
pub(crate) fn data(line: impl std::fmt::Display) -> bool {
    writeln!(std::io::stdout().lock(), "{line}").is_ok()
}

/// Whether colours and moving pictures are welcome on standard output.
pub(crate) fn lively() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
