//! A state of yours in a simulated cell: whole processes in one thread, under faults that follow from a seed.
//!
//! The processes are the shipped ones, with the shipped event loop, protocol and encryption. Network, clocks, crashes,
//! stops, cuts, exclusions, restarts and state transfers are simulated. A run of half a simulated minute takes a fraction
//! of a second in a release build. The feature `simulate` of this crate turns the module on:
//!
//! ```toml
//! [dev-dependencies]
//! phalanx = { version = "0.1", features = ["simulate"] }
//! ```
//!
//! Give a [`Simulation`] a way to make your [`State`], and what a member sends:
//!
//! ```
//! use std::collections::BTreeMap;
//! use phalanx::simulate::Simulation;
//! use phalanx::{DecodeError, Message, Snapshot, State};
//!
//! #[derive(Default)]
//! struct Prices(BTreeMap<u64, u64>);
//!
//! impl State for Prices {
//!     fn apply(&mut self, message: &Message) {
//!         if let Ok((item, cents)) = message.decode() {
//!             self.0.insert(item, cents);
//!         }
//!     }
//!     fn snapshot(&self) -> Snapshot {
//!         Snapshot::encode(&self.0)
//!     }
//!     fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
//!         snapshot.decode().map(Self)
//!     }
//! }
//!
//! let report = Simulation::of(Prices::default)
//!     .seeds(0..2)
//!     .members(5)
//!     .invariant(|prices| assert!(prices.0.len() <= 100))
//!     .run(|sender| {
//!         let (item, cents) = (sender.below(100), sender.below(10_000));
//!         sender.send_value(&(item, cents));
//!     })
//!     .expect("every seed holds");
//! assert!(report.applied > 1_000);
//! ```
//!
//! # What is checked
//!
//! - **Equal states.** The snapshots of all members are compared byte by byte, as digests, at the begin of each view, at
//!   the end of each state transfer, and at the end of the run. So the bytes must follow from the state: encode a
//!   `BTreeMap` and not a `HashMap`.
//! - **Invariants.** [`Simulation::invariant`] is called after each change at each member.
//! - **Panics** in the state, the invariant or the workload.
//! - **All guarantees of Phalanx.** The checker evaluates the traces of the run, as `phalanx check` does with those of real
//!   processes.
//!
//! # A seed that fails
//!
//! The [`Failure`] names the property, the seed, the moment and the member. The same seed gives the same run, so
//! `.seeds(17..18)` with the same number of members repeats it. [`Simulation::picture`] draws it.

mod machine;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::rng::Rng;
use serde::Serialize;

use crate::id::{Guarantee, Order};
use crate::replica::State;
use crate::shared::submits::Submits;
use crate::submit::{Execute, execute};
use machine::{Code, machines};

/// Runs a state in simulated cells. The [module](self) has an example.
pub struct Simulation<S> {
    code: Code<S>,
    seeds: Range<u64>,
    members: usize,
    picture: Option<PathBuf>,
}

/// A state as the simulator runs it.
#[doc(hidden)]
#[derive(Debug)]
pub struct OfState(phalanx_sim::Machines);

impl From<OfState> for phalanx_sim::Machines {
    fn from(state: OfState) -> Self {
        state.0
    }
}

impl<S: State> Simulation<S> {
    /// Simulates the state that `new` makes. Each group of the cell begins with one, and so does each process that takes
    /// the state of another. It runs 20 seeds with five members, unless the methods below say otherwise.
    #[must_use]
    pub fn of(new: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self { code: Code::new(new), seeds: 0..20, members: 5, picture: None }
    }

