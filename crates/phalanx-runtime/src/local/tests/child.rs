//! A real process that enters a cell's directory and stays until it is killed.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

use phalanx_core::Incarnation;

use crate::local::{Advert, Intent, LocalCell, Role, Standing};

/// Killed when dropped.
pub(super) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
}

impl Child {
    pub(super) fn start(root: &Path, number: u64) -> Self {
        Self::spawn(root, number, "no", "no")
    }

    /// It has the name of a fixed founder: `n` and the number.
    pub(super) fn start_founder(root: &Path, number: u64) -> Self {
        Self::spawn(root, number, "no", "yes")
    }

    /// Like the plain one, and it forks.
    pub(super) fn start_forking_founder(root: &Path, number: u64) -> Self {
        Self::spawn(root, number, "yes", "yes")
    }

    /// It forks before it answers; its child lives until its input ends.
    pub(super) fn start_forking(root: &Path, number: u64) -> Self {
        Self::spawn(root, number, "yes", "no")
    }

    fn spawn(root: &Path, number: u64, forks: &str, founds: &str) -> Self {
        let this = std::env::current_exe().expect("a test program has a path");
        let mut process = Command::new(this)
            .args(["--exact", "local::tests::child::enter_and_stay", "--nocapture", "--test-threads=1"])
            .env(ROOT, root)
            .env(NUMBER, number.to_string())
            .env(FORKS, forks)
            .env(FOUNDS, founds)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test program starts");
        let input = process.stdin.take();
        Self { process, input }
    }

    /// The decision under the lock: `found`, or `join` and ports.
    pub(super) fn standing(&self) -> String {
        let mut lines = BufReader::new(ReadFd(self.process.stdout.as_ref().expect("piped"))).lines();
        lines
            .find_map(|line| line.expect("text").split_once(MARK).map(|(_, said)| said.trim().to_owned()))
            .expect("a child says how it stands")
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn kill(mut self) {
        self.end();
    }

    /// Kills it, but keeps a child that it forked alive for as long as this value lives.
    pub(super) fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
        drop(self.input.take());
    }
}

struct ReadFd<'a>(&'a std::process::ChildStdout);

impl std::io::Read for ReadFd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

/// The child's side. In the parent's own test run there is nothing to do.
#[test]
fn enter_and_stay() {
    let (Ok(root), Ok(number)) = (std::env::var(ROOT), std::env::var(NUMBER)) else { return };
    let number: u64 = number.parse().expect("the parent counts");
    let root = Path::new(&root);
    let cell = LocalCell::open(Some(root), Some(&root.with_file_name("state")), "c").expect("made");
    let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(number).expect("low")));
    let name = format!("n{number}");
    let advert = Advert::mine(&name, address, address);
    let told = |variable| std::env::var(variable).is_ok_and(|value| value == "yes");
    let founder = told(FOUNDS).then(|| cell.take_founder(&name, &advert).expect("free"));
    let intent = if founder.is_some() { Intent::AsConfigured } else { Intent::ByLock };
    let role = Role { founder: founder.as_ref().map(|founder| founder.name()), keyed: false };
    let (_presence, standing) = cell.enter(Incarnation(number), &advert, intent, role).expect("sound");
    if told(FORKS) {
        fork::a_child_that_stays();
    }
    let said = match standing {
        Standing::Found => "found".to_owned(),
        Standing::Join(seeds) => seeds.iter().fold("join".to_owned(), |said, seed| format!("{said} {}", seed.port())),
    };
    let mut out = std::io::stdout();
    out.write_all(format!("\n{MARK}{said}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
    // Until the parent kills this process, or has ended itself.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[allow(unsafe_code)]
mod fork {
    pub(super) fn a_child_that_stays() {
        // SAFETY: `fork` takes no pointer. The child calls only `read` and `_exit`, which are async-signal-safe, so
        // locks held by other threads at the fork do not matter.
        if unsafe { libc::fork() } == 0 {
            let mut byte = 0_u8;
            loop {
                // SAFETY: the pointer is to `byte`, a live local of 1 byte, and the count is 1.
                let count = unsafe { libc::read(0, (&raw mut byte).cast(), 1) };
                if count <= 0 {
                    // SAFETY: `_exit` takes no pointer. It ends the child at once, without running the exit handlers
                    // and destructors that belong to the parent.
                    unsafe { libc::_exit(0) };
                }
            }
        }
    }
}

const ROOT: &str = "PHALANX_TEST_ROOT";
const NUMBER: &str = "PHALANX_TEST_NUMBER";
const FORKS: &str = "PHALANX_TEST_FORKS";
const FOUNDS: &str = "PHALANX_TEST_FOUNDS";
const MARK: &str = "stands: ";
