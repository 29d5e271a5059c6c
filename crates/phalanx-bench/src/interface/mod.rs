//! A member of the suite `interface`: a program that uses the library in one of the ways that it offers.
//!
//! All three do the same: one thread or task of the application sends, another takes what is delivered. `inline` has one
//! thread for all. Beside them `broadcasts` does without multicasts what an ask does.

mod broadcasts;
mod commanding;
mod group_load;
mod inline;
mod tasks;
mod threads;

use crate::choice::Interface;
use crate::error::BenchError;
use crate::protocol::InterfaceRole;

/// Runs a member until its input ends.
pub(crate) fn run(role: &InterfaceRole) -> Result<(), BenchError> {
    let settings = settings(role);
    match role.interface {
        Interface::Inline => inline::run(role, &settings),
        Interface::Threads => threads::run(role, &settings),
        Interface::Tasks => tasks::run(role, &settings),
        Interface::Calls => broadcasts::run(role, &settings),
    }
}

/// Keys of the configuration, the same for all ways.
fn settings(role: &InterfaceRole) -> Vec<(String, String)> {
    let directory = &role.directory;
    let driver = if role.transport.is_udp() { "udp" } else { "auto" };
    [
        ("name", role.name.clone()),
        ("runtime_dir", directory.display().to_string()),
        ("state_dir", directory.join("state").display().to_string()),
        ("driver", driver.to_owned()),
        ("security", role.security.word().to_owned()),
        ("timing.suspect_after", format!("{}ms", role.suspect_after_ms)),
        // A member whose inbox is not read is waited for, however long that takes.
        ("limits.slow_members", "wait".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}
