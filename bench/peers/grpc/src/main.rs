//! gRPC by tonic: a unary call that takes some bytes and gives nothing back.
//!
//! The process of the client starts those of the servers; they end when it does.

#[path = "../../lib/bench.rs"]
mod bench;

mod null {
    include!(concat!(env!("OUT_DIR"), "/bench.Null.rs"));
}

use bench::{Exchanges, Outcome, argument, bound, end_with_parent};
use null::null_client::NullClient;
use null::null_server::{Null, NullServer};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(bytes = "bytes", tag = "1")]
    payload: prost::bytes::Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Reply {}

struct Servant;

#[tonic::async_trait]
impl Null for Servant {
    async fn call(&self, _request: tonic::Request<Request>) -> Result<tonic::Response<Reply>, tonic::Status> {
        Ok(tonic::Response::new(Reply {}))
    }
}

async fn serve() -> Outcome {
    end_with_parent();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("{}", incoming.local_addr()?.port());
    std::io::stdout().flush()?;
    Server::builder().add_service(NullServer::new(Servant)).serve_with_incoming(incoming).await?;
    Ok(())
}

/// A server's process, and a client connected to it.
struct Peer {
    process: Child,
    client: NullClient<Channel>,
}

impl Peer {
    async fn start(cpu: &str) -> Outcome<Self> {
        let mut process = Command::new("taskset")
            .args(["-c", cpu])
            .arg(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        BufReader::new(process.stdout.take().ok_or("the pipe asked for")?).read_line(&mut port)?;
        let channel = Endpoint::new(format!("http://127.0.0.1:{}", port.trim()))?.tcp_nodelay(true).connect().await?;
        Ok(Self { process, client: NullClient::new(channel) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn measure() -> Outcome {
    let size: usize = argument(3)?;
    let seconds: f64 = argument(4)?;
    let servers: usize = argument(5)?;
    let cores: String = argument(6)?;
    bound(seconds);
    let mut peers = Vec::new();
    for _ in 0..servers {
        peers.push(Peer::start(if cores == "one" { "0" } else { "1" }).await?);
    }
    let payload = prost::bytes::Bytes::from(vec![0; size]);
    let mut exchanges = Exchanges::start(seconds);
    loop {
        for peer in &mut peers {
            peer.client.call(Request { payload: payload.clone() }).await?;
        }
        if !exchanges.again() {
            break;
        }
    }
    exchanges.histogram.print(size, servers, &cores, "block")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    if argument::<String>(1)? == "serve" { serve().await } else { measure().await }
}
