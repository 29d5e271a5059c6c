//! A state as the simulator runs it: through the replica that real processes have.

use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::rng::Rng;
use phalanx_core::{Delivery, Domain, GroupView, Incarnation, Order, OwnDomain, Snapshot, Stability};
use phalanx_life::{Outgoing, Submitter, clients_domain};
use phalanx_sim::{Machine, Machines, ToSend};

use super::Sender;
use crate::domains::Domains;
use crate::group::own_domain;
use crate::message::Message;
use crate::replica::{Domain as Part, ExecuteOf, Replica, Replicating, State};
use crate::submit::ClientTable;
use crate::view::View;

/// The user's code.
pub(super) struct Code<S> {
    new: Arc<dyn Fn() -> S + Send + Sync>,
    pub(super) invariant: Option<Invariant<S>>,
    /// Messages may be submitted to it.
    pub(super) execute: Option<ExecuteOf<S>>,
    others: Vec<(String, Arc<dyn Fn() -> Other + Send + Sync>)>,
}

/// A domain beside the state itself.
struct Other {
    domain: Box<dyn Part>,
    bytes: Box<dyn Fn() -> Bytes>,
}

impl<S> Code<S> {
    pub(super) fn new(new: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self { new: Arc::new(new), invariant: None, execute: None, others: Vec::new() }
    }

    pub(super) fn add<T: State>(&mut self, name: String, new: impl Fn() -> T + Send + Sync + 'static) {
        let make = move || {
            let replica = Replica::new(new());
            Other { domain: replica.for_group(None), bytes: Box::new(move || replica.read().snapshot().into_bytes()) }
        };
        self.others.push((name, Arc::new(make)));
    }
}

type Invariant<S> = Arc<dyn Fn(&S) + Send + Sync>;

pub(super) type Work<S> = Arc<dyn Fn(&mut Sender<'_, S>) + Send + Sync>;

pub(super) fn machines<S: State>(code: &Code<S>, work: Work<S>) -> Machines {
    let (new, invariant, makes) = (Arc::clone(&code.new), code.invariant.clone(), code.others.clone());
    let execute = code.execute;
    Machines::new(move |member| {
        let replica = Replica::new(new());
        let (mut domains, mut others) = (vec![(String::new(), replica.for_group(None))], Vec::new());
        for (name, make) in &makes {
            let Other { domain, bytes } = make();
            domains.push((name.clone(), domain));
            others.push(bytes);
        }
        let client = execute.map(|execute| {
            replica.set_execute(execute);
            let (table, submits) = (Replica::new(ClientTable::default()), &replica.handle.submits);
            domains.push((clients_domain(""), ClientTable::domain_of(&table, submits)));
            others.push(Box::new(move || table.read().snapshot().into_bytes()));
            submits.add(Submitter::random())
        });
        let own = domains.iter().map(|(name, domain)| own_domain(name, &**domain)).collect();
        let side = Box::new(Domains::new(domains));
        let (invariant, work) = (invariant.clone(), Arc::clone(&work));
        Box::new(Copied { replica, own, others, side, member, invariant, work, client, me: Incarnation::NONE })
    })
}

/// A member's copy of the state of one group.
struct Copied<S> {
    replica: Replica<S>,
    own: Vec<OwnDomain>,
    /// The bytes of each other domain.
    others: Vec<Box<dyn Fn() -> Bytes>>,
    /// The protocol thread's side of it.
    side: Box<dyn Replicating>,
    member: usize,
    invariant: Option<Invariant<S>>,
    work: Work<S>,
    /// The client of this process, if messages may be submitted.
    client: Option<u64>,
    /// The incarnation that was in the latest view.
    me: Incarnation,
}

impl<S> Copied<S> {
    /// What the client has to say. Nothing of it is withheld: no member is told a result here.
    fn submits(&self, rng: &mut Rng) -> Vec<ToSend> {
        let submits = &self.replica.handle.submits;
        if self.client.is_some() && rng.below(AGAIN_EVERY) == 0 {
            // A message may be refused for lack of room, of which this process hears nothing: all is sent again.
            submits.end_life();
            submits.begin_life();
        }
        let due = submits.take_due(&mut || rng.next_u64());
        let to_send = |(client, out): (u64, Outgoing)| {
            submits.bound(client, out.number, 0);
            let domain = Some(clients_domain("").into());
            ToSend { order: Order::Total, stability: Stability::Uniform, domain, payload: out.payload.to_vec() }
        };
        due.into_iter().map(to_send).collect()
    }
}

/// All that is under way is sent again at one of this many times.
const AGAIN_EVERY: u64 = 16;

impl<S: State> Machine for Copied<S> {
    fn apply(&mut self, delivery: &Delivery<'_>) {
        self.side.apply(&[Message::of(delivery, Bytes::copy_from_slice(delivery.payload))]);
    }

    fn view(&mut self, view: &Arc<GroupView>, me: Incarnation) {
        self.side.view(&View::new(Arc::clone(view), me));
        self.side.set_current(true);
        let submits = &self.replica.handle.submits;
        if std::mem::replace(&mut self.me, me) != me {
            // What was submitted is sent again.
            submits.end_life();
        }
        submits.begin_life();
    }

    fn view_replayed(&mut self, view: &Arc<GroupView>, me: Incarnation) {
        self.side.view_replayed(&View::replayed(Arc::clone(view), me));
    }

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        // One that was refused ends the transfer, which is no news.
        let is_sound = self.side.is_sound();
        self.side.snapshot(Box::new(move |why| assert!(!is_sound, "a snapshot cannot be sent: {why}")))
    }

    fn begin(&mut self, bytes: u64, listed: Option<&Arc<[Domain]>>) {
        self.replica.handle.submits.end_life();
        self.side.begin(bytes, listed);
    }

    fn own(&self) -> Vec<OwnDomain> {
        self.own.clone()
    }

    fn restore(&mut self, chunk: &[u8]) {
        // An error is told when the state ends, too.
        drop(self.side.restore(chunk));
    }

    fn complete(&mut self) -> Result<(), String> {
        self.side.complete().map_err(|error| error.to_string())
    }

    fn keep(&mut self) {
        self.side.keep();
    }

    fn digest(&mut self) -> u64 {
        let bytes = self.replica.read().snapshot().into_bytes();
        let digest = phalanx_trace::payload_hash(&bytes);
        self.others.iter().fold(digest, |digest, bytes| digest.rotate_left(9) ^ phalanx_trace::payload_hash(&bytes()))
    }

    fn act(&mut self, rng: &mut Rng, order: Order) -> Vec<ToSend> {
        let state = self.replica.read();
        let client = self.client.map(|client| (&*self.replica.handle.submits, client));
        let mut sender = Sender { state: &*state, member: self.member, order, rng, queued: Vec::new(), client };
        (self.work)(&mut sender);
        let mut queued = sender.queued;
        queued.extend(self.submits(rng));
        queued
    }

    fn check(&mut self) {
        if let Some(invariant) = &self.invariant {
            invariant(&self.replica.read());
        }
    }
}
