//! A network of a test's own.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::Command;
use std::thread;

/// Runs `test` in a thread with a fresh network that has only a loopback interface, whose packets are at most
/// `mtu` bytes long. Without the privilege, or without the command `ip`, the test is [skipped](skip).
pub(super) fn with_loopback_of(mtu: u32, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: the call takes no pointer and concerns this thread alone, which ends with the test.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        if result != 0 {
            return skip(&format!("no network namespace of its own: {}", io::Error::last_os_error()));
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up", "mtu", &mtu.to_string()]).status();
        match up {
            Ok(status) if status.success() => test(),
            other => skip(&format!("no loopback interface of its own: {other:?}")),
        }
    };
    // A thread of the test's name: it stands where the test is named.
    let name = thread::current().name().unwrap_or("a network test").to_owned();
    thread::Builder::new().name(name).spawn(run).expect("a thread").join().expect("the test holds");
}

/// Says that the calling test cannot run on this machine. The test harness knows no such end and counts it as passed, so
/// `./x test` lists it from the file that `PHALANX_SKIPS` names.
///
/// # Panics
/// With `PHALANX_CI=1`: a machine of the continuous integration must be able to run it.
pub(super) fn skip(why: &str) {
    let ci = std::env::var_os("PHALANX_CI").is_some_and(|value| value == "1");
    assert!(!ci, "with PHALANX_CI=1 a skipped test is a failure: {why}");
    let thread = thread::current();
    let line = format!("{}: {why}", thread.name().unwrap_or("a network test"));
    eprintln!("skipped: {line}");
    if let Some(file) = std::env::var_os("PHALANX_SKIPS") {
        let opened = OpenOptions::new().append(true).open(file);
        opened.and_then(|mut file| writeln!(file, "{line}")).expect("the list of what is skipped can be written");
    }
}
