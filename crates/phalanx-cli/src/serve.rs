//! `phalanx serve`: offers a program as a service.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::core::Incarnation;
use phalanx_runtime::rpc::{CallId, HandlerResult, Port, PortOptions, Service};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::notice::{data, say};

/// Answers calls by running a program: the request is its input, its output the answer
///
/// `phalanx call` calls it. Each call runs the program at most once, whatever the network does. If it ends with another
/// code than 0, the caller gets the code. SIGINT (exit code 130) and SIGTERM (0) end the service and the programs it
/// runs.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The UDP port of the service; 0: the system chooses one, which is printed
    #[arg(short, long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Programs that run at the same time; further callers get the answer "busy"
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: u32,
    /// A program that runs longer than this is killed, and its caller gets an error
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print the address as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// How a program ended, in the first byte of an answer.
pub(crate) const ENDED_WELL: u8 = 0;
/// An exit code of 1 to 255 follows, then its output.
pub(crate) const ENDED_WITH: u8 = 1;
/// A signal ended it; the signal's number follows, then its output.
pub(crate) const ENDED_BY: u8 = 2;
/// It could not be started, or took too long; the reason follows as text.
pub(crate) const ENDED_NOT: u8 = 3;

/// Runs programs for calls.
struct Runner {
    command: Vec<String>,
    jobs: u32,
    timeout: Duration,
    running: Arc<AtomicU32>,
    ending: Arc<AtomicBool>,
    done: Sender<(CallId, Vec<u8>)>,
    wake: phalanx_runtime::driver::Waker,
}

impl Service for Runner {
    fn request(&mut self, call: CallId, _from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        self.serve(call, answer, || request.to_vec())
    }

    fn long_request(
        &mut self,
        call: CallId,
        _from: Incarnation,
        request: &mut Vec<u8>,
        answer: &mut Vec<u8>,
    ) -> HandlerResult {
        self.serve(call, answer, || std::mem::take(request))
    }
}

impl Runner {
    fn serve(&mut self, call: CallId, answer: &mut Vec<u8>, request: impl FnOnce() -> Vec<u8>) -> HandlerResult {
        if self.running.load(Ordering::Relaxed) >= self.jobs {
            return HandlerResult::Busy;
        }
        match self.start(call, request()) {
            Ok(()) => HandlerResult::Later,
            Err(error) => {
                answer.push(ENDED_NOT);
                answer.extend_from_slice(format!("cannot run {}: {error}", self.command[0]).as_bytes());
                HandlerResult::Answered
            }
        }
    }

    fn start(&self, call: CallId, request: Vec<u8>) -> std::io::Result<()> {
        let mut command = Command::new(&self.command[0]);
        // A process group of its own, so that the program's children can be killed with it.
        command.args(&self.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn()?;
        let (timeout, ending, running) = (self.timeout, Arc::clone(&self.ending), Arc::clone(&self.running));
        let (done, wake) = (self.done.clone(), self.wake.clone());
        running.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            let answer = finish(child, request, timeout, &ending);
            running.fetch_sub(1, Ordering::Relaxed);
            // The receiver is gone if the service has ended.
            let _ = done.send((call, answer));
            wake.wake();
        };
        std::thread::Builder::new().name("call".to_owned()).spawn(work).map(drop)
    }
}

