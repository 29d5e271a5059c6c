//! Runs the real program in a runtime directory of its own.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod tampers;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Time after which a test that still waits has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a runtime directory of its own.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// The program with that runtime directory. No other setting comes from the environment.
pub(crate) fn phalanx(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PHALANX_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command.env("PHALANX_RUNTIME_DIR", directory.join("run")).env("PHALANX_STATE_DIR", directory.join("state"));
    command
}

/// Runs the program to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    phalanx(directory, arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Waits until `ready` returns something.
pub(crate) fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running program whose output is collected.
pub(crate) struct Running {
    pub(crate) name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    /// `phalanx cat` with that name in group `g`.
    pub(crate) fn cat(directory: &Path, name: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["cat", "--group", "g", "--name", name];
        arguments.extend(more);
        Self::start(name, &mut phalanx(directory, &arguments), true)
    }

    /// The same; its output is not read before [`Running::read`].
    pub(crate) fn cat_unread(directory: &Path, name: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["cat", "--group", "g", "--name", name];
        arguments.extend(more);
        Self::start(name, &mut phalanx(directory, &arguments), false)
    }

    pub(crate) fn start(name: &str, command: &mut Command, read: bool) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (from, to) = (child.stderr.take().expect("asked for"), Arc::clone(&stderr));
        let gather = std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let mut text = to.lock().expect("no panic");
                text.push_str(&line);
                text.push('\n');
            }
        });
        let mut running =
            Self { name: name.to_owned(), child, stdin, stdout: Arc::default(), stderr, readers: vec![gather] };
        if read {
            running.read();
        }
        running
    }

    /// Begins to read its output.
    pub(crate) fn read(&mut self) {
        let mut from = self.child.stdout.take().expect("not read before");
        let to = Arc::clone(&self.stdout);
        self.readers.push(std::thread::spawn(move || {
            let mut piece = [0; 65_536];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                to.lock().expect("no panic").extend_from_slice(&piece[..count]);
            }
        }));
    }

    /// Closes its output, which is then never read.
    pub(crate) fn close_stdout(&mut self) {
        drop(self.child.stdout.take());
    }

    pub(crate) fn say(&mut self, text: &[u8]) {
        self.stdin.as_mut().expect("not closed").write_all(text).expect("it listens");
    }

    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("not closed")
    }

    pub(crate) fn end_of_input(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn out(&self) -> Vec<u8> {
        self.stdout.lock().expect("no panic").clone()
    }

    pub(crate) fn notices(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// Waits for a notice that contains `text`.
    pub(crate) fn await_notice(&self, text: &str) {
        wait_for(&format!("'{text}' from {}, which says {}", self.name, self.notices()), || {
            self.notices().contains(text).then_some(())
        });
    }

    /// Waits until it has printed `wanted`.
    pub(crate) fn await_out(&self, wanted: &[u8]) {
        wait_for(&format!("the output of {}", self.name), || (self.out().len() >= wanted.len()).then_some(()));
        assert!(self.out() == wanted, "{} printed something else:\n{}", self.name, text(&self.out()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("small")).expect("not zero");
        kill_process(pid, signal).expect("it runs");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end. Returns the exit code and its whole output.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<u8>) {
        let status = wait_for(&format!("the end of {}", self.name), || self.child.try_wait().expect("a child"));
        self.readers.drain(..).for_each(|reader| reader.join().expect("no panic"));
        (status.code(), self.out())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output as text, for messages.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(2_000)).unwrap_or_default()).into_owned()
}

/// Lines `PREFIX 1` to `PREFIX count`.
pub(crate) fn lines(prefix: &str, count: usize) -> Vec<u8> {
    (1..=count).map(|number| format!("{prefix} {number}\n")).collect::<String>().into_bytes()
}
