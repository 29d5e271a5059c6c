//! The states of users that a third of all seeds have, and all seeds of `phalanx sim --draw states`: real states of the
//! crate `phalanx`, driven, encoded and compared by its own code.
//!
//! They are here and not in `phalanx-sim`, which the crate `phalanx` is above.

use std::collections::BTreeMap;

use phalanx::simulate::{Sender, Simulation};
use phalanx::{DecodeError, Guarantee, MemberId, Message, Order, Piece, Snapshot, State, View};
use phalanx_sim::{Machines, StateKind, States};
use serde::{Deserialize, Serialize};

/// What a member sends.
#[derive(Debug, Serialize, Deserialize)]
enum Change {
    /// Moves an amount from one item to another. The order makes no difference.
    Move { from: u64, to: u64, amount: i64 },
    /// What its sender says last. Messages of one sender must stay in order.
    Say(u64),
    /// A step of a chain. All steps must be in one order.
    Step(u64),
    /// A line of the log, in one order.
    Line(Vec<u8>),
}

/// A state as one whole.
const WHOLE: u8 = 0;
/// A state in pieces.
const IN_PIECES: u8 = 1;
/// A state as one whole, of which some are refused.
const REFUSED: u8 = 2;

/// A state with something of each kind.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Kept<const KIND: u8> {
    drawn: Drawn,
    items: BTreeMap<u64, i64>,
    said: BTreeMap<MemberId, u64>,
    chain: u64,
    log: Vec<Vec<u8>>,
    applied: u64,
    /// Views so far, if it follows them.
    views: u64,
}

/// A piece of it.
#[derive(Clone, Serialize, Deserialize)]
enum Part<const KIND: u8> {
    /// All but its lines.
    Head(Kept<KIND>),
    Line(Vec<u8>),
}

impl<const KIND: u8> Kept<KIND> {
    fn is_sound(&self) -> bool {
        self.items.values().sum::<i64>() == 0 && self.log.len() as u64 <= self.drawn.lines_max
    }
}

impl<const KIND: u8> State for Kept<KIND> {
    fn apply(&mut self, message: &Message) {
        self.applied += 1;
        match message.decode().expect("members send nothing else") {
            Change::Move { from, to, amount } => {
                *self.items.entry(from).or_default() -= amount;
                *self.items.entry(to).or_default() += amount;
            }
            Change::Say(what) => {
                self.said.insert(message.sender, what);
            }
            Change::Step(step) => self.chain = self.chain.rotate_left(7).wrapping_mul(31) ^ step,
            Change::Line(line) => {
                self.log.push(line);
                let too_many = (self.log.len() as u64).saturating_sub(self.drawn.lines_max);
                self.log.drain(..usize::try_from(too_many).unwrap_or(0));
            }
        }
    }

    fn view(&mut self, view: &View) {
        if self.drawn.follows_views {
            let members: Vec<MemberId> = view.ids().collect();
            self.said.retain(|member, _| members.contains(member));
            self.views += 1;
        }
    }

    fn snapshot(&self) -> Snapshot {
        if KIND != IN_PIECES {
            return Snapshot::encode(self);
        }
        let head = Self { log: Vec::new(), ..self.clone() };
        let parts: Vec<Part<KIND>> =
            std::iter::once(Part::Head(head)).chain(self.log.iter().cloned().map(Part::Line)).collect();
        Snapshot::encode_each(parts)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        let state: Self = snapshot.decode()?;
        // Which ones follows from nothing but the bytes. Who refuses one comes into a view and leaves it: so the next one is
        // taken even if nobody sends. A leaver may be waiting to give it away.
        let number = state.applied + state.views;
        if KIND == REFUSED && state.drawn.follows_views && number % REFUSED_OF == 1 {
            return Err(DecodeError::new("a state that is refused"));
        }
        Ok(state)
    }

    fn restore_begin() -> Option<Self> {
        (KIND == IN_PIECES).then(Self::default)
    }

    fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
        match piece.decode()? {
            // Lines that are here already stay, so that it shows if something of an earlier donor is left.
            Part::Head(head) => *self = Self { log: std::mem::take(&mut self.log), ..head },
            Part::Line(line) => self.log.push(line),
        }
        Ok(())
    }
}

/// Of so many snapshots one is refused.
const REFUSED_OF: u64 = 3;

/// Another domain: what came, and in how many views.
#[derive(Default, Serialize, Deserialize)]
struct Count {
    follows_views: bool,
    messages: u64,
    bytes: u64,
    views: u64,
}

impl State for Count {
    fn apply(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.payload.len() as u64;
    }