    /// The seeds to run. Each is a run of its own, with network, faults and workload of its own.
    #[must_use]
    pub fn seeds(mut self, seeds: Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// The number of processes, 3 to 16. 0: as the seed decides.
    ///
    /// # Panics
    /// For another number.
    #[must_use]
    pub fn members(mut self, members: usize) -> Self {
        assert!(members == 0 || (3..=16).contains(&members), "a simulated cell has 3 to 16 members, not {members}");
        self.members = members;
        self
    }

    /// What is always true of the state, as assertions. Called after each message, view and restored snapshot, at each
    /// member.
    #[must_use]
    pub fn invariant(mut self, invariant: impl Fn(&S) + Send + Sync + 'static) -> Self {
        self.code.invariant = Some(Arc::new(invariant));
        self
    }

    /// Adds a domain to the state of each group, as [`GroupBuilder::domain`](crate::GroupBuilder::domain) does. It gets the
    /// same messages and views as the state itself, but for those that name one domain ([`Sender::send_to_domain`]), and its
    /// snapshots are compared likewise. A name that begins with `tool.` is that of a
    /// [tool's domain](crate::GroupBuilder::tool_domain), which gets only messages that name it.
    #[must_use]
    pub fn domain<T: State>(mut self, name: impl Into<String>, new: impl Fn() -> T + Send + Sync + 'static) -> Self {
        self.code.add(name.into(), new);
        self
    }

    /// Lets members submit messages to the state ([`Sender::submit`]), as [`GroupBuilder::submits`](crate::GroupBuilder::submits) does. The
    /// table of their clients is compared as the state is.
    #[must_use]
    pub fn submits(mut self) -> Self
    where
        S: Execute,
    {
        self.code.execute = Some(execute);
        self
    }

    /// What the simulator runs, for campaigns of its own.
    #[doc(hidden)]
    #[must_use]
    pub fn machines(&self, work: impl Fn(&mut Sender<'_, S>) + Send + Sync + 'static) -> OfState {
        OfState(machines(&self.code, Arc::new(work)))
    }

    /// Draws the first seed that fails as an SVG file: processes, views, faults and messages around the failure. If none
    /// fails, it draws the end of the first seed.
    #[must_use]
    pub fn picture(mut self, file: impl Into<PathBuf>) -> Self {
        self.picture = Some(file.into());
        self
    }

    /// Runs the seeds on all cores, until one fails. `work` is called some times a second at each member of each group, and
    /// sends what that member sends then. It must depend on nothing but the [`Sender`].
    ///
    /// # Errors
    /// [`Failure`]: the first seed that failed.
    ///
    /// # Panics
    /// If the picture cannot be written.
    #[expect(clippy::expect_used, reason = "documented: a picture was asked for")]
    pub fn run(&self, work: impl Fn(&mut Sender<'_, S>) + Send + Sync + 'static) -> Result<Report, Box<Failure>> {
        let options = phalanx_sim::Options {
            members: self.members,
            // Far and late members break promises of the protocol today, which say nothing about the user's state.
            draw: phalanx_sim::Draw::Plain,
            machines: Some(machines(&self.code, Arc::new(work))),
            stop: phalanx_sim::Stop::AtFailure,
            repeat_every: 0,
            // The invariants are those of the protocol, which has campaigns of its own.
            check_every: 1_000,
            story_rows: 60,
            command: "Simulation::of(..).members({members}).seeds({seeds})".to_owned(),
            ..phalanx_sim::Options::default()
        };
        let mut digest = 0;
        let summary =
            phalanx_sim::resume(phalanx_sim::Summary::default(), self.seeds.clone(), &options, |result, _| {
                let both = [digest, result.trace_hash].map(u64::to_le_bytes);
                digest = phalanx_trace::payload_hash(both.as_flattened());
                ControlFlow::Continue(())
            });
        let failed = summary.failed.first();
        let drawn = failed.map(|failed| failed.seed).or_else(|| self.seeds.clone().next());
        if let (Some(file), Some(seed)) = (&self.picture, drawn) {
            std::fs::write(file, phalanx_sim::draw_seed(seed, &options, None)).expect("the picture can be written");
        }
        match failed {
            Some(failed) => Err(Box::new(Failure::of(failed, &options, self.picture.clone()))),
            None => Ok(Report::of(&summary, digest)),
        }
    }
}

impl<S> fmt::Debug for Simulation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("seeds", &self.seeds).field("members", &self.members).finish_non_exhaustive()
    }
}

/// A member that may send now.
pub struct Sender<'a, S> {
    state: &'a S,
    member: usize,
    order: phalanx_core::Order,
    rng: &'a mut Rng,
    queued: Vec<phalanx_sim::ToSend>,
    client: Option<(&'a Submits, u64)>,
}

impl<S> Sender<'_, S> {
    /// The state as this member knows it.
    #[must_use]
    pub fn state(&self) -> &S {
        self.state
    }

    /// Which process of the cell it is, from 0. It keeps its number when it restarts.
    #[must_use]
    pub fn member(&self) -> usize {
        self.member
    }

    /// The order that the seed drew for this time. A state for which the order of its messages makes no difference, or not
    /// for all of them, may send with it ([`Sender::send_as`]).
    #[must_use]
    pub fn drawn_order(&self) -> Order {
        Order::of(self.order)
    }

    /// A random number below `bound`, which follows from the seed. 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Sends a message in total order, as [`Group::send`](crate::Group::send) does. Whether it is uniform follows from the
    /// seed. It may be lost with its sender, or refused for lack of room.
    pub fn send(&mut self, payload: impl AsRef<[u8]>) {
        self.send_as(Order::Total, Guarantee::GroupDefault, payload);
    }

