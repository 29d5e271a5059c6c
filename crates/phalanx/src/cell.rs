//! A process of a cell: starting it, its view, and leaving.

use std::ffi::OsString;
use std::fmt::Display;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx_core as core;
use phalanx_core::ReformWhen;
use phalanx_runtime::Options;
use phalanx_runtime::config::Config;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::calls::client::Client;
use crate::calls::server::{Origin, ServerBuilder};
use crate::cell_view::CellView;
use crate::departure::Departure;
use crate::end::End;
use crate::error::{LeaveError, SendError, StartError, WatchError};
use crate::events::Events;
use crate::group::{GroupBuilder, INBOX_BYTES, INBOX_ITEMS};
use crate::health::HealthCheck;
use crate::id::{Host, Member, MemberId};
use crate::inbox::Merged;
use crate::inline::Inline;
use crate::left::Left;
use crate::reading;
use crate::shared::cell::Held;
use crate::shared::commands::Command;
use crate::shared::watches::Whom;
use crate::standing::{Changed, Standing};
use crate::thread::{self, Begun};
use crate::waiting::{block, block_value, wait_for};
use crate::watch::{CellChange, GroupChange, HostChange, MemberChange, Watch};

/// A process of a cell. Cheap to clone; usable from any thread and task.
///
/// The protocol runs on a thread of its own. When the last handle of the cell, its groups, clients and servers is dropped, the
/// process leaves as by [`Cell::leave`]: what was posted before is sent first. The drop waits for that, for at most two seconds;
/// then the process ends, and what is left is lost. So at the end of `main` nothing is lost in a cell that is well. [`Cell::leave`]
/// says how it went, and blocks no executor. In a forked child all handles are dead: calls fail at once, and dropping them does
/// nothing.
///
/// A panic that drops the last handle ends the process at once. It leaves nothing and waits for nothing, and the others take it
/// for dead, whether or not the program goes on. The same becomes of a process whose handles are never dropped: those in a
/// `static`, behind [`std::mem::forget`], or at [`std::process::exit`].
#[derive(Clone, Debug)]
pub struct Cell {
    pub(crate) held: Arc<Held>,
}

impl Cell {
    /// How to start a process of the cell of that name.
    pub fn builder(cell: impl Into<String>) -> CellBuilder {
        CellBuilder {
            settings: vec![("cell".to_owned(), cell.into())],
            file: None,
            environment: false,
            rejoin: true,
            founds: true,
            health: None,
        }
    }

