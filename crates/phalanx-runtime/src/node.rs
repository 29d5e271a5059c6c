//! The event loop: one process of a cell on one driver.
//!
//! The same loop runs over sockets and under the simulator, so its owner supplies the time and the random numbers.

mod requested_groups;
mod sink;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_core::member::Role;
use phalanx_core::process::Kept;
use phalanx_core::{
    Accepted, CommandError, DeathProof, Event, Founding, GroupId, GroupTerms, InboxId, Incarnation, Instant,
    Membership, Order, OwnDomain, Process, ReformWhen, SEEDS_MAX, Security, SendOptions, Settings, Stability,
    ToOneKind, ViewNumber,
};
use phalanx_driver::fork::{Forked, Home};
use phalanx_driver::tap::Tap;
use phalanx_driver::{Driver, Transmit};

use crate::handler::{Command, Handler};
use crate::tap::Known;
use requested_groups::RequestedGroups;
use sink::{Sink, Watch};

/// Draws 64 random bits: the system's generator in production, a seeded one in the simulator.
pub type Entropy = Box<dyn FnMut() -> u64 + Send>;

/// The behaviour of a node beyond its [`Settings`].
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Whether it comes back after an exclusion, as a new incarnation, and joins the same groups again. Default true.
    pub rejoin: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self { rejoin: true }
    }
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollReport {
    /// Datagrams taken from the driver.
    pub received: usize,
    /// Work may be left: poll again at once, and do not wait.
    pub more: bool,
}

/// One process of a cell, with its driver and with what it needs to come back after an exclusion.
///
/// In a forked child it is dead, because it would seal different packets under its parent's nonces. Commands give
/// [`CommandError::Forked`], all else does nothing, and [`Node::is_over`] is true. The parent's node continues.
pub struct Node<D: Driver> {
    driver: D,
    home: Home,
    process: Process,
    /// The settings of the current incarnation.
    settings: Settings,
    /// The founding mode of the first incarnation.
    founding: Founding,
    security: Security,
    entropy: Entropy,
    rejoin: bool,
    leaving: bool,
    /// Whether the handler knows of the current incarnation.
    announced: bool,
    watch: Watch,
    wanted: RequestedGroups,
    /// Groups with an inbox of their own.
    inboxes: BTreeMap<String, InboxId>,
    /// The last poll received nothing, or ended early because of a delivery.
    rested: bool,
    /// Nothing is due before this time unless something arrives. So a poll that finds nothing ends early, as most do in
    /// a process that spins. Zero: unknown.
    quiet_until: Instant,
    /// Multicasts that an abandoned incarnation did not send, which the handler has not been told yet.
    lost: Vec<(GroupId, u64)>,
    /// The counters of the earlier incarnations.
    counted: BTreeMap<&'static str, u64>,
}

impl<D: Driver> Node<D> {
    /// Makes a process that starts to look for its cell, or founds it, with the first poll.
    ///
    /// If `settings.me.incarnation` is [`Incarnation::NONE`] a fresh one is drawn from `entropy`.
    pub fn new(
        now: Instant,
        driver: D,
        mut settings: Settings,
        security: Security,
        mut entropy: Entropy,
        options: NodeOptions,
    ) -> Self {
        if settings.me.incarnation == Incarnation::NONE {
            settings.me.incarnation = fresh_incarnation(&mut entropy);
        }
        let process = Process::new(now, settings.clone(), &security, entropy());
        Self {
            driver,
            home: Home::here(),
            process,
            founding: settings.founding.clone(),
            settings,
            security,
            entropy,
            rejoin: options.rejoin,
            leaving: false,
            announced: false,
            watch: Watch::default(),
            wanted: RequestedGroups::default(),
            inboxes: BTreeMap::new(),
            rested: true,
            quiet_until: Instant::ZERO,
            lost: Vec::new(),
            counted: BTreeMap::new(),
        }
    }

