//! Typed calls with deadlines: every member of the group serves quotes, and asks the group for those in its input. A line
//! `ID DEADLINE WORK` is a call of that deadline for a quote that takes so much work, both in milliseconds. Start some,
//! and kill or stop any. `PHALANX_*` variables configure the process: its name, and where it finds the others.
use std::time::{Duration, Instant};

use phalanx::{CallError, Cell, Client, Request, Server};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize)]
struct Ask {
    id: String,
    work: Duration,
}

#[derive(Serialize, Deserialize)]
struct Quote {
    id: String,
    cents: u64,
    by: String,
}

fn cents(id: &str) -> u64 {
    id.bytes().fold(7, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte))
}

/// Works on one request, until its caller does not wait any more.
async fn quote(request: Request<Ask, Quote>, by: String) {
    let Ask { id, work } = request.value();
    println!("runs {id}");
    tokio::select! {
        () = tokio::time::sleep(*work) => {
            let quote = Quote { id: id.clone(), cents: cents(id), by };
            request.answer(&quote);
        }
        () = request.given_up() => println!("dropped {id}"),
    }
}

/// Serves until the process ends.
async fn serve(server: Server<Ask, Quote>, name: String) {
    while let Some(request) = server.next().await {
        tokio::spawn(quote(request, name.clone()));
    }
}

/// Makes one call, and prints how it ended.
async fn call(client: Client, line: String) {
    let mut words = line.split_whitespace();
    let id = words.next().unwrap_or_default().to_owned();
    let mut millis = || words.next().and_then(|word| word.parse().ok()).map(Duration::from_millis);
    let (Some(deadline), Some(work)) = (millis(), millis()) else {
        return println!("bad {line}: it should be ID DEADLINE WORK");
    };
    let began = Instant::now();
    let ask = Ask { id: id.clone(), work };
    let outcome = client.call::<Quote>("quotes", &ask).deadline(deadline).await;
    let after = began.elapsed().as_millis();
    match outcome {
        Ok(quote) => println!("answer {} {} by {} after {after}", quote.id, quote.cents, quote.by),
        Err(CallError::NotExecuted(why)) => println!("not-executed {id} after {after}: {why}"),
        Err(error) => println!("unknown {id} after {after}: {error}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = Cell::builder("quotes").environment().start().await?;
    let (group, inbox) = cell.group("quotes").join().await?;
    drop(inbox); // messages of the group are not what this program is about
    let (server, client) = (group.server().start()?, cell.client()?);
    tokio::spawn(serve(server, cell.me().name));
    let (lines, mut input) = tokio::sync::mpsc::channel(64);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok).map(|line| lines.blocking_send(line));
        lines.map_while(Result::ok).for_each(drop);
    });
    tokio::spawn(async move {
        while let Some(line) = input.recv().await {
            tokio::spawn(call(client.clone(), line));
        }
    });
    signal(SignalKind::terminate())?.recv().await; // when the input is over it serves on
    Ok(cell.leave().await?)
}