    /// How to join a group of the cell.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder::new(Arc::clone(&self.held), name.into())
    }

    /// One inbox for several groups of this process, which join with [`GroupBuilder::join_into`]. It is bounded like the
    /// inbox of one group.
    #[must_use]
    pub fn merged(&self) -> Merged {
        self.merged_of(INBOX_ITEMS, INBOX_BYTES)
    }

    /// Like [`Cell::merged`], with bounds of `items` and `bytes`. A single message may exceed the bytes.
    #[must_use]
    pub fn merged_of(&self, items: usize, bytes: usize) -> Merged {
        Merged::new(Arc::clone(&self.held.shared), items, bytes)
    }

    /// Starts a client of calls, which finds servers by member and by group. It keeps this process alive.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn client(&self) -> Result<Client, StartError> {
        Client::of(&self.held)
    }

    /// How to start a server of calls that others find by this member; see [`Server`](crate::Server). To be found by the
    /// name of a group as well, use [`Group::server`](crate::Group::server).
    pub fn server<Q: DeserializeOwned, A: Serialize>(&self) -> ServerBuilder<Q, A> {
        ServerBuilder::new(self.held.shared.config.clone(), Origin::Member(Arc::clone(&self.held), None))
    }

    /// This process. Its id changes when it comes back after an exclusion.
    #[must_use]
    pub fn me(&self) -> Member {
        self.held.shared.me()
    }

    /// The members of the cell view last installed, by rank, the oldest first. Empty before the first.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let shared = &self.held.shared;
        if !shared.home.is_here() {
            return Vec::new();
        }
        let view = shared.facts().view.clone();
        view.map_or_else(Vec::new, |view| view.members.iter().map(Member::of).collect())
    }

    /// The cell view last installed; `None` before the first, and between two incarnations.
    #[must_use]
    pub fn view(&self) -> Option<CellView> {
        let shared = &self.held.shared;
        if !shared.home.is_here() {
            return None;
        }
        let facts = shared.facts();
        facts.view.clone().map(|view| CellView::new(view, facts.me.incarnation))
    }

    /// What happens to this process in its cell, from its start on, of which the latest 256 events are kept: views of cell and
    /// groups, a quorum that is not heard, what a join waits for. For a log, or a program that watches its cell; what a
    /// group's program acts on is in the group's inbox. Each reader sees all events.
    ///
    /// Between events and an inbox there is no order, except that who takes a view from an inbox finds its event here. A group's
    /// view is told here a moment before [`Group::view`](crate::Group::view) shows it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use phalanx::{Cell, CellEvent};
    ///
    /// let cell = Cell::builder("orders").blocking_start()?;
    /// let mut events = cell.events();
    /// while let Some(event) = events.blocking_next() {
    ///     match event {
    ///         CellEvent::View(view) => println!("{} members at level {}", view.len(), view.level()),
    ///         other => println!("{other}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.held.shared.telling))
    }

    /// Whether the trace ([`CellBuilder::trace`]) cannot be written any more. The process goes on without it;
    /// [`CellEvent::TraceLost`](crate::CellEvent::TraceLost) says why.
    #[must_use]
    pub fn is_trace_lost(&self) -> bool {
        self.held.shared.is_trace_lost.load(Ordering::Relaxed)
    }

    /// What this process believes of its place in the cell now, beside all inboxes.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::of(self.held.shared.belief.look())
    }

    /// Waits until [`Cell::standing`] differs from `seen`. Ready with the latest, which may be several changes ahead; a
    /// process that is over stays so.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: another one with the same `seen` is ready at once if it has changed.
    pub fn changed(&self, seen: &Standing) -> Changed {
        Changed::new(&self.held.shared.belief, seen)
    }

    /// Like [`Cell::changed`], in a thread, for at most `patience`. `None`: nothing changed.
    ///
    /// # Panics
    /// If this thread holds a guard of [`Replica::read`](crate::Replica::read).
    #[must_use]
    #[track_caller]
    pub fn blocking_changed(&self, seen: &Standing, patience: Duration) -> Option<Standing> {
        reading::expect_no_guard();
        wait_for(self.changed(seen), patience).ok()
    }

    /// What becomes of an incarnation of a process: whether it is in the cell, and when and why it left. Ends with that, or with
    /// this process.
    ///
    /// ```no_run
    /// # fn program(cell: phalanx::Cell, donor: phalanx::MemberId) -> Result<(), Box<dyn std::error::Error>> {
    /// use phalanx::{LeaveReason, MemberChange};
    ///
    /// let mut donor = cell.watch_member(donor);
    /// while let Some(change) = donor.blocking_next() {
    ///     match change {
    ///         MemberChange::Here(member) => println!("{} is here", member.name),
    ///         MemberChange::Gone(gone) if gone.why == Some(LeaveReason::Died) => println!("dead, by {:?}", gone.proof),
    ///         MemberChange::Gone(gone) => println!("{gone}"),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watch_member(&self, who: MemberId) -> Watch<MemberChange> {
        Watch::new(self.held.shared.watches.member(Whom::Id(who)))
    }

    /// What becomes of the process of that name, over its incarnations. Ends with this process.
    ///
    /// ```no_run
    /// # async fn program(cell: phalanx::Cell) {
    /// let mut primary = cell.watch_member_named("db-1");
    /// while let Some(change) = primary.next().await {
    ///     println!("{change:?}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn watch_member_named(&self, name: impl Into<String>) -> Watch<MemberChange> {
        Watch::new(self.held.shared.watches.member(Whom::Named(name.into())))
    }

    /// What becomes of the processes of a host ([`Member::host`]). Ends with this process.
    ///
    /// ```no_run
    /// # fn program(cell: phalanx::Cell) {
    /// use phalanx::HostChange;
    ///
    /// let away = cell.members().into_iter().filter_map(|member| member.host).find(|host| Some(*host) != cell.me().host);
    /// let Some(host) = away else { return };
    /// let mut host = cell.watch_host(host);
    /// while let Some(change) = host.blocking_next() {
    ///     match change {
    ///         HostChange::Here { members, .. } => println!("{} processes", members.len()),
    ///         HostChange::Gone { gone } => gone.iter().for_each(|gone| println!("{gone}")),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn watch_host(&self, host: Host) -> Watch<HostChange> {
        Watch::new(self.held.shared.watches.host(host))
    }

    /// What becomes of the group of that name, whether or not this process is in it: its first member, its members, that it has
    /// none any more, that it is over. Ends with this process.
    ///
    /// ```no_run
    /// # fn program(cell: phalanx::Cell) {
    /// use phalanx::GroupChange;
    ///
    /// let mut servers = cell.watch_group("servers");
    /// while let Some(change) = servers.blocking_next() {
    ///     match change {
    ///         GroupChange::Members { group, .. } => println!("{} serve", group.members.len()),
    ///         GroupChange::Absent | GroupChange::Gone { .. } => println!("nobody serves"),
    ///         GroupChange::Waiting { group, .. } => println!("waits for {:?}", group.waits_for),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn watch_group(&self, name: impl Into<String>) -> Watch<GroupChange> {
        let shared = &self.held.shared;
        let slot = shared.watches.group(name.into());
        shared.protocol.wake();
        Watch::new(slot)
    }

    /// What becomes of the cell as this process knows it: views, whether a quorum is heard, and how this process ended.
    ///
    /// ```no_run
    /// # fn program(cell: phalanx::Cell) {
    /// use phalanx::CellChange;
    ///
    /// let mut changes = cell.watch_cell();
    /// while let Some(change) = changes.blocking_next() {
    ///     match change {
    ///         CellChange::View(view) => view.departures().for_each(|gone| println!("{gone}")),
    ///         CellChange::Over(end) => println!("{end}"),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn watch_cell(&self) -> Watch<CellChange> {
        Watch::new(self.held.shared.watches.cell())
    }

    /// Waits until an incarnation has left the cell. Ready at once if it has: if it is in no view of this process. It is for
    /// calls to members by other systems: wait for the answer and for this, and take what comes first. An incarnation
    /// never comes back, so a call that waits for it need not wait any longer; whether it was carried out is not known.
    ///
    /// Like a watch it is ready when this process's inboxes have the view. It keeps no process alive.
    ///
    /// ```no_run
    /// # async fn ask() -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn program(cell: phalanx::Cell, callee: phalanx::MemberId) {
    /// # use std::future::{Future, poll_fn};
    /// # use std::pin::pin;
    /// # use std::task::Poll;
    /// let (mut answer, mut left) = (pin!(ask()), pin!(cell.left(callee)));
    /// // `tokio::select!` and `futures::select!` say the same in one line.
    /// poll_fn(|context| {
    ///     if let Poll::Ready(answer) = answer.as_mut().poll(context) {
    ///         println!("answered: {answer:?}");
    ///     } else if let Poll::Ready(left) = left.as_mut().poll(context) {
    ///         println!("no answer will come: {left:?}");
    ///     } else {
    ///         return Poll::Pending;
    ///     }
    ///     Poll::Ready(())
    /// })
    /// .await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: another one is ready at once if the member has left.
    ///
    /// # Errors
    /// See [`WatchError`](crate::WatchError).
    pub fn left(&self, who: MemberId) -> Left {
        Left::new(Arc::clone(&self.held.shared), who)
    }

    /// Like [`Cell::left`], in a thread. [`wait_for`](crate::wait_for) gives it a limit.
    ///
    /// # Errors
    /// See [`WatchError`](crate::WatchError).
    pub fn blocking_left(&self, who: MemberId) -> Result<Departure, WatchError> {
        block(self.left(who))
    }

    /// How this process ended. `None` while it goes on, and in a forked child.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.held.shared.watches.end_of_process()
    }

    /// Takes the notices for the operator since the last call, oldest first: a quorum that is not heard, a setting in
    /// which the cell differs, a trace that stopped. They are the texts of [`Cell::events`] that
    /// [`CellEvent::is_notice`](crate::CellEvent::is_notice) names, among the latest 256 events.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        self.held.shared.telling.take_notices()
    }

    /// Requests that a group stops waiting for members that are cut off. Their state is lost, and its name is free; see
    /// [`Next::Waiting`](crate::Next::Waiting). A notice reports if no such group waits.
    ///
    /// # Errors
    /// [`SendError::Over`], [`SendError::Forked`], or [`SendError::Full`] (try again). Nothing was requested.
    pub fn give_up_group(&self, name: impl Into<String>) -> Result<(), SendError> {
        self.request(Command::GiveUpGroup { name: name.into() })
    }

    /// Requests that the cell rises to a level (`docs/levels.md`).
    /// [`CellEvent::LevelRefused`](crate::CellEvent::LevelRefused) reports a refusal, in the events and among the notices.
    ///
    /// # Errors
    /// See [`Cell::give_up_group`].
    pub fn raise_level(&self, level: u16) -> Result<(), SendError> {
        self.request(Command::RaiseLevel { level })
    }

    /// Founds the next instance of the cell from here, because its quorum is gone for good (`docs/founding.md`). A notice
    /// reports a refusal.
    ///
    /// # Errors
    /// See [`Cell::give_up_group`].
    pub fn reform(&self) -> Result<(), SendError> {
        self.request(Command::Reform(ReformWhen::Asked))
    }

    /// Like [`Cell::reform`], if all other members of its view are proved dead; otherwise a notice says who is not. It is for supervisors that know of no
    /// other process of the cell. The proofs alone do not suffice: this process may have missed a view that the others decided before they
    /// died, and that took somebody else in.
    ///
    /// # Errors
    /// See [`Cell::give_up_group`].
    pub fn reform_if_all_proved_dead(&self) -> Result<(), SendError> {
        self.request(Command::Reform(ReformWhen::AllProvedDead))
    }

    /// States that no member of the cell lives anywhere, so that this founder may found it again (`docs/founding.md`). A
    /// notice reports a refusal.
    ///
    /// # Errors
    /// See [`Cell::give_up_group`].
    pub fn found_anew(&self) -> Result<(), SendError> {
        self.request(Command::FoundAnew)
    }

    fn request(&self, command: Command) -> Result<(), SendError> {
        self.held.shared.push(command).map_err(|(error, _)| error)
    }

    /// Leaves the cell and waits for that. What was sent before is sent first, for about half a second; what is left then
    /// ends as not sent. Inboxes keep their items, and end. The last members of a cell wait a while before they leave
    /// together, if a group waits for members that are cut off (`timing.end_wait`).
    ///
    /// # Cancel safety
    /// Before the first poll nothing is asked. Dropping the future later does not take the leave back.
    ///
    /// # Errors
    /// See [`LeaveError`]. Without a quorum it may take for ever; stop waiting, and drop the handles.
    pub async fn leave(self) -> Result<(), LeaveError> {
        let shared = &self.held.shared;
        if !shared.home.is_here() {
            return Err(LeaveError::Forked);
        }
        shared.commands.leave();
        shared.until_over().await;
        if shared.panicked.load(Ordering::SeqCst) {
            Err(LeaveError::Panicked)
        } else if shared.in_doubt.load(Ordering::SeqCst) {
            Err(LeaveError::InDoubt)
        } else {
            Ok(())
        }
    }

    /// Like [`Cell::leave`], in a thread, for at most `patience`. After that the process is stopped. With a patience of
    /// zero it asks for no leave: the others take it for dead, as soon as they notice.
    ///
    /// # Errors
    /// See [`LeaveError`].
    pub fn blocking_leave(self, patience: Duration) -> Result<(), LeaveError> {
        reading::check()?;
        let held = Arc::clone(&self.held);
        let left = match patience.is_zero() {
            true => None,
            false => wait_for(self.leave(), patience).ok(),
        };
        match left {
            Some(outcome) => outcome,
            None => {
                held.shared.commands.stop();
                // The protocol thread waits for nothing of the application but readers of a replica, so this is short.
                block_value(held.shared.until_over());
                Err(LeaveError::Timeout)
            }
        }
    }
}

