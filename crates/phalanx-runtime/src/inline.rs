//! A process that its application polls: it has no thread of its own, and handlers run on the caller's.

mod local_agent;
mod requests;
mod restore;
mod stall;
mod startup_gate;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use phalanx_core::{
    Accepted, CellInstance, CommandError, Founding, GroupId, GroupTerms, InboxId, Incarnation, Instant, Membership,
    Order, OwnDomain, ReformWhen, SendOptions, Stability, ToOneKind, ViewNumber,
};
use phalanx_driver::fork::Forked;
use phalanx_driver::{Lossy, Shm, Udp, Wait, Waker};

use crate::belief::{Belief, Believer};
use crate::clock;
use crate::handler::Handler;
use crate::node::{Node, NodeOptions, PollReport};
use crate::start::{Options, Prepared, StartError, prepare};
use local_agent::LocalAgent;
use startup_gate::{GatedHandler, Pass};

/// A process of a cell, polled by its application.
///
/// ```no_run
/// use phalanx_runtime::inline::Inline;
/// use phalanx_runtime::{Handler, Options};
/// use phalanx_runtime::core::{Delivery, Event, GroupTerms};
///
/// struct App;
///
/// impl Handler for App {
///     fn deliver(&mut self, delivery: &Delivery<'_>) { /* ... */ }
///     fn event(&mut self, event: Event) { /* ... */ }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut app, mut member) = (App, Inline::start(&Options::default())?);
/// member.join_group("stock", false, GroupTerms::default(), &mut app)?;
/// while !member.is_over() {
///     if !member.poll(&mut app).more {
///         member.wait(None)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Other members watch this process, so poll it at least once per heartbeat; [`Inline::wait`] returns in time for that.
/// If the application stays away for more than 50 ms longer, as with a game's frames or a batch of work, set
/// `timing.turn_gap_max` to the longest such gap ([`Timing`](phalanx_core::Timing)). The others then tolerate that much
/// more silence. A process that stays away for longer than it declared may be excluded.
///
/// In a forked child it is dead, as a [`Node`] is. Commands give [`CommandError::Forked`], a wait gives an error, polls
/// do nothing, and [`Inline::is_over`] is true. Dropping it leaves the parent's sockets and files untouched. Start
/// another one in the child.
pub struct Inline<D: Wait = Shm<Udp>> {
    node: Node<D>,
    local_agent: LocalAgent,
    believer: Believer,
    /// The clock as last read.
    now: Instant,
    /// Successive polls that found nothing to do.
    idle: u32,
}

/// A process that spins reads the clock once in this many polls that find nothing. What arrives in between is then
/// dated a few microseconds too early.
const CLOCK_EVERY: u32 = 8;

impl Inline<Shm<Udp>> {
    /// Starts a process over shared memory and UDP. [`Options::faults`] is ignored; see [`Inline::start_with`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: &Options) -> Result<Self, StartError> {
        Self::start_with(options, |driver| driver)
    }
}

impl Inline<Lossy<Shm<Udp>>> {
    /// Starts a process that applies [`Options::faults`] to what it receives.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_lossy(options: &Options) -> Result<Self, StartError> {
        let (faults, seed) = options.faults.unwrap_or_default();
        Self::start_with(options, |driver| Lossy::new(driver, faults, seed))
    }
}

