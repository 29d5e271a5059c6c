//! `phalanx answer`: a member that answers what its group is asked, by running a program.

use std::future::poll_fn;
use std::time::Duration;

use clap::Args;
use phalanx::{AnswerError, Asked, Bytes, JoinError, Next, wait_for};
use phalanx_runtime::config::parse_duration;

use crate::exit::{Exit, Failure};
use crate::flags::{CellFlags, group_name};
use crate::member::{Ending, Narrator, Told, start};
use crate::news::{News, Piece};
use crate::notice::say;
use crate::program::{Ended, Programs, Way};

/// Answers what a group is asked by running a program: the question is its input, its output the answer
///
/// `phalanx ask` asks. Each member of the group runs the program once for each ask. If it ends with another code than 0, takes
/// too long or cannot be started, this member answers that it has no answer, and says why on standard error. The group has no
/// state; it is made if it does not exist. SIGINT (exit code 130) and SIGTERM (0) make it leave, and end the programs that it
/// runs: an ask that waits for them is told that this member left.
#[derive(Args, Debug)]
pub(crate) struct Answer {
    /// The group; it is made if it does not exist
    #[arg(short, long, value_name = "NAME", value_parser = group_name)]
    group: String,
    /// Programs that run at the same time; to further asks this member has no answer
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: u32,
    /// A program that runs longer than this is killed, and this member has no answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print views and notices as JSON objects
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(answer: &Answer) -> Result<Exit, Failure> {
    let programs = Programs::new(&answer.command, answer.jobs, answer.timeout)?;
    let resolved = answer.cell.load()?;
    let cell = start(answer.cell.builder(&resolved.config)?)?;
    let ending = Ending::watch(&cell, resolved.config.timing.end_wait)?;
    let mut narrator = Narrator::new(Told::Beside, answer.json, resolved.warnings);
    let inbox = cell.merged();
    let mut news = News::new(cell.events(), cell.group(&answer.group).join_into(&inbox), inbox);
    say(format_args!("each ask of group {} runs {}", answer.group, programs.shown()));
    let mut refused = None;
    loop {
        // It has no limit, and so no timeout.
        let Ok(Some(piece)) = wait_for(poll_fn(|context| news.poll(context)), Duration::MAX) else { break };
        match piece {
            // The group goes on without its handle. The end of the process is told as an event.
            Piece::Joined(Ok(_) | Err(JoinError::Over)) => {}
            Piece::Joined(Err(error)) => {
                refused = Some(format!("cannot join group {}: {error}", answer.group));
                ending.leave(&cell, Exit::Failure);
            }
            Piece::Event(event) => narrator.note(&event),
            Piece::Item(Next::Asked(asked)) => begin(&programs, asked),
            Piece::Item(_) => {}
        }
    }
    programs.kill();
    while programs.are_ending() {}
    match refused {
        Some(why) => Err(Failure::new(Exit::Failure, why)),
        None => Ok(ending.exit(&cell, &narrator)),
    }
}

/// Runs the program for an ask.
fn begin(programs: &Programs, asked: Asked) {
    if programs.is_busy() {
        return give_none(&asked, "too many programs run");
    }
    let (request, later) = (asked.message.payload.to_vec(), asked.clone());
    if let Err(why) = programs.start(request, move |ended| give(&later, ended)) {
        give_none(&asked, &why);
    }
}

/// Answers with the program's output.
fn give(asked: &Asked, ended: Ended) {
    let why = match ended {
        Ended::Ran(Way::Well, output) => match asked.answer_bytes(Bytes::from(output)) {
            Err(error @ AnswerError::TooLong(_)) => error.to_string(),
            // Otherwise nobody waits for it any more.
            _ => return,
        },
        Ended::Ran(Way::Code(code), _) => format!("the program ended with code {code}"),
        Ended::Ran(Way::Signal(signal), _) => format!("the program was ended by signal {signal}"),
        Ended::Not(why) => why,
    };
    give_none(asked, &why);
}

/// Says that this member has no answer, and why.
fn give_none(asked: &Asked, why: &str) {
    if asked.null().is_ok() {
        say(format_args!("an ask gets no answer from this member: {why}"));
    }
}
