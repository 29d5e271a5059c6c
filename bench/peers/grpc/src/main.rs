//! gRPC by tonic: a unary call that takes some bytes and gives some back.
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

/// Without bytes it is empty: a field that holds none is not written.
#[derive(Clone, PartialEq, prost::Message)]
struct Reply {
    #[prost(bytes = "bytes", tag = "1")]
    payload: prost::bytes::Bytes,
}

struct Servant {
    answer: prost::bytes::Bytes,
}

/// The longest message, with its field's head; tonic's own bound is 4 MiB.
const LONGEST: usize = 17 << 20;

#[tonic::async_trait]
impl Null for Servant {
    async fn call(&self, _request: tonic::Request<Request>) -> Result<tonic::Response<Reply>, tonic::Status> {
        Ok(tonic::Response::new(Reply { payload: self.answer.clone() }))
    }
}

async fn serve() -> Outcome {
    end_with_parent();
    let answer = prost::bytes::Bytes::from(vec![0; argument(2)?]);
    let server = NullServer::new(Servant { answer }).max_decoding_message_size(LONGEST);
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("{}", incoming.local_addr()?.port());
    std::io::stdout().flush()?;
    Server::builder().add_service(server).serve_with_incoming(incoming).await?;
    Ok(())
}

/// A server's process, and a client connected to it.
struct Peer {
    process: Child,
    client: NullClient<Channel>,
}

impl Peer {
    async fn start(cpu: &str, answer: usize) -> Outcome<Self> {
        let mut process = Command::new("taskset")
            .args(["-c", cpu])
            .arg(std::env::current_exe()?)
            .arg("serve")
            .arg(answer.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        BufReader::new(process.stdout.take().ok_or("the pipe asked for")?).read_line(&mut port)?;
        let channel = Endpoint::new(format!("http://127.0.0.1:{}", port.trim()))?.tcp_nodelay(true).connect().await?;
        Ok(Self { process, client: NullClient::new(channel).max_decoding_message_size(LONGEST) })
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
    let answer: usize = argument(8)?;
    bound(seconds);
    let mut peers = Vec::new();
    for _ in 0..servers {
        peers.push(Peer::start(if cores == "one" { "0" } else { "1" }, answer).await?);
    }
    let payload = prost::bytes::Bytes::from(vec![0; size]);
    let mut exchanges = Exchanges::start(seconds);
    loop {
        for peer in &mut peers {
            let reply = peer.client.call(Request { payload: payload.clone() }).await?.into_inner();
            if reply.payload.len() != answer {
                return Err(format!("{} bytes came back of {answer}", reply.payload.len()).into());
            }
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
