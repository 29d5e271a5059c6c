//! A state machine of a user, run by the simulated applications in place of the simulator's own messages: every group
//! has a copy at each member, its messages carry the user's bytes, and a state transfer carries its snapshot.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use phalanx_core::rng::Rng;
use phalanx_core::{Delivery, Domain, GroupView, Incarnation, Order, OwnDomain, Snapshot, Stability};

/// One copy of a group's state at one process. Calls come in the order of the process's deliveries and events.
pub trait Machine {
    /// A delivery of the group. Its payload is that of [`ToSend`].
    fn apply(&mut self, delivery: &Delivery<'_>);

    /// A view of the group, in the incarnation `me`.
    fn view(&mut self, view: &Arc<GroupView>, me: Incarnation);

    /// A view that belongs to the state that is arriving.
    fn view_replayed(&mut self, view: &Arc<GroupView>, me: Incarnation);

    /// The present state for a joiner.
    fn snapshot(&mut self) -> Box<dyn Snapshot>;

    /// A snapshot of this many bytes begins to arrive. `listed`: the domains that the group lists in the view in which it was
    /// frozen.
    fn begin(&mut self, bytes: u64, listed: Option<&Arc<[Domain]>>);

    /// What the member has for the group's state.
    fn own(&self) -> Vec<OwnDomain> {
        vec![OwnDomain::unnamed()]
    }

    /// The next bytes of it.
    fn restore(&mut self, chunk: &[u8]);

    /// It is complete.
    ///
    /// # Errors
    /// A description, if it makes no sense.
    fn complete(&mut self) -> Result<(), String>;

    /// The group goes on with the present state.
    fn keep(&mut self);

    /// A digest of the present state, equal for equal states.
    fn digest(&mut self) -> u64;

    /// The messages that the process sends to the group now. `order`: what the seed drew for them.
    fn act(&mut self, rng: &mut Rng, order: Order) -> Vec<ToSend>;

    /// Panics if the present state is a wrong one. Called after each change.
    fn check(&mut self);
}

/// A message of a machine, to be multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSend {
    /// The order it is sent with.
    pub order: Order,
    /// Whether it is uniform; [`Stability::GroupDefault`]: as the seed decides.
    pub stability: Stability,
    /// The domain of the group's state to which alone it goes. In total order.
    pub domain: Option<Arc<str>>,
    /// What [`Machine::apply`] gets.
    pub payload: Vec<u8>,
}

/// Makes the machine of a process in a group, by the process's number.
#[derive(Clone)]
pub struct Machines {
    make: Arc<dyn Fn(usize) -> Box<dyn Machine> + Send + Sync>,
    may_refuse: bool,
}

impl Machines {
    /// Machines that `make` makes. A snapshot that one of them refuses is a violation.
    #[must_use]
    pub fn new(make: impl Fn(usize) -> Box<dyn Machine> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), may_refuse: false }
    }

    /// The same, of which each may refuse snapshots. Its process then leaves the group and asks for it again, as a user's
    /// would.
    #[must_use]
    pub fn may_refuse(self) -> Self {
        Self { may_refuse: true, ..self }
    }
}

impl fmt::Debug for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machines")
    }
}

/// Only copies are equal.
impl PartialEq for Machines {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for Machines {}

/// Makes the machines of one process.
#[derive(Debug)]
pub(crate) struct Maker {
    machines: Machines,
    slot: usize,
    /// Random numbers of its messages.
    pub(crate) rng: Rng,
    running: Running,
}

/// What the user's code does now, so that a panic in it can be told from one of the core.
type Running = Rc<Cell<Option<&'static str>>>;

impl Maker {
    pub(crate) fn new(machines: &Machines, slot: usize, rng: Rng) -> Self {
        Self { machines: machines.clone(), slot, rng, running: Running::default() }
    }

    pub(crate) fn make(&self) -> Held {
        self.running.set(Some("while it was made"));
        let machine = (self.machines.make)(self.slot);
        self.running.set(None);
        Held { machine, running: Rc::clone(&self.running), shown: None, is_torn: false }
    }

    /// What the process has for the state of each group.
    pub(crate) fn own(&self) -> Vec<OwnDomain> {
        (self.machines.make)(self.slot).own()
    }

    /// Whether a snapshot may be refused.
    pub(crate) fn may_refuse(&self) -> bool {
        self.machines.may_refuse
    }

    /// In which call the user's code is. After a panic: in which it was.
    pub(crate) fn running(&self) -> Option<&'static str> {
        self.running.get()
    }
}

