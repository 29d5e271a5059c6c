//! A member in a process of its own: turns, counts what is delivered, and does what it is told in lines.

use std::error::Error;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use phalanx::config::{Config, SecurityMode};
use phalanx::core::{CommandError, Delivery, Event, GroupId, Incarnation, Instant, Order};
use phalanx::{Handler, Inline, Options, clock};

use crate::child::say;
use crate::table::quantile;

/// What a message is for: its first byte.
const LOAD: u8 = 0;
const PROBE: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;

/// What is delivered, and what is noted of it.
#[derive(Default)]
struct App {
    me: Option<Incarnation>,
    group: Option<GroupId>,
    members: Option<usize>,
    /// Answers pings; sends them.
    echo: bool,
    pinging: bool,
    delivered: u64,
    /// Microseconds.
    samples: Vec<f64>,
    /// Pings to be answered: their stamps.
    pings: Vec<[u8; 8]>,
    /// The probe on its way was delivered here, or the ping answered.
    returned: bool,
}

impl Handler for App {
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.delivered += 1;
        let Some((&kind, rest)) = delivery.payload.split_first() else { return };
        let Some(&stamp) = rest.first_chunk::<8>().filter(|_| kind != LOAD) else { return };
        let mine = self.me == Some(delivery.sender);
        match kind {
            PING if self.echo => self.pings.push(stamp),
            PROBE => self.sample(stamp, mine),
            PONG if self.pinging => self.sample(stamp, true),
            _ => {}
        }
    }

    fn event(&mut self, event: Event) {
        if let Event::GroupView(view) = event {
            self.group = Some(view.group);
            self.members = Some(view.members.len());
        }
    }
}

impl App {
    fn sample(&mut self, stamp: [u8; 8], returned: bool) {
        let sent = Instant(u64::from_le_bytes(stamp));
        self.samples.push(clock::now().since(sent).as_secs_f64() * 1e6);
        self.returned |= returned;
    }
}

/// What it was told to do.
struct Task {
    size: usize,
    load: bool,
    spin: bool,
    /// Probes or pings left to send, of which kind, how far apart.
    probes: usize,
    kind: u8,
    gap: Duration,
    next: Instant,
    on_its_way: bool,
}

/// Runs a member until its input ends.
pub(crate) fn run(name: &str, directory: &str, security: &str) -> Result<(), Box<dyn Error>> {
    let mut config = Config {
        name: Some(name.to_owned()),
        runtime_dir: Some(Path::new(directory).join("run")),
        security: if security == "none" { SecurityMode::None } else { SecurityMode::Sealed },
        ..Config::default()
    };
    // A machine with few processors and other work may let a member wait for long; that is not what is measured.
    config.timing.suspect_after = Duration::from_secs(8);
    let (mut app, mut member) = (App::default(), Inline::start(&Options::from(config))?);
    app.me = Some(member.node().incarnation());
    member.join_group("figures", false, &mut app)?;
    let commands = listen(&member);
    let mut task = Task {
        size: 100,
        load: false,
        spin: false,
        probes: 0,
        kind: PROBE,
        gap: Duration::ZERO,
        next: Instant::ZERO,
        on_its_way: false,
    };
    loop {
        loop {
            match commands.try_recv() {
                Ok(line) => obey(&line, &mut task, &mut app)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        if let Some(count) = app.members.take() {
            say(&format!("members {count}"))?;
        }
        let accepted = work(&mut task, &mut app, &mut member)?;
        let report = member.turn(&mut app);
        // One more turn after any work: what it leads to may be due only then.
        let worked = accepted || report.received > 0;
        let busy = report.more || worked || !app.pings.is_empty() || app.members.is_some();
        if !busy && !task.spin {
            let probe_due = task.probes > 0 && (!task.on_its_way || app.returned);
            member.wait(probe_due.then(|| task.next.since(clock::now())))?;
        }
    }
}

/// A thread reads the commands and wakes the member.
fn listen(member: &Inline) -> Receiver<String> {
    let (tell, commands) = channel();
    let waker = member.waker();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
            waker.wake();
        }
        drop(tell);
        waker.wake();
    });
    commands
}

fn obey(line: &str, task: &mut Task, app: &mut App) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["mark"] => say(&format!("mark {} {}", app.delivered, clock::now().0))?,
        ["load", size] => (task.size, task.load) = (size.parse()?, true),
        ["stop"] => task.load = false,
        ["spin", word] => task.spin = word == "on",
        ["echo", word] => app.echo = word == "on",
        ["probe", size, count, gap_us] => {
            app.pinging = false;
            task.begin(PROBE, size, count, gap_us)?;
        }
        ["ping", size, count, gap_us] => {
            app.pinging = true;
            task.begin(PING, size, count, gap_us)?;
        }
        ["samples"] => {
            let mut samples = std::mem::take(&mut app.samples);
            let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut samples, share));
            say(&format!("samples {} {p50} {p99}", samples.len()))?;
        }
        _ => return Err(format!("not understood: {line}").into()),
    }
    Ok(())
}

impl Task {
    fn begin(&mut self, kind: u8, size: &str, count: &str, gap_us: &str) -> Result<(), Box<dyn Error>> {
        (self.kind, self.size, self.probes) = (kind, size.parse()?, count.parse()?);
        self.gap = Duration::from_micros(gap_us.parse()?);
        self.next = clock::now();
        self.on_its_way = false;
        Ok(())
    }
}

/// Multicasts what is due. True: something was accepted.
fn work(task: &mut Task, app: &mut App, member: &mut Inline) -> Result<bool, Box<dyn Error>> {
    let Some(group) = app.group else { return Ok(false) };
    let mut message = vec![LOAD; task.size.max(9)];
    let mut accepted = 0;
    if task.load {
        while accepted < BURST && multicast(member, group, &message, app)? {
            accepted += 1;
        }
    }
    for stamp in std::mem::take(&mut app.pings) {
        message[0] = PONG;
        message[1..9].copy_from_slice(&stamp);
        accepted += usize::from(multicast(member, group, &message, app)?);
    }
    if task.on_its_way && app.returned {
        task.on_its_way = false;
        task.probes -= 1;
        task.next = clock::now() + task.gap;
        if task.probes == 0 {
            say("done")?;
        }
    }
    let now = clock::now();
    if task.probes > 0 && !task.on_its_way && now >= task.next {
        app.returned = false;
        message[0] = task.kind;
        message[1..9].copy_from_slice(&now.0.to_le_bytes());
        task.on_its_way = multicast(member, group, &message, app)?;
        accepted += usize::from(task.on_its_way);
    }
    Ok(accepted > 0)
}

/// False: there is no credit now.
fn multicast(member: &mut Inline, group: GroupId, message: &[u8], app: &mut App) -> Result<bool, CommandError> {
    match member.multicast(group, Order::Total, false, message, app) {
        Ok(()) => Ok(true),
        Err(CommandError::NoCredit) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Messages accepted between two turns.
const BURST: usize = 256;
