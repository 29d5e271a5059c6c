//! A network of a test's own.
#![allow(unsafe_code)]

use std::io;
use std::process::Command;
use std::thread;

/// Runs `test` in a thread with a fresh network that has only a loopback interface, whose packets are at most
/// `mtu` bytes long. Without the privilege, or without the command `ip`, there is nothing to test.
pub(super) fn with_loopback_of(mtu: u32, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: the call takes no pointer and concerns this thread alone, which ends with the test.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        if result != 0 {
            return eprintln!("no network of our own: {}", io::Error::last_os_error());
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up", "mtu", &mtu.to_string()]).status();
        match up {
            Ok(status) if status.success() => test(),
            other => eprintln!("no interface of our own: {other:?}"),
        }
    };
    thread::spawn(run).join().expect("the test holds");
}
