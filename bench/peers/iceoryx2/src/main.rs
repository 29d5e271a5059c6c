//! iceoryx2: publish-subscribe in shared memory, as a stream and as a ping-pong.
//!
//! The first process starts the others and talks with them through their pipes; they end when it does.

#[path = "../../lib/bench.rs"]
mod bench;

mod pingpong;
mod stream;

use bench::Outcome;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a receiver does when it looked for a sample and there is none.
///
/// It looks again at once. Only where the parties outnumber the processors it gives way now and then, so that the one it
/// waits for gets its turn; elsewhere that would hand the processor to strangers.
struct Idle {
    crowded: bool,
    looks: u32,
}

impl Idle {
    const LOOKS_MAX: u32 = 100;

    fn new(crowded: bool) -> Self {
        Self { crowded, looks: 0 }
    }

    fn wait(&mut self) {
        self.looks += 1;
        if self.crowded && self.looks >= Self::LOOKS_MAX {
            self.looks = 0;
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// A node whose files lie in the run's own directory and, in shared memory, carry the run's own prefix.
fn node() -> Outcome<Node<ipc::Service>> {
    set_log_level(LogLevel::Error);
    let mut config = Config::default();
    config.global.set_root_path(&Path::new(std::env::var("BENCH_DIRECTORY")?.as_bytes())?);
    config.global.prefix = FileName::new(std::env::var("BENCH_PREFIX")?.as_bytes())?;
    Ok(NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()?)
}

/// The service of that name, for so many members at most.
fn service(
    node: &Node<ipc::Service>,
    name: &str,
    members: usize,
) -> Outcome<iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u8], ()>> {
    Ok(node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(64)
        .history_size(0)
        .max_publishers(members)
        .max_subscribers(members)
        // A member that sends and receives has a node in each of its two threads.
        .max_nodes(2 * members + 2)
        .open_or_create()?)
}

fn publisher(
    node: &Node<ipc::Service>,
    name: &str,
    members: usize,
    size: usize,
) -> Outcome<Publisher<ipc::Service, [u8], ()>> {
    Ok(service(node, name, members)?
        .publisher_builder()
        .initial_max_slice_len(size)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?)
}

fn subscriber(node: &Node<ipc::Service>, name: &str, members: usize) -> Outcome<Subscriber<ipc::Service, [u8], ()>> {
    Ok(service(node, name, members)?.subscriber_builder().create()?)
}

fn publish(publisher: &Publisher<ipc::Service, [u8], ()>, payload: &[u8]) -> Outcome {
    publisher.loan_slice_uninit(payload.len())?.write_from_slice(payload).send()?;
    Ok(())
}

/// Another process of this run; killed when dropped.
struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: std::io::BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with the arguments of this process, a role and an index behind them.
    fn start(role: &str, index: usize, cpu: Option<&str>) -> Outcome<Self> {
        let own = std::env::current_exe()?;
        let mut command = match cpu {
            Some(cpu) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpu]).arg(own);
                command
            }
            None => Command::new(own),
        };
        command.args(std::env::args().skip(1)).arg(role).arg(index.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().ok_or("the pipe asked for")?;
        let stdout = std::io::BufReader::new(child.stdout.take().ok_or("the pipe asked for")?);
        Ok(Self { child, stdin, stdout })
    }

    fn say(&mut self, line: &str) -> Outcome {
        use std::io::Write;
        writeln!(self.stdin, "{line}").map_err(|error| format!("a process of the run ended too early: {error}"))?;
        Ok(())
    }

    fn hear(&mut self) -> Outcome<String> {
        use std::io::BufRead;
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err("a process of the run ended too early".into());
        }
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> Outcome {
    let mode: String = bench::argument(1)?;
    // The role is behind the arguments of `run`, and the index behind the role.
    let role = if mode == "stream" { 7 } else { 8 };
    match (mode.as_str(), std::env::args().len() > role) {
        ("stream", false) => stream::conduct(),
        ("stream", true) => stream::take_part(bench::argument(role + 1)?),
        (_, false) => pingpong::ask(),
        (_, true) => pingpong::answer(bench::argument(role + 1)?),
    }
}