    /// Runs one iteration of the event loop: sends the multicasts made since the last one, drains the input (bounded),
    /// checks timers, delivers, sends, and flushes the driver. Call it when a datagram waits, when [`Node::deadline`]
    /// has come, and after commands.
    ///
    /// An iteration that delivers something after an idle one ends with that delivery. The application may answer, and
    /// the next iteration sends the answer before it drains more input and checks timers.
    pub fn poll(&mut self, now: Instant, handler: &mut impl Handler) -> PollReport {
        if !self.home.is_here() {
            return PollReport::default();
        }
        self.announce(now, handler);
        // A change of congestion makes queued packets due (or no longer due), so this iteration must not end early.
        if self.process.set_congested(self.driver.outbox().is_congested()) {
            self.quiet_until = Instant::ZERO;
        }
        // Before the input is drained: what the application multicast since the last iteration is mostly an answer, and
        // should not wait behind a batch of packets.
        if self.process.is_packing() {
            self.quiet_until = Instant::ZERO;
            self.process.flush(now, &mut Sink { outbox: self.driver.outbox(), handler, watch: &mut self.watch });
            self.driver.flush();
        }
        let mut report = PollReport::default();
        let was_at_rest = self.rested;
        self.drain(now, was_at_rest, &mut report, handler);
        self.rested = report.received == 0;
        // Senders are asked for the missing packets at once. Otherwise a gap is noticed only when a later packet shows
        // it.
        if self.driver.loss_report().lost > 0 {
            self.process.handle_loss(now);
            self.quiet_until = Instant::ZERO;
        }
        // The usual iteration of a process that spins: nothing arrived and no timer is due.
        if self.rested && now < self.quiet_until {
            self.flush(&mut report);
            return report;
        }
        // The first packets after an idle iteration. Someone may wait for an answer to them, so a delivery goes first,
        // and acks, retransmissions and timers come with the next iteration.
        if was_at_rest && !self.rested {
            let mut sink = Sink { outbox: self.driver.outbox(), handler, watch: &mut self.watch };
            if self.process.deliver(now, &mut sink) {
                self.forget_what_is_over();
                self.flush(&mut report);
                self.quiet_until = Instant::ZERO;
                report.more = true;
                return report;
            }
            if report.more {
                self.drain(now, false, &mut report, handler);
            }
        }
        self.wanted.ask(now, &mut self.process, handler);
        self.process.poll(now, &mut Sink { outbox: self.driver.outbox(), handler, watch: &mut self.watch });
        self.forget_what_is_over();
        self.flush(&mut report);
        report.more |= self.process.is_packing();
        handler.silent(self.process.activity().flushing);
        // Only after the handler received the event, so that all events of the old incarnation precede `Handler::begin`
        // of the new one.
        if self.watch.excluded && self.process.is_over() && self.rejoin && !self.leaving {
            self.come_back(now, handler);
            report.more = true;
        }
        self.quiet_until =
            // Deliveries that the application did not take, and requests that were refused for now, are retried in each
            // iteration. Without either, nothing is due before the next timer.
            if report == PollReport::default() && self.process.undelivered() == 0 && !self.wanted.is_open() {
                self.process.deadline().unwrap_or(Instant(u64::MAX))
            } else {
                Instant::ZERO
            };
        report
    }

    /// Drops groups whose membership is over, so that a new incarnation joins them only on request. A handler that
    /// learned it late may have requested the group again, and means its successor.
    fn forget_what_is_over(&mut self) {
        for name in self.watch.over.drain(..).filter(|name| !self.process.wants_group(name)) {
            self.wanted.remove(&name);
        }
    }

    /// Flushes the driver. If the system takes no more packets, or takes them again, the process learns it with the
    /// next poll. That poll is due at once, because nothing else may wake it.
    fn flush(&mut self, report: &mut PollReport) {
        self.driver.flush();
        report.more |= self.driver.outbox().is_congested() != self.process.is_congested();
    }

    /// Receives what waits. If a delivery shall be handed on soon (`hand_on`), only one receive is made.
    fn drain(&mut self, now: Instant, hand_on: bool, report: &mut PollReport, handler: &mut impl Handler) {
        let Self { driver, process, watch, .. } = self;
        // Timers are checked only after all waiting packets: a process that was held up must not suspect others of a
        // silence that is its own. The loop is bounded, so that a flood cannot keep it from sending.
        for _ in 0..BATCHES_PER_TURN {
            let took = driver.receive(BATCH, &mut |outbox, class, origin, packet| {
                let mut sink = Sink { outbox, handler: &mut *handler, watch: &mut *watch };
                process.handle_packet(now, class, origin, packet, &mut sink);
            });
            report.received += took.packets;
            report.more = took.more;
            if !took.more || hand_on && took.packets > 0 {
                break;
            }
        }
    }

