//! Rare conditions: ordinary plans with few of their faults, and in each plan the circumstances of one condition that
//! ordinary seeds do not meet, or hardly ever. Most faults here are aimed.

mod kind;

use phalanx_core::rng::Rng;
use phalanx_core::wire;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Holding, Kind, Reach, Readers, Role, Shape};
use crate::plan::Plan;
use crate::unequal::Builds;
use crate::weather::Toll;

/// How many of a million plans of late founders have a founder that is gone instead.
const ABSENT_PPM: u32 = 250_000;
/// The moment at which all processes of a herd have been started, and none has heard another.
const STARTED_NS: u64 = MS / 10;

pub(crate) use kind::Rare;

impl Plan {
    /// The plan of `seed`, with the circumstances of one rare condition and some of its own faults.
    #[must_use]
    pub fn draw_rare(seed: u64, members: usize) -> Self {
        let mut plan = Self::draw_single_inbox(seed, members);
        let mut rng = Rng::new(seed).fork("rare");
        (plan.mild, plan.lethal, plan.twin, plan.minority) = (false, false, None, Vec::new());
        // Few other faults, and none that takes the cell as a whole: the condition is to be met.
        let spares = |fault: &Fault| {
            let is_whole = matches!(
                fault.kind,
                Kind::Empty(_)
                    | Kind::Perish { .. }
                    | Kind::Behead
                    | Kind::Disband
                    | Kind::Strand { .. }
                    | Kind::FoundAgain
            );
            !is_whole
        };
        plan.faults.retain(|fault| spares(fault) && rng.chance_ppm(150_000));
        let rare = Rare::ALL[index(&mut rng, Rare::ALL.len())];
        plan.rare = Some(rare);
        match rare {
            Rare::LateFounders => add_late_founders(&mut rng, &mut plan),
            Rare::FullDisk => add_full_disk(&mut rng, &mut plan),
            Rare::EarlierInstance => add_earlier_instance(&mut rng, &mut plan),
            Rare::UnfitJoiner => add_unfit_joiner(&mut rng, &mut plan),
            Rare::Incomplete => add_incomplete(&mut rng, &mut plan),
            Rare::UnreadPeer => add_unread_peer(&mut rng, &mut plan),
            Rare::LastLeavers => add_last_leavers(&mut rng, &mut plan),
            Rare::RemovedAgain => add_removed_again(&mut rng, &mut plan),
            Rare::Orders => add_orders(&mut rng, &mut plan),
        }
        plan
    }

    fn add(&mut self, aim: Aim, kind: Kind, lasts_ns: u64) {
        self.faults.push(Fault { aim, kind, lasts_ns });
    }
}

/// Names the founders, whose agreed settings are then the same.
fn name_founders(plan: &mut Plan, founders: usize) {
    plan.founders = founders.min(plan.members);
    plan.unequal.clear();
}

/// From the moment at which a list is proposed, the leader's control packets come after the next ballot, or those to
/// the leader do.
fn add_late_founders(rng: &mut Rng, plan: &mut Plan) {
    // What goes through memory comes at once.
    plan.hosts = (1..=plan.members as u64).collect();
    plan.memory = None;
    name_founders(plan, 3 + index(rng, 3));
    if rng.chance_ppm(ABSENT_PPM) {
        return add_absent_founder(rng, plan);
    }
    // What is lost is sent again when the fault is over, and then another founder has led.
    let (reach, toll) = if rng.chance_ppm(500_000) {
        (Reach::From(Role::Leader), Toll { loss_ppm: 1_000_000, delay_ns: 0 })
    } else {
        (Reach::Towards(Role::Leader), Toll { loss_ppm: 0, delay_ns: 1_500 * MS + rng.below(1_500) * MS })
    };
    let kind = Kind::ByKind { reach, kind: wire::Kind::Control, toll };
    let aim = Aim::Inside { busy: Busy::Founding, from_ns: 0, after_ns: 0 };
    plan.add(aim, kind, 1_800 * MS + rng.below(2 * SECOND));
    if rng.chance_ppm(300_000) {
        let at_ns = 6 * SECOND + rng.below(SECOND);
        plan.add(Aim::At(at_ns), Kind::Perish { back_ns: 100 * MS + rng.below(SECOND) }, 0);
    }
}

/// One founder is gone when the last of them starts, and the others have just heard it.
fn add_absent_founder(rng: &mut Rng, plan: &mut Plan) {
    let (last, absent) = (plan.founders - 1, index(rng, plan.founders - 1));
    let starts_ns = SECOND + rng.below(SECOND);
    plan.faults.clear();
    plan.herd = true;
    plan.add(Aim::At(STARTED_NS), Kind::Crash { role: Role::Slot(last), back_ns: Some(starts_ns), moved: false }, 0);
    let gone_ns = STARTED_NS + starts_ns - rng.below(300 * MS);
    plan.add(Aim::At(gone_ns), Kind::Cut(Shape::Isolate(Role::Slot(absent))), 2 * SECOND + rng.below(2 * SECOND));
}

