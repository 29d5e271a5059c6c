//! `phalanx call`: calls a program that `phalanx serve` runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use phalanx_runtime::config::parse_duration;
use phalanx_runtime::rpc::Failure as CallFailure;
use phalanx_runtime::rpc::{CallOptions, Client, PortOptions, Reason, slowest, story};

use crate::exit::{Exit, Failure, While};
use crate::flags::CellFlags;
use crate::notice::say;
use crate::serve::{ENDED_BY, ENDED_NOT, ENDED_WELL, ENDED_WITH};

/// Calls one server, a program that `phalanx serve` offers; `phalanx ask` asks all members of a group
///
/// The request is the argument, or all of standard input. The program runs at most once. Exit codes: 0 it ran and ended
/// well; 1 it ran and failed, or it is not known whether it ran; 3 it did not run. Codes other than 0 come with a line
/// on standard error.
#[derive(Args, Debug)]
pub(crate) struct Call {
    /// Address of the service, as host:port
    #[arg(value_name = "ADDRESS")]
    server: String,
    /// The request [default: standard input]
    #[arg(value_name = "REQUEST")]
    request: Option<String>,
    /// The longest to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
    /// Running it twice does no harm: call again if the server restarts meanwhile
    #[arg(long)]
    idempotent: bool,
    /// Wait for a server if none is there, until the timeout
    #[arg(long)]
    wait: bool,
    /// Print on standard error where the call spent its time, as seen from here
    #[arg(long)]
    time_trace: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(call: &Call) -> Result<Exit, Failure> {
    let server = resolve(&call.server)?;
    let request = match &call.request {
        Some(request) => request.clone().into_bytes(),
        None => read_input("request")?,
    };
    let mut config = call.cell.load()?.config;
    // `data_port` of the configuration belongs to a server of this host; a caller takes any free port.
    config.data_port = 0;
    let options = PortOptions { config, ..PortOptions::default() };
    let mut client = Client::start(&options).map_err(|error| Failure::new(Exit::Unreachable, error.to_string()))?;
    let how = CallOptions { deadline: call.timeout, idempotent: call.idempotent, waits_for_server: call.wait };
    if call.time_trace {
        client.keep_trace(TRACE_RECORDS);
    }
    let outcome = client.call(server, &request, &how);
    if call.time_trace {
        let records = client.port().trace();
        if let Some((_, time)) = slowest(&records) {
            let during = records.iter().filter(|record| time.contains(&record.at));
            let told = story(during.map(|record| (record.at, "here", record.to_string())));
            // Standard error may be closed; the answer is still printed.
            let _ = write!(std::io::stderr().lock(), "{told}");
        }
    }
    let lost = client.port().trace_failure().map(ToString::to_string);
    let exit = tell(server, outcome)?;
    match lost {
        None => Ok(exit),
        Some(error) => Err(Failure::new(Exit::Failure, format!("the trace cannot be written: {error}"))),
    }
}

/// Prints the answer, or the reason why there is none.
fn tell(server: SocketAddr, outcome: Result<Vec<u8>, CallFailure>) -> Result<Exit, Failure> {
    match outcome {
        Ok(answer) => print(&answer),
        Err(failure @ CallFailure::NotExecuted(Reason::Unreachable)) => {
            let hint = "start `phalanx serve` there, or wait for it with --wait";
            Err(Failure::new(Exit::Unreachable, format!("{server}: {failure}; {hint}")))
        }
        Err(failure @ CallFailure::NotExecuted(_)) => {
            Err(Failure::new(Exit::Unreachable, format!("{server}: {failure}")))
        }
        Err(failure @ CallFailure::Unknown(_)) => Err(Failure::new(Exit::Failure, format!("{server}: {failure}"))),
    }
}

/// Number of trace records. It far exceeds the steps of a call with the longest request and answer.
const TRACE_RECORDS: usize = 1 << 16;

fn resolve(server: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{server}: {why}; an address is written host:port"));
    let mut found = server.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("no such host".to_owned()))
}

/// All of standard input, which is a `what`.
pub(crate) fn read_input(what: &str) -> Result<Vec<u8>, Failure> {
    let most = phalanx_runtime::core::MESSAGE_BYTES_MAX;
    let mut request = Vec::new();
    std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut request).when("cannot read standard input")?;
    if request.len() > most {
        return Err(Failure::new(Exit::Usage, format!("a {what} has at most 64 MiB")));
    }
    Ok(request)
}

fn print(answer: &[u8]) -> Result<Exit, Failure> {
    let failed = |what: String| Err(Failure::new(Exit::Failure, what));
    let out = |bytes: &[u8]| {
        let mut out = std::io::stdout().lock();
        // A broken pipe is no failure: the reader has read enough.
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    };
    match answer {
        [ENDED_WELL, _, output @ ..] => {
            out(output);
            Ok(Exit::Good)
        }
        [ENDED_WITH, code, output @ ..] => {
            out(output);
            say(format_args!("the program ran and ended with code {code}"));
            Ok(Exit::Failure)
        }
        [ENDED_BY, signal, output @ ..] => {
            out(output);
            say(format_args!("the program ran and was ended by signal {signal}"));
            Ok(Exit::Failure)
        }
        [ENDED_NOT, why @ ..] => failed(format!("the program failed: {}", String::from_utf8_lossy(why))),
        _ => failed("this is no answer of `phalanx serve`".to_owned()),
    }
}
