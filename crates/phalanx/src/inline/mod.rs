//! A process on its owner's thread: nothing runs but what the owner calls.

mod app;
mod submits;
mod table;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{
    self as core, CommandError, GroupId, GroupTerms, InboxId, Instant, ReformWhen, SendOptions, ToOneKind, Uniformity,
    ViewNumber,
};
use phalanx_driver::fork::Home;
use phalanx_driver::{Shm, Udp};
use phalanx_life as life;
use phalanx_life::Refusal;
use phalanx_runtime::{Options, Recorder, clock};

pub use self::app::{
    AnswerRef, App, AskOptions, AskedRef, InlineAsk, InlineGroup, InlineReply, MessageRef, MessageToOneRef, ReplyRef,
};
use self::submits::Submits;
use self::table::{Adapter, Due, Table, Waiter, inbox_of, reason, reply_of};
use crate::ask::Want;
use crate::asked::ANSWER_BYTES;
use crate::cell_group::CellGroup;
use crate::cell_view::CellView;
use crate::error::{AnswerError, JoinError, LeaveError, SendError, StartError, WaitError};
use crate::events::CellEvent;
use crate::id::{Guarantee, Member, MemberId, Order};
use crate::names::check_group_name;
use crate::reading;
use crate::standing::Standing;
use crate::trace;

/// A process of a cell without a thread of its own: its owner polls it, and is called from inside the polls.
///
/// It is for programs whose thread is theirs: a loop that waits for several things itself, a core that is pinned and
/// spins, a thread that must not share. Messages are handed over where they were received, and multicasts are sent from
/// the caller's slice: without a copy, a queue, a lock or another thread in between. In return the program must poll.
///
/// ```no_run
/// use phalanx::{App, Cell, Guarantee, InlineGroup, MessageRef, Order, SendError, View};
///
/// #[derive(Default)]
/// struct Stock {
///     in_view: bool,
///     delivered: u64,
/// }
///
/// impl App for Stock {
///     fn message(&mut self, message: &MessageRef<'_>) {
///         self.delivered += 1;
///         println!("{}: {:?}", message.sender, message.payload);
///     }
///     fn view(&mut self, _group: InlineGroup, view: &View) {
///         self.in_view = true;
///         println!("{} members", view.len());
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut app, mut member) = (Stock::default(), Cell::builder("orders").inline()?);
/// let stock = member.group("stock").join(&mut app)?;
/// while !member.is_over() {
///     if app.in_view {
///         match member.multicast(stock, Order::Total, Guarantee::Uniform, b"ACME 12.50", &mut app) {
///             Ok(()) => {}
///             Err(SendError::Full | SendError::NoView) => {} // poll, and try again
///             Err(other) => return Err(other.into()),
///         }
///     }
///     if !member.poll(&mut app).more {
///         member.wait(None)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Other members watch this process, so poll it at least once in each heartbeat (`timing.heartbeat`, 100 ms);
/// [`Inline::wait`] returns in time for that. A program that stays away for more than 50 ms longer says so by
/// `timing.turn_gap_max`, and the others then tolerate that much more silence. Who stays away for longer than it declared
/// may be excluded.
///
/// It stays on the thread that started it. Other threads may end its wait by its [`Inline::waker`], and look at nothing
/// else. Dropping it ends it as a death: [`Inline::leave`] before, and poll until [`Inline::is_over`]. After a panic in
/// [`App`], drop it. In a forked child it is dead: calls fail with `Forked`, polls do nothing, [`Inline::is_over`] is true,
/// and the parent's goes on.
pub struct Inline {
    process: phalanx_runtime::Inline<Shm<Udp>>,
    table: Table,
    recorder: Recorder,
    is_trace_lost: Arc<AtomicBool>,
    home: Home,
    /// Asks of this process so far.
    asks: u64,
    /// When asks are to be looked at again.
    asks_due: Option<Instant>,
}

/// What the process calls: the program, and before it the trace.
macro_rules! handler {
    ($member:ident, $app:expr) => {
        &mut $member.recorder.around(&mut Adapter::new(&mut $member.table, $app))
    };
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").field("me", &self.me()).finish_non_exhaustive()
    }
}

/// What one poll found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polled {
    /// The datagrams that it took.
    pub received: usize,
    /// Work may be left: poll again at once, and do not wait.
    pub more: bool,
}

