//! Groups: joining one, sending to it, leaving it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{GroupTerms, MESSAGE_BYTES_MAX, OwnDomain, Uniformity, are_domains, check_name};
use phalanx_life::{Payloads, clients_domain};
use serde::Serialize;

use crate::answering::{Answering, answer};
use crate::ask::Ask;
use crate::domains::Domains;
use crate::error::{FlushError, JoinError, LeaveError, LimitError, SendError};
use crate::events::CellEvent;
use crate::id::{LeaveReason, MemberId};
use crate::inbox::{Inbox, Merged};
use crate::names::{RESERVED, TOOL, check_group_name};
use crate::replica::{Domain, Replica, Replicating, State};
use crate::send::{Multicast, batch, bounded, encoded};
use crate::send_to::SendTo;
use crate::sent::Receipt;
use crate::shared::cell::{CellShared, Held, Taken};
use crate::shared::commands::{Command, Destination, Keeps, Queued, SubmitsTo, Waiter};
use crate::shared::group::{GroupShared, Lost, Phase};
use crate::shared::queue::Queue;
use crate::submit::{ClientTable, Execute, execute};
use crate::view::View;
use crate::waiting::{Place, Waiting, block, wait_for};

/// A group that this process is a member of. Cheap to clone; usable from any thread and task.
///
/// The process leaves the cell when the last handle of its cell and groups is dropped. To leave the group alone, call
/// [`Group::leave`].
#[derive(Debug)]
pub struct Group {
    pub(crate) held: Arc<Held>,
    shared: Arc<GroupShared>,
    /// What of this group was lost when this handle was last flushed.
    seen: Lost,
}

impl Clone for Group {
    fn clone(&self) -> Self {
        let seen = Lost::default();
        seen.set(self.seen.get());
        Self { held: Arc::clone(&self.held), shared: Arc::clone(&self.shared), seen }
    }
}

