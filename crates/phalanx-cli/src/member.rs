//! Code shared by `cat` and `node`: runs a cell member on a thread of its own, prints its events, and ends it on a
//! signal.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use phalanx::{Cell, CellBuilder, CellEvent, CellView, LeaveReason, MemberId, StartError, View, wait_for};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};

/// Time after which a member that cannot complete its leave is ended, beside the time that the last members wait for others
/// (`timing.end_wait`).
const LEAVE_PATIENCE: Duration = Duration::from_secs(4);

/// Starts a member.
pub(crate) fn start(builder: CellBuilder) -> Result<Cell, Failure> {
    builder.blocking_start().map_err(not_started)
}

/// Maps a start error to an exit code.
#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped by")]
pub(crate) fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::Setting(_) => Exit::Configuration,
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// How a member ended, as an exit code.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    code: Arc<AtomicU8>,
    patience: Duration,
    is_leaving: Arc<AtomicBool>,
}

impl Ending {
    /// Watches for SIGINT and SIGTERM. The first makes the member leave, within [`LEAVE_PATIENCE`] and `end_wait`.
    pub(crate) fn watch(cell: &Cell, end_wait: Duration) -> Result<Self, Failure> {
        let ending = Self {
            code: Arc::new(AtomicU8::new(Exit::Good as u8)),
            patience: LEAVE_PATIENCE + end_wait,
            is_leaving: Arc::default(),
        };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1]).when("cannot watch for signals")?;
        let (cell, ended) = (cell.clone(), ending.clone());
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
                if ended.code.swap(exit as u8, Ordering::SeqCst) == Exit::Interrupted as u8 {
                    std::process::exit(i32::from(Exit::Interrupted as u8));
                }
                ended.leave(&cell, exit);
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(work).when("cannot start a thread")?;
        Ok(ending)
    }

    /// Leaves when nobody reads standard output any more. For a member that only prints: its next line may be far away.
    pub(crate) fn watch_output(&self, cell: &Cell) -> Result<(), Failure> {
        let (ending, cell) = (self.clone(), cell.clone());
        let work = move || {
            let output = std::io::stdout();
            let mut watched = [PollFd::new(&output, PollFlags::empty())];
            let gone = PollFlags::ERR | PollFlags::HUP;
            while poll(&mut watched, None).is_err() {}
            if watched[0].revents().intersects(gone) {
                ending.leave(&cell, Exit::Good);
            }
        };
        std::thread::Builder::new().name("output".to_owned()).spawn(work).map(drop).when("cannot start a thread")
    }

    /// Leaves. If that cannot be completed, the process ends with `otherwise`, or with what was said first.
    pub(crate) fn leave(&self, cell: &Cell, otherwise: Exit) {
        if !self.is_leaving.swap(true, Ordering::SeqCst) {
            // It is asked for at once, and goes on whether or not anybody waits for it.
            let _ = wait_for(cell.clone().leave(), Duration::ZERO);
            end_after(self.patience, otherwise, cell);
        }
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
fn end_after(patience: Duration, exit: Exit, cell: &Cell) {
    let cell = cell.clone();
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
    names: BTreeMap<MemberId, String>,
    before: BTreeMap<MemberId, String>,
    /// Warnings of the configuration, which were printed before the start.
    warned: Vec<String>,
    /// Whether it was told that its leave is in doubt.
    in_doubt: bool,
}

impl Narrator {
    pub(crate) fn new(told: Told, json: bool, warned: Vec<String>) -> Self {
        Self { told, json, names: BTreeMap::new(), before: BTreeMap::new(), warned, in_doubt: false }
    }

    /// The name of a process, if known.
    fn name(&self, who: MemberId) -> String {
        let known = self.names.get(&who).or_else(|| self.before.get(&who));
        known.cloned().unwrap_or_else(|| who.to_string())
    }

    /// Processes an event, and prints it if it is worth a line.
    pub(crate) fn note(&mut self, event: &CellEvent) {
        match event {
            CellEvent::View(view) => {
                let names = view.members().map(|member| (member.id, member.name)).collect();
                self.before = std::mem::replace(&mut self.names, names);
            }
            CellEvent::EndInDoubt { .. } => self.in_doubt = true,
            CellEvent::Notice(text) if self.warned.contains(text) => {}
            CellEvent::Notice(_) | CellEvent::TraceLost { .. } | CellEvent::Missed { .. } => say(event),
            _ => {}
        }
        if let Some((text, value)) = self.describe(event) {
            self.tell(text, value);
        }
    }

    /// Prints what became of messages when an incarnation or a membership ended; see [`phalanx::Next::Lost`].
    pub(crate) fn note_lost(&self, group: &str, not_sent: u64, in_doubt: u64) {
        let text = format!(
            "group {group}: of the messages given to it, {not_sent} are not sent, and {in_doubt} may be delivered or not"
        );
        self.tell(text, json!({"event": "lost", "group": group, "not_sent": not_sent, "in_doubt": in_doubt}));
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
        let named = |(who, by): (MemberId, Vec<MemberId>)| {
            (self.name(who), by.into_iter().map(|who| self.name(who)).collect::<Vec<_>>())
        };
        let apart: Vec<_> = view.apart().map(named).collect();
        if !apart.is_empty() {
            value["apart"] = apart.iter().map(|(who, from)| json!({"name": who, "from": from})).collect();
        }
        let told = apart.iter().map(|(who, from)| {
            format!("; the path between {who} and {} failed: mend it, and {who} is taken in again", from.join(", "))
        });
        (told.collect(), value)
    }

    fn describe(&self, event: &CellEvent) -> Option<(String, Value)> {
        Some(match event {
            CellEvent::View(view) => {
                let (number, adequate) = (view.number(), view.is_adequate());
                let value = json!({
                    "event": "cell_view", "view": number, "level": view.level(),
                    "instance": view.instance().to_string(), "adequate": adequate
                });
                let (members, joined, left) = (view.members().map(|member| member.id), view.joined(), view.left());
                let (members, joined, left) = (members.collect(), joined.collect(), left.collect());
                let change = Change { members, joined, left };
                let (text, value) = self.change(format!("cell view {number}"), &change, value);
                let few = format!("; too few for uniform messages: {} are required", view.members_min());
                let (apart, value) = self.apart(view, value);
                (text + if adequate { "" } else { &few } + &apart, value)
            }
            CellEvent::GroupView(view) => {
                let (group, number, adequate) = (view.group(), view.number(), view.is_adequate());
                let value = json!({
                    "event": "group_view", "group": group, "view": number, "adequate": adequate,
                    "uniform": view.is_uniform_by_default(), "ends_alone": view.ends_alone()
                });
                let change = Change::of(view);
                let (text, value) = self.change(format!("group {group} view {number}"), &change, value);
                let few = format!("; too few hold its state for uniform messages: {} are required", view.members_min());
                (text + if adequate { "" } else { &few }, value)
            }
            CellEvent::GroupAdequate { view, adequate, .. } => {
                let which = if *adequate { "enough members for" } else { "too few members with its state for" };
                let value = json!({"event": "group_adequacy", "view": view, "adequate": adequate});
                (format!("group view {view}: {which} uniform messages"), value)
            }
            CellEvent::NonPrimary { heard, needed, why } => (
                format!("NOT in the primary partition: {why}"),
                json!({"event": "non_primary", "heard": heard, "needed": needed, "why": why}),
            ),
            CellEvent::Primary => ("in the primary partition again".to_owned(), json!({"event": "primary"})),
            CellEvent::Excluded { view } => (
                format!("excluded: cell view {view} does not hold this process; it comes back as a new incarnation"),
                json!({"event": "excluded", "view": view}),
            ),
            CellEvent::Renounced { generation } => (
                format!(
                    "gave its cell instance up for one of generation {generation}; it comes back as a new incarnation, with the state of its groups"
                ),
                json!({"event": "renounced", "generation": generation}),
            ),
            CellEvent::ReformRefused { why } => {
                (format!("the cell is not reformed: {why}"), json!({"event": "reform_refused", "why": why}))
            }
            CellEvent::OtherInstance { instance, own, at } => (
                format!(
                    "WARNING: a living process at {at} is in another instance of this cell, {instance}; this process is in {own}. \
                     Two cells act under one name: end the one that is wrong"
                ),
                json!({"event": "other_instance", "instance": instance.to_string(), "own": own.to_string(), "at": at}),
            ),
            CellEvent::Searching { probes, why } => {
                (format!("looking for the cell: {why}"), json!({"event": "searching", "probes": probes, "why": why}))
            }
            CellEvent::Differs { setting, cell, own } if setting == "level" => (
                format!("kept out of the cell: level is {cell} there and {own} here; start a build that knows {cell}"),
                json!({"event": "differs", "setting": setting, "cell": cell, "own": own}),
            ),
            CellEvent::Differs { setting, cell, own } => (
                format!("kept out of the cell: {setting} is {cell} there and {own} here; set it to the cell's value"),
                json!({"event": "differs", "setting": setting, "cell": cell, "own": own}),
            ),
            CellEvent::LevelRefused { level, why } => (
                format!("the cell does not rise to level {level}: {why}"),
                json!({"event": "level_refused", "level": level, "why": why}),
            ),
            CellEvent::GroupWaiting { group, for_members } => orphaned(group, for_members),
            CellEvent::GroupPutOff { group, waiting, bytes, bytes_max } => (
                format!(
                    "group {group} is NOT MADE YET: {waiting} groups wait for members that are cut off, and take {bytes} bytes \
                     where {bytes_max} may be. Start these members or reach them again; if they will not be back, \
                     `phalanx give-up` lists the groups and gives one up"
                ),
                json!({
                    "event": "group_put_off", "group": &**group, "waiting": waiting, "bytes": bytes, "bytes_max": bytes_max
                }),
            ),
            CellEvent::GroupAbsent { group } => (
                format!(
                    "group {group} is NOT THERE: no process of this cell is in it, and an observer makes no group. It is observed \
                     when a process of the group has started; if some run, check their cell and the group's name"
                ),
                json!({"event": "group_absent", "group": &**group}),
            ),
            CellEvent::GroupRefused { group } => (
                format!(
                    "group {group} cannot be made: the cell's numbers of groups are used up. Have all members leave, and start them again"
                ),
                json!({"event": "group_refused", "group": &**group}),
            ),
            CellEvent::GroupDiffers { group, has_state } => (
                format!(
                    "group {group} is not joined: it {}, and this process asked otherwise. All members of a group must name a \
                     state, or none; a process that only looks on asks as an observer",
                    if *has_state { "has a state" } else { "has no state" }
                ),
                json!({"event": "group_differs", "group": &**group, "has_state": has_state}),
            ),
            CellEvent::GroupDomains { group, domain, version, is_lacking } => (
                event.to_string(),
                json!({
                    "event": "group_domains", "group": &**group, "domain": domain, "version": version,
                    "lacking": is_lacking,
                }),
            ),
            CellEvent::GroupForgotten { group, view, kept } => self.forgotten(group, *view, kept.as_deref()),
            CellEvent::GroupKept { group, view } => (
                format!("group {group} goes on with the state that this process kept of its view {view}"),
                json!({"event": "state_kept", "group": &**group, "view": view}),
            ),
            CellEvent::GroupTaking { group, bytes } => (
                format!("taking {bytes} bytes of state of group {group}"),
                json!({"event": "state_begin", "group": &**group, "bytes": bytes}),
            ),
            CellEvent::GroupFoundedAnew { group } => (
                format!(
                    "group {group} is FOUNDED ANEW by this process: the members that had its state are gone, and the state with \
                     them"
                ),
                json!({"event": "group_founded_anew", "group": &**group}),
            ),
            CellEvent::EndWaits { groups, members, at_most } => (
                format!(
                    "the leave waits for at most {at_most:?}, because the cell may end with it{}",
                    behind(groups, members)
                ),
                json!({"event": "end_waits", "groups": groups, "members": members}),
            ),
            CellEvent::EndInDoubt { groups, members } => (
                format!(
                    "LEFT IN DOUBT, as one of the last members{}. What only these members have is not lost while their processes \
                     run. Start the founders: the next cell waits for those groups until these members are back, were started \
                     again, or `phalanx give-up` gives the groups up",
                    behind(groups, members)
                ),
                json!({"event": "end_in_doubt", "groups": groups, "members": members}),
            ),
            CellEvent::Left => ("left the cell".to_owned(), json!({"event": "left"})),
            _ => return None,
        })
    }

    /// Reports that the state this process kept of a group is of no use any more.
    fn forgotten(&self, group: &str, view: u64, kept: Option<&[(MemberId, u64)]>) -> (String, Value) {
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

    /// Describes who is in a view, who came with it and who went.
    fn change(&self, what: String, change: &Change, mut value: Value) -> (String, Value) {
        let Change { members, joined, left } = change;
        let names = |of: &[MemberId]| of.iter().map(|who| self.name(*who)).collect::<Vec<_>>();
        let reason = |reason: &LeaveReason| match reason {
            LeaveReason::Left => "left",
            LeaveReason::Died => "died",
            LeaveReason::Unreachable => "unreachable",
            LeaveReason::TooSlow => "too slow",
            LeaveReason::NoProgress => "no progress",
            LeaveReason::Nonsense => "sends nonsense",
            LeaveReason::Anew => "takes the state anew",
            LeaveReason::Stopped => "the group stopped",
            _ => "for another reason",
        };
        let gone: Vec<(String, &str)> = left.iter().map(|(who, why)| (self.name(*who), reason(why))).collect();
        let mut text = format!("{what}: {}", names(members).join(", "));
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

/// A view, as far as it tells who is there.
struct Change {
    members: Vec<MemberId>,
    joined: Vec<MemberId>,
    left: Vec<(MemberId, LeaveReason)>,
}

impl Change {
    fn of(view: &View) -> Self {
        let joined = view.joined().map(|member| member.id).collect();
        Self { members: view.ids().collect(), joined, left: view.left().collect() }
    }
}

/// Names of the members a group waits for; the incarnation where a name is unknown.
pub(crate) fn names_of<I: Display>(waits_for: &[(I, String)]) -> String {
    let name = |(who, name): &(I, String)| if name.is_empty() { who.to_string() } else { name.clone() };
    waits_for.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The same as JSON.
pub(crate) fn waits_for_json<I: Display>(waits_for: &[(I, String)]) -> Value {
    waits_for.iter().map(|(who, name)| json!({"name": name, "incarnation": who.to_string()})).collect()
}

fn orphaned(group: &str, waits_for: &[(MemberId, String)]) -> (String, Value) {
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
