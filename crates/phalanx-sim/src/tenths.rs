//! Deaths, departures and joins inside a state transfer, at each tenth of it.

use phalanx_core::rng::Rng;
use phalanx_core::{GroupId, Incarnation};

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Role};
use crate::pace::Pieces;
use crate::plan::Plan;
use crate::result::add_to;
use crate::slot::Slot;
use crate::workload::MINORITY;
use crate::world::World;

/// Padding of the states where transfers are cut at a tenth, so that tenths are told apart.
const STATE_BYTES: u64 = 120_000;
/// The least speed of interfaces there, in bytes a millisecond: states of all groups pass within the bounds of joins. A
/// plan with slower ones is left as it is.
const EGRESS: u64 = 2_000;
/// Pieces of such a state.
const PIECES: u64 = 40;
/// Tenths of a state.
const TENTHS: u8 = 10;

/// Gives some seeds states that take a while, and faults that strike when so many tenths of one have come. Most are deaths
/// of the donor.
pub(crate) fn add_tenths(rng: &mut Rng, plan: &mut Plan) {
    let is_narrow = plan.egress.is_some_and(|rate| rate < EGRESS);
    if !rng.chance_ppm(250_000) || plan.mild || plan.members < 3 || is_narrow {
        return;
    }
    plan.workload.state_bytes = plan.workload.state_bytes.max(STATE_BYTES);
    let bytes = usize::try_from(plan.workload.state_bytes / PIECES).unwrap_or(1);
    plan.pieces = Some(Pieces { bytes, each_ns: 500_000 + rng.below(1_500_000) });
    plan.egress = plan.egress.or_else(|| Some(EGRESS + rng.below(2_000)));
    let alone = (plan.minority.is_empty() && rng.chance_ppm(400_000)).then(|| index(rng, plan.members));
    plan.minority.extend(alone);
    let first = rng.below(TENTHS.into());
    for step in 0..4 + rng.below(3) {
        // Apart from each other, so that all are drawn alike.
        let tenth = ((first + 3 * step) % u64::from(TENTHS)) as u8;
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 5 * SECOND);
        let taker = Role::Slot(index(rng, plan.members));
        let makes_busy = match alone {
            Some(alone) if step == 0 => Kind::Follow(Role::Slot((alone + 1) % plan.members)),
            _ => Kind::Regroup(taker),
        };
        plan.faults.push(Fault { aim: Aim::At(at_ns), kind: makes_busy, lasts_ns: 0 });
        let back_ns = rng.chance_ppm(800_000).then(|| 100 * MS + rng.below(2 * SECOND));
        let kind = match rng.below(10) {
            0 => Kind::Leave { role: Role::DonorAt(tenth), back_ns },
            1 => Kind::Leave { role: Role::TakerAt(tenth), back_ns },
            2 => Kind::Leave { role: Role::BesideAt(tenth), back_ns },
            3 => Kind::Regroup(Role::BesideAt(tenth)),
            _ => Kind::Crash { role: Role::DonorAt(tenth), back_ns, moved: rng.chance_ppm(200_000) },
        };
        let aim = Aim::Inside { busy: Busy::Tenth(tenth), from_ns: at_ns, after_ns: 0 };
        plan.faults.push(Fault { aim, kind, lasts_ns: 0 });
    }
}

/// Names under which deaths of donors are counted, by tenths of the snapshot that had come.
const DEATHS: [&str; TENTHS as usize] = [
    "donors that died with 0 tenths of their state taken",
    "donors that died with 1 tenth of their state taken",
    "donors that died with 2 tenths of their state taken",
    "donors that died with 3 tenths of their state taken",
    "donors that died with 4 tenths of their state taken",
    "donors that died with 5 tenths of their state taken",
    "donors that died with 6 tenths of their state taken",
    "donors that died with 7 tenths of their state taken",
    "donors that died with 8 tenths of their state taken",
    "donors that died with 9 tenths of their state taken",
];

/// A snapshot on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnTheWay {
    pub(crate) taker: usize,
    pub(crate) donor: Incarnation,
    group: GroupId,
    tenth: u8,
}

/// A process whose donor died.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphaned {
    snapshot: OnTheWay,
    whose: Option<Incarnation>,
    /// States that it was told to be its own, before.
    own_states: u64,
}