impl Group {
    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The view last installed here; `None` while this process is in none. Never older than the items of the inbox: who takes
    /// a view finds it here, or a later one.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.cell().home.is_here().then(|| self.shared.status().view.clone()).flatten()
    }

    /// Waits until the view differs from `seen`, or whether it is adequate does: beside the inbox, for a program that reads
    /// none, or wants to know before it has read that far. Ready with the latest, which may be several changes ahead;
    /// `None` while this process is in no view.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: another one with the same `seen` is ready at once if the view has changed.
    ///
    /// # Errors
    /// [`LeaveError::Already`]: this process is out of the group for good. [`LeaveError::Forked`].
    pub async fn changed(&self, seen: Option<&View>) -> Result<Option<View>, LeaveError> {
        let (shared, home) = (&self.shared, self.cell().home);
        let of = |view: Option<&View>| view.map(|view| (view.number(), view.is_adequate()));
        let mut waiting = Waiting::new(&shared.progress, home);
        poll_fn(|context| {
            if !home.is_here() {
                return Poll::Ready(Err(LeaveError::Forked));
            }
            waiting.poll(context, || {
                let status = shared.status();
                match status.phase {
                    Phase::Left(reason) => Some(Err(LeaveError::Already(reason))),
                    _ => (of(status.view.as_ref()) != of(seen)).then(|| Ok(status.view.clone())),
                }
            })
        })
        .await
    }

    /// Like [`Group::changed`], in a thread, for at most `patience`.
    ///
    /// # Errors
    /// [`LimitError::Timeout`]: nothing changed. Inside, as for [`Group::changed`].
    pub fn blocking_changed(
        &self,
        seen: Option<&View>,
        patience: Duration,
    ) -> Result<Result<Option<View>, LeaveError>, LimitError> {
        wait_for(self.changed(seen), patience)
    }

    fn cell(&self) -> &Arc<CellShared> {
        &self.held.shared
    }

    fn multicast(&self, body: Result<Payloads, SendError>) -> Multicast {
        Multicast::new(Arc::clone(self.cell()), Arc::clone(&self.shared), body)
    }

    /// Multicasts a message. Choose order and guarantee, and await it: [`Multicast`].
    pub fn send(&self, payload: impl AsRef<[u8]>) -> Multicast {
        self.send_bytes(Bytes::copy_from_slice(payload.as_ref()))
    }

    /// Like [`Group::send`], without a copy of the payload.
    pub fn send_bytes(&self, payload: Bytes) -> Multicast {
        self.multicast(bounded(payload, MESSAGE_BYTES_MAX).map(Payloads::One))
    }

    /// Like [`Group::send`], of a value; see [`Message::decode`](crate::Message::decode).
    pub fn send_value<T: Serialize>(&self, value: &T) -> Multicast {
        self.multicast(encoded(value).map(Payloads::One))
    }

    /// Multicasts each of `payloads`, in this order, up to 64 MiB together. For many small messages it is far cheaper
    /// than one after the other, because they pass to the protocol thread together. The receipt is that of the last.
    pub fn send_all<P: AsRef<[u8]>>(&self, payloads: impl IntoIterator<Item = P>) -> Multicast {
        self.multicast(batch(payloads))
    }

    /// Sends a message to one member of the group, which may be this process: it comes into that member's inbox of the group
    /// ([`Next::ToOne`](crate::Next::ToOne)) after all multicasts that this process had delivered or sent in the group before,
    /// and once. Await it: [`SendTo`]. [`SentTo::delivered`](crate::SentTo::delivered) tells what became of it.
    ///
    /// It is no multicast: no other member learns of it, no state sees it, and it waits for no other member. Messages of this
    /// process to one member come in the order in which they were sent. There is no order with its later multicasts, nor with
    /// messages to one of others. Cells at level 8 and above have it.
    ///
    /// ```no_run
    /// # async fn answer(stock: phalanx::Group, mut inbox: phalanx::Inbox) -> Result<(), Box<dyn std::error::Error>> {
    /// use phalanx::Next;
    ///
    /// while let Some(next) = inbox.next().await {
    ///     match next {
    ///         Next::Message(message) => {
    ///             let sent = stock.send_to(message.sender, "got it").await?;
    ///             if let Err(why) = sent.delivered().await {
    ///                 println!("{}: {why}", message.sender);
    ///             }
    ///         }
    ///         Next::ToOne(message) => println!("{} to this process alone: {:?}", message.sender, message.payload),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The example waits for an outcome in the task that reads the inbox. That goes well while the inbox has room: outcomes
    /// have their place among the group's items, and wait behind a full inbox.
    pub fn send_to(&self, member: MemberId, payload: impl AsRef<[u8]>) -> SendTo {
        self.send_bytes_to(member, Bytes::copy_from_slice(payload.as_ref()))
    }

    /// Like [`Group::send_to`], without a copy of the payload.
    pub fn send_bytes_to(&self, member: MemberId, payload: Bytes) -> SendTo {
        self.message_to(member, bounded(payload, MESSAGE_BYTES_MAX))
    }

    /// Like [`Group::send_to`], of a value; see [`MessageToOne::decode`](crate::MessageToOne::decode).
    pub fn send_value_to<T: Serialize>(&self, member: MemberId, value: &T) -> SendTo {
        self.message_to(member, encoded(value))
    }

    fn message_to(&self, member: MemberId, payload: Result<Bytes, SendError>) -> SendTo {
        SendTo::new(Arc::clone(self.cell()), Arc::clone(&self.shared), member, payload)
    }

    /// Asks the group, and waits for its members' answers: of all, a majority, so many, the first, or until a test says that it is
    /// enough. Choose that, and await it: [`Ask`]. Members answer what comes as [`Next::Asked`](crate::Next::Asked).
    /// Cells at level 9 and above have it.
    ///
    /// A call ([`Client`](crate::Client)) goes to one server, and to nobody else. An ask is a multicast: all members see it, at its place among
    /// the group's messages, and each answers from the state that it has there.
    pub fn ask(&self, payload: impl AsRef<[u8]>) -> Ask {
        self.ask_bytes(Bytes::copy_from_slice(payload.as_ref()))
    }

    /// Like [`Group::ask`], without a copy of the payload.
    pub fn ask_bytes(&self, payload: Bytes) -> Ask {
        self.asking(bounded(payload, MESSAGE_BYTES_MAX))
    }

    /// Like [`Group::ask`], of a value; see [`Asked::decode`](crate::Asked::decode) and [`Answers::decode`](crate::Answers::decode).
    pub fn ask_value<T: Serialize>(&self, value: &T) -> Ask {
        self.asking(encoded(value))
    }

    fn asking(&self, payload: Result<Bytes, SendError>) -> Ask {
        Ask::new(Arc::clone(self.cell()), Arc::clone(&self.shared), payload)
    }

    /// Waits until every member has all that this process multicast to the group before this call, and until each message
    /// to one member has an outcome: what must precede an action that others see outside the group.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: what was sent is sent, and what was lost is told to the next flush of this handle.
    ///
    /// # Errors
    /// [`FlushError::Lost`] if any of it was not sent, not delivered to its one receiver, or is in doubt, since the last
    /// flush of this handle.
    pub async fn flush(&self) -> Result<(), FlushError> {
        let (cell, shared) = (self.cell(), &self.shared);
        let receipt = Arc::new(Receipt::new());
        let flush = || {
            let receipt = Waiter::Multicast(Arc::clone(&receipt));
            let asked = Queued::Flush { life: shared.life(), receipt };
            Command::Queue { group: Arc::clone(shared), asked }
        };
        let mut waiting = Waiting::new(&cell.commands.room, cell.home);
        let queued = poll_fn(|context| {
            if !cell.home.is_here() {
                return Poll::Ready(Err(SendError::Forked));
            }
            waiting.poll(context, || match cell.push(flush()) {
                Err((SendError::Full, _)) => None,
                outcome => Some(outcome.map_err(|(error, _)| error)),
            })
        });
        let sent = match queued.await {
            Ok(()) => poll_fn(|context| receipt.poll(context)).await,
            Err(error) => Err(error),
        };
        let outcome = match sent {
            Ok(sent) => sent.stable().await.is_ok(),
            Err(SendError::Forked) => return Err(FlushError::Forked),
            Err(SendError::Over | SendError::NotMember) => return Err(FlushError::Over),
            Err(_) => false,
        };
        let (now, before) = (shared.lost.get(), self.seen.get());
        self.seen.set(now);
        if outcome && now == before {
            return Ok(());
        }
        Err(FlushError::Lost { not_sent: now.0 - before.0, in_doubt: now.1 - before.1 })
    }

    /// Like [`Group::flush`], in a thread.
    ///
    /// # Errors
    /// See [`FlushError`].
    pub fn blocking_flush(&self) -> Result<(), FlushError> {
        block(self.flush())
    }

    /// Leaves without waiting for it.
    pub(crate) fn ask_to_leave(&self) {
        self.cell().ask_to_leave(&self.shared);
    }

    /// Leaves the group, after everything sent before, and waits for that. The inbox keeps its items, and ends with
    /// [`Next::Left`](crate::Next::Left). A member that does not read its inbox holds this up while messages to it wait.
    ///
    /// # Cancel safety
    /// Before the first poll nothing is asked. Dropping the future later does not take the leave back.
    ///
    /// # Errors
    /// See [`LeaveError`].
    pub async fn leave(&self) -> Result<(), LeaveError> {
        let (shared, home) = (&self.shared, self.cell().home);
        if !home.is_here() {
            return Err(LeaveError::Forked);
        }
        if let Phase::Left(reason) = shared.status().phase {
            return Err(LeaveError::Already(reason));
        }
        self.ask_to_leave();
        let mut waiting = Waiting::new(&shared.progress, home);
        let left = poll_fn(|context| {
            waiting.poll(context, || match shared.status().phase {
                Phase::Left(reason) => Some(reason),
                Phase::Joining | Phase::Member | Phase::Refused | Phase::Differs { .. } | Phase::Domains(_) => None,
            })
        });
        match left.await {
            LeaveReason::Left => Ok(()),
            other => Err(LeaveError::Already(other)),
        }
    }

    /// Like [`Group::leave`], in a thread.
    ///
    /// # Errors
    /// See [`LeaveError`].
    pub fn blocking_leave(&self) -> Result<(), LeaveError> {
        block(self.leave())
    }
}

