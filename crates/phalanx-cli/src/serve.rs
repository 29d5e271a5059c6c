//! `phalanx serve`: offers a program as a service.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::core::Incarnation;
use phalanx_runtime::rpc::{CallId, HandlerResult, Port, PortOptions, Service};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::notice::{data, say};
use crate::program::{Ended, Programs, Way};

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
    programs: Programs,
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
        if self.programs.is_busy() {
            return HandlerResult::Busy;
        }
        let (done, wake) = (self.done.clone(), self.wake.clone());
        let tell = move |ended| {
            // The receiver is gone if the service has ended.
            let _ = done.send((call, encoded(ended)));
            wake.wake();
        };
        match self.programs.start(request(), tell) {
            Ok(()) => HandlerResult::Later,
            Err(why) => {
                *answer = encoded(Ended::Not(why));
                HandlerResult::Answered
            }
        }
    }
}

/// How a program ended, as an answer.
fn encoded(ended: Ended) -> Vec<u8> {
    let (head, mut rest) = match ended {
        Ended::Ran(Way::Well, output) => (vec![ENDED_WELL, 0], output),
        Ended::Ran(Way::Code(code), output) => (vec![ENDED_WITH, code], output),
        Ended::Ran(Way::Signal(signal), output) => (vec![ENDED_BY, signal], output),
        Ended::Not(why) => (vec![ENDED_NOT], why.into_bytes()),
    };
    rest.splice(..0, head);
    rest
}

pub(crate) fn run(serve: &Serve) -> Result<Exit, Failure> {
    let programs = Programs::new(&serve.command, serve.jobs, serve.timeout)?;
    let mut config = serve.cell.load()?.config;
    if serve.port != 0 {
        config.data_port = serve.port;
    }
    let options = PortOptions { config, serves: true, ..PortOptions::default() };
    let mut port = Port::start(&options).map_err(|error| Failure::new(Exit::Unreachable, error.to_string()))?;
    let (done, answers) = channel();
    let mut runner = Runner { programs, done, wake: port.waker() };
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
    say(format_args!("each call runs {}", runner.programs.shown()));
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
    runner.programs.kill();
    while runner.programs.are_ending() {
        port.poll(&mut runner);
        answer(&mut port, &mut runner, &answers);
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