    /// The same with a value, as [`Group::send_value`](crate::Group::send_value) does.
    ///
    /// # Panics
    /// If the value cannot be encoded, which ends the seed as a failed one.
    #[expect(clippy::expect_used, reason = "the caller's contract")]
    pub fn send_value<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.send(postcard::to_allocvec(value).expect("a message is plain data"));
    }

    /// Sends a message in another order. Members deliver messages that are not in total order in different orders, and
    /// hold equal states all the same only if the order makes no difference to the state.
    pub fn send_as(&mut self, order: Order, guarantee: Guarantee, payload: impl AsRef<[u8]>) {
        self.queue(order, guarantee, None, payload.as_ref());
    }

    /// Sends a message to one domain of the state alone, as [`Multicast::to_domain`](crate::Multicast::to_domain) does: the empty
    /// name is the state itself. One that the state does not have is refused.
    pub fn send_to_domain(&mut self, domain: &str, payload: impl AsRef<[u8]>) {
        self.queue(Order::Total, Guarantee::GroupDefault, Some(domain), payload.as_ref());
    }

    /// Submits a message, as [`Replica::submit`](crate::Replica::submit) does. It is executed once, or never, however often this process is
    /// excluded and comes back. Nothing tells the result here: it is in the state. Without [`Simulation::submits`], or while 256 are
    /// under way, nothing is submitted.
    pub fn submit(&mut self, payload: impl AsRef<[u8]>) {
        if let Some((submits, client)) = self.client {
            // At the bound it is dropped, as a message is that finds no room.
            let _ = submits.begin(client, &Bytes::copy_from_slice(payload.as_ref()));
        }
    }

    fn queue(&mut self, order: Order, guarantee: Guarantee, domain: Option<&str>, payload: &[u8]) {
        let (order, stability, domain) = (order.to_core(), guarantee.to_core(), domain.map(Into::into));
        self.queued.push(phalanx_sim::ToSend { order, stability, domain, payload: payload.to_vec() });
    }
}

impl<S> fmt::Debug for Sender<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("member", &self.member).finish_non_exhaustive()
    }
}

/// What the seeds met, all of which held. Look at it now and then: a workload that sends nothing proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Seeds that were run.
    pub seeds: u64,
    /// Simulated time, of all seeds together.
    pub simulated: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages applied, at all members together.
    pub applied: u64,
    /// Views of groups.
    pub views: u64,
    /// State transfers that were completed.
    pub transfers: u64,
    /// Incarnations that learned of their exclusion.
    pub exclusions: u64,
    /// Crashes of processes.
    pub crashes: u64,
    /// Faults that struck, by kind, crashes among them.
    pub faults: BTreeMap<String, u64>,
    /// A digest of all that happened. Equal seeds, states and workloads give equal ones.
    pub digest: u64,
}

impl Report {
    fn of(summary: &phalanx_sim::Summary, digest: u64) -> Self {
        let totals = &summary.totals;
        let crashes = ["crash", "crash_sending"].iter().filter_map(|kind| totals.faults.get(*kind)).sum();
        Self {
            seeds: summary.seeds,
            simulated: Duration::from_millis(totals.simulated_ms),
            sent: totals.multicasts,
            applied: totals.deliveries,
            views: totals.group_views,
            transfers: totals.transfers,
            exclusions: totals.exclusions,
            crashes,
            faults: totals.faults.clone(),
            digest,
        }
    }
}

/// A seed that failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The property that it breaks: `panic`, `invariant`, `restore` (a snapshot cannot be restored), `X1` or `X4` (members
    /// hold different states), or another code of the checker, which is a fault of Phalanx.
    pub property: String,
    /// When, from the start of the run.
    pub at: Duration,
    /// What happened, and at which member.
    pub text: String,
    /// How to run the seed again.
    pub replay: String,
    /// The plan of the seed, and what the members saw before the failure.
    pub story: String,
    /// Its picture, if one was asked for.
    pub picture: Option<PathBuf>,
}

impl Failure {
    fn of(failed: &phalanx_sim::SeedResult, options: &phalanx_sim::Options, picture: Option<PathBuf>) -> Self {
        // The one that says most about the state: it comes first for the same reason as others.
        let about_state = |code: &str| ["invariant", "panic", "restore", "X1", "X4"].contains(&code);
        let violations = &failed.violations;
        let told = violations.iter().find(|violation| about_state(&violation.code)).or(violations.first());
        Self {
            seed: failed.seed,
            property: told.map(|told| told.code.clone()).unwrap_or_default(),
            at: Duration::from_nanos(told.map_or(0, |told| told.at_ns)),
            text: told.map(|told| told.text.clone()).unwrap_or_default(),
            replay: options.replay_command(failed.seed),
            story: failed.story.clone().unwrap_or_default(),
            picture,
        }
    }

    fn hint(&self) -> &'static str {
        match self.property.as_str() {
            "X1" | "X4" => {
                "members hold different states at the same point: does the state depend on nothing but its messages, and is \
                 all of it in the snapshot?"
            }
            "invariant" | "panic" | "restore" => "the state machine failed",
            _ => "a guarantee of Phalanx is broken, whatever the state does: please report it",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, property, at, text, replay, picture, .. } = self;
        writeln!(f, "seed {seed} breaks {property} at {:.6} s: {}", at.as_secs_f64(), self.hint())?;
        writeln!(f, "  {text}")?;
        write!(f, "  run it again: {replay}")?;
        match picture {
            Some(file) => write!(f, "\n  its picture: {}", file.display()),
            None => write!(f, "; with .picture(\"seed-{seed}.svg\") it is drawn"),
        }
    }
}

/// As tests print it: with the story.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}\n\n{}", self.story)
    }
}
