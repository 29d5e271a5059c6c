//! One exchange after the other with each server: a sample there, a sample back.

use crate::bench::{Exchanges, Outcome, argument, bound, end_with_parent};
use crate::{Idle, Process, node, publish, publisher, subscriber};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

/// One side of an exchange: where it sends, where it receives, and the bells of both if it sleeps.
struct Side {
    out: Publisher<ipc::Service, [u8], ()>,
    inward: Subscriber<ipc::Service, [u8], ()>,
    bells: Option<(Notifier<ipc::Service>, Listener<ipc::Service>)>,
    /// Client and servers need more processors than they have.
    crowded: bool,
}

impl Side {
    fn new(node: &Node<ipc::Service>, out: &str, inward: &str, size: usize, block: bool) -> Outcome<Self> {
        let crowded = argument::<String>(6)? == "one" || argument::<usize>(5)? > 1;
        let bell = |name: &str| -> Outcome<_> { Ok(node.service_builder(&name.try_into()?).event().open_or_create()?) };
        let bells = if block {
            Some((bell(out)?.notifier_builder().create()?, bell(inward)?.listener_builder().create()?))
        } else {
            None
        };
        Ok(Self { out: publisher(node, out, 1, size)?, inward: subscriber(node, inward, 1)?, bells, crowded })
    }

    fn send(&self, payload: &[u8]) -> Outcome {
        publish(&self.out, payload)?;
        if let Some((notifier, _)) = &self.bells {
            notifier.notify()?;
        }
        Ok(())
    }

    fn receive(&self) -> Outcome {
        let mut idle = Idle::new(self.crowded);
        while self.inward.receive()?.is_none() {
            if let Some((_, listener)) = &self.bells {
                listener.blocking_wait(|_| {})?;
                continue;
            }
            idle.wait();
        }
        Ok(())
    }
}

/// The client.
pub fn ask() -> Outcome {
    let size: usize = argument(3)?;
    let seconds: f64 = argument(4)?;
    let servers: usize = argument(5)?;
    let cores: String = argument(6)?;
    let wait: String = argument(7)?;
    bound(seconds);
    let node = node()?;
    let payload = vec![0; size];
    let mut sides = Vec::new();
    let mut processes = Vec::new();
    for index in 0..servers {
        sides.push(Side::new(&node, &format!("ping{index}"), &format!("pong{index}"), size, wait == "block")?);
        processes.push(Process::start("server", index, Some(if cores == "one" { "0" } else { "1" }))?);
    }
    for process in &mut processes {
        process.hear()?;
    }
    let mut exchanges = Exchanges::start(seconds);
    loop {
        for side in &sides {
            side.send(&payload)?;
            side.receive()?;
        }
        if !exchanges.again() {
            break;
        }
    }
    exchanges.histogram.print(size, servers, &cores, &wait)
}

/// A server, until the client ends.
pub fn answer(index: usize) -> Outcome {
    end_with_parent();
    let size: usize = argument(3)?;
    let wait: String = argument(7)?;
    let node = node()?;
    let side = Side::new(&node, &format!("pong{index}"), &format!("ping{index}"), size, wait == "block")?;
    let payload = vec![0; size];
    println!("ready");
    loop {
        side.receive()?;
        side.send(&payload)?;
    }
}
