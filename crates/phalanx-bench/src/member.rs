//! The member's side: it polls, counts deliveries, and multicasts as commanded.
//!
//! Measuring must cost little beside what is measured. A load message is only counted, and the library itself reads the
//! clock once for each poll.

mod app;
mod work;

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use phalanx_runtime::config::Config;
use phalanx_runtime::core::{GroupTerms, Incarnation, SlowMembers};
use phalanx_runtime::driver::{Faults, Wait};
use phalanx_runtime::{Inline, Options};

use crate::choice::{Waiting, configure};
use crate::commands::{listen, say};
use crate::error::{BenchError, While};
use crate::measure::{cpu_ns, is_kernel_drop, now_ns};
use crate::protocol::{Command, Mark, MemberRole, Report};
use app::App;
use work::{Work, failed};

/// Runs a member until its input ends.
pub(crate) fn run(role: &MemberRole) -> Result<(), BenchError> {
    let mut config = Config {
        name: Some(role.name.clone()),
        runtime_dir: Some(role.directory.clone()),
        state_dir: Some(role.directory.join("state")),
        ..Config::default()
    };
    configure(&mut config, role.transport, role.security);
    if let Some(millis) = role.suspect_after_ms {
        config.timing.suspect_after = Duration::from_millis(millis);
    }
    if let Some(millis) = role.expel_after_ms {
        config.timing.expel_after = Duration::from_millis(millis);
        config.limits.slow_members = SlowMembers::Expel;
    }
    let mut options = Options::from(config);
    match role.loss_ppm {
        None => serve(role, Inline::start(&options).map_err(failed("cannot start"))?),
        Some(loss_ppm) => {
            // The seed follows from the name, so that members lose different packets.
            let seed = role.name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
            options.faults = Some((Faults { loss_ppm, ..Faults::default() }, seed));
            serve(role, Inline::start_lossy(&options).map_err(failed("cannot start"))?)
        }
    }
}

fn serve<D: Wait>(role: &MemberRole, mut member: Inline<D>) -> Result<(), BenchError> {
    let mut app = App::new(member.node().incarnation(), role.state_bytes);
    for group in &role.groups {
        member.join_group(group, role.takes_state, GroupTerms::default(), &mut app).map_err(failed("cannot join"))?;
    }
    let waker = member.waker();
    let commands = listen(move || waker.wake())?;
    let mut work = Work::default();
    say(&Report::Ready { port: 0 })?;
    let mut over = false;
    loop {
        if !obey(&commands, &mut work, &mut app, &mut member)? {
            return Ok(());
        }
        let accepted = work.send(&mut app, &mut member)?;
        let report = member.poll(&mut app);
        app.note_turn(accepted);
        for told in app.reports.drain(..) {
            say(&told)?;
        }
        if member.is_over() && !over {
            over = true;
            say(&Report::Left)?;
        }
        // Received packets may have to be answered, and a load goes on: poll again at once. Other deadlines are known
        // to the wait.
        let goes_on = accepted > 0 && work.is_load();
        let busy = report.more || report.received > 0 || goes_on || app.has_to_answer();
        if over || !busy && role.wait == Waiting::Block {
            member.wait(work.patience(&app)).when("cannot wait")?;
        }
    }
}

/// Executes a command. False: the parent is gone.
fn obey<D: Wait>(
    commands: &Receiver<Command>,
    work: &mut Work,
    app: &mut App,
    member: &mut Inline<D>,
) -> Result<bool, BenchError> {
    loop {
        let command = match commands.try_recv() {
            Ok(command) => command,
            Err(TryRecvError::Empty) => return Ok(true),
            Err(TryRecvError::Disconnected) => return Ok(false),
        };
        match command {
            Command::Mark => say(&Report::Mark(mark(app, member)))?,
            Command::Load { ordering, size, per_second } => work.load(ordering, size, per_second),
            Command::Stop => work.stop(),
            Command::Ping { ordering, size, nanos, answers, to } => {
                let to = to.map(|to| named(member, &to)).transpose()?;
                work.ping((ordering, to), size, nanos, answers);
            }
            Command::Probe { ordering, size, nanos, gap_nanos } => work.probe(ordering, size, nanos, gap_nanos),
            Command::Echo { answer, ordering, size } => {
                app.answer = answer;
                work.answer_with(ordering, size);
            }
            Command::Times => say(&Report::Times(app.times.take()))?,
            Command::Pauses => say(&Report::Pauses(app.take_pauses()))?,
            Command::Take { per_second } => app.take_slowly(per_second),
            Command::Forward { to } => app.forward = to.map(|to| named(member, &to)).transpose()?,
            Command::Feed { to, size } => work.feed(named(member, &to)?, size),
            Command::Leave => {
                work.stop();
                member.leave(app);
            }
            // These are for other roles.
            Command::Go { .. }
            | Command::Call { .. }
            | Command::Meet { .. }
            | Command::Count
            | Command::KeepTrace
            | Command::Slowest
            | Command::Offer { .. }
            | Command::Trips { .. }
            | Command::Ask { .. }
            | Command::ByHand { .. }
            | Command::Read { .. }
            | Command::During { .. } => {}
        }
    }
}

fn named<D: Wait>(member: &Inline<D>, name: &str) -> Result<Incarnation, BenchError> {
    let view = member.node().process().cell_view();
    let found = view.and_then(|view| view.members.iter().find(|other| other.name == name));
    found.map(|found| found.incarnation).ok_or_else(|| BenchError::Child(format!("there is no member {name}")))
}

fn mark<D: Wait>(app: &App, member: &Inline<D>) -> Mark {
    let mut mark = Mark {
        at_ns: now_ns(),
        delivered: app.delivered,
        messages: app.messages,
        accepted: app.accepted,
        cpu_ns: cpu_ns(),
        ..Mark::default()
    };
    member.node().driver().counters(&mut |name, value| {
        if name.ends_with("_sent_packets") {
            mark.sent_packets += value;
        } else if name.ends_with("_received_packets") {
            mark.received_packets += value;
        } else if is_kernel_drop(name) {
            mark.kernel_drops += value;
        }
    });
    member.node().process().counters(&mut |name, value| {
        if name == "retransmissions" {
            mark.retransmissions = value;
        }
    });
    mark
}
