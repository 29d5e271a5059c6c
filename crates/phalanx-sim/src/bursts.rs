//! Abcasts in bursts, by one member for a while and then by another, which makes the token of the total order move.

use phalanx_core::rng::Rng;
use phalanx_core::{Limits, Order, Uniformity};

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Role, Shape};
use crate::plan::{Bursts, Plan};
use crate::world::{Event, World};

/// Draws the tally of a seed. In most seeds it is so small that the token passes with every few messages.
pub(crate) fn draw_tally(rng: &mut Rng) -> u64 {
    if rng.chance_ppm(700_000) { 4 + rng.below(61) } else { Limits::default().token_tally }
}

/// Draws the bursts of a seed, if it has any. The token holder checks once in `tally` abcasts which member sends most.
fn draw_bursts(rng: &mut Rng, tally: u64) -> Option<Bursts> {
    if !rng.chance_ppm(400_000) {
        return None;
    }
    // One or two bursts reach a small tally; the shipped one takes a row of longer bursts.
    let messages = [tally / 2 + 1, tally, tally + 4, 2 * tally][index(rng, 4)].min(100);
    let gap_ns = [MS, 2 * MS, 5 * MS, 20 * MS][index(rng, 4)];
    let to_pass = (tally + tally / 4) / messages + 1;
    let bursts = Bursts {
        senders: [1, 2, 2, 3][index(rng, 4)],
        turns: to_pass * [1, 1, 4][index(rng, 3)],
        messages,
        gap_ns,
        spell_ns: 200 * MS + rng.below(800) * MS,
        rest_ns: 0,
        uniform_ppm: [0, 0, 300_000, 1_000_000][index(rng, 4)],
    };
    let spells = (MESSAGES_MAX / (bursts.spell_ns / gap_ns * messages)).max(1);
    Some(Bursts { rest_ns: (RUN_NS / spells).saturating_sub(bursts.spell_ns).max(100 * MS), ..bursts })
}

/// Adds bursts to `plan`, in some seeds, and one-way links that lose everything for part of a second. Announcements of
/// one token holder are then late at one member, and those of the next holder are not.
pub(crate) fn add_bursts(rng: &mut Rng, plan: &mut Plan) {
    plan.bursts = draw_bursts(rng, plan.token_tally);
    if plan.bursts.is_none() || plan.mild {
        return;
    }
    for _ in 0..1 + rng.below(3) {
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 4 * SECOND);
        let [from, to] = [(); 2].map(|()| Role::Slot(index(rng, 64)));
        let lasts_ns = 100 * MS + rng.below(600) * MS;
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::Cut(Shape::OneWay(from, to)), lasts_ns });
    }
}

impl World {
    /// Begins a spell if a fault strikes while all are silent.
    pub(crate) fn burst_in_fault(&mut self) {
        if self.settings.bursts.is_some() && self.now_ns >= BURSTS_FROM_NS.max(self.bursting.until_ns) {
            self.bursting.epoch += 1;
            self.queue.push(self.now_ns, Event::Burst { epoch: self.bursting.epoch });
        }
    }

    /// Sends the next burst.
    pub(crate) fn burst(&mut self, epoch: u32) {
        let (Some(bursts), true) = (self.settings.bursts, self.sending) else { return };
        let (now_ns, members) = (self.now_ns, self.slots.len());
        let state = &mut self.bursting;
        if epoch != state.epoch || state.total > 2 * MESSAGES_MAX {
            return;
        }
        if now_ns >= state.until_ns {
            (state.until_ns, state.count) = (now_ns + bursts.spell_ns, 0);
            state.first = index(&mut state.rng, members);
        }
        let turn = usize::try_from(state.count / bursts.turns.max(1)).unwrap_or(0) % bursts.senders.clamp(1, members);
        let sender = (state.first + turn) % members;
        state.count += 1;
        state.total += bursts.messages;
        let next_ns = now_ns + bursts.gap_ns / 2 + state.rng.below(bursts.gap_ns);
        let next_ns = if next_ns < state.until_ns { next_ns } else { state.until_ns + bursts.rest_ns };
        self.queue.push(next_ns, Event::Burst { epoch });
        self.burst_of(sender, &bursts);
    }

    fn burst_of(&mut self, index: usize, bursts: &Bursts) {
        let slot = &self.slots[index];
        if slot.node.is_none() || slot.paused || slot.leaving || !slot.app.wanted.contains_key("a") {
            return;
        }
        let Some((group, _)) = slot.app.member_of("a") else { return };
        for _ in 0..bursts.messages {
            let uniformity = Uniformity::from_flag(self.bursting.rng.chance_ppm(bursts.uniform_ppm));
            let len = 9 + self.bursting.rng.below(30);
            self.multicast_bytes(index, group, Order::Total, uniformity, 0, len);
        }
    }
}

/// Approximate number of burst messages in one run; at most twice as many.
const MESSAGES_MAX: u64 = 6_000;
/// Approximate time for which a run multicasts.
const RUN_NS: u64 = 28 * SECOND;
/// Time by which the cell is founded.
pub(crate) const BURSTS_FROM_NS: u64 = 2 * SECOND;