    fn view(&mut self, _view: &View) {
        self.views += u64::from(self.follows_views);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(self)
    }

    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode()
    }
}

/// What a seed draws: the bounds of its log, and how often a message is of each kind.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Drawn {
    lines_max: u64,
    line_bytes: u64,
    /// Of moves, steps and lines.
    weights: [u64; 3],
    follows_views: bool,
}

impl Drawn {
    /// A generator of its own: that of the simulator is not to be had from here, and need not be.
    fn of(seed: u64, kind: StateKind, follows_views: bool) -> Self {
        let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0057_4174_6573;
        let mut below = |bound: u64| {
            mixed ^= mixed >> 29;
            mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^= mixed >> 32;
            mixed % bound
        };
        let weights = [below(4), below(4), 1 + below(3)];
        let is_long = matches!(kind, StateKind::Pieces | StateKind::Slow);
        let lines_max = if is_long { [64, 256] } else { [4, 16] }[below(2) as usize];
        Self { lines_max, line_bytes: [20, 200, 1_000][below(3) as usize], weights, follows_views }
    }

    /// Sends what one member sends at one time: one message, in the order that the simulator drew, so that its faults find
    /// the traffic that they are about.
    fn work<const KIND: u8>(self, sender: &mut Sender<'_, Kept<KIND>>) {
        let order = sender.drawn_order();
        let says = order != Order::Total && sender.below(2) == 0;
        let mut drawn = sender.below(self.weights.iter().sum());
        let mut is = |weight: u64| {
            let is = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is
        };
        let change = if says {
            Change::Say(sender.below(1 << 40))
        } else if order != Order::Total || is(self.weights[0]) {
            let amount = i64::try_from(sender.below(100)).unwrap_or(0);
            Change::Move { from: sender.below(40), to: sender.below(40), amount }
        } else if is(self.weights[1]) {
            Change::Step(sender.below(1 << 40))
        } else {
            let len = 1 + sender.below(self.line_bytes);
            let byte = sender.below(256) as u8;
            Change::Line(vec![byte; len as usize])
        };
        sender.send_as(order, Guarantee::GroupDefault, postcard::to_allocvec(&change).expect("a change is plain data"));
    }
}

/// The states of all seeds.
pub(super) fn states() -> States {
    States::new(|seed, kind, follows_views| {
        let drawn = Drawn::of(seed, kind, follows_views);
        match kind {
            StateKind::Domains => {
                let count = move || Count { follows_views, ..Count::default() };
                simulation::<WHOLE>(drawn).domain("count", count).machines(move |sender| drawn.work(sender)).into()
            }
            StateKind::Pieces | StateKind::Slow => machines::<IN_PIECES>(drawn),
            StateKind::Refusing => machines::<REFUSED>(drawn).may_refuse(),
        }
    })
}

fn machines<const KIND: u8>(drawn: Drawn) -> Machines {
    simulation::<KIND>(drawn).machines(move |sender| drawn.work(sender)).into()
}

fn simulation<const KIND: u8>(drawn: Drawn) -> Simulation<Kept<KIND>> {
    Simulation::of(move || Kept { drawn, ..Kept::default() })
        .invariant(|kept: &Kept<KIND>| assert!(kept.is_sound(), "{} lines, {:?}", kept.log.len(), kept.items))
}

#[cfg(test)]
mod tests {
    use phalanx_sim::{Draw, Options, run_seed};

    use super::*;

    #[test]
    fn a_seed_of_each_kind_holds_and_transfers_states() {
        let options = Options { members: 3, draw: Draw::States, states: Some(states()), ..Options::default() };
        for kind in StateKind::ALL {
            let seed = (0..100).find(|seed| StateKind::always(*seed) == kind).expect("each kind comes");
            let result = run_seed(seed, &options);
            assert_eq!(result.violations, [], "{}", result.story.unwrap_or_default());
            assert!(result.counters.deliveries > 100 && result.counters.transfers > 0, "{kind:?}, seed {seed}");
        }
    }

    #[test]
    fn a_refused_state_is_met_and_is_no_violation() {
        let options = Options { draw: Draw::States, states: Some(states()), ..Options::default() };
        let seeds = (0..200).filter(|seed| StateKind::always(*seed) == StateKind::Refusing);
        let results = seeds.map(|seed| run_seed(seed, &options));
        let refused = |counters: &phalanx_sim::Counters| {
            counters.moments.get("states that their application refused").copied().unwrap_or(0)
        };
        let met = results.into_iter().find(|result| refused(&result.counters) > 0).expect("some seed refuses one");
        assert_eq!(met.violations, [], "{}", met.story.unwrap_or_default());
    }
}