/// The snapshot of which a process has so many tenths.
pub(crate) fn takes_at(world: &World, taker: usize, tenth: u8) -> Option<OnTheWay> {
    let process = world.slots[taker].node.as_ref()?.process();
    let (group, donor, ..) = process
        .states_on_the_way()
        .find(|(.., here, all)| here.saturating_mul(TENTHS.into()).checked_div(*all) == Some(tenth.into()))?;
    Some(OnTheWay { taker, donor, group, tenth })
}

/// The first such snapshot whose donor runs.
pub(crate) fn snapshot_at(world: &World, tenth: u8) -> Option<OnTheWay> {
    let takers = (0..world.slots.len()).filter_map(|taker| takes_at(world, taker, tenth));
    takers.into_iter().find(|snapshot| world.slot_of(snapshot.donor).is_some())
}

/// A running process that neither gives nor takes it.
pub(crate) fn beside(world: &mut World, tenth: u8) -> Option<usize> {
    let OnTheWay { taker, donor, .. } = snapshot_at(world, tenth)?;
    let donor = world.slot_of(donor)?;
    let others: Vec<usize> = (0..world.slots.len())
        .filter(|slot| *slot != taker && *slot != donor && world.slots[*slot].runs() && !world.slots[*slot].leaving)
        .collect();
    let spot = usize::try_from(world.rng.below(others.len() as u64)).ok()?;
    others.get(spot).copied()
}

/// The snapshot at which a fault is aimed, now.
pub(crate) fn snapshot_of(world: &World, fault: &Fault) -> Option<OnTheWay> {
    match fault.aim {
        Aim::Inside { busy: Busy::Tenth(tenth), .. } => snapshot_at(world, tenth),
        _ => None,
    }
}

/// Counts what struck inside a snapshot. After a death it is watched who gives the state then.
pub(crate) fn count_in_snapshot(world: &mut World, orphaned: &mut Vec<Orphaned>, snapshot: OnTheWay, kind: &Kind) {
    let name = match kind {
        Kind::Crash { .. } => {
            let slot = &world.slots[snapshot.taker];
            let (whose, own_states) = (slot.incarnation(), slot.app.told.counts().own_states);
            orphaned.push(Orphaned { snapshot, whose, own_states });
            DEATHS[usize::from(snapshot.tenth)]
        }
        Kind::Leave { role: Role::DonorAt(_), .. } => "donors told to leave inside of a snapshot",
        Kind::Leave { role: Role::TakerAt(_), .. } => "joiners told to leave inside of a snapshot",
        Kind::Leave { .. } => "members told to leave beside a snapshot",
        _ => "members that left a group and joined it beside a snapshot",
    };
    add_to(&mut world.counters.moments, name, 1);
}

/// Looks who gives a state whose donor died.
pub(crate) fn watch_orphaned(world: &mut World, orphaned: &mut Vec<Orphaned>) {
    orphaned.retain(|orphaned| {
        let outcome = orphaned.outcome(&world.slots[orphaned.snapshot.taker]);
        outcome.flatten().into_iter().for_each(|name| add_to(&mut world.counters.moments, name, 1));
        outcome.is_none()
    });
}

/// A process joins the minority group too. False: it is in it, or there is none.
pub(crate) fn follow(world: &mut World, slot: usize) -> bool {
    let minority = &mut world.settings.minority;
    let follows = !minority.is_empty() && !minority.contains(&slot);
    if follows {
        minority.push(slot);
        world.note(Some(slot), format!("wants to be in group {MINORITY:?}"));
    }
    follows
}

impl Orphaned {
    /// `None`: it is not known yet. `Some(None)`: it never will be.
    #[expect(clippy::option_option, reason = "whether it is over and what came of it are two answers")]
    fn outcome(&self, slot: &Slot) -> Option<Option<&'static str>> {
        let Some(node) = slot.node.as_ref().filter(|_| slot.incarnation() == self.whose) else { return Some(None) };
        if slot.app.told.counts().own_states > self.own_states {
            return Some(Some("states whose donor died and was the only holder"));
        }
        let is_other = |(group, donor, ..): (GroupId, Incarnation, u64, u64)| {
            group == self.snapshot.group && donor != self.snapshot.donor
        };
        node.process()
            .states_on_the_way()
            .any(is_other)
            .then_some(Some("states whose donor died, begun by another holder"))
    }
}