/// A machine in a group.
pub(crate) struct Held {
    machine: Box<dyn Machine>,
    running: Running,
    /// While another member's state comes: the digest of what its readers see, which stays, and the steps so far.
    shown: Option<(u64, u32)>,
    /// Its readers saw something of a state that was not complete.
    is_torn: bool,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl Held {
    fn run<R>(&mut self, what: &'static str, call: impl FnOnce(&mut (dyn Machine + 'static)) -> R) -> R {
        self.running.set(Some(what));
        let result = call(self.machine.as_mut());
        self.running.set(None);
        result
    }

    fn check(&mut self) {
        self.run(INVARIANT, Machine::check);
    }

    pub(crate) fn apply(&mut self, delivery: &Delivery<'_>) {
        let Some(payload) = opened(delivery.payload) else { return };
        self.run("in `apply`", |machine| machine.apply(&Delivery { payload, ..*delivery }));
        self.check();
        self.look();
    }

    pub(crate) fn view(&mut self, view: &Arc<GroupView>, me: Incarnation) {
        self.run("in `view`", |machine| machine.view(view, me));
        self.check();
    }

    pub(crate) fn view_replayed(&mut self, view: &Arc<GroupView>, me: Incarnation) {
        self.run("in `view`", |machine| machine.view_replayed(view, me));
        self.look();
    }

    pub(crate) fn snapshot(&mut self) -> Box<dyn Snapshot> {
        self.run("in `snapshot`", Machine::snapshot)
    }

    pub(crate) fn begin(&mut self, bytes: u64, listed: Option<&Arc<[Domain]>>) {
        self.shown = Some((self.digest(), 0));
        self.run("in `restore`", |machine| machine.begin(bytes, listed));
        self.look();
    }

    pub(crate) fn restore(&mut self, chunk: &[u8]) {
        self.run("in `restore`", |machine| machine.restore(chunk));
        self.look();
    }

    /// A reader looks at the state: in each of the first [`LOOKS`] steps of a transfer, then in every [`LOOKS`]th.
    fn look(&mut self) {
        let Some((shown, steps)) = &mut self.shown else { return };
        let shown = *shown;
        *steps += 1;
        if *steps < LOOKS || steps.is_multiple_of(LOOKS) {
            self.is_torn |= self.digest() != shown;
        }
    }

    /// Whether readers saw something of a state that was not complete, since the last call.
    pub(crate) fn take_torn(&mut self) -> bool {
        std::mem::take(&mut self.is_torn)
    }

    pub(crate) fn complete(&mut self) -> Result<(), String> {
        self.shown = None;
        let outcome = self.run("in `restore`", Machine::complete);
        self.check();
        outcome
    }

    pub(crate) fn keep(&mut self) {
        self.shown = None;
        self.run("in `restore`", Machine::keep);
    }

    pub(crate) fn digest(&mut self) -> u64 {
        self.run("in `snapshot`", Machine::digest)
    }

    pub(crate) fn act(&mut self, rng: &mut Rng, order: Order) -> Vec<ToSend> {
        self.run("in the workload", |machine| machine.act(rng, order))
    }
}

/// The number of first steps of a transfer in which readers look, and then the distance between two looks, in steps.
const LOOKS: u32 = 8;

/// What a machine does while its invariant is checked.
pub(crate) const INVARIANT: &str = "in the invariant";

/// A snapshot of the simulator, then one of a machine.
pub(crate) struct Both<S> {
    pub(crate) own: S,
    pub(crate) machine: Box<dyn Snapshot>,
}

impl<S: Snapshot> Snapshot for Both<S> {
    fn len_bytes(&self) -> u64 {
        self.own.len_bytes() + self.machine.len_bytes()
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let (own_bytes, before) = (self.own.len_bytes(), out.len());
        if offset < own_bytes {
            self.own.read(offset, max_bytes, out);
        }
        let came = out.len() - before;
        let at = offset.saturating_add(came as u64);
        if came < max_bytes && at >= own_bytes {
            self.machine.read(at - own_bytes, max_bytes - came, out);
        }
    }
}

/// Length of what precedes a machine's payload.
const ENVELOPE_BYTES: usize = 1 + 8 + 4;

/// Puts a machine's payload into a message that no other is equal to: the length of the chain of answers, the number
/// `unique`, the payload behind its length, and padding up to `len` bytes. So messages are as long as the seed decides.
pub(crate) fn enclose(chain: u8, unique: u64, payload: &[u8], len: u64, out: &mut Vec<u8>) {
    out.clear();
    out.push(chain);
    out.extend_from_slice(&unique.to_le_bytes());
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(payload);
    let len = usize::try_from(len).unwrap_or(0);
    out.resize(len.max(out.len()), 0);
}

/// The payload inside a message.
fn opened(message: &[u8]) -> Option<&[u8]> {
    let (head, rest) = message.split_at_checked(ENVELOPE_BYTES)?;
    let len = u32::from_le_bytes(head[9..].try_into().ok()?);
    rest.get(..len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static [u8]);

    impl Snapshot for Fixed {
        fn len_bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
            out.extend(self.0[start..].iter().take(max_bytes));
        }
    }

    #[test]
    fn a_payload_comes_out_as_it_went_in_however_long_the_message_is() {
        let mut message = Vec::new();
        for (payload, len) in [(&b"abc"[..], 0), (b"", 9), (b"abc", 4_000), (&[7; 300], 20)] {
            enclose(3, 5, payload, len, &mut message);
            assert_eq!((message[0], opened(&message)), (3, Some(payload)));
            assert_eq!(message.len() as u64, len.max((ENVELOPE_BYTES + payload.len()) as u64));
        }
        assert_eq!(opened(&message[..200]), None, "cut short");
        assert_eq!(opened(b"ab"), None);
    }

    #[test]
    fn two_snapshots_are_read_as_one_in_pieces_of_any_length() {
        for max_bytes in 1..12 {
            let mut both = Both { own: Fixed(b"hello "), machine: Box::new(Fixed(b"world")) };
            let mut read = Vec::new();
            while (read.len() as u64) < both.len_bytes() {
                let (offset, before) = (read.len() as u64, read.len());
                both.read(offset, max_bytes, &mut read);
                assert!(read.len() > before && read.len() <= before + max_bytes);
            }
            assert_eq!(read, b"hello world");
        }
    }
}
