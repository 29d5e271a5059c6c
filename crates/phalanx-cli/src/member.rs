//! Code shared by `cat` and `node`: runs a cell member on a thread of its own, prints its events, and ends it on a
//! signal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use phalanx_runtime::core::{CellView, Event, Incarnation, LeaveReason, ViewNumber};
use phalanx_runtime::{Cell, Options, StartError};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};

/// Time after which a member that cannot complete its leave is ended, beside the time that the last members wait for others
/// (`timing.end_wait`).
const LEAVE_PATIENCE: Duration = Duration::from_secs(4);

/// Starts a member.
pub(crate) fn start(options: Options) -> Result<Arc<Cell>, Failure> {
    Ok(Arc::new(Cell::start(options).map_err(not_started)?))
}

/// Maps a start error to an exit code.
#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped by")]
pub(crate) fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::NoWayIn { .. }
        | StartError::NoKey { .. }
        | StartError::NoAddress { .. }
        | StartError::BadName { .. }
        | StartError::Seed { .. } => Exit::Configuration,
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// How a member ended, as an exit code.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    code: Arc<AtomicU8>,
    patience: Duration,
}

impl Ending {
    /// Watches for SIGINT and SIGTERM. The first makes the member leave, within [`LEAVE_PATIENCE`] and `end_wait`.
    pub(crate) fn watch(cell: &Arc<Cell>, end_wait: Duration) -> Result<Self, Failure> {
        let patience = LEAVE_PATIENCE + end_wait;
        let ending = Self { code: Arc::new(AtomicU8::new(Exit::Good as u8)), patience };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1]).when("cannot watch for signals")?;
        let (cell, code) = (Arc::clone(cell), Arc::clone(&ending.code));
        let work = move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    say("a signal ordered to reform the cell");
                    let _ = cell.reform();
                    continue;
                }
                // SIGTERM is a regular end and no failure. SIGINT has a code of its own, as in shells.
                let exit = if signal == SIGINT { Exit::Interrupted } else { Exit::Good };
                // A signal after SIGINT ends the process at once.
                if code.swap(exit as u8, Ordering::SeqCst) == Exit::Interrupted as u8 {
                    std::process::exit(i32::from(Exit::Interrupted as u8));
                }
                let _ = cell.begin_leave();
                end_after(patience, exit, &cell);
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(work).when("cannot start a thread")?;
        Ok(ending)
    }

    /// Leaves without a signal. If that cannot be completed, the process ends with `otherwise`.
    pub(crate) fn leave(&self, cell: &Arc<Cell>, otherwise: Exit) {
        let _ = cell.begin_leave();
        end_after(self.patience, otherwise, cell);
    }

    /// The exit code when nothing else failed: what was told decides it, a signal, or a trace that could not be written.
    pub(crate) fn exit(&self, cell: &Cell, narrator: &Narrator) -> Exit {
        let interrupted = self.code.load(Ordering::SeqCst) == Exit::Interrupted as u8;
        match () {
            () if narrator.in_doubt => Exit::InDoubt,
            () if interrupted => Exit::Interrupted,
            () => traced(Exit::Good, cell),
        }
    }
}

/// Ends the process after `patience` if it still runs. Without a quorum, or with a stalled reader of its output, a
/// leave may never complete.
fn end_after(patience: Duration, exit: Exit, cell: &Arc<Cell>) {
    let cell = Arc::clone(cell);
    let work = move || {
        std::thread::sleep(patience);
        say("could not leave in time; the others will learn of it as of a death");
        std::process::exit(i32::from(traced(exit, &cell) as u8));
    };
    // If no thread can be started, the process waits without a limit.
    let _ = std::thread::Builder::new().name("patience".to_owned()).spawn(work);
}

/// A requested trace that could not be written is a failure.
fn traced(exit: Exit, cell: &Cell) -> Exit {
    if exit == Exit::Good && cell.is_trace_lost() { Exit::Failure } else { exit }
}

/// Destination of the printed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Standard output: the events are the data.
    Out,
    /// Standard error: the events are notices beside the data.
    Beside,
}

/// Prints events in words, or as JSON lines.
#[derive(Debug)]
pub(crate) struct Narrator {
    told: Told,
    json: bool,
    /// Names of the members of this cell view and the previous one.
    names: BTreeMap<Incarnation, String>,
    before: BTreeMap<Incarnation, String>,
    /// Whether it was told that its leave is in doubt.
    in_doubt: bool,
}

