//! A network namespace for one test.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::Command;
use std::thread;

/// Runs `test` in a thread with a fresh network namespace, whose only interface is a loopback of `mtu` bytes.
/// [Skips](skip) the test if the privilege or the command `ip` is missing.
pub(super) fn with_loopback_of(mtu: u32, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: `unshare` takes no pointer. `CLONE_NEWNET` changes the calling thread only, and that thread ends with
        // the test.
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
    // The thread gets the test's name, because messages name the thread.
    let name = thread::current().name().unwrap_or("a network test").to_owned();
    thread::Builder::new().name(name).spawn(run).expect("a thread").join().expect("the test holds");
}

/// Reports that the calling test cannot run on this machine. The test harness has no such outcome and counts the test
/// as passed, so `./x test` lists it from the file that `STEP_SKIPS` names.
///
/// # Panics
/// With `PHALANX_CI=1`: a machine of continuous integration must be able to run it.
pub(super) fn skip(why: &str) {
    let ci = std::env::var_os("PHALANX_CI").is_some_and(|value| value == "1");
    assert!(!ci, "with PHALANX_CI=1 a skipped test is a failure: {why}");
    let thread = thread::current();
    let line = format!("{}: {why}", thread.name().unwrap_or("a network test"));
    eprintln!("skipped: {line}");
    if let Some(file) = std::env::var_os("STEP_SKIPS") {
        let opened = OpenOptions::new().append(true).open(file);
        opened.and_then(|mut file| writeln!(file, "{line}")).expect("the list of what is skipped can be written");
    }
}
