//! `phalanx node`: a plain member of a cell.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx::{Cell, CellEvent, Events, Group, JoinError, Merged, wait_for};
use phalanx_runtime::config::parse_duration;

use crate::exit::{Exit, Failure};
use crate::flags::{self, CellFlags};
use crate::member::{Ending, Narrator, Told, start};
use crate::notice::{data, say};

/// Joins the cell as a plain member and prints its views
///
/// In groups it observes: it never has their state, and waits until others have made them. An additional member keeps a
/// quorum alive, and shows whether hosts reach each other. SIGINT (exit code 130) and SIGTERM (0) make it leave. SIGUSR1
/// makes it reform the cell, as `phalanx reform` does.
#[derive(Args, Debug)]
pub(crate) struct Node {
    /// Also observe this group; may be given several times
    #[arg(short, long, value_name = "NAME", value_parser = flags::group_name)]
    group: Vec<String>,
    /// Give up (exit code 3) when this process is in no view of the cell after this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    patience: Option<Duration>,
    /// Print every setting in force with its origin, and start nothing
    #[arg(long)]
    show_config: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

pub(crate) fn run(node: &Node) -> Result<Exit, Failure> {
    let resolved = node.cell.load()?;
    if node.show_config {
        data(flags::show(&resolved, node.json));
        return Ok(Exit::Good);
    }
    let cell = start(node.cell.builder(&resolved.config)?)?;
    let ending = Ending::watch(&cell, resolved.config.timing.end_wait)?;
    ending.watch_output(&cell)?;
    let me = cell.me();
    say(format_args!("{} receives control traffic at {}: others name that as a seed", me.name, me.address));
    let groups = Observed::begin(&cell, &node.group);
    let narrator = Narrator::new(Told::Out, node.json, resolved.warnings);
    let mut printer = Printer { ending, narrator, in_view: false };
    printer.print_all(&cell, groups, node.patience)?;
    Ok(printer.ending.exit(&cell, &printer.narrator))
}

/// A group on its way.
type Observing = Pin<Box<dyn Future<Output = Result<Group, JoinError>> + Send>>;

/// The groups that are observed, with one inbox for all. What is told of them comes with the events of the cell, so that is
/// read only to hold nobody back.
struct Observed {
    joining: Vec<(String, Observing)>,
    inbox: Merged,
}

impl Observed {
    fn begin(cell: &Cell, names: &[String]) -> Self {
        let inbox = cell.merged();
        let joining = names.iter().map(|name| -> (String, Observing) {
            (name.clone(), Box::pin(cell.group(name).observe().join_into(&inbox)))
        });
        Self { joining: joining.collect(), inbox }
    }

    /// Goes on with the joins and empties the inbox, until an event is there or the process is over.
    async fn next_event(&mut self, events: &mut Events) -> Result<Option<CellEvent>, Failure> {
        let mut event = Box::pin(events.next());
        poll_fn(|context| {
            let mut failed = None;
            self.joining.retain_mut(|(name, joining)| match joining.as_mut().poll(context) {
                Poll::Pending => true,
                // The group goes on without its handle. One that is refused is told as an event, and so is the end.
                Poll::Ready(Ok(_) | Err(JoinError::NoNumbers(_) | JoinError::Over)) => false,
                Poll::Ready(Err(error)) => {
                    failed = Some(Failure::new(Exit::Failure, format!("cannot join group {name}: {error}")));
                    false
                }
            });
            if let Some(failure) = failed {
                return Poll::Ready(Err(failure));
            }
            while let Poll::Ready(Some(_)) = pin!(self.inbox.next()).poll(context) {}
            event.as_mut().poll(context).map(Ok)
        })
        .await
    }
}

/// Prints the member's events until it ends.
struct Printer {
    ending: Ending,
    narrator: Narrator,
    in_view: bool,
}

impl Printer {
    fn print_all(&mut self, cell: &Cell, mut groups: Observed, patience: Option<Duration>) -> Result<(), Failure> {
        let mut events = cell.events();
        let since = Instant::now();
        loop {
            let next = groups.next_event(&mut events);
            let patience = patience.filter(|_| !self.in_view).map(|patience| patience.saturating_sub(since.elapsed()));
            let Ok(event) = wait_for(next, patience.unwrap_or(Duration::MAX)) else {
                let what = "in no view of the cell in time; `phalanx doctor` looks at what may stand in the way";
                return Err(Failure::new(Exit::Unreachable, what));
            };
            let Some(event) = event? else { return Ok(()) };
            self.in_view |= matches!(event, CellEvent::View(_));
            self.narrator.note(&event);
        }
    }
}
