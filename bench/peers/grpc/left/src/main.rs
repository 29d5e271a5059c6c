//! A gRPC call that ends when its callee leaves the cell.
//!
//! The callee is stopped while it answers. Its connection stays open, so the call alone would wait until its deadline, if it
//! has one. The cell excludes the callee, and `Cell::left` ends the wait with the reason.
//!
//! `cargo run --manifest-path bench/peers/grpc/left/Cargo.toml` does all of it: it starts the callee as a process of its own.

mod oracle {
    #![allow(clippy::all, reason = "it is generated")]
    include!(concat!(env!("OUT_DIR"), "/example.Oracle.rs"));
}

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oracle::oracle_client::OracleClient;
use oracle::oracle_server::{Oracle, OracleServer};
use phalanx::{Cell, CellBuilder, LeaveReason, MemberChange, MemberId};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[derive(Clone, PartialEq, prost::Message)]
struct Question {
    #[prost(uint32, tag = "1")]
    think_ms: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(uint32, tag = "1")]
    value: u32,
}

struct Thinker;

#[tonic::async_trait]
impl Oracle for Thinker {
    async fn call(&self, question: tonic::Request<Question>) -> Result<tonic::Response<Answer>, tonic::Status> {
        tokio::time::sleep(Duration::from_millis(u64::from(question.into_inner().think_ms))).await;
        Ok(tonic::Response::new(Answer { value: 42 }))
    }
}

fn member(directory: &Path, name: &str) -> CellBuilder {
    let suspect_after = ("timing.suspect_after", "1s");
    Cell::builder("left-tonic")
        .name(name)
        .directories(directory.join("run"), directory.join("state"))
        .set(suspect_after.0, suspect_after.1)
}

/// The callee: a member that serves gRPC. It prints its port, once it is a member.
async fn serve(directory: &Path) -> Outcome {
    let _cell = member(directory, "callee").start().await?;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    println!("{}", incoming.local_addr()?.port());
    std::io::stdout().flush()?;
    Server::builder().add_service(OracleServer::new(Thinker)).serve_with_incoming(incoming).await?;
    Ok(())
}

/// What became of a call.
#[derive(Debug)]
enum Called {
    Answered(u32),
    /// The callee is out of the cell. Whether the call ran is not known.
    Gone(Option<LeaveReason>),
}

/// The pattern: wait for the answer and for the callee's leaving, and take what comes first.
async fn call(
    cell: &Cell,
    callee: MemberId,
    client: &mut OracleClient<tonic::transport::Channel>,
    think_ms: u32,
) -> Outcome<Called> {
    tokio::select! {
        // An answer that is here counts, even if its callee has left meanwhile.
        biased;
        answer = client.call(Question { think_ms }) => Ok(Called::Answered(answer?.into_inner().value)),
        gone = cell.left(callee) => Ok(Called::Gone(gone?.why)),
    }
}

/// Ended when it is dropped.
struct Callee(Child);

impl Drop for Callee {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn demonstrate(directory: &Path) -> Outcome {
    // It founds the cell, so that it goes on when one of two is excluded.
    let cell = member(directory, "caller").start().await?;
    let mut callee = cell.watch_member_named("callee");
    let started = Command::new(std::env::current_exe()?).arg("serve").arg(directory).stdout(Stdio::piped()).spawn()?;
    let mut process = Callee(started);
    let mut port = String::new();
    BufReader::new(process.0.stdout.take().ok_or("the pipe asked for")?).read_line(&mut port)?;
    let id = loop {
        match callee.next().await.ok_or("the cell is over")? {
            MemberChange::Here(member) => break member.id,
            other => println!("callee: {other:?}"),
        }
    };
    let mut client = OracleClient::connect(format!("http://127.0.0.1:{}", port.trim())).await?;
    let answered = call(&cell, id, &mut client, 10).await?;
    println!("a call: {answered:?}");
    assert!(matches!(answered, Called::Answered(42)), "{answered:?}");

    let stopped = Command::new("kill").args(["-STOP", &process.0.id().to_string()]).status()?;
    assert!(stopped.success(), "the callee is stopped");
    let since = Instant::now();
    let ended = call(&cell, id, &mut client, 10).await?;
    println!("a call to a stopped process: {ended:?} after {:?}", since.elapsed());
    assert!(matches!(ended, Called::Gone(Some(LeaveReason::Unreachable))), "{ended:?}");
    cell.leave().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, directory] = &arguments[..]
        && word == "serve"
    {
        return serve(Path::new(directory)).await;
    }
    let directory = std::env::temp_dir().join(format!("left-tonic-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let shown = demonstrate(&directory).await;
    std::fs::remove_dir_all(&directory)?;
    shown
}