impl Inline {
    pub(crate) fn start(options: &Options, warnings: Vec<String>) -> Result<Self, StartError> {
        let mut table = Table::new(options.rejoin);
        warnings.into_iter().for_each(|warning| table.note(CellEvent::Notice(warning)));
        let is_trace_lost = Arc::new(AtomicBool::new(false));
        let (late, lost) = (table.late(), Arc::clone(&is_trace_lost));
        let recorder = trace::recorder(&options.config, move |error| {
            lost.store(true, Ordering::Relaxed);
            late.tell(CellEvent::TraceLost { why: error.to_string() });
        })?;
        if recorder.is_on() {
            table.record();
        }
        let process = phalanx_runtime::Inline::start(options).map_err(|error| StartError::of(&error))?;
        let (asks, asks_due) = (0, None);
        Ok(Self { process, table, recorder, is_trace_lost, asks, asks_due, home: Home::here() })
    }

    /// Handles what arrived and what is due, once: delivers, sends what was multicast since the last poll, checks timers.
    pub fn poll(&mut self, app: &mut impl App) -> Polled {
        let report = self.process.poll(handler!(self, app));
        if !self.home.is_here() {
            return Polled::default();
        }
        self.note_host();
        self.table.tell_noted(app);
        let mut said = self.send_waiting(app);
        if self.asks_due.is_some_and(|due| due <= clock::now()) {
            self.asks_due = Adapter::new(&mut self.table, app).expire_asks(clock::now());
            said |= self.send_waiting(app);
        }
        if self.table.lives.has_news() {
            let process = self.process.node().process();
            Adapter::new(&mut self.table, app).tell_outcomes(|group| process.is_adequate(group));
            self.recorder.told(&self.table.take_records());
        }
        if self.table.lives.take_untidy() {
            self.tidy(app);
        }
        // Not while it is busy: nothing is left to do for who is over.
        if report.received == 0 && self.process.is_over() {
            Adapter::new(&mut self.table, app).end();
            self.recorder.told(&self.table.take_records());
        }
        Polled { received: report.received, more: report.more || said || self.table.has_submits() }
    }

    /// Sends what is to be said of asks, and of submits, as far as the core takes it. Returns whether something went.
    fn send_waiting(&mut self, app: &mut impl App) -> bool {
        if self.table.has_submits() {
            Adapter::new(&mut self.table, app).look_at_submits();
            // An end is recorded behind what was sent before it.
            self.recorder.told(&self.table.take_records());
        }
        let (mut at, mut said) = (0, false);
        while self.table.lives.busy(at).is_some() {
            let mut adapter = Adapter::new(&mut self.table, app);
            let Some((key, due)) = adapter.due(at) else { break };
            match due {
                // Its place is another's now, or it waits for a view.
                None => {
                    at += usize::from(self.table.lives.busy(at) == Some(key));
                    continue;
                }
                Some(Due::ToOne(life::NextToOne { group, to, kind, payload })) => {
                    let handler = &mut self.recorder.around(&mut adapter);
                    match self.process.send_to(group, to, kind, &payload, handler) {
                        Err(error) if Refusal::of(&error).is_none() => {
                            at += 1;
                            continue;
                        }
                        outcome => adapter.end_to_one(key, outcome.ok()),
                    }
                }
                Some(Due::Multicast(life::NextMessage { group, options, payload })) => {
                    let handler = &mut self.recorder.around(&mut adapter);
                    let outcome = self.process.multicast_with(group, options, &payload, handler);
                    match outcome.map_err(|error| Refusal::of(&error)) {
                        Err(None) => {
                            at += 1;
                            continue;
                        }
                        Err(Some(why)) => adapter.end_multicast(key, Err(why)),
                        Ok(accepted) => adapter.end_multicast(key, Ok(accepted.sent)),
                    }
                }
            }
            said = true;
        }
        said
    }

    /// Notes what the host refused.
    fn note_host(&mut self) {
        for text in self.process.notices() {
            self.table.note(CellEvent::Notice(text));
        }
    }