    /// Prepares for a command, which may make something due.
    fn begin(&mut self, now: Instant, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.home.check().map_err(|Forked| CommandError::Forked)?;
        self.quiet_until = Instant::ZERO;
        self.announce(now, handler);
        Ok(())
    }

    fn announce(&mut self, now: Instant, handler: &mut impl Handler) {
        handler.at(now);
        if !self.announced {
            self.announced = true;
            // Before `begin`: these multicasts belong to the incarnation that accepted them.
            for (group, messages) in self.lost.drain(..) {
                handler.event(Event::Unsent { group, messages });
            }
            handler.begin(&self.settings.me);
        }
    }

    /// Comes back after an exclusion. It only joins, at its seed addresses and at the members it last knew, or it
    /// founds the next instance of its cell.
    fn come_back(&mut self, now: Instant, handler: &mut impl Handler) {
        let me = self.settings.me.incarnation;
        let known: Vec<SocketAddr> = self.process.cell_view().map_or(Vec::new(), |view| {
            view.members.iter().filter(|m| m.incarnation != me).map(|m| m.control).collect()
        });
        let kept = self.process.take_kept(|group| handler.keeps_state(group));
        let inheritance = self.process.take_inheritance();
        let founding = inheritance.map_or(Founding::Join, |inheritance| Founding::Reform(Box::new(inheritance)));
        self.begin_incarnation(now, founding, &known, kept);
    }

    /// Gives up this incarnation and starts the next: same name and addresses, a fresh incarnation, the same groups.
    /// `seeds` are added to the known ones.
    ///
    /// The cell is not notified; its members find the old incarnation silent. [`Event::Unsent`] reports what it had
    /// accepted and not sent, and [`Handler::begin`] announces the new one with the next poll.
    pub fn begin_anew(&mut self, now: Instant, founding: Founding, seeds: &[SocketAddr]) {
        // A forked child's sockets still belong to its parent.
        if self.home.is_here() {
            // States kept since an earlier incarnation are kept on.
            let kept = self.process.take_kept(|_| true);
            self.begin_incarnation(now, founding, seeds, kept);
        }
    }

    /// Starts the next incarnation. A fixed founder stays one in each incarnation, unless another mode is given.
    fn begin_incarnation(&mut self, now: Instant, mut founding: Founding, seeds: &[SocketAddr], kept: Kept) {
        if founding == Founding::Join
            && let Founding::Named(_) = &self.founding
        {
            founding = self.founding.clone();
        }
        let places = &mut self.settings.seeds;
        let new: Vec<SocketAddr> = seeds.iter().filter(|seed| !places.contains(seed)).copied().collect();
        places.extend(new);
        // The newest seeds are at the end, and those are kept when a node has come back many times.
        places.drain(..places.len().saturating_sub(SEEDS_MAX));
        self.settings.me.incarnation = fresh_incarnation(&mut self.entropy);
        self.settings.founding = founding;
        self.settings.record = self.process.record().clone();
        self.watch = Watch::default();
        self.announced = false;
        self.lost.extend(self.process.unsent());
        self.wanted.forget_asked();
        self.quiet_until = Instant::ZERO;
        // Summed up, because the counters of a process must not fall when an incarnation ends.
        self.process.counters(&mut |name, count| *self.counted.entry(name).or_default() += count);
        self.process = Process::new(now, self.settings.clone(), &self.security, (self.entropy)());
        self.inboxes.iter().for_each(|(name, inbox)| self.process.set_inbox(name, *inbox));
        self.process.resume(kept);
    }