/// Founders whose state directories take nothing for a while: in a founding, and when a cell takes one in whose
/// directory was emptied.
fn add_full_disk(rng: &mut Rng, plan: &mut Plan) {
    name_founders(plan, 2 + index(rng, 4));
    for founder in 0..plan.founders {
        if rng.chance_ppm(500_000) {
            let busy = [Busy::Founding, Busy::Join][index(rng, 2)];
            let aim = Aim::Inside { busy, from_ns: 0, after_ns: 0 };
            plan.add(aim, Kind::FullDisk(Role::Slot(founder)), 100 * MS + rng.below(3_000) * MS);
        }
    }
    for _ in 0..1 + rng.below(2) {
        let at_ns = 5 * SECOND + rng.below(plan.heal_ns - 9 * SECOND);
        let role = Role::Slot(index(rng, plan.founders));
        plan.add(Aim::At(at_ns), Kind::Empty(role), 0);
        plan.add(Aim::At(at_ns + MS), Kind::FullDisk(role), SECOND + rng.below(3_000) * MS);
        plan.add(
            Aim::At(at_ns + 2 * MS),
            Kind::Crash { role, back_ns: Some(100 * MS + rng.below(SECOND)), moved: rng.chance_ppm(300_000) },
            0,
        );
    }
    if rng.chance_ppm(300_000) {
        let at_ns = 5 * SECOND + rng.below(2 * SECOND);
        let kind = if rng.chance_ppm(500_000) { Kind::Behead } else { Kind::Perish { back_ns: 500 * MS } };
        plan.add(Aim::At(at_ns), kind, 0);
        let role = Role::Slot(index(rng, plan.founders));
        plan.add(Aim::At(at_ns + 100 * MS), Kind::FullDisk(role), SECOND + rng.below(3_000) * MS);
    }
}

fn add_earlier_instance(rng: &mut Rng, plan: &mut Plan) {
    plan.members = plan.members.max(5);
    plan.hosts = (1..=plan.members as u64).collect();
    (plan.memory, plan.ruin, plan.builds) = (None, false, None);
    name_founders(plan, 2 + index(rng, 3));
    plan.heal_ns = plan.heal_ns.max(17 * SECOND);
    let at_ns = 3 * SECOND + rng.below(SECOND);
    plan.faults.retain(|fault| matches!(fault.aim, Aim::At(strikes_ns) if strikes_ns + fault.lasts_ns < at_ns));
    plan.add(Aim::At(at_ns), Kind::Estrange, plan.heal_ns - at_ns - 200 * MS);
}

/// The founder of a cell runs an earlier build, and comes back with the later one. Then another process comes back with
/// the earlier one, and somebody asks for the later one's level while the coordinator still gathers joiners.
fn add_unfit_joiner(rng: &mut Rng, plan: &mut Plan) {
    plan.founders = 0;
    let returns = 1 + index(rng, plan.members - 1);
    plan.builds = Some(Builds { raise_ppm: 0, returns: Some(returns), ..Builds::LATE });
    let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 12 * SECOND);
    plan.faults.retain(|fault| matches!(fault.aim, Aim::At(strikes_ns) if strikes_ns > at_ns + 7 * SECOND));
    plan.add(Aim::At(at_ns), Kind::Leave { role: Role::Slot(0), back_ns: Some(200 * MS + rng.below(500) * MS) }, 0);
    let back_ns = 500 * MS + rng.below(SECOND);
    let again_ns = at_ns + 4 * SECOND;
    plan.add(Aim::At(again_ns), Kind::Leave { role: Role::Slot(returns), back_ns: Some(back_ns) }, 0);
    // A decree is under way when it comes, so that the next one has the joiner and the request.
    let comes_ns = again_ns + back_ns;
    let toll = Toll { loss_ppm: 0, delay_ns: 100 * MS + rng.below(100) * MS };
    let late = Kind::ByKind { reach: Reach::Around(Role::Coordinator), kind: wire::Kind::Control, toll };
    plan.add(Aim::At(comes_ns - 50 * MS), late, 400 * MS);
    let other = (1..plan.members).find(|slot| *slot != returns).unwrap_or(0);
    plan.add(Aim::At(comes_ns - 50 * MS), Kind::Regroup(Role::Slot(other)), 0);
    let raise_ns = if rng.chance_ppm(500_000) { 150 * MS } else { rng.below(300) * MS };
    plan.add(Aim::At(comes_ns + raise_ns), Kind::Raise, 0);
}

/// The state of a group comes late to a joiner, which is taken in meanwhile; then a packet makes no sense.
fn add_incomplete(rng: &mut Rng, plan: &mut Plan) {
    plan.egress = None;
    plan.workload.second_group_ppm = 0;
    plan.workload.state_bytes = plan.workload.state_bytes.min(30_000);
    for _ in 0..2 {
        let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 10 * SECOND);
        plan.add(Aim::At(at_ns), Kind::Regroup(Role::Slot(index(rng, plan.members))), 0);
        let toll = Toll { loss_ppm: 0, delay_ns: 300 * MS + rng.below(500) * MS };
        let late = Kind::ByKind { reach: Reach::Towards(Role::Joiner), kind: wire::Kind::Data, toll };
        plan.add(Aim::Inside { busy: Busy::Transfer, from_ns: at_ns, after_ns: 0 }, late, 5 * SECOND);
        let kind = Kind::Nonsense {
            role: [Role::Coordinator, Role::Slot(index(rng, 64))][index(rng, 2)],
            readers: [Readers::One, Readers::Fewer, Readers::More][index(rng, 3)],
            ahead: 1 + rng.below(2),
        };
        let aim = Aim::Inside { busy: Busy::Incomplete, from_ns: at_ns, after_ns: 0 };
        plan.add(aim, kind, SECOND + rng.below(SECOND));
    }
}