impl<D: Wait> Inline<D> {
    /// Starts a process over a driver that `wrap` builds around shared memory and the UDP sockets.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_with(options: &Options, wrap: impl FnOnce(Shm<Udp>) -> D) -> Result<Self, StartError> {
        let Prepared { driver, settings, security, entropy, liveness_lock, local, kept, plan, notices, believer } =
            prepare(options)?;
        let now = clock::now();
        let mut node =
            Node::new(now, wrap(driver), settings, security, entropy, NodeOptions { rejoin: options.rejoin });
        let local_agent = LocalAgent::new(&mut node, liveness_lock, local, kept, plan, options.config.tap, notices);
        Ok(Self { node, local_agent, believer, now, idle: 0 })
    }

    /// Runs one iteration of the event loop; see [`Node::poll`]. Also does the local agent's work.
    pub fn poll(&mut self, handler: &mut impl Handler) -> PollReport {
        let is_fresh = self.idle.is_multiple_of(CLOCK_EVERY);
        let now = if is_fresh { self.read_clock() } else { self.now };
        let mut report = self
            .node
            .poll(now, &mut GatedHandler { inner: &mut *handler, startup_gate: &mut self.local_agent.startup_gate });
        // Checked after the poll, because a handler may have forked. The files on this host are the parent's.
        if !self.node.home().is_here() {
            return report;
        }
        self.idle = if report == PollReport::default() { self.idle.wrapping_add(1) } else { 0 };
        if self.idle == 0 || is_fresh {
            report.more |= self.local_agent.tend(now, &mut self.node, handler);
        }
        self.publish_belief(now);
        report
    }

    fn publish_belief(&mut self, now: Instant) {
        let mut membership = self.node.membership();
        // While it is undecided whether the first view counts, this process may have to join another cell.
        if self.local_agent.startup_gate.pass == Pass::Asking && membership != Membership::Over {
            membership = Membership::Searching;
        }
        let view = self
            .node
            .process()
            .cell_view()
            .map_or((CellInstance::NONE, ViewNumber::NONE), |view| (view.instance, view.view));
        self.believer.publish(now, self.node.incarnation(), membership, view);
    }

    /// Sleeps until there is work (a datagram, a wake-up, a death, a timer of the protocol) or until `timeout` has
    /// passed. Call [`Inline::poll`] afterwards.
    ///
    /// # Errors
    /// The error of the system's poll.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.wait_also(timeout, &[]).map(drop)
    }

    /// Like [`Inline::wait`], and returns also when one of `also` becomes readable. Bit `i` of the result stands for
    /// `also[i]`.
    ///
    /// # Errors
    /// The error of the system's poll. [`Forked`], wrapped, in a forked child.
    pub fn wait_also(&mut self, timeout: Option<Duration>, also: &[BorrowedFd<'_>]) -> io::Result<u64> {
        self.node.home().check()?;
        let now = self.read_clock();
        let due = self.local_agent.deadline().min(self.node.deadline().unwrap_or(Instant(u64::MAX)));
        let due = due.since(now);
        let timeout = timeout.map_or(due, |timeout| timeout.min(due));
        let deaths = self.local_agent.deaths.descriptor();
        self.idle = 0;
        let woken = match deaths {
            Some(deaths) if also.is_empty() => self.node.driver_mut().wait(Some(timeout), &[deaths]),
            deaths => {
                let watched: Vec<_> = also.iter().copied().chain(deaths).collect();
                self.node.driver_mut().wait(Some(timeout), &watched)
            }
        }?;
        let mine = (1_u64 << also.len().min(63)) - 1;
        if woken.extra & !mine != 0 {
            self.local_agent.check_deaths();
        }
        Ok(woken.extra & mine)
    }

    /// A handle by which other threads end [`Inline::wait`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.node.driver().waker()
    }

    /// See [`Node::set_inbox`].
    pub fn set_inbox(&mut self, name: &str, inbox: InboxId) {
        self.node.set_inbox(name, inbox);
    }

    /// See [`Node::join_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn join_group(
        &mut self,
        name: &str,
        with_state: bool,
        terms: GroupTerms,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.join_group(now, name, with_state, terms, handler)
    }

    /// See [`Node::join_group_with`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn join_group_with(
        &mut self,
        name: &str,
        terms: GroupTerms,
        domains: Vec<OwnDomain>,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.join_group_with(now, name, terms, domains, handler)
    }

    /// See [`Node::observe_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn observe_group(&mut self, name: &str, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.observe_group(now, name, handler)
    }

    /// See [`Node::leave_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn leave_group(&mut self, group: GroupId, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.leave_group(now, group, handler)
    }

    /// See [`Node::refuse_state`].
    pub fn refuse_state(&mut self, group: GroupId) {
        self.node.refuse_state(group);
    }

    /// See [`Node::raise_level`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn raise_level(&mut self, level: u16, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.raise_level(now, level, handler)
    }

    /// See [`Node::give_up_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn give_up_group(&mut self, name: &str, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.give_up_group(now, name, handler)
    }

    /// See [`Node::reform`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn reform(&mut self, when: ReformWhen, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.reform(now, when, handler)
    }

    /// See [`Node::found_anew`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn found_anew(&mut self, handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.found_anew(now, handler)
    }

    /// See [`Node::multicast`]. It is sent by the next [`Inline::poll`], together with all other multicasts made since
    /// the last one.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was queued. After [`CommandError::NoCredit`] poll, and try again.
    pub fn multicast(
        &mut self,
        group: GroupId,
        order: Order,
        stability: Stability,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<Accepted, CommandError> {
        let mut gated = GatedHandler { inner: handler, startup_gate: &mut self.local_agent.startup_gate };
        // The time of the last poll stands in for the present: so a message costs no clock read.
        self.node.multicast(self.now, group, order, stability, &[payload], &mut gated)
    }

    /// See [`Node::multicast_with`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent. After [`CommandError::NoCredit`] poll, and try again.
    pub fn multicast_with(
        &mut self,
        group: GroupId,
        options: SendOptions,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<Accepted, CommandError> {
        let mut gated = GatedHandler { inner: handler, startup_gate: &mut self.local_agent.startup_gate };
        self.node.multicast_with(self.now, group, options, &[payload], &mut gated)
    }

    /// See [`Node::send`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was queued.
    pub fn send(&mut self, to: Incarnation, payload: &[u8], handler: &mut impl Handler) -> Result<(), CommandError> {
        let now = self.read_clock();
        self.node.send(now, to, payload, handler)
    }

    /// See [`Node::send_to`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent.
    pub fn send_to(
        &mut self,
        group: GroupId,
        to: Incarnation,
        kind: ToOneKind,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<ViewNumber, CommandError> {
        let mut gated = GatedHandler { inner: handler, startup_gate: &mut self.local_agent.startup_gate };
        self.node.send_to(self.now, group, to, kind, &[payload], &mut gated)
    }

    /// Leaves the cell gracefully. Keep polling until [`Inline::is_over`].
    pub fn leave(&mut self, handler: &mut impl Handler) {
        let now = self.read_clock();
        self.node.leave(now, handler);
    }

    fn read_clock(&mut self) -> Instant {
        self.now = clock::now();
        self.now
    }

    /// Whether it is over for good; see [`Node::is_over`].
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.node.is_over()
    }

    /// What this process believes of its membership, as of its last poll. Usable from any thread, independently of its
    /// handler.
    #[must_use]
    pub fn belief(&self) -> Belief {
        self.believer.belief()
    }

    /// The node inside.
    #[must_use]
    pub fn node(&self) -> &Node<D> {
        &self.node
    }

    /// Notices for the operator that no event reports, since the last call. In a forked child: that this handle is
    /// dead.
    pub fn notices(&mut self) -> Vec<String> {
        if !self.node.home().is_here() {
            return vec![Forked.to_string()];
        }
        std::mem::take(&mut self.local_agent.notices)
    }

    /// Gives up this incarnation without notifying any other process, and begins a new one; see [`Node::begin_anew`].
    pub fn begin_anew(&mut self) {
        if !self.node.home().is_here() {
            return;
        }
        let now = self.read_clock();
        self.node.begin_anew(now, Founding::Join, &[]);
        self.local_agent.new_incarnation(now);
    }
}