    /// Passes every counter by name, summed over all incarnations, in a fixed order.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.process.counters(&mut |name, count| each(name, count + self.counted.get(name).copied().unwrap_or(0)));
    }

    /// When [`Node::poll`] is due if no datagram or command comes sooner.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.process.deadline()
    }

    /// Names the inbox of a group, before this process joins it; see [`Process::set_inbox`]. It holds in later
    /// incarnations, too.
    pub fn set_inbox(&mut self, name: &str, inbox: InboxId) {
        self.process.set_inbox(name, inbox);
        if inbox == InboxId::MAIN {
            self.inboxes.remove(name);
        } else {
            self.inboxes.insert(name.to_owned(), inbox);
        }
    }

    /// Requests membership of the named group, which is made if it does not exist. With `with_state` the process takes
    /// a member's state first. The first [`phalanx_core::Event::GroupView`] with its name gives the group's number and
    /// its terms; the terms are those passed here only if this process founds the group.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn join_group(
        &mut self,
        now: Instant,
        name: &str,
        with_state: bool,
        terms: GroupTerms,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        let role = if with_state { Role::State } else { Role::Stateless };
        self.request_group(now, name, role, terms, vec![OwnDomain::unnamed()], handler)
    }

    /// The same with the group's state, of which this process has these domains; see
    /// [`phalanx_core::Process::request_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn join_group_with(
        &mut self,
        now: Instant,
        name: &str,
        terms: GroupTerms,
        domains: Vec<OwnDomain>,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        self.request_group(now, name, Role::State, terms, domains, handler)
    }

    /// Requests membership of the named group as an observer, a member that never has its state; see
    /// [`phalanx_core::Process::request_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn observe_group(&mut self, now: Instant, name: &str, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.request_group(now, name, Role::Observer, GroupTerms::default(), vec![OwnDomain::unnamed()], handler)
    }

    fn request_group(
        &mut self,
        now: Instant,
        name: &str,
        role: Role,
        terms: GroupTerms,
        domains: Vec<OwnDomain>,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.request_group(now, name, role, terms, domains.clone())?;
        let (with_state, observes) = (role == Role::State, role == Role::Observer);
        handler.command(&Command::JoinGroup { name, with_state, observes, domains: &domains });
        self.wanted.insert(name, role, terms, domains);
        Ok(())
    }

    /// Leaves a group; [`phalanx_core::Event::GroupLeft`] when done. It is not joined again after an exclusion.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn leave_group(
        &mut self,
        now: Instant,
        group: GroupId,
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.leave_group(now, group)?;
        handler.command(&Command::LeaveGroup { group });
        if let Some(name) = self.watch.names.get(&group) {
            self.wanted.remove(name);
        }
        Ok(())
    }

    /// Notes that the application cannot use the state of a group that came, see [`Process::refuse_state`].
    pub fn refuse_state(&mut self, group: GroupId) {
        self.process.refuse_state(group);
    }

    /// Requests that the cell rises to a level, see [`Process::raise_level`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn raise_level(&mut self, now: Instant, level: u16, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.raise_level(now, level)?;
        handler.command(&Command::RaiseLevel { level });
        Ok(())
    }

    /// Requests that a group stops waiting for members that are cut off, see [`Process::give_up_group`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn give_up_group(&mut self, now: Instant, name: &str, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.give_up_group(now, name)?;
        handler.command(&Command::GiveUpGroup { name });
        Ok(())
    }

    /// Founds the next instance of the cell from here, see [`Process::reform`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn reform(&mut self, now: Instant, when: ReformWhen, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.reform(now, when)?;
        handler.command(&Command::Reform);
        Ok(())
    }

    /// Founds the cell again, on the operator's word that no member of it lives anywhere; see [`Process::found_anew`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing changed.
    pub fn found_anew(&mut self, now: Instant, handler: &mut impl Handler) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.found_anew(now)?;
        handler.command(&Command::FoundAnew);
        Ok(())
    }

    /// Multicasts the concatenation of `parts` to the group. Accepted means queued; it is sent by the next poll at the
    /// latest. What is packed at once is reported here, and not by [`Handler::sent`]. Unless `stability` says otherwise, it
    /// is uniform if the group was founded so.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was queued.
    pub fn multicast(
        &mut self,
        now: Instant,
        group: GroupId,
        order: Order,
        stability: Stability,
        parts: &[&[u8]],
        handler: &mut impl Handler,
    ) -> Result<Accepted, CommandError> {
        self.begin(now, handler)?;
        let mut sink = Sink { outbox: self.driver.outbox(), handler, watch: &mut self.watch };
        let accepted = self.process.multicast(now, group, order, stability, parts, &mut sink)?;
        handler.command(&Command::Multicast { group, order, accepted, parts });
        Ok(accepted)
    }

    /// Like [`Node::multicast`], with more to choose; see [`Process::multicast_with`].
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent.
    pub fn multicast_with(
        &mut self,
        now: Instant,
        group: GroupId,
        options: SendOptions,
        parts: &[&[u8]],
        handler: &mut impl Handler,
    ) -> Result<Accepted, CommandError> {
        self.begin(now, handler)?;
        let mut sink = Sink { outbox: self.driver.outbox(), handler, watch: &mut self.watch };
        let accepted = self.process.multicast_with(now, group, options, parts, &mut sink)?;
        handler.command(&Command::Multicast { group, order: options.order, accepted, parts });
        Ok(accepted)
    }

    /// Sends a reliable point-to-point message to a member of the cell view.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was queued.
    pub fn send(
        &mut self,
        now: Instant,
        to: Incarnation,
        payload: &[u8],
        handler: &mut impl Handler,
    ) -> Result<(), CommandError> {
        self.begin(now, handler)?;
        self.process.send(now, to, payload)?;
        handler.command(&Command::Send { to, payload });
        Ok(())
    }

    /// Sends a message to one member of a group; see [`phalanx_core::Process::send_to`]. Returns the view in which it is sent.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent.
    pub fn send_to(
        &mut self,
        now: Instant,
        group: GroupId,
        to: Incarnation,
        kind: ToOneKind,
        parts: &[&[u8]],
        handler: &mut impl Handler,
    ) -> Result<ViewNumber, CommandError> {
        self.begin(now, handler)?;
        let view = self.process.send_to(group, to, kind, parts)?;
        handler.command(&Command::SendTo { group, view, to, kind, parts });
        Ok(view)
    }

    /// Leaves the cell gracefully; [`phalanx_core::Event::Left`] when done. The node does not come back.
    pub fn leave(&mut self, now: Instant, handler: &mut impl Handler) {
        if self.begin(now, handler).is_ok() && !self.leaving {
            self.leaving = true;
            self.process.leave(now);
            // Between two incarnations there is nothing to leave: the trace of the one before has ended.
            if !self.watch.excluded {
                handler.command(&Command::Leave);
            }
        }
    }

    /// Reports the operating system's proof that an incarnation is dead.
    pub fn handle_death(&mut self, now: Instant, dead: Incarnation, proof: DeathProof) {
        self.quiet_until = Instant::ZERO;
        self.process.handle_death(now, dead, proof);
    }

    /// Adds seed addresses: control addresses at which to look for the cell.
    pub fn add_seeds(&mut self, seeds: &[SocketAddr]) {
        for seed in seeds {
            if !self.settings.seeds.contains(seed) && self.settings.seeds.len() < SEEDS_MAX {
                self.settings.seeds.push(*seed);
            }
        }
        self.quiet_until = Instant::ZERO;
        self.process.add_seeds(seeds);
    }

    /// Where its driver shows packets, and what it knows of names.
    pub(crate) fn tap(&mut self) -> (Option<&mut Tap>, Known<'_>) {
        let directory = Some(self.process.decree_state().directory).filter(|directory| !directory.members.is_empty());
        (self.driver.outbox().tap(), Known { me: &self.settings.me, directory })
    }

    /// The process in which it was made.
    pub(crate) fn home(&self) -> Home {
        self.home
    }

    /// The current incarnation.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.settings.me.incarnation
    }

    /// Whether it is over for good, and the handler knows: it left, or was excluded and does not come back. Also true
    /// in a forked child, whose handler is not notified.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.home.is_here() || self.watch.left || self.watch.excluded && (self.leaving || !self.rejoin)
    }

    /// Its standing in the cell as of its last poll, which may be ahead of what the handler was told.
    #[must_use]
    #[inline]
    pub fn membership(&self) -> Membership {
        if self.is_over() { Membership::Over } else { self.process.membership() }
    }

    /// The protocol core, read-only.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The protocol core, for operations that the node does not offer. Do not call it between an effect and its end.
    pub fn process_mut(&mut self) -> &mut Process {
        self.quiet_until = Instant::ZERO;
        &mut self.process
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// The settings of the current incarnation.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

fn fresh_incarnation(entropy: &mut Entropy) -> Incarnation {
    // Zero is [`Incarnation::NONE`]. Clamped and not drawn again, so that a generator that always gives zero cannot
    // hang the caller.
    Incarnation(entropy().max(1))
}

/// Most datagrams per receive.
const BATCH: usize = 64;

/// Most receives before timers are checked.
const BATCHES_PER_TURN: usize = 8;
