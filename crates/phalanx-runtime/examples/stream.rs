//! Two members in an asynchronous program; deliveries are a stream, for any executor.
//!
//! Run it with `cargo run --example stream`.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Event, Order, Stability};
use phalanx_runtime::{Cell, CellStream, Item, JoinOptions, Options};

/// The operation that combinator libraries call `next`.
async fn next(stream: &mut CellStream) -> Result<Item, Box<dyn Error>> {
    let item = poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await;
    Ok(item.ok_or("the stream ended")??)
}

/// Waits for both members, greets, and returns the greetings in the order they were delivered.
async fn greet(cell: &Cell) -> Result<Vec<String>, Box<dyn Error>> {
    let group = cell.join_group("hall", JoinOptions::default())?;
    let mut items = cell.stream();
    loop {
        if let Item::Event(Event::GroupView(view)) = next(&mut items).await?
            && view.members.len() == 2
        {
            break;
        }
    }
    group.cast(Order::Total, Stability::GroupDefault, format!("hello from {}", cell.me().name).as_bytes())?;
    let mut greetings = Vec::new();
    while greetings.len() < 2 {
        if let Item::Message(message) = next(&mut items).await? {
            greetings.push(String::from_utf8(message.payload.to_vec())?);
        }
    }
    Ok(greetings)
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let start = |name: &str| {
        let (runtime_dir, state_dir) = (Some(directory.path().join("run")), Some(directory.path().join("state")));
        Cell::start(Options::from(Config { name: Some(name.to_owned()), runtime_dir, state_dir, ..Config::default() }))
    };
    let (ann, bob) = (start("ann")?, start("bob")?);
    let other = std::thread::spawn(move || {
        let seen = pollster::block_on(greet(&bob)).map_err(|error| error.to_string());
        bob.leave(Duration::from_secs(10)).map_err(|error| error.to_string())?;
        seen
    });
    let seen = pollster::block_on(greet(&ann))?;
    assert_eq!(Ok(&seen), other.join().map_err(|_payload| "a thread panicked")?.as_ref(), "one order for both");
    ann.leave(Duration::from_secs(10))?;
    eprintln!("both saw {seen:?}");
    Ok(())
}