/// How to join a group; see [`Cell::group`](crate::Cell::group).
#[must_use = "nothing is joined until `join` is awaited"]
pub struct GroupBuilder {
    held: Arc<Held>,
    name: String,
    terms: GroupTerms,
    /// The domains of the state, by name.
    domains: Vec<(String, Box<dyn Domain>)>,
    /// What is submitted to them.
    submits: Vec<SubmitsTo>,
    /// One of them answers asks.
    answers: bool,
    /// What is wrong with the names of the domains.
    bad_domain: Option<String>,
    items_max: usize,
    bytes_max: usize,
    is_reserved: bool,
    observes: bool,
}

impl std::fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl GroupBuilder {
    pub(crate) fn new(held: Arc<Held>, name: String) -> Self {
        let (terms, domains, bad_domain) = (GroupTerms::default(), Vec::new(), None);
        let (items_max, bytes_max) = (INBOX_ITEMS, INBOX_BYTES);
        let (is_reserved, observes) = (false, false);
        let (submits, answers) = (Vec::new(), false);
        Self { held, name, terms, domains, submits, answers, bad_domain, items_max, bytes_max, is_reserved, observes }
    }

    /// How to join a group of the library's own.
    pub(crate) fn reserved(held: Arc<Held>, name: &str) -> Self {
        Self { is_reserved: true, ..Self::new(held, name.to_owned()) }
    }

