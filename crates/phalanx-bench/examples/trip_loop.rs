//! Round trips between two members that one thread polls in alternation. No member waits for another
//! processor, so a profiler or valgrind sees only the work done for a message.
//!
//! ```text
//! cargo build --release -p phalanx-bench --example trip_loop
//! perf record target/release/examples/trip_loop 500000 udp none
//! ```
//!
//! Prints the nanoseconds of a round trip, those of plain sends and receives over two sockets, and their ratio. Each
//! is the median over several rounds.

use std::error::Error;
use std::io::{Write, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use phalanx_runtime::config::{Config, DriverMode, SecurityMode};
use phalanx_runtime::core::{Delivery, Event, GroupId, GroupTerms, Order, Stability};
use phalanx_runtime::{Handler, Inline, Options};

#[derive(Default)]
struct App {
    group: Option<GroupId>,
    members: usize,
    delivered: u64,
}

impl Handler for App {
    fn deliver(&mut self, _delivery: &Delivery<'_>) {
        self.delivered += 1;
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            (self.group, self.members) = (Some(view.group), view.members.len());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let word = |i| std::env::args().nth(i);
    let trips: u64 = word(1).and_then(|word| word.parse().ok()).unwrap_or(200_000);
    let memory = word(2).as_deref() == Some("shm");
    let sealed = word(3).as_deref() != Some("none");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let directory = tempfile::Builder::new().permissions(private).tempdir()?;
    let mut members = Vec::new();
    for name in ["a", "b"] {
        let config = Config {
            name: Some(name.to_owned()),
            runtime_dir: Some(directory.path().to_owned()),
            state_dir: Some(directory.path().join("state")),
            driver: if memory { DriverMode::Auto } else { DriverMode::Udp },
            security: if sealed { SecurityMode::Sealed } else { SecurityMode::None },
            ..Config::default()
        };
        let mut app = App::default();
        let mut member = Inline::start(&Options::from(config))?;
        member.join_group("trips", false, GroupTerms::default(), &mut app)?;
        members.push((member, app));
    }
    let begin = Instant::now();
    while members.iter().any(|(_, app)| app.members < 2) || begin.elapsed() < Duration::from_secs(2) {
        for (member, app) in &mut members {
            member.poll(app);
        }
    }
    let message = [7; 64];
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    let addresses = [sockets[0].local_addr()?, sockets[1].local_addr()?];
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..trips / ROUNDS {
            trip(&mut members, 0, &message)?;
            trip(&mut members, 1, &message)?;
        }
        let ours = begin.elapsed();
        let begin = Instant::now();
        for _ in 0..trips / ROUNDS {
            raw_trip(&sockets, &addresses)?;
        }
        rounds.push([ours, begin.elapsed()].map(|time| time.as_nanos() as f64 / (trips / ROUNDS) as f64));
    }
    rounds.sort_by(|a, b| (a[0] / a[1]).total_cmp(&(b[0] / b[1])));
    let [ours, raw] = rounds[rounds.len() / 2];
    writeln!(stdout(), "{ours:.0} ns a trip, raw {raw:.0} ns: {:.2}", ours / raw)?;
    Ok(())
}

/// Multicasts `message` from one member and polls until the other delivers it.
fn trip(members: &mut [(Inline, App)], from: usize, message: &[u8]) -> Result<(), Box<dyn Error>> {
    let awaited = members[1 - from].1.delivered + 1;
    let (member, app) = &mut members[from];
    let group = app.group.ok_or("no group")?;
    member.multicast(group, Order::Total, Stability::Plain, message, app)?;
    member.poll(app);
    while members[1 - from].1.delivered < awaited {
        let (member, app) = &mut members[1 - from];
        member.poll(app);
    }
    Ok(())
}

fn raw_trip(sockets: &[UdpSocket; 2], addresses: &[SocketAddr; 2]) -> Result<(), Box<dyn Error>> {
    let mut buffer = [0; 2_048];
    for i in [0, 1] {
        sockets[i].send_to(&buffer[..64], addresses[1 - i])?;
        sockets[1 - i].recv_from(&mut buffer)?;
    }
    Ok(())
}

/// Number of rounds; each measures the library and then the plain sockets.
const ROUNDS: u64 = 20;