    /// Does what the handler could not do from inside a poll.
    fn tidy(&mut self, app: &mut impl App) {
        let core_notes = self.table.lives.take_core_notes();
        for name in core_notes.forgotten {
            self.process.set_inbox(&name, InboxId::MAIN);
            self.recorder.set_inbox(&name, InboxId::MAIN);
        }
        core_notes.refused.into_iter().for_each(|group| self.process.refuse_state(group));
        while let Some((key, group)) = self.table.lives.to_leave() {
            // Refused only if the incarnation is over, and the next view comes back to it.
            if self.process.leave_group(group, handler!(self, app)).is_err() {
                break;
            }
            self.table.lives.leave_asked(key);
        }
    }

    /// Sleeps until there is work (a datagram, a wake-up, a death, a timer of the protocol), or until `limit` has passed.
    /// Poll afterwards. Returns at once if the process is over.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<(), WaitError> {
        self.wait_also(limit, &[]).map(drop)
    }

    /// Like [`Inline::wait`], and returns also when one of `also`, 62 at most, is readable: bit `i` of the result stands for
    /// `also[i]`.
    ///
    /// # Errors
    /// See [`WaitError`].
    pub fn wait_also(&mut self, limit: Option<Duration>, also: &[BorrowedFd<'_>]) -> Result<u64, WaitError> {
        if !self.home.is_here() {
            return Err(WaitError::Forked);
        }
        reading::check()?;
        // Nothing would end the wait.
        if self.process.is_over() {
            return Ok(0);
        }
        let due = match self.table.has_submits() {
            true => Some(Duration::ZERO),
            false => self.asks_due.map(|due| due.since(clock::now())),
        };
        let limit = limit.into_iter().chain(due).min();
        self.process.wait_also(limit, also).map_err(|error| WaitError::Host(error.to_string()))
    }

    /// What ends [`Inline::wait`] from another thread, or makes the next one return at once.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Arc::new(Doorbell(self.process.waker())).into()
    }

    /// How to join a group of the cell.
    pub fn group(&mut self, name: impl Into<String>) -> InlineJoin<'_> {
        let (with_state, submits, observes) = (false, false, false);
        InlineJoin { member: self, name: name.into(), with_state, submits, observes, terms: GroupTerms::default() }
    }

    /// Multicasts `payload` to a group. It is sent by the next poll, together with all that was multicast since the last
    /// one. [`App::sent`], [`App::stable`] and [`App::lost`] report what becomes of it.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued. After [`SendError::Full`] the group's window is used up, or a view change is
    /// under way: poll, and try again.
    pub fn multicast(
        &mut self,
        group: InlineGroup,
        order: Order,
        guarantee: Guarantee,
        payload: &[u8],
        app: &mut impl App,
    ) -> Result<(), SendError> {
        let number = self.number(group)?;
        let (order, guarantee) = (order.to_core(), guarantee.to_core());
        let mut adapter = Adapter::new(&mut self.table, app);
        match self.process.multicast(number, order, guarantee, payload, &mut self.recorder.around(&mut adapter)) {
            Ok(accepted) => {
                adapter.accepted(group, accepted.sent);
                Ok(())
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Like [`Inline::multicast`], in total order, to one domain of the group's state alone: [`App::message`] is called of it where the
    /// state is that domain, and nowhere else. The state that `App` keeps is the one without a name. See
    /// [`Multicast::to_domain`](crate::Multicast::to_domain).
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued. After [`SendError::Full`] poll, and try again.
    pub fn multicast_to_domain(
        &mut self,
        group: InlineGroup,
        domain: &str,
        guarantee: Guarantee,
        payload: &[u8],
        app: &mut impl App,
    ) -> Result<(), SendError> {
        let number = self.number(group)?;
        let index = self.table.lives.own(group.0).and_then(|group| group.domain(domain));
        let index = index.ok_or(SendError::NoSuchDomain)?;
        let options = SendOptions { domain: Some(index), ..SendOptions::new(core::Order::Total, guarantee.to_core()) };
        let mut adapter = Adapter::new(&mut self.table, app);
        match self.process.multicast_with(number, options, payload, &mut self.recorder.around(&mut adapter)) {
            Ok(accepted) => {
                adapter.accepted(group, accepted.sent);
                Ok(())
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// The number of a group that this process is in.
    #[inline]
    fn number(&self, group: InlineGroup) -> Result<GroupId, SendError> {
        let number = self.table.lives.number_in_view(group.0).ok_or(SendError::NotMember);
        number.and_then(|number| number.ok_or(SendError::NoView)).map_err(|error| self.dead().unwrap_or(error))
    }

    /// Sends `payload` to one member of a group, which may be this process: [`App::to_one`] is called there, once, after all
    /// multicasts of the group that this process had delivered or sent before. It is sent by the next poll. Returns the number of
    /// the view in which it is sent. [`App::settled`] reports what becomes of it. See [`Group::send_to`](crate::Group::send_to).
    ///
    /// ```no_run
    /// # use phalanx::{App, Inline, InlineGroup, MemberId, SendError};
    /// # fn greet(member: &mut Inline, stock: InlineGroup, to: MemberId, app: &mut impl App) -> Result<(), SendError> {
    /// match member.send_to(stock, to, b"welcome", app) {
    ///     Ok(_view) => {}
    ///     Err(SendError::Full) => {} // poll, and try again
    ///     Err(SendError::NotInView { view }) => println!("it is not in view {view}"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent. After [`SendError::Full`] that member's window is used up, multicasts of this process
    /// wait in the group, or no quorum is heard: poll, and try again.
    pub fn send_to(
        &mut self,
        group: InlineGroup,
        to: MemberId,
        payload: &[u8],
        app: &mut impl App,
    ) -> Result<u64, SendError> {
        let (number, to) = (self.number(group)?, to.incarnation());
        let mut adapter = Adapter::new(&mut self.table, app);
        let handler = &mut self.recorder.around(&mut adapter);
        match self.process.send_to(number, to, ToOneKind::Message, payload, handler) {
            Ok(view) => {
                adapter.accepted_to_one(group, to);
                Ok(view.0)
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Asks a group, and returns the ask's number: [`App::answered`] tells each answer, and [`App::ask_ended`] how it ended. It is sent by the
    /// next poll, like a multicast. See [`Group::ask`](crate::Group::ask).
    ///
    /// ```no_run
    /// # use phalanx::{App, AskOptions, Inline, InlineGroup, SendError, Want};
    /// # fn ask(member: &mut Inline, stock: InlineGroup, app: &mut impl App) -> Result<(), SendError> {
    /// let options = AskOptions { want: Some(Want::Majority), ..AskOptions::default() };
    /// match member.ask(stock, &options, b"load", app) {
    ///     Ok(_number) => {}
    ///     Err(SendError::Full | SendError::NoView) => {} // poll, and try again
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued. After [`SendError::Full`] poll, and try again.
    pub fn ask(
        &mut self,
        group: InlineGroup,
        options: &AskOptions,
        payload: &[u8],
        app: &mut impl App,
    ) -> Result<u64, SendError> {
        let number = self.number(group)?;
        if !self.table.lives.asks().has_room(group.0) {
            return Err(SendError::TooManyAsks);
        }
        let AskOptions { order, guarantee, want, with_self, within, in_view } = *options;
        let send = SendOptions {
            order: order.to_core(),
            stability: guarantee.to_core(),
            in_view: in_view.map(ViewNumber),
            asks: true,
            domain: None,
        };
        let mut adapter = Adapter::new(&mut self.table, app);
        let accepted = self.process.multicast_with(number, send, payload, &mut self.recorder.around(&mut adapter));
        match accepted {
            Ok(accepted) => {
                self.asks += 1;
                let deadline = within.map(|within| clock::now() + within);
                let ask = life::Ask {
                    number: self.asks,
                    life: 0,
                    options: send,
                    payload: Bytes::copy_from_slice(payload),
                    want: match want {
                        None => life::Want::Until,
                        Some(Want::All) => life::Want::All,
                        Some(Want::Majority) => life::Want::Majority,
                        Some(Want::Count(count)) => life::Want::Count(count),
                    },
                    with_self,
                    deadline,
                    receipt: Waiter::Ask(self.asks),
                };
                adapter.accepted_ask(group, ask, accepted.sent);
                // An inbox that stays full is noticed in time.
                let look = clock::now() + ASKS_POLL;
                let due = deadline.map_or(look, |deadline| deadline.min(look));
                self.asks_due = Some(self.asks_due.map_or(due, |other| other.min(due)));
                Ok(self.asks)
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Gives up an ask of this process: [`App::ask_ended`] is called, with [`AskEnd::Cancelled`](crate::AskEnd::Cancelled) if it had not ended
    /// before.
    pub fn cancel_ask(&mut self, group: InlineGroup, number: u64, app: &mut impl App) {
        if self.home.is_here() {
            Adapter::new(&mut self.table, app).cancel_ask(group, number);
            self.recorder.told(&self.table.take_records());
        }
    }

    /// Answers an ask that [`App::asked`] left for later. It is sent with the next poll.
    ///
    /// # Errors
    /// [`AnswerError::GivenUp`]: it was answered before, or nobody waits for it. [`AnswerError::TooLong`], [`AnswerError::Forked`]. Nothing is
    /// sent.
    pub fn answer(&mut self, ask: InlineAsk, reply: InlineReply, value: &[u8]) -> Result<(), AnswerError> {
        if !self.home.is_here() {
            return Err(AnswerError::Forked);
        }
        if value.len() > ANSWER_BYTES {
            return Err(AnswerError::TooLong(value.len()));
        }
        let is_taken = self.table.lives.asks().answer(ask.0, ask.1, reply_of(reply), value);
        if is_taken { Ok(()) } else { Err(AnswerError::GivenUp) }
    }

    /// Submits a message to the state of a group that was joined with [`InlineJoin::submits`], and returns its number:
    /// [`App::submitted`] tells its result, which this process's own [`App::execute`] gave. It is sent by the next poll, or, if
    /// this process is in no view of the group, with the next one. It is executed once in effect, also if this process is excluded
    /// meanwhile and comes back. See [`Replica::submit`](crate::Replica::submit).
    ///
    /// ```no_run
    /// use phalanx::{App, Cell, InlineGroup, MessageRef, SendError, SubmitError};
    ///
    /// #[derive(Default)]
    /// struct Tickets(u64);
    ///
    /// impl App for Tickets {
    ///     fn message(&mut self, _message: &MessageRef<'_>) {}
    ///     // With `snapshot` and `restore`, which are left out here.
    ///     fn execute(&mut self, _message: &MessageRef<'_>, result: &mut Vec<u8>) {
    ///         self.0 += 1;
    ///         result.extend_from_slice(&self.0.to_le_bytes());
    ///     }
    ///     fn submitted(&mut self, _group: InlineGroup, number: u64, result: Result<&[u8], SubmitError>) {
    ///         println!("submit {number} gave {result:?}");
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut app, mut member) = (Tickets::default(), Cell::builder("orders").inline()?);
    /// let tickets = member.group("tickets").submits().join(&mut app)?;
    /// match member.submit(tickets, b"one, please", &mut app) {
    ///     Ok(number) => println!("submit {number} is under way"),
    ///     Err(SendError::Full) => {} // poll, and try again
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError::Full`]: 256 submits of the group are under way, or 4 MiB; poll, and try again. [`SendError::NotMember`],
    /// [`SendError::NoSuchDomain`] if the group was joined without [`InlineJoin::submits`], [`SendError::TooLong`], [`SendError::Over`],
    /// [`SendError::Forked`]. Nothing is submitted, and [`App::submitted`] is not called.
    pub fn submit(&mut self, group: InlineGroup, payload: &[u8], app: &mut impl App) -> Result<u64, SendError> {
        if let Some(dead) = self.dead() {
            return Err(dead);
        }
        let own = self.table.lives.own(group.0).ok_or(SendError::NotMember)?;
        let number = own.submits.as_mut().ok_or(SendError::NoSuchDomain)?.submit(payload)?;
        self.table.note_submits();
        self.send_waiting(app);
        Ok(number)
    }

    /// Sends `payload` to one other member of the cell, whatever groups it is in. [`App::unicast`] is called there, once, in
    /// the order in which this process sent to that member. It belongs to no view and to no group: it has no order among
    /// multicasts, and nothing is stable. If an incarnation ends first, that of the receiver or this one,
    /// it may be lost; [`App::unicasts_in_doubt`] tells of the latter. It is sent by the next poll.
    ///
    /// A process with a thread ([`Cell`](crate::Cell)) has no way to take it: it drops it, and a notice there says so once. To such a
    /// process send within a group: [`Inline::send_to`].
    ///
    /// # Errors
    /// [`SendError::NoSuchMember`]; [`SendError::Full`] if as much as `limits.channel_window` waits for that receiver: poll, and
    /// try again; [`SendError::TooLong`], [`SendError::Over`], [`SendError::Forked`]. Nothing was queued.
    pub fn unicast(&mut self, to: MemberId, payload: &[u8], app: &mut impl App) -> Result<(), SendError> {
        self.process.send(to.incarnation(), payload, handler!(self, app)).map_err(|error| match error {
            CommandError::NoCredit => SendError::Full,
            CommandError::TooLong(bytes) => SendError::TooLong(bytes),
            _ => self.dead().unwrap_or(SendError::NoSuchMember),
        })
    }

    /// How many multicasts of this process in the group were accepted, in this incarnation, and are not stable: 0 is what
    /// must precede an action that others see outside the group, if [`App::lost`] was not called meanwhile. `None`: it is
    /// not in the group.
    #[must_use]
    pub fn unstable(&self, group: InlineGroup) -> Option<u64> {
        self.table.lives.unstable(group.0)
    }

    /// Asks to leave a group; [`App::left`] when done. What was sent becomes stable first, and what was not sent is lost. If
    /// this process is in no view of the group yet, it leaves after the first.
    ///
    /// # Errors
    /// [`LeaveError::Already`] or [`LeaveError::Forked`]; nothing changed.
    pub fn leave_group(&mut self, group: InlineGroup, app: &mut impl App) -> Result<(), LeaveError> {
        if !self.home.is_here() {
            return Err(LeaveError::Forked);
        }
        self.table.lives.want_leave(group.0).map_err(|end| LeaveError::Already(reason(end)))?;
        self.tidy(app);
        Ok(())
    }

    /// Leaves the cell. Poll on until [`Inline::is_over`]; without a quorum that may take for ever. A second call, and one
    /// in a forked child, does nothing.
    pub fn leave(&mut self, app: &mut impl App) {
        self.process.leave(handler!(self, app));
    }

    /// Whether it left, or was excluded and does not come back. [`App`] was told. Also in a forked child, whose [`App`] is
    /// told nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.process.is_over()
    }

    /// Whether it left as one of the last members of its cell, and something may be lost with the cell. A notice names it.
    /// See [`LeaveError::InDoubt`].
    #[must_use]
    pub fn left_in_doubt(&self) -> bool {
        self.table.left_in_doubt()
    }

    /// This process. Its id changes when it comes back after an exclusion.
    #[must_use]
    pub fn me(&self) -> Member {
        Member::of(&self.process.node().settings().me)
    }

    /// The members of the cell view last installed, by rank, the oldest first. Empty before the first.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let view = self.process.node().process().cell_view().filter(|_| self.home.is_here());
        view.map_or_else(Vec::new, |view| view.members.iter().map(Member::of).collect())
    }

    /// The cell view last installed; `None` before the first, and between two incarnations.
    #[must_use]
    pub fn view(&self) -> Option<CellView> {
        let process = self.process.node().process();
        let view = process.cell_view().filter(|_| self.home.is_here())?;
        Some(CellView::new(Arc::clone(view), self.process.node().incarnation()))
    }

    /// The groups of the cell by name, those that this process is not in and those of the library itself among them, as of
    /// the cell view last installed. Empty before the first.
    ///
    /// ```no_run
    /// # fn show(member: &phalanx::Inline) {
    /// for group in member.groups().into_iter().filter(phalanx::CellGroup::is_waiting) {
    ///     println!("group {} waits for one of {:?}", group.name, group.waits_for);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn groups(&self) -> Vec<CellGroup> {
        let process = self.process.node().process();
        let is_in = self.home.is_here() && process.cell_view().is_some();
        if is_in { CellGroup::all_of(process.decree_state().directory) } else { Vec::new() }
    }

    /// Whether a view change keeps this process from sending: it has promised the end of its views, and sends no multicast
    /// until the next ones are installed. Multicasts are accepted up to `limits.outbox` of each group meanwhile.
    #[must_use]
    pub fn is_changing_view(&self) -> bool {
        self.home.is_here() && self.process.node().process().activity().flushing
    }

    /// The member that gives the group's multicasts in total order their places now. The right passes to the member that
    /// sends most of them, whose multicasts wait the least. `None`: this process is in no view of the group. It looks at all
    /// groups of the process: for a log or an operator, not for each message.
    #[must_use]
    pub fn sequencer(&self, group: InlineGroup) -> Option<Member> {
        let number = self.table.lives.number_in_view(group.0)??;
        let streams = self.process.node().process().streams();
        let name = streams.into_iter().find(|stream| stream.group == number)?.orders?;
        self.members().into_iter().find(|member| member.name == name)
    }

    /// Whether the trace ([`CellBuilder::trace`](crate::CellBuilder::trace)) cannot be written any more. The process goes on
    /// without it; a notice says why.
    #[must_use]
    pub fn is_trace_lost(&self) -> bool {
        self.is_trace_lost.load(Ordering::Relaxed)
    }

    /// What this process believes of its place in the cell, as of its last poll.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::of(self.process.belief().look())
    }

    /// Takes the notices for the operator since the last call, oldest first. At most 256 are kept, the latest. They are the
    /// texts of what [`App::event`] tells and [`CellEvent::is_notice`] names.
    #[must_use]
    pub fn notices(&mut self) -> Vec<String> {
        self.note_host();
        self.table.take_notices()
    }

    /// Requests that a group stops waiting for members that are cut off. Their state is lost, and its name is free; see
    /// [`App::waiting`]. A notice reports if no such group waits.
    ///
    /// # Errors
    /// [`SendError::Over`] or [`SendError::Forked`]; nothing was requested.
    pub fn give_up_group(&mut self, name: &str, app: &mut impl App) -> Result<(), SendError> {
        let outcome = self.process.give_up_group(name, handler!(self, app));
        self.requested(outcome, app, |error| format!("group {name} is not given up: {error}"))
    }

    /// Requests that the cell rises to a level (`docs/levels.md`). [`App::event`] and a notice report a refusal
    /// ([`CellEvent::LevelRefused`]), from inside this call if a member is known that cannot follow.
    ///
    /// # Errors
    /// See [`Inline::give_up_group`].
    pub fn raise_level(&mut self, level: u16, app: &mut impl App) -> Result<(), SendError> {
        match self.process.raise_level(level, handler!(self, app)) {
            Err(CommandError::LevelRefused { level, why }) if self.dead().is_none() => {
                self.table.tell(CellEvent::LevelRefused { level, why }, app);
                Ok(())
            }
            outcome => {
                self.requested(outcome, app, |error| format!("the cell does not rise to level {level}: {error}"))
            }
        }
    }

    /// Founds the next instance of the cell from here, because its quorum is gone for good (`docs/founding.md`). A notice
    /// reports a refusal.
    ///
    /// # Errors
    /// See [`Inline::give_up_group`].
    pub fn reform(&mut self, app: &mut impl App) -> Result<(), SendError> {
        let outcome = self.process.reform(ReformWhen::Asked, handler!(self, app));
        self.requested(outcome, app, |error| format!("the cell is not reformed: {error}"))
    }

    /// Like [`Inline::reform`], if all other members of its view are proved dead; otherwise a notice says who is not. It is for supervisors that know of no
    /// other process of the cell. The proofs alone do not suffice: this process may have missed a view that the others decided before they
    /// died, and that took somebody else in.
    ///
    /// # Errors
    /// See [`Inline::give_up_group`].
    pub fn reform_if_all_proved_dead(&mut self, app: &mut impl App) -> Result<(), SendError> {
        let outcome = self.process.reform(ReformWhen::AllProvedDead, handler!(self, app));
        self.requested(outcome, app, |error| format!("the cell is not reformed: {error}"))
    }

    /// States that no member of the cell lives anywhere, so that this founder may found it again (`docs/founding.md`). A
    /// notice reports a refusal.
    ///
    /// # Errors
    /// See [`Inline::give_up_group`].
    pub fn found_anew(&mut self, app: &mut impl App) -> Result<(), SendError> {
        let outcome = self.process.found_anew(handler!(self, app));
        self.requested(outcome, app, |error| format!("the cell is not founded again: {error}"))
    }

    fn requested(
        &mut self,
        outcome: Result<(), CommandError>,
        app: &mut impl App,
        refusal: impl FnOnce(&CommandError) -> String,
    ) -> Result<(), SendError> {
        let Err(error) = outcome else { return Ok(()) };
        if let Some(dead) = self.dead() {
            return Err(dead);
        }
        self.table.tell(CellEvent::Notice(refusal(&error)), app);
        Ok(())
    }

    /// Why a message is not accepted.
    fn refused(&self, error: &CommandError) -> SendError {
        match (error, Refusal::of(error)) {
            (CommandError::NoCredit | CommandError::NoWindow, _) => SendError::Full,
            (_, None | Some(Refusal::NotSent)) => self.dead().unwrap_or(SendError::NoView),
            (_, Some(why)) => SendError::of(why),
        }
    }

    /// Why nothing is accepted any more, if so.
    fn dead(&self) -> Option<SendError> {
        match (self.home.is_here(), self.process.is_over()) {
            (false, _) => Some(SendError::Forked),
            (true, true) => Some(SendError::Over),
            (true, false) => None,
        }
    }
}

/// How soon asks are looked at again after one was made.
const ASKS_POLL: Duration = Duration::from_millis(200);

/// How to join a group; see [`Inline::group`].
#[must_use = "nothing is joined until `join` is called"]
pub struct InlineJoin<'a> {
    member: &'a mut Inline,
    name: String,
    with_state: bool,
    submits: bool,
    observes: bool,
    terms: GroupTerms,
}

impl std::fmt::Debug for InlineJoin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineJoin").field("name", &self.name).finish_non_exhaustive()
    }
}

impl InlineJoin<'_> {
    /// The group has a state, which this process takes from another member before its first view, and gives to those that
    /// join later ([`App::snapshot`]). All members must name a state, or none.
    pub fn with_state(mut self) -> Self {
        self.with_state = true;
        self
    }

    /// The group has a state, as by [`InlineJoin::with_state`], and takes submits ([`Inline::submit`], [`Replica::submit`](crate::Replica::submit)):
    /// [`App::execute`] executes them. The library keeps the table of those that submit as a domain of its own beside the program's, and gives
    /// and takes it with the state. So a process that joins without this, or without
    /// [`GroupBuilder::submits`](crate::GroupBuilder::submits), is refused by a group that has the table: give it at all members, also
    /// where nobody submits. See [`GroupBuilder::submits`](crate::GroupBuilder::submits).
    pub fn submits(mut self) -> Self {
        (self.with_state, self.submits) = (true, true);
        self
    }

    /// See [`GroupBuilder::observe`](crate::GroupBuilder::observe). [`InlineJoin::with_state`] and [`InlineJoin::submits`] have no
    /// effect then.
    pub fn observe(mut self) -> Self {
        self.observes = true;
        self
    }

    /// See [`GroupBuilder::plain_by_default`](crate::GroupBuilder::plain_by_default).
    pub fn plain_by_default(mut self) -> Self {
        self.terms.uniformity = Uniformity::Plain;
        self
    }

    /// See [`GroupBuilder::members_min`](crate::GroupBuilder::members_min).
    pub fn members_min(mut self, members: u16) -> Self {
        self.terms.members_min = members;
        self
    }

    /// See [`GroupBuilder::ends_alone`](crate::GroupBuilder::ends_alone).
    pub fn ends_alone(mut self) -> Self {
        self.terms.ends_alone = true;
        self
    }

    /// Asks to join the group, which is founded if it does not exist. [`App::view`] when done; [`App::refused`] if it cannot
    /// be made. After an exclusion the process joins it again by itself.
    ///
    /// # Errors
    /// See [`JoinError`]; nothing was asked.
    pub fn join(self, app: &mut impl App) -> Result<InlineGroup, JoinError> {
        let Self { member, name, with_state, submits, observes, terms } = self;
        check_group_name(&name, false)?;
        if member.table.lives.key_named(&name).is_some() {
            return Err(JoinError::AlreadyMember(name));
        }
        let of_submits = (submits && !observes).then(Submits::new);
        let group = member.table.add(&name, with_state && !observes, observes, of_submits);
        member.process.set_inbox(&name, inbox_of(group));
        member.recorder.set_inbox(&name, inbox_of(group));
        let asked = match observes {
            true => member.process.observe_group(&name, handler!(member, app)),
            false if submits => member.process.join_group_with(&name, terms, Submits::domains(), handler!(member, app)),
            false => member.process.join_group(&name, with_state, terms, handler!(member, app)),
        };
        if let Err(error) = asked {
            member.table.lives.remove(group.0);
            member.tidy(app);
            return Err(match error {
                CommandError::Forked => JoinError::Forked,
                CommandError::AlreadyMember => JoinError::AlreadyMember(name),
                _ => JoinError::Over,
            });
        }
        Ok(group)
    }
}

/// Ends the sleep of a process.
struct Doorbell(phalanx_driver::Waker);

impl Wake for Doorbell {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}