    /// Keeps a state that every member of the group holds: `replica` applies the group's messages, and takes the state
    /// of another member before the first view. All members must name a state, or none.
    pub fn state<S: State>(self, replica: &Replica<S>) -> Self {
        self.with_domain("", replica.for_group(None))
    }

    /// Adds a domain to the state: a part of its own, with a name, that applies the same messages in the same order.
    /// It may stand beside [`GroupBuilder::state`], which is the domain without a name, or without it. Names that begin
    /// with `phalanx.` are the library's own.
    ///
    /// All domains are frozen at one point between two messages, and go to a joiner in one transfer. Who holds the guards of
    /// several replicas ([`Replica::read`]) sees all of them before a message or all of them after it, and all of them old
    /// or all of them taken from another member.
    ///
    /// The group keeps a list of its domains ([`View::domains`]). Who lacks one of them, or needs one that is not among them, is
    /// refused before any state travels ([`JoinError::LacksDomain`], [`JoinError::NeedsDomain`]). See
    /// [`GroupBuilder::optional_domain`] for one that a later version of a program adds. In a group without a list, which was
    /// founded below level 10 of the cell, a joiner that lacks one, or has one that its donor lacks, leaves again; a notice
    /// says which.
    ///
    /// A message that names a domain ([`Multicast::to_domain`]) is applied by that one alone.
    pub fn domain<S: State>(self, name: &str, replica: &Replica<S>) -> Self {
        self.checked_domain(name, false, replica.for_group(None))
    }