/// What a member sends to one other alone makes no sense there, and a third one leaves.
fn add_unread_peer(rng: &mut Rng, plan: &mut Plan) {
    // One of the two has to go, so the others have to be a quorum.
    plan.ruin = false;
    plan.faults.clear();
    let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 9 * SECOND);
    let first = index(rng, plan.members);
    let slot = |step: usize| Role::Slot((first + step) % plan.members);
    let faults = [
        (Aim::At(at_ns), Kind::UnreadPeer { of: slot(0), by: slot(1) }, 2 * SECOND),
        (
            Aim::At(at_ns + 50 * MS + rng.below(500) * MS),
            Kind::Leave { role: slot(2), back_ns: Some(500 * MS + rng.below(2 * SECOND)) },
            0,
        ),
    ];
    faults.into_iter().for_each(|(aim, kind, lasts_ns)| plan.add(aim, kind, lasts_ns));
}

/// All leave in the same instant, or the last few do after the others.
fn add_last_leavers(rng: &mut Rng, plan: &mut Plan) {
    name_founders(plan, 2 + index(rng, 3));
    let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 10 * SECOND);
    let last = if rng.chance_ppm(500_000) { plan.members } else { 2 + index(rng, plan.members - 1) };
    plan.add(Aim::At(at_ns), Kind::LeaveTogether { last }, 0);
    if rng.chance_ppm(400_000) {
        let shape = Shape::Pair(Role::Slot(index(rng, plan.members)), Role::Slot(index(rng, plan.members)));
        plan.add(Aim::At(at_ns + rng.below(SECOND)), Kind::Cut(shape), rng.below(1_500) * MS);
    }
}

/// A link is dead, and one of its ends goes; when it is back, nobody hears it; then another link is dead.
fn add_removed_again(rng: &mut Rng, plan: &mut Plan) {
    plan.members = plan.members.max(4);
    plan.hosts = (1..=plan.members as u64).collect();
    (plan.memory, plan.ruin, plan.builds, plan.unequal) = (None, false, None, Vec::new());
    plan.heal_ns = plan.heal_ns.max(16 * SECOND);
    // The younger end of a link goes, which is the one that was started later.
    let (old, young) = (Role::Slot(index(rng, plan.members - 1)), Role::Slot(plan.members - 1));
    plan.faults.clear();
    let at_ns = 3 * SECOND + rng.below(500) * MS;
    plan.add(Aim::At(at_ns), Kind::Cut(Shape::Pair(old, young)), 4 * SECOND);
    let again_ns = at_ns + 6_500 * MS + rng.below(1_000) * MS;
    plan.add(Aim::At(again_ns), Kind::Cut(Shape::Isolate(young)), 2_500 * MS);
    let other = Role::Slot(index(rng, plan.members - 1));
    plan.add(Aim::At(again_ns + 2 * SECOND), Kind::Cut(Shape::Pair(old, other)), 4 * SECOND);
}

/// Most of what uniform abcasts rest on is lost with the few that hold it, while the token goes round.
fn add_orders(rng: &mut Rng, plan: &mut Plan) {
    plan.token_tally = 5 * (1 + rng.below(3));
    plan.workload.orders = [1, 1, 3];
    plan.workload.uniform_ppm = 500_000;
    for _ in 0..8 {
        let what = [
            Holding::Past,
            Holding::OwnPast,
            Holding::Orders,
            Holding::EarlierOrders,
            Holding::FirstOfPast,
            Holding::Pass,
            Holding::Pass,
        ][index(rng, 7)];
        let back_ns = Some(10 * MS + rng.below(SECOND));
        let kind = Kind::Holders { role: Role::Slot(index(rng, 64)), others: 1 + index(rng, 2), what, back_ns };
        let trips = 12 * (plan.weather.base_ns + plan.weather.jitter_ns);
        let at_ns = 3 * SECOND + rng.below(plan.heal_ns - 5 * SECOND);
        plan.add(Aim::At(at_ns), kind, 40 * MS + trips + rng.below(200 * MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_is_drawn_as_often_as_any_other() {
        let plans: Vec<Plan> = (0..900).map(|seed| Plan::draw_rare(seed, 5)).collect();
        for rare in Rare::ALL {
            let drawn = plans.iter().filter(|plan| plan.rare == Some(rare)).count();
            assert!((60..=140).contains(&drawn), "{}: {drawn}", rare.name());
        }
        assert!(Plan::draw(7, 5).rare.is_none());
    }
}
