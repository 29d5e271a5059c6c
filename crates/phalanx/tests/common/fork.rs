//! Forks the test program: a child tries one thing after the other, and its parent reads what went wrong.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The child's side.
pub(crate) struct Child {
    report: File,
}

impl Child {
    /// Tries something. What gives false or panics is told to the parent, and so is what never returns.
    pub(crate) fn tries(&mut self, what: &str, holds: impl FnOnce() -> bool) {
        self.say('>', what);
        match catch_unwind(AssertUnwindSafe(holds)) {
            Ok(true) => {}
            Ok(false) => self.say('!', what),
            Err(_) => self.say('!', &format!("{what}: it panics")),
        }
    }

    /// The same for what must be refused as dead, with a text that says so and what to do.
    pub(crate) fn refused<T, E: ToString>(&mut self, what: &str, does: impl FnOnce() -> Result<T, E>) {
        self.say('>', what);
        match catch_unwind(AssertUnwindSafe(does)) {
            Ok(Err(error)) if error.to_string().contains("in the forked child") => {}
            Ok(Err(error)) => self.say('!', &format!("{what}: it says only {:?}", error.to_string())),
            Ok(Ok(_)) => self.say('!', &format!("{what}: it is done")),
            Err(_) => self.say('!', &format!("{what}: it panics")),
        }
    }

    fn say(&mut self, mark: char, what: &str) {
        let _ = self.report.write_all(format!("{mark}{what}\n").as_bytes());
    }
}

/// Runs `work` in a forked child, waits for its end and returns what went wrong in it.
pub(crate) fn in_child(work: impl FnOnce(&mut Child)) -> Vec<String> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    // SAFETY: the child runs `work`, which takes no lock that another thread may have held, and ends.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(read);
            // SAFETY: no more than a timer: what blocks for ever is ended by its signal.
            unsafe { libc::alarm(PATIENCE_S) };
            work(&mut Child { report: write.into() });
            end(true)
        }
        child => child,
    };
    drop(write);
    let (mut wrong, mut last) = (Vec::new(), String::new());
    for line in BufReader::new(File::from(read)).lines() {
        let line = line.expect("readable");
        match line.split_at_checked(1) {
            Some(("!", what)) => wrong.push(what.to_owned()),
            _ => last = line,
        }
    }
    let status = wait_for(child);
    if !libc::WIFEXITED(status) {
        let signal = libc::WTERMSIG(status);
        wrong.push(format!("{last}: {}", if signal == libc::SIGALRM { "it blocks" } else { "it is a crash" }));
    }
    wrong
}

/// Forks right here, and both go on: the child with `None`, the parent, once the child has [`end`]ed, with how it did.
pub(crate) fn split() -> Option<i32> {
    // SAFETY: the child goes on as if nothing had happened, takes no lock that another thread may have held, and ends soon.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: as above.
            unsafe { libc::alarm(PATIENCE_S) };
            None
        }
        child => Some(wait_for(child)),
    }
}

/// Ends the child, without running what belongs to its parent; with a good status if it is `well`.
pub(crate) fn end(well: bool) -> ! {
    // SAFETY: it ends the process.
    unsafe { libc::_exit(i32::from(!well)) }
}

fn wait_for(child: i32) -> i32 {
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: `status` lives; `child` is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// One fork at a time: a child holds the descriptors of all tests that run.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Only what blocks takes so long, in seconds.
const PATIENCE_S: u32 = 20;