/// Feeds a program its input, collects its output, and waits for its end.
fn finish(mut child: Child, request: Vec<u8>, timeout: Duration, ending: &AtomicBool) -> Vec<u8> {
    // Input and output go side by side: a program that answers before it has read everything would block otherwise.
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let feed = std::thread::spawn(move || {
        // A program need not read its input.
        let _ = input.map(|mut input| input.write_all(&request));
    });
    let (tell, told) = channel();
    let read = std::thread::spawn(move || {
        let mut bytes = vec![ENDED_WELL, 0];
        let most = phalanx_runtime::core::MESSAGE_BYTES_MAX as u64;
        let read = output.map_or(Ok(0), |output| output.take(most).read_to_end(&mut bytes));
        let _ = tell.send(());
        read.map(|_| bytes)
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let end = Instant::now() + timeout;
    let mut late = false;
    // The process id cannot be reused before the process is reaped, so the signals below reach the right one.
    while !has_ended(pid) {
        if Instant::now() >= end || ending.load(Ordering::Relaxed) {
            late = true;
            break;
        }
        // Its output usually ends when it does; a child that inherited the pipe may keep it open.
        let _ = told.recv_timeout(LOOK);
    }
    // Kills processes of its group that outlived it.
    if let Some(group) = pid {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().ok().filter(|_| !late);
    let _ = feed.join();
    let output = read.join();
    match (status, output) {
        (Some(status), Ok(Ok(bytes))) => told_as(status, bytes),
        _ if ending.load(Ordering::Relaxed) => failed("it was killed, as its service ends"),
        _ if late => failed(&format!("it was killed after {} ms", timeout.as_millis())),
        _ => failed("its output cannot be read"),
    }
}

fn has_ended(pid: Option<Pid>) -> bool {
    // `WNOWAIT` leaves the process unreaped, so that its id is not reused.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // A process that cannot be waited for has no end to wait for.
    pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

fn told_as(status: ExitStatus, mut bytes: Vec<u8>) -> Vec<u8> {
    use std::os::unix::process::ExitStatusExt;
    let (how, number) = match (status.code(), status.signal()) {
        (Some(0), _) => (ENDED_WELL, 0),
        (Some(code), _) => (ENDED_WITH, code),
        (None, signal) => (ENDED_BY, signal.unwrap_or(0)),
    };
    bytes[0] = how;
    bytes[1] = u8::try_from(number).unwrap_or(u8::MAX);
    bytes
}

fn failed(why: &str) -> Vec<u8> {
    let mut bytes = vec![ENDED_NOT];
    bytes.extend_from_slice(why.as_bytes());
    bytes
}

/// Whether a program of this name can be found, with the system's search rules.
fn is_program(name: &str) -> bool {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return runs(Path::new(name));
    }
    std::env::var_os("PATH").is_some_and(|all| std::env::split_paths(&all).any(|directory| runs(&directory.join(name))))
}

pub(crate) fn run(serve: &Serve) -> Result<Exit, Failure> {
    let program = &serve.command[0];
    if !is_program(program) {
        let remedy = if program.starts_with('-') { "; options stand before the program, see --help" } else { "" };
        return Err(Failure::new(Exit::Usage, format!("there is no program {program}{remedy}")));
    }
    let mut config = serve.cell.load()?.config;
    if serve.port != 0 {
        config.data_port = serve.port;
    }
    let options = PortOptions { config, serves: true, ..PortOptions::default() };
    let mut port = Port::start(&options).map_err(|error| Failure::new(Exit::Unreachable, error.to_string()))?;
    let (done, answers) = channel();
    let ending = Arc::new(AtomicBool::new(false));
    let mut runner = Runner {
        command: serve.command.clone(),
        jobs: serve.jobs,
        timeout: serve.timeout,
        running: Arc::new(AtomicU32::new(0)),
        ending: Arc::clone(&ending),
        done,
        wake: port.waker(),
    };
    let signals = Signals::watch()?;
    let address = port.address();
    let line = if serve.json {
        serde_json::json!({ "address": address.to_string() }).to_string()
    } else {
        format!("serving at {address}")
    };
    if !data(line) {
        return Ok(Exit::Failure);
    }
    say(format_args!("each call runs {}", serve.command.join(" ")));
    let mut is_traced = true;
    let exit = loop {
        let came = port.poll(&mut runner);
        let answered = answer(&mut port, &mut runner, &answers);
        if let (true, Some(error)) = (is_traced, port.trace_failure()) {
            say(format_args!("the trace ends here: {error}; once there is room, start this service again to trace on"));
            is_traced = false;
        }
        if let Some(signal) = signals.came() {
            break if signal == SIGTERM { Exit::Good } else { Exit::Interrupted };
        }
        if came == 0 && answered == 0 {
            port.wait(None, &[signals.descriptor()]).when("cannot wait")?;
        }
    };
    // Running programs are killed, and their callers get an answer that says so.
    ending.store(true, Ordering::Relaxed);
    let end = Instant::now() + GRACE;
    while runner.running.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        port.poll(&mut runner);
        answer(&mut port, &mut runner, &answers);
        std::thread::sleep(LOOK);
    }
    answer(&mut port, &mut runner, &answers);
    port.poll(&mut runner);
    // A requested trace that could not be written is a failure.
    Ok(if exit == Exit::Good && !is_traced { Exit::Failure } else { exit })
}

/// Sends the answers of programs that ended. Returns their number.
fn answer(port: &mut Port, runner: &mut Runner, answers: &Receiver<(CallId, Vec<u8>)>) -> usize {
    let mut sent = 0;
    while let Ok((call, bytes)) = answers.try_recv() {
        sent += 1;
        // The caller may have given up the call.
        let _ = port.answer(call, Some(bytes.into()), runner);
    }
    sent
}

/// The signals that end a service, as a descriptor to wait for.
struct Signals {
    came: Arc<AtomicUsize>,
    pipe: UnixStream,
}

impl Signals {
    fn watch() -> Result<Self, Failure> {
        let doing = "cannot watch signals";
        let came = Arc::new(AtomicUsize::new(0));
        let (pipe, write) = UnixStream::pair().when(doing)?;
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&came), number).when(doing)?;
            signal_hook::low_level::pipe::register(signal, write.try_clone().when(doing)?).when(doing)?;
        }
        Ok(Self { came, pipe })
    }

    fn came(&self) -> Option<i32> {
        i32::try_from(self.came.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Interval at which a program is polled that closed its output or ran too long.
const LOOK: Duration = Duration::from_millis(5);
/// Time allowed to running programs when the service ends.
const GRACE: Duration = Duration::from_secs(2);