impl Narrator {
    pub(crate) fn new(told: Told, json: bool) -> Self {
        Self { told, json, names: BTreeMap::new(), before: BTreeMap::new(), in_doubt: false }
    }

    /// The name of a process, if known.
    fn name(&self, who: Incarnation) -> String {
        let known = self.names.get(&who).or_else(|| self.before.get(&who));
        known.cloned().unwrap_or_else(|| who.to_string())
    }

    /// Processes an event, and prints it if it is worth a line.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::CellView(view) = event {
            let names = view.members.iter().map(|member| (member.incarnation, member.name.clone())).collect();
            self.before = std::mem::replace(&mut self.names, names);
        }
        self.in_doubt |= matches!(event, Event::EndInDoubt { .. });
        if let Some((text, value)) = self.describe(event) {
            self.tell(text, value);
        }
    }

    /// Prints that messages were accepted and will not be sent; see [`phalanx_runtime::Item::Unsent`].
    pub(crate) fn note_unsent(&self, group: &str, first: u64, messages: u64) {
        let last = first + messages.saturating_sub(1);
        let text = format!("group {group}: of the messages given to it, numbers {first} to {last} are not sent");
        self.tell(text, json!({"event": "unsent", "group": group, "first": first, "messages": messages}));
    }

    fn tell(&self, text: String, value: Value) {
        match (self.told, self.json) {
            (Told::Out, true) => drop(data(value)),
            (Told::Out, false) => drop(data(text)),
            (Told::Beside, true) => eprintln_json(&value),
            (Told::Beside, false) => say(text),
        }
    }

    /// Describes which members did not hear each other, or have another path between them that failed.
    fn apart(&self, view: &CellView, mut value: Value) -> (String, Value) {
        let named = |(who, by): &(Incarnation, Vec<Incarnation>)| {
            (self.name(*who), by.iter().map(|who| self.name(*who)).collect::<Vec<_>>())
        };
        let apart: Vec<_> = view.apart.iter().map(named).collect();
        if !apart.is_empty() {
            value["apart"] = apart.iter().map(|(who, from)| json!({"name": who, "from": from})).collect();
        }
        let told = apart.iter().map(|(who, from)| {
            format!("; the path between {who} and {} failed: mend it, and {who} is taken in again", from.join(", "))
        });
        (told.collect(), value)
    }

    fn describe(&self, event: &Event) -> Option<(String, Value)> {
        Some(match event {
            Event::CellView(view) => {
                let members: Vec<Incarnation> = view.members.iter().map(|member| member.incarnation).collect();
                let instance = view.instance.to_string();
                let adequate = view.is_adequate();
                let value = json!({
                    "event": "cell_view", "view": view.view, "level": view.level, "instance": instance, "adequate": adequate
                });
                let (text, value) = self.change("cell view", view.view, &members, &view.joined, &view.left, value);
                let few = format!("; too few for uniform messages: {} are required", view.members_min);
                let (apart, value) = self.apart(view, value);
                (text + if adequate { "" } else { &few } + &apart, value)
            }
            Event::GroupView(view) => {
                let value = json!({
                    "event": "group_view", "group": &*view.name, "view": view.view, "adequate": view.adequate,
                    "uniform": view.terms.uniformity.is_uniform(), "ends_alone": view.terms.ends_alone
                });
                let what = format!("group {} view", view.name);
                let (text, value) = self.change(&what, view.view, &view.members, &view.joined, &view.left, value);
                let few =
                    format!("; too few hold its state for uniform messages: {} are required", view.terms.members_min);
                (text + if view.adequate { "" } else { &few }, value)
            }
            Event::GroupAdequacy { view, adequate, .. } => {
                let which = if *adequate { "enough members for" } else { "too few members with its state for" };
                let value = json!({"event": "group_adequacy", "view": view, "adequate": adequate});
                (format!("group view {view}: {which} uniform messages"), value)
            }
            Event::NonPrimary { heard, needed, why } => (
                format!("NOT in the primary partition: {why}"),
                json!({"event": "non_primary", "heard": heard, "needed": needed, "why": why}),
            ),
            Event::Primary => ("in the primary partition again".to_owned(), json!({"event": "primary"})),
            Event::Excluded { view } => (
                format!("excluded: cell view {view} does not hold this process; it comes back as a new incarnation"),
                json!({"event": "excluded", "view": view}),
            ),
            Event::Renounced { generation } => (
                format!(
                    "gave its cell instance up for one of generation {generation}; it comes back as a new incarnation, with the state of its groups"
                ),
                json!({"event": "renounced", "generation": generation}),
            ),
            Event::ReformRefused { why } => {
                (format!("the cell is not reformed: {why}"), json!({"event": "reform_refused", "why": why}))
            }
            Event::OtherInstance { instance, own, at } => (
                format!(
                    "WARNING: a living process at {at} is in another instance of this cell, {instance}; this process is in {own}. \
                     Two cells act under one name: end the one that is wrong"
                ),
                json!({"event": "other_instance", "instance": instance.to_string(), "own": own.to_string(), "at": at}),
            ),
            Event::Searching { probes, why } => {
                (format!("looking for the cell: {why}"), json!({"event": "searching", "probes": probes, "why": why}))
            }
            Event::Differs { setting, cell, own } if setting == "level" => (
                format!("kept out of the cell: level is {cell} there and {own} here; start a build that knows {cell}"),
                json!({"event": "differs", "setting": setting, "cell": cell, "own": own}),
            ),
            Event::Differs { setting, cell, own } => (
                format!("kept out of the cell: {setting} is {cell} there and {own} here; set it to the cell's value"),
                json!({"event": "differs", "setting": setting, "cell": cell, "own": own}),
            ),
            Event::LevelRefused { level, why } => (
                format!("the cell does not rise to level {level}: {why}"),
                json!({"event": "level_refused", "level": level, "why": why}),
            ),
            Event::GroupOrphaned { name, waits_for, .. } => orphaned(name, waits_for),
            Event::GroupPutOff { name, waiting, bytes, bytes_max } => (
                format!(
                    "group {name} is NOT MADE YET: {waiting} groups wait for members that are cut off, and take {bytes} bytes \
                     where {bytes_max} may be. Start these members or reach them again; if they will not be back, \
                     `phalanx give-up` lists the groups and gives one up"
                ),
                json!({
                    "event": "group_put_off", "group": &**name, "waiting": waiting, "bytes": bytes, "bytes_max": bytes_max
                }),
            ),
            Event::GroupAbsent { name } => (
                format!(
                    "group {name} is NOT THERE: no process of this cell is in it, and an observer makes no group. It is observed \
                     when a process of the group has started; if some run, check their cell and the group's name"
                ),
                json!({"event": "group_absent", "group": &**name}),
            ),
            Event::GroupRefused { name } => (
                format!(
                    "group {name} cannot be made: the cell's numbers of groups are used up. Have all members leave, and start them again"
                ),
                json!({"event": "group_refused", "group": &**name}),
            ),
            Event::GroupDiffers { name, has_state } => (
                format!(
                    "group {name} is not joined: it {}, and this process asked otherwise. All members of a group must name a \
                     state, or none; a process that only looks on asks as an observer",
                    if *has_state { "has a state" } else { "has no state" }
                ),
                json!({"event": "group_differs", "group": &**name, "has_state": has_state}),
            ),
            Event::GroupForgotten { name, view, kept, .. } => self.forgotten(name, *view, kept.as_deref()),
            Event::StateKept { name, view, .. } => (
                format!("group {name} goes on with the state that this process kept of its view {view}"),
                json!({"event": "state_kept", "group": &**name, "view": view}),
            ),
            Event::StateBegin { name, bytes, .. } => (
                format!("taking {bytes} bytes of state of group {name}"),
                json!({"event": "state_begin", "group": &**name, "bytes": bytes}),
            ),
            Event::InDoubt { to, messages } => (
                format!("of the messages to {}, the last {messages} may be received or not", self.name(*to)),
                json!({"event": "in_doubt", "to": self.name(*to), "messages": messages}),
            ),
            Event::EndWaits { groups, members, at_most } => (
                format!(
                    "the leave waits for at most {at_most:?}, because the cell may end with it{}",
                    behind(groups, members)
                ),
                json!({"event": "end_waits", "groups": groups, "members": members}),
            ),
            Event::EndInDoubt { groups, members } => (
                format!(
                    "LEFT IN DOUBT, as one of the last members{}. What only these members have is not lost while their processes \
                     run. Start the founders: the next cell waits for those groups until these members are back, were started \
                     again, or `phalanx give-up` gives the groups up",
                    behind(groups, members)
                ),
                json!({"event": "end_in_doubt", "groups": groups, "members": members}),
            ),
            Event::Left => ("left the cell".to_owned(), json!({"event": "left"})),
            _ => return None,
        })
    }

    /// Reports that the state this process kept of a group is of no use any more.
    fn forgotten(&self, group: &str, view: ViewNumber, kept: Option<&[(Incarnation, u64)]>) -> (String, Value) {
        let mut value = json!({"event": "group_forgotten", "group": group, "view": view});
        let Some(kept) = kept else {
            let text = format!(
                "group {group} is over, or went on without this process after its view {view}: what nobody else had delivered \
                 by then is not in its state, and may be sent again"
            );
            return (text, value);
        };
        let senders = kept.iter().map(|(who, count)| format!("{count} of {}", self.name(*who)));
        let text = format!(
            "group {group} went on without this process, with these messages of its view {view}: {}; what else this process \
             delivered there is not in its state, and may be sent again",
            senders.collect::<Vec<_>>().join(", ")
        );
        value["kept"] = kept.iter().map(|(who, count)| json!({"name": self.name(*who), "messages": count})).collect();
        (text, value)
    }

    fn change(
        &self,
        what: &str,
        view: ViewNumber,
        members: &[Incarnation],
        joined: &[Incarnation],
        left: &[(Incarnation, LeaveReason)],
        mut value: Value,
    ) -> (String, Value) {
        let names = |of: &[Incarnation]| of.iter().map(|who| self.name(*who)).collect::<Vec<_>>();
        let reason = |reason: &LeaveReason| match reason {
            LeaveReason::Left => "left",
            LeaveReason::Died => "died",
            LeaveReason::Unreachable => "unreachable",
            LeaveReason::TooSlow => "too slow",
            LeaveReason::NoProgress => "no progress",
            LeaveReason::Nonsense => "sends nonsense",
            LeaveReason::Anew => "takes the state anew",
            LeaveReason::Stopped => "the group stopped",
        };
        let gone: Vec<(String, &str)> = left.iter().map(|(who, why)| (self.name(*who), reason(why))).collect();
        let mut text = format!("{what} {view}: {}", names(members).join(", "));
        if !joined.is_empty() && joined.len() < members.len() {
            text.push_str(&format!("; joined: {}", names(joined).join(", ")));
        }
        if !gone.is_empty() {
            let gone: Vec<String> = gone.iter().map(|(name, why)| format!("{name} ({why})")).collect();
            text.push_str(&format!("; gone: {}", gone.join(", ")));
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("members".to_owned(), json!(names(members)));
            object.insert("joined".to_owned(), json!(names(joined)));
            let gone: Vec<Value> = gone.iter().map(|(name, why)| json!({"name": name, "reason": why})).collect();
            object.insert("left".to_owned(), json!(gone));
        }
        (text, value)
    }
}

