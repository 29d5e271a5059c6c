//! Starts and stops the runner of a peer.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bench::Bench;
use crate::choice::{Cores, Senders, Waiting};
use crate::crew::{CHILD_COMMAND, Interrupt};
use crate::error::{BenchError, While};

/// A system and the variant in which it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::suite) struct Peer {
    pub(in crate::suite) name: &'static str,
    pub(in crate::suite) variant: &'static str,
}

/// A runner's report of a stream.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::suite) struct Streamed {
    pub(in crate::suite) msgs_per_s: f64,
    #[serde(default)]
    pub(in crate::suite) lost: Option<f64>,
    #[serde(default)]
    pub(in crate::suite) guarantee: String,
}

/// Settings of round trips: calls of a size with an answer of a size, to one server after the other.
#[derive(Clone, Copy, Debug)]
pub(in crate::suite) struct Trip {
    pub(in crate::suite) size: usize,
    /// Size of the answer in bytes. Not every runner supports values other than 0.
    pub(in crate::suite) answer: usize,
    pub(in crate::suite) servers: usize,
    pub(in crate::suite) wait: Waiting,
    pub(in crate::suite) cores: Cores,
}

/// A runner's report of round trips.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::suite) struct Tripped {
    pub(in crate::suite) p50_ns: f64,
    #[serde(default)]
    pub(in crate::suite) p99_ns: f64,
    #[serde(default)]
    pub(in crate::suite) p999_ns: f64,
    #[serde(default)]
    pub(in crate::suite) guarantee: String,
}

impl Peer {
    pub(in crate::suite) fn title(self) -> String {
        format!("{} {}", self.name, self.variant)
    }

    fn directory(self, bench: &Bench<'_>) -> PathBuf {
        bench.request.peers.join(self.name)
    }

    /// Whether the runner was built. If not, reports how to build it.
    pub(in crate::suite) fn is_there(self, bench: &mut Bench<'_>) -> bool {
        let (runners, built) = (self.directory(bench), bench.request.built.join(self.name));
        if !runners.join("run").is_file() {
            let peers = bench.request.peers.display();
            bench
                .notice_once(&format!("{}: no runner in {}; --peers-dir says where the runners are", self.name, peers));
            return false;
        }
        if !built.is_dir() {
            let (build, into) = (runners.join("build"), built.display());
            bench.notice_once(&format!("{} is not built; this builds it: {} {into}", self.name, build.display()));
            return false;
        }
        true
    }

    pub(in crate::suite) fn stream(
        self,
        bench: &mut Bench<'_>,
        size: usize,
        receivers: usize,
        senders: Senders,
    ) -> Result<Streamed, BenchError> {
        let (size, receivers) = (size.to_string(), receivers.to_string());
        self.run(bench, &["stream", "--size", &size, "--receivers", &receivers, "--senders", senders.word()])
    }

    pub(in crate::suite) fn ping(self, bench: &mut Bench<'_>, trip: Trip) -> Result<Tripped, BenchError> {
        let Trip { size, answer, servers, wait, cores } = trip;
        let (size, answer, servers) = (size.to_string(), answer.to_string(), servers.to_string());
        let (wait, cores) = (wait.word(), cores.word());
        let mut arguments = vec!["pingpong", "--size", &size, "--wait", wait, "--cores", cores, "--servers", &servers];
        if trip.answer > 0 {
            arguments.extend(["--answer", &answer]);
        }
        self.run(bench, &arguments)
    }

    /// Runs the runner until it succeeds, at most [`TRIES`] times. Some peers stall now and then, which says little
    /// about their usual behaviour, so such a run is reported and repeated.
    fn run<T: DeserializeOwned>(self, bench: &mut Bench<'_>, arguments: &[&str]) -> Result<T, BenchError> {
        for _ in 1..TRIES {
            match self.run_once(bench, arguments) {
                Err(BenchError::Child(why)) => bench.notice(&format!("{why}; tried again")),
                ended => return ended,
            }
        }
        self.run_once(bench, arguments)
    }

    fn run_once<T: DeserializeOwned>(self, bench: &Bench<'_>, arguments: &[&str]) -> Result<T, BenchError> {
        let runner = self.directory(bench).join("run");
        let runner = runner.canonicalize().when(format_args!("cannot find {}", runner.display()))?;
        let built = bench.request.built.canonicalize().when("cannot find what was built")?;
        let seconds = bench.measured().as_secs().max(1);
        let program = std::env::current_exe().when("cannot find this program's own file")?;
        let mut command = Command::new(program);
        // The child requests a signal for the end of this process, and then becomes the runner.
        command.args([CHILD_COMMAND, "--parent", &std::process::id().to_string(), "--"]).arg(runner).args(arguments);
        command.args(["--seconds", &seconds.to_string(), "--variant", self.variant]);
        command.env("PHALANX_PEERS_DIR", built);
        let patience = Duration::from_secs(seconds * 2) + ENDS_WITHIN;
        let said = Runner::start(&mut command)?.wait(patience, bench.interrupt())?;
        let last = said.out.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        if !said.well {
            let why = said.err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            return Err(BenchError::Child(format!("{} failed: {why}", self.title())));
        }
        let figures = serde_json::from_str(last);
        figures.map_err(|error| BenchError::Child(format!("{} gave no figures ({error}): {last}", self.title())))
    }
}

/// A running runner. It stops its own processes when it receives SIGTERM.
struct Runner {
    process: Child,
    out: Option<std::thread::JoinHandle<String>>,
    err: Option<std::thread::JoinHandle<String>>,
}

struct Said {
    well: bool,
    out: String,
    err: String,
}

impl Runner {
    fn start(command: &mut Command) -> Result<Self, BenchError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn().when("cannot start a runner")?;
        let (out, err) = (process.stdout.take().map(collect), process.stderr.take().map(collect));
        Ok(Self { process, out, err })
    }

    fn wait(mut self, patience: Duration, interrupt: &Interrupt) -> Result<Said, BenchError> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.process.try_wait().when("cannot wait for a runner")? {
                let said = |text: Option<std::thread::JoinHandle<String>>| {
                    text.and_then(|text| text.join().ok()).unwrap_or_default()
                };
                return Ok(Said { well: status.success(), out: said(self.out.take()), err: said(self.err.take()) });
            }
            if Instant::now() > end {
                return Err(BenchError::Child(format!("a runner did not end within {patience:?}")));
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let Some(pid) = self.pid() else { return };
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        // On SIGTERM the runner stops its own processes. Any that remain in its group are killed after that.
        let _ = kill_process(pid, Signal::TERM);
        let end = Instant::now() + GRACE;
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.process.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes read before an error are still useful.
        let _ = from.by_ref().take(SAID_MAX).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Starts of a runner before its failure counts.
const TRIES: usize = 3;
/// A runner ends by itself at most a minute after its measuring time.
const ENDS_WITHIN: Duration = Duration::from_secs(75);
/// Time between SIGTERM and the kill of a runner's group.
const GRACE: Duration = Duration::from_secs(8);
/// Bytes kept of a runner's output.
const SAID_MAX: u64 = 1 << 20;