    /// Like [`GroupBuilder::domain`], for a domain that members of an earlier version of the program do not have: this process has
    /// it, and asks that it be added to the group's list. It is, with a view of its own, as soon as all members have it. At that
    /// point between the messages it begins with `S::default()` at all of them, and takes part from there on. Until then nothing
    /// is applied to it, and a message that names it is refused at its sender ([`SendError::NoSuchDomain`]). A process of the
    /// earlier version cannot join any more from there on.
    ///
    /// In a group without a list, which was founded below level 10 of the cell, it takes part from the start: if the donor has none
    /// of that name, it begins with `S::default()`, and a joiner of the earlier version passes it over. There nothing may change
    /// it while any member may lack it.
    pub fn optional_domain<S: State + Default>(self, name: &str, replica: &Replica<S>) -> Self {
        self.checked_domain(name, false, replica.for_group(Some(S::default)))
    }

    /// Adds a domain of a tool: a part of the state that stands beside what the program itself keeps, such as the locks of a
    /// library that is built on this one. Its name begins with `tool.`, as no other's may. Only messages that name it are for it
    /// ([`Multicast::to_domain`]); it sees all views. So a tool is moved with the program's state, at the same point between the
    /// messages, and neither has to know the other's messages.
    ///
    /// ```no_run
    /// # use phalanx::{DecodeError, Message, Replica, Snapshot, State};
    /// # struct Locks(u64);
    /// # impl State for Locks {
    /// #     fn apply(&mut self, _: &Message) {}
    /// #     fn snapshot(&self) -> Snapshot { Snapshot::encode(&self.0) }
    /// #     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> { snapshot.decode().map(Self) }
    /// # }
    /// # fn join(cell: &phalanx::Cell, locks: &Replica<Locks>) -> Result<(), Box<dyn std::error::Error>> {
    /// let (stock, inbox) = cell.group("stock").tool_domain("tool.locks", locks).blocking_join()?;
    /// stock.send("lock 7").to_domain("tool.locks").blocking()?;
    /// # drop(inbox);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tool_domain<S: State>(self, name: &str, replica: &Replica<S>) -> Self {
        self.checked_domain(name, true, replica.for_group(None))
    }

    /// Like [`GroupBuilder::tool_domain`], for a tool that members of an earlier version of the program do not have; see
    /// [`GroupBuilder::optional_domain`].
    pub fn optional_tool_domain<S: State + Default>(self, name: &str, replica: &Replica<S>) -> Self {
        self.checked_domain(name, true, replica.for_group(Some(S::default)))
    }

    /// Lets this process submit messages to a replica that was given before, as the state or as a domain: [`Replica::submit`].
    ///
    /// The group keeps a table of those that submit in a domain of its own, which is the library's: `phalanx.clients`, or
    /// `phalanx.clients.NAME` for the domain of that name. It is added to the group's list when all members have it, as an optional
    /// domain is ([`GroupBuilder::optional_domain`]): until then a submit is refused ([`SendError::NoSuchDomain`]), and a
    /// process that does not submit cannot join from then on. So give it at all members, also where nobody submits. Cells at level 10 and
    /// above have it.
    pub fn submits<S: Execute>(mut self, replica: &Replica<S>) -> Self {
        let Some(table) = self.name_of(replica).map(clients_domain) else { return self.not_given("takes submits") };
        replica.set_execute(execute);
        let submits = Arc::clone(&replica.handle.submits);
        self.submits.retain(|other| *other.table != *table);
        self.submits.push(SubmitsTo { table: table.as_str().into(), submits: Arc::clone(&submits) });
        self.with_domain(&table, ClientTable::domain(&submits))
    }

    /// Has a replica that was given before answer the asks of the group ([`Group::ask`]): [`Answering`]. Asks that this process is to
    /// answer then come into its inbox as messages ([`Next::Message`](crate::Next::Message)), answered already; only one that another member
    /// forwarded comes as [`Next::Asked`](crate::Next::Asked). Members may differ in it: each answers by its own state, or from its inbox.
    pub fn answers<S: Answering>(mut self, replica: &Replica<S>) -> Self {
        if self.name_of(replica).is_none() {
            return self.not_given("answers asks");
        }
        replica.set_answer(answer);
        self.answers = true;
        self
    }

    /// The domain of a replica.
    fn name_of<S: State>(&self, replica: &Replica<S>) -> Option<&str> {
        let is_it = |domain: &dyn Domain| domain.address() == replica.address() && !domain.is_table();
        self.domains.iter().find(|(_, domain)| is_it(&**domain)).map(|(name, _)| name.as_str())
    }

    /// A replica that does `what` is none of the domains.
    fn not_given(mut self, what: &str) -> Self {
        let not_given = || format!("a replica {what} that is none of this group's domains: give it before");
        self.bad_domain = self.bad_domain.or_else(|| Some(not_given()));
        self
    }

    fn checked_domain(mut self, name: &str, is_tool: bool, domain: Box<dyn Domain>) -> Self {
        let bad = check_name(name).err().map(|bad| bad.to_string());
        let reserved =
            || format!("names that begin with {RESERVED} are the library's own, and those with {TOOL} are tools'");
        let twice = || format!("{name} was given twice");
        let no_tool = || format!("the name of a tool's domain begins with {TOOL}");
        let bad = bad.or_else(|| (is_tool && !name.starts_with(TOOL)).then(no_tool));
        let is_taken = name.starts_with(RESERVED) || !is_tool && name.starts_with(TOOL);
        let bad = bad.or_else(|| is_taken.then(reserved));
        let bad = bad.or_else(|| self.domains.iter().any(|(other, _)| other == name).then(twice));
        self.bad_domain = self.bad_domain.or(bad);
        self.with_domain(name, domain)
    }

    /// Adds a domain, or replaces that of the same name.
    fn with_domain(mut self, name: &str, domain: Box<dyn Domain>) -> Self {
        self.domains.retain(|(other, _)| other != name);
        // It would apply each message twice, and wait for its own lock.
        let is_twice = self.domains.iter().any(|(_, other)| other.address() == domain.address());
        let twice = || "a replica was given twice: each domain needs one of its own".to_owned();
        self.bad_domain = self.bad_domain.or_else(|| is_twice.then(twice));
        self.domains.push((name.to_owned(), domain));
        self
    }

    /// Observes the group: this process is a member of it that never has its state, whether the group has one or not, and
    /// that makes no group. The join waits until others have made it, and waits again when the group is over;
    /// [`CellEvent::GroupAbsent`](crate::CellEvent::GroupAbsent) says so. For a program that shows who is there. It sees the
    /// group's messages and may send some. A group goes on through its other members alone, and an observer does not count for
    /// [`GroupBuilder::members_min`].
    ///
    /// With a state it is refused ([`JoinError::BadDomain`]), because it keeps none.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cell = phalanx::Cell::builder("orders").blocking_start()?;
    /// let (_stock, inbox) = cell.group("stock").observe().blocking_join()?;
    /// # drop(inbox);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(mut self) -> Self {
        self.observes = true;
        self
    }

    /// If this process founds the group: messages are plain unless their sender asks for
    /// [`Guarantee::Uniform`](crate::Guarantee::Uniform). By default they are uniform.
    pub fn plain_by_default(mut self) -> Self {
        self.terms.uniformity = Uniformity::Plain;
        self
    }

    /// If this process founds the group: while fewer members have the group's state, no uniform message is sent, and no
    /// message that was sent becomes stable or delivered to its sender ([`Sent`](crate::Sent)). So `members`
    /// members hold whatever a program was told. Default 1: a message is stable also when the end of a view leaves it with
    /// its sender alone.
    pub fn members_min(mut self, members: u16) -> Self {
        self.terms.members_min = members;
        self
    }

    /// If this process founds the group: it ends when nobody in the cell has its state, and may be founded again
    /// without it. By default its name then waits for the members that are cut off.
    pub fn ends_alone(mut self) -> Self {
        self.terms.ends_alone = true;
        self
    }

    /// The most items that wait in the inbox. Default 4,096.
    pub fn inbox_items(mut self, items: usize) -> Self {
        self.items_max = items;
        self
    }

    /// The most bytes that wait in the inbox. One message may exceed it. Default 16 MiB.
    pub fn inbox_bytes(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Joins the group, which is founded if it does not exist. Ready with the first view, which is the last item before
    /// then in the inbox. [`GroupBuilder::join_into`] shows the items before, such as [`Next::Waiting`](crate::Next::Waiting),
    /// while it waits. A membership that has ended by the time this is polled is ready as well: the inbox holds its views,
    /// and ends with why.
    ///
    /// # Cancel safety
    /// Before the first poll nothing is asked. Dropping the future later takes the request back; a membership that came too
    /// late for that is ended.
    pub fn join(self) -> Joining {
        Joining(Membership::new(self.begin(None)))
    }

    /// Like [`GroupBuilder::join`], with `inbox` in place of an inbox of the group's own, whose bounds do not count then.
    ///
    /// # Cancel safety
    /// As for [`GroupBuilder::join`]. Items of the group that are in `inbox` stay there.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn join_into(self, inbox: &Merged) -> impl Future<Output = Result<Group, JoinError>> + Send + use<> {
        let membership = Membership::new(self.begin(Some(inbox)));
        async move { membership.await.map(|(group, _)| group) }
    }

    /// Like [`GroupBuilder::join_into`], in a thread. The inbox must be read meanwhile if it may be full.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn blocking_join_into(self, inbox: &Merged) -> Result<Group, JoinError> {
        block(self.join_into(inbox))
    }

    /// Like [`GroupBuilder::join`], in a thread.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn blocking_join(self) -> Result<(Group, Inbox), JoinError> {
        block(self.join())
    }

    /// Makes what a join needs. Without `merged`, the group has an inbox of its own.
    fn begin(self, merged: Option<&Merged>) -> Result<Begun, JoinError> {
        let Self {
            held,
            name,
            terms,
            domains,
            submits,
            answers,
            bad_domain,
            items_max,
            bytes_max,
            is_reserved,
            observes,
        } = self;
        let cell = &held.shared;
        if !cell.home.is_here() {
            return Err(JoinError::Forked);
        }
        check_group_name(&name, is_reserved)?;
        if merged.is_some_and(|merged| !merged.is_of(cell)) {
            return Err(JoinError::OtherInbox);
        }
        let with_state = !domains.is_empty();
        let of_observer = (observes && with_state).then(|| "an observer keeps no state".to_owned());
        let own: Vec<OwnDomain> = domains.iter().map(|(name, domain)| own_domain(name, &**domain)).collect();
        let too_many = || "a state has at most 32 domains, with 2 KiB of names".to_owned();
        let of_bound = (!are_domains(own.iter().map(|own| &own.domain))).then(too_many);
        bad_domain.or(of_observer).or(of_bound).map_or(Ok(()), |bad| Err(JoinError::BadDomain(bad)))?;
        let replica = with_state.then(|| -> Box<dyn Replicating> {
            let (telling, group) = (Arc::clone(&cell.telling), name.clone());
            let notice = move |text| telling.tell(CellEvent::Notice(format!("group {group}: {text}")));
            Box::new(Domains::new(domains).with_notice(Box::new(notice)))
        });
        let keeps = Keeps { replica, submits, answers };
        let shared = Arc::new(GroupShared::new(&name));
        cell.take_name(&shared).map_err(|Taken| JoinError::AlreadyMember(name))?;
        let (destination, inbox) = match merged {
            Some(merged) => (Destination::Merged(Arc::clone(&merged.shared)), None),
            None => {
                let queue = Arc::new(Queue::new(items_max, bytes_max, cell.protocol.clone(), cell.home));
                (Destination::Own(Arc::clone(&queue)), Some(Inbox::new(queue)))
            }
        };
        let group = Arc::clone(&shared);
        let command = Command::Join { group, inbox: destination, terms, with_state, observes, own, keeps };
        let group = Group { held: Arc::clone(&held), shared, seen: Lost::default() };
        Ok(Begun { group, inbox, command: Some(command) })
    }
}