/// How to start a process. Each method sets one key of the configuration (`docs/configuration.md`).
#[must_use = "nothing is started until `start` is awaited"]
#[derive(Clone, Debug)]
pub struct CellBuilder {
    settings: Vec<(String, String)>,
    file: Option<PathBuf>,
    environment: bool,
    rejoin: bool,
    founds: bool,
    health: Option<HealthCheck>,
}

impl CellBuilder {
    /// The process's name, unique in its cell. It survives restarts. Default: the host's name and the process id.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", name)
    }

    /// Where to look for the cell: control addresses, as `host:port`. Without seeds and founders, processes of this user
    /// on this host find each other.
    pub fn seeds<T: AsRef<str>>(self, seeds: impl IntoIterator<Item = T>) -> Self {
        self.set("seeds", list(seeds))
    }

    /// The processes that found the cell together, by name; the same list at all of them.
    pub fn founders<T: AsRef<str>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.set("founders", list(names))
    }

    /// The address that this process receives on. Default 127.0.0.1.
    pub fn bind(self, address: std::net::IpAddr) -> Self {
        self.set("bind", address.to_string())
    }

    /// The UDP port that others use as a seed. Default: the system chooses.
    pub fn control_port(self, port: u16) -> Self {
        self.set("control_port", port.to_string())
    }

    /// The file with the cell key, the same on every host. Default, on a loopback address: a file in the state directory,
    /// made on first use.
    pub fn cell_key(self, path: impl AsRef<Path>) -> Self {
        self.set("cell_key", path.as_ref().display().to_string())
    }

    /// The directories for what lives as long as the host is up, and for what must survive a reboot. Default:
    /// directories of the user.
    pub fn directories(self, runtime: impl AsRef<Path>, state: impl AsRef<Path>) -> Self {
        self.set("runtime_dir", runtime.as_ref().display().to_string())
            .set("state_dir", state.as_ref().display().to_string())
    }

    /// A directory for a trace of all that this process sees and does; `phalanx check` evaluates the traces of a cell's
    /// processes together. Default: none is written.
    pub fn trace(self, directory: impl AsRef<Path>) -> Self {
        self.set("trace", directory.as_ref().display().to_string())
    }

    /// Any key of the configuration, such as `("timing.suspect_after", "500ms")`. A later value replaces an earlier one.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// A file with the configuration. What is set here replaces what the file says.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Reads variables `PHALANX_*` of the environment, too (`docs/configuration.md` lists them): the key in capitals, with
    /// `__` for a point, such as `PHALANX_TIMING__SUSPECT_AFTER`. What is set here, the
    /// cell's name included, replaces them, and they replace the file.
    pub fn environment(mut self) -> Self {
        self.environment = true;
        self
    }

    /// An exclusion ends the process. By default it comes back as a new incarnation and joins its groups again.
    pub fn stay_out(mut self) -> Self {
        self.rejoin = false;
        self
    }

    /// Has the program's own health decide whether this process stays in the cell. `check` is called every `every`, on a thread
    /// of its own, for the first time after that time. When it fails `failures` times in a row (1 at least), or panics as often,
    /// or does not return within `timeout`, the process leaves the cell in order, as by [`Cell::leave`]:
    /// [`CellEvent::Unhealthy`](crate::CellEvent::Unhealthy) says why, and [`Cell::end`] that it ended so. Without a quorum the
    /// leave may take for ever.
    ///
    /// Clones of this builder share the check. One that hangs keeps its thread until it returns, and nothing else.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use phalanx::Cell;
    ///
    /// let (every, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
    /// let writes = || std::fs::write("/var/lib/orders/alive", "");
    /// let cell = Cell::builder("orders").health_check(every, timeout, 3, writes).blocking_start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn health_check<E: Display>(
        mut self,
        every: Duration,
        timeout: Duration,
        failures: u32,
        check: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        let check = Box::new(move || check().map_err(|error| error.to_string()));
        self.health = Some(HealthCheck::new(every, timeout, failures, check));
        self
    }

    /// Joins the cell that is there, and never founds one: for a tool that asks a cell for something. Until a member is
    /// found, it looks at the seeds and, on a loopback address, among the processes of this user on this host.
    ///
    /// ```no_run
    /// use std::time::{Duration, Instant};
    /// use phalanx::{App, Cell, MessageRef};
    ///
    /// struct Nothing;
    ///
    /// impl App for Nothing {
    ///     fn message(&mut self, _message: &MessageRef<'_>) {}
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tool = Cell::builder("orders").name("tool").join_only().stay_out().inline()?;
    /// let until = Instant::now() + Duration::from_secs(10);
    /// while tool.view().is_none() && Instant::now() < until {
    ///     tool.poll(&mut Nothing);
    ///     tool.wait(Some(Duration::from_millis(100)))?;
    /// }
    /// match tool.view() {
    ///     Some(view) => println!("{} members at level {}", view.len(), view.level()),
    ///     None => println!("not found: {}", tool.notices().join("; ")),
    /// }
    /// tool.leave(&mut Nothing);
    /// while !tool.is_over() && Instant::now() < until {
    ///     tool.poll(&mut Nothing);
    ///     tool.wait(Some(Duration::from_millis(100)))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_only(mut self) -> Self {
        self.founds = false;
        self
    }

    /// Starts a client of calls for a program that is no member of the cell: it needs the cell's name and key, and calls
    /// addresses. Blocks for the few system calls that this takes.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn client(self) -> Result<Client, StartError> {
        Client::outside(&self.resolve()?.0)
    }

    /// How to start a server of calls in a program that is no member of the cell: it needs the cell's name and key, and is
    /// called at its address.
    ///
    /// # Errors
    /// [`StartError::Setting`].
    pub fn server<Q: DeserializeOwned, A: Serialize>(self) -> Result<ServerBuilder<Q, A>, StartError> {
        Ok(ServerBuilder::new(self.resolve()?.0, Origin::Outside))
    }

    /// The configuration, and warnings about it.
    fn resolve(&self) -> Result<(Config, Vec<String>), StartError> {
        // A variable that is no text cannot be one of this library's.
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let variables = self.environment.then(std::env::vars_os).into_iter().flatten().filter_map(text);
        let resolved = Config::load(&self.settings, variables, self.file.as_deref());
        resolved.map(|found| (found.config, found.warnings)).map_err(|error| StartError::Setting(error.to_string()))
    }

    /// How to start a process of that configuration.
    fn options(&self, config: Config) -> Options {
        let founding = if self.founds { None } else { Some(core::Founding::Join) };
        Options { rejoin: self.rejoin, founding, ..Options::from(config) }
    }

    /// Starts the process. Ready once its sockets are bound; it then looks for its cell, and [`Cell::members`] is empty. A
    /// group's join is ready with the first view. [`Cell::notices`] says what it waits for.
    ///
    /// # Cancel safety
    /// The process begins with this call, not with the first poll. Dropping the future stops it.
    pub fn start(mut self) -> Starting {
        let health = self.health.take();
        let started = self.resolve().and_then(|(config, warnings)| {
            thread::start(self.options(config), warnings, health).map_err(|error| StartError::Thread(error.to_string()))
        });
        Starting { begun: started.map_err(Some) }
    }

    /// Starts a process that this thread polls: for a program that owns its thread, and pays for no other. Blocks for the
    /// few system calls that this takes.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind. [`StartError::Setting`] with a
    /// [health check](CellBuilder::health_check): a program that polls checks itself, and calls [`Inline::leave`].
    pub fn inline(self) -> Result<Inline, StartError> {
        if self.health.is_some() {
            let why = "a process that its program polls takes no health check: check between polls, and leave";
            return Err(StartError::Setting(why.to_owned()));
        }
        let (config, warnings) = self.resolve()?;
        Inline::start(&self.options(config), warnings)
    }

    /// Like [`CellBuilder::start`], in a thread.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn blocking_start(self) -> Result<Cell, StartError> {
        block(self.start())
    }
}

fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.as_ref().to_owned()).collect::<Vec<_>>().join(",")
}

/// A process that is being started.
#[must_use = "dropping it stops the process"]
#[derive(Debug)]
pub struct Starting {
    begun: Result<Begun, Option<StartError>>,
}

impl Future for Starting {
    type Output = Result<Cell, StartError>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = match &mut self.begun {
            Ok(begun) => begun,
            Err(error) => return Poll::Ready(Err(error.take().expect("not polled after it was ready"))),
        };
        begun.task.register(context.waker());
        match begun.report.try_recv() {
            Ok(Ok(shared)) => {
                self.begun = Err(None);
                Poll::Ready(Ok(Cell { held: Held::new(shared) }))
            }
            Ok(Err(error)) => {
                self.begun = Err(None);
                Poll::Ready(Err(error))
            }
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => {
                self.begun = Err(None);
                Poll::Ready(Err(StartError::Thread("it panicked".to_owned())))
            }
        }
    }
}