/// Names of the members a group waits for; the incarnation where a name is unknown.
pub(crate) fn names_of(waits_for: &[(Incarnation, String)]) -> String {
    let name = |(who, name): &(Incarnation, String)| if name.is_empty() { who.to_string() } else { name.clone() };
    waits_for.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The same as JSON.
pub(crate) fn waits_for_json(waits_for: &[(Incarnation, String)]) -> Value {
    waits_for.iter().map(|(who, name)| json!({"name": name, "incarnation": who.to_string()})).collect()
}

fn orphaned(group: &str, waits_for: &[(Incarnation, String)]) -> (String, Value) {
    let text = format!(
        "group {group} WAITS for one of {}: nobody else has its state. It goes on when one of them is back; if none will be, \
         `phalanx give-up {group}` gives the state up",
        names_of(waits_for)
    );
    (text, json!({"event": "group_orphaned", "group": group, "waits_for": waits_for_json(waits_for)}))
}

/// What the last members would leave behind, as the end of a sentence.
fn behind(groups: &[String], members: &[String]) -> String {
    let listed = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {what}: {}", names.join(", ")),
    };
    listed("groups that wait for members that are cut off", groups)
        + &listed("members that were left out and may live", members)
}

fn eprintln_json(value: &Value) {
    use std::io::Write;
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr().lock(), "{value}");
}
