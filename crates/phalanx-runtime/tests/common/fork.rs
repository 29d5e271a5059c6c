//! Forks the test program: the child tries one thing after another, and the parent reads the failures.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// The child's side.
pub(crate) struct Child {
    report: File,
}

impl Child {
    /// Tries something. The parent learns if it gives false, panics or never returns.
    pub(crate) fn tries(&mut self, what: &str, holds: impl FnOnce() -> bool) {
        self.say('>', what);
        match catch_unwind(AssertUnwindSafe(holds)) {
            Ok(true) => {}
            Ok(false) => self.say('!', what),
            Err(_) => self.say('!', &format!("{what}: it panics")),
        }
    }

    /// Tries something that must be refused as dead, with a text that says so and what to do.
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

/// Runs `work` in a forked child, waits for its end and returns its failures.
pub(crate) fn in_child(work: impl FnOnce(&mut Child)) -> Vec<String> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    // SAFETY: `fork` takes no pointer. Locks that other threads hold stay locked in the child. So the child runs only
    // `work`, which takes no such lock, and leaves by `end`; the alarm ends it if it blocks.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(read);
            // SAFETY: `alarm` takes no pointer. It only sets a timer, whose signal ends a child that blocks for ever.
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

/// Forks at this point, and both processes continue: the child with `None`; the parent, once the child has [`end`]ed,
/// with its status.
pub(crate) fn split() -> Option<i32> {
    // SAFETY: `fork` takes no pointer. Locks that other threads hold stay locked in the child. So the child continues
    // with code that takes no such lock, and leaves by `end`; the alarm ends it if it blocks.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: `alarm` takes no pointer. It only sets a timer, whose signal ends a child that blocks for ever.
            unsafe { libc::alarm(PATIENCE_S) };
            None
        }
        child => Some(wait_for(child)),
    }
}

/// Ends the child without running what belongs to its parent; with status 0 if it is `well`.
pub(crate) fn end(well: bool) -> ! {
    // SAFETY: `_exit` takes no pointer. It ends the process at once, without exit handlers and destructors.
    unsafe { libc::_exit(i32::from(!well)) }
}

fn wait_for(child: i32) -> i32 {
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: `status` is a live local that the call may write. `child` is an unreaped child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Whether this process runs only that test, and may fork. Otherwise runs it in such a process; the caller is done then.
/// A child holds the descriptors of all tests that run, and their locks with them: a process of another test would find
/// a file locked that it had let go.
pub(crate) fn alone<Test: Fn()>(_: Test) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    // The function's type has its path, which begins with the name of the test program.
    let path = std::any::type_name::<Test>();
    let (_, test) = path.split_once("::").expect("a path");
    let itself = std::env::current_exe().expect("a test program has a path");
    let run = Command::new(itself)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "yes")
        .output()
        .expect("a test program starts");
    let told = String::from_utf8_lossy(&run.stdout);
    let holds = run.status.success() && told.contains("test result: ok. 1 passed");
    assert!(holds, "{}: {told}{}", run.status, String::from_utf8_lossy(&run.stderr));
    false
}

/// Set in a process of one test.
const ALONE: &str = "PHALANX_TEST_ALONE";

/// Seconds after which a child counts as blocked.
const PATIENCE_S: u32 = 20;