/// A domain as the core knows it.
pub(crate) fn own_domain(name: &str, domain: &dyn Domain) -> OwnDomain {
    let (name, version) = (name.to_owned(), domain.version());
    OwnDomain { domain: phalanx_core::Domain { name, version }, is_optional: domain.is_optional() }
}

/// A group that is being joined.
#[must_use = "nothing is joined until it is awaited"]
#[derive(Debug)]
pub struct Joining(Membership);

impl Future for Joining {
    type Output = Result<(Group, Inbox), JoinError>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = Pin::new(&mut self.0).poll(context);
        joined.map(|joined| joined.and_then(|(group, inbox)| Ok((group, inbox.ok_or(JoinError::Over)?))))
    }
}

/// A join under way, of a group with an inbox of its own or without.
#[derive(Debug)]
struct Membership {
    begun: Option<Result<Begun, JoinError>>,
    place: Place,
}

impl Membership {
    fn new(begun: Result<Begun, JoinError>) -> Self {
        Self { begun: Some(begun), place: Place::default() }
    }
}

#[derive(Debug)]
struct Begun {
    group: Group,
    inbox: Option<Inbox>,
    /// The command, until it is queued.
    command: Option<Command>,
}

impl Future for Membership {
    type Output = Result<(Group, Option<Inbox>), JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { begun, place } = &mut *self;
        let Begun { group, command, .. } = match begun {
            None => panic!("polled after it was ready"),
            Some(Ok(begun)) => begun,
            Some(Err(_)) => {
                let Some(Err(error)) = begun.take() else { return Poll::Pending };
                return Poll::Ready(Err(error));
            }
        };
        let (cell, shared) = (group.cell(), &group.shared);
        if !cell.home.is_here() {
            return Poll::Ready(Err(JoinError::Forked));
        }
        if command.is_some() {
            let queued = cell.commands.room.poll(place, context, || match cell.push(command.take()?) {
                Ok(()) => Some(Ok(())),
                Err((SendError::Full, back)) => {
                    *command = Some(back);
                    None
                }
                Err(_) => Some(Err(JoinError::Over)),
            });
            match queued {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    cell.free_name(shared);
                    *begun = None;
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let joined = shared.progress.poll(place, context, || {
            let status = shared.status();
            match &status.phase {
                Phase::Joining => None,
                Phase::Member => Some(Ok(())),
                Phase::Refused => Some(Err(JoinError::NoNumbers(shared.name.to_string()))),
                Phase::Differs { has_state: true } => Some(Err(JoinError::HasState(shared.name.to_string()))),
                Phase::Differs { has_state: false } => Some(Err(JoinError::HasNoState(shared.name.to_string()))),
                Phase::Domains(mismatch) => Some(Err(JoinError::of_domains(&shared.name, mismatch))),
                // In before it was out again: the inbox says when and why.
                Phase::Left(_) if status.was_member => Some(Ok(())),
                Phase::Left(_) => Some(Err(JoinError::Over)),
            }
        });
        joined.map(|outcome| {
            let begun = begun.take().and_then(Result::ok);
            outcome?;
            begun.map(|Begun { group, inbox, .. }| (group, inbox)).ok_or(JoinError::Over)
        })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(Ok(Begun { group, command, .. })) = &self.begun
            && group.cell().home.is_here()
        {
            let (cell, shared) = (group.cell(), &group.shared);
            cell.commands.room.forget(&mut self.place);
            shared.progress.forget(&mut self.place);
            if command.is_some() {
                cell.free_name(shared);
            } else {
                group.ask_to_leave();
            }
        }
    }
}

/// The most items that wait in an inbox, by default.
pub(crate) const INBOX_ITEMS: usize = 4_096;

/// The most bytes that wait in an inbox, by default.
pub(crate) const INBOX_BYTES: usize = 16 << 20;
