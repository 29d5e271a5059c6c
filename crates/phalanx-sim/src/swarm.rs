//! Draws the faults of one seed.

use phalanx_core::rng::Rng;
use phalanx_core::wire;

use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Busy, Fault, Kind, Reach, Role, Shape};
use crate::plan::Plan;
use crate::weather::{Toll, Weather};

/// Draws the faults of a plan: some kinds, random strengths, more than half of them aimed.
pub(crate) fn draw_swarm(rng: &mut Rng, plan: &Plan) -> Vec<Fault> {
    let enabled: Vec<usize> = loop {
        let drawn: Vec<usize> = (0..KINDS).filter(|_| rng.chance_ppm(350_000)).collect();
        if drawn.len() >= 2 {
            break drawn;
        }
    };
    // A third of the seeds disturb the founding; the others let the cell form first.
    let first_ns = if rng.chance_ppm(333_333) { 0 } else { 3 * SECOND };
    let span_ns = plan.heal_ns - first_ns - SECOND;
    let count = 3 + rng.below(8);
    let mut faults = Vec::new();
    let mut aimed = false;
    for _ in 0..count {
        let at_ns = first_ns + rng.below(span_ns);
        let which = enabled[index(rng, enabled.len())];
        let lasts_ns = [50 * MS, 300 * MS, 1500 * MS, 5 * SECOND][index(rng, 4)] / 2;
        let lasts_ns = lasts_ns + rng.below(2 * lasts_ns);
        let Some(kind) = draw_kind(rng, which, plan) else {
            draw_crowd(rng, which, plan, at_ns, &mut faults);
            continue;
        };
        // The first is always aimed, and so are more than half of the others.
        if !aimed || rng.chance_ppm(550_000) {
            aimed = true;
            let busy = [Busy::Flush, Busy::Proposal, Busy::Join, Busy::Transfer][index(rng, 4)];
            faults.push(Fault { aim: Aim::At(at_ns), kind: provoke(rng, busy), lasts_ns: 2 * SECOND });
            let aim = Aim::Inside { busy, from_ns: at_ns, after_ns: after_ns(rng, plan.weather.base_ns) };
            faults.push(Fault { aim, kind, lasts_ns });
        } else {
            let aim = Aim::At(at_ns);
            faults.push(Fault { aim, kind, lasts_ns });
        }
    }
    faults
}

/// Draws faults of several processes at once: coordinators one after the other, each inside the view change of the one
/// before; many that crash or leave, and come back, in the same instant; or all of them, if the cell need not survive.
fn draw_crowd(rng: &mut Rng, which: usize, plan: &Plan, at_ns: u64, faults: &mut Vec<Fault>) {
    let back_ns = rng.chance_ppm(800_000).then(|| 100 * MS + rng.below(2 * SECOND));
    let mut add = |aim, kind| faults.push(Fault { aim, kind, lasts_ns: 0 });
    if which == CASCADE {
        let moved = rng.chance_ppm(300_000);
        let crash = Kind::Crash { role: Role::Coordinator, back_ns, moved };
        add(Aim::At(at_ns), crash);
        for _ in 0..1 + rng.below(3) {
            let busy = [Busy::Flush, Busy::Proposal][index(rng, 2)];
            add(Aim::Inside { busy, from_ns: at_ns, after_ns: rng.below(6 * plan.weather.base_ns) }, crash);
        }
        return;
    }
    let leave = rng.chance_ppm(500_000);
    let who = if plan.lethal { u64::MAX } else { rng.next_u64() };
    for slot in (0..plan.members).filter(|slot| who >> (slot % 64) & 1 == 1) {
        let role = Role::Slot(slot);
        let kind = if leave { Kind::Leave { role, back_ns } } else { Kind::Crash { role, back_ns, moved: false } };
        add(Aim::At(at_ns), kind);
    }
}

/// Draws a fault that makes a process busy, so that a fault aimed at that activity has its moment.
fn provoke(rng: &mut Rng, busy: Busy) -> Kind {
    let soon = Some(300 * MS + rng.below(SECOND));
    match busy {
        Busy::Flush | Busy::Gathering | Busy::Proposal => match rng.below(3) {
            0 => Kind::Crash { role: Role::Bystander, back_ns: soon, moved: false },
            1 => Kind::Leave { role: Role::Bystander, back_ns: soon },
            _ => Kind::Pause(Role::Bystander),
        },
        Busy::Join | Busy::Welcome | Busy::Founding => Kind::Leave { role: Role::Bystander, back_ns: soon },
        Busy::Transfer | Busy::Incomplete | Busy::Ahead | Busy::Tenth(_) => Kind::Regroup(Role::Bystander),
    }
}

/// Draws a delay within the steps of a flush: none, some trips, or up to half a second.
fn after_ns(rng: &mut Rng, trip_ns: u64) -> u64 {
    match rng.below(4) {
        0 => 0,
        1 | 2 => rng.below(8 * trip_ns),
        _ => rng.below(500 * MS),
    }
}

/// Adds faults of shared memory to those of `plan`; half of them are aimed.
pub(crate) fn draw_memory_faults(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..1 + rng.below(4) {
        let role = draw_role(rng);
        let kind = match rng.below(3) {
            0 => Kind::Lapped { role, ppm: [2_000, 20_000, 200_000][index(rng, 3)] },
            1 => Kind::LateMemory { role, lag_ns: [MS, 5 * MS, 50 * MS][index(rng, 3)] },
            _ => Kind::Detach(role),
        };
        let from_ns = rng.below(plan.heal_ns - SECOND);
        let busy = [Busy::Flush, Busy::Proposal, Busy::Join, Busy::Transfer][index(rng, 4)];
        let inside = Aim::Inside { busy, from_ns, after_ns: after_ns(rng, plan.weather.base_ns) };
        let aim = if rng.chance_ppm(500_000) { inside } else { Aim::At(from_ns) };
        plan.faults.push(Fault { aim, kind, lasts_ns: [5 * MS, 50 * MS, 500 * MS, 4 * SECOND][index(rng, 4)] });
    }
}

fn draw_role(rng: &mut Rng) -> Role {
    match rng.below(7) {
        0 | 1 => Role::Coordinator,
        2 | 3 => Role::Joiner,
        4 => Role::Bystander,
        _ => Role::Slot(index(rng, 64)),
    }
}

fn draw_shape(rng: &mut Rng, members: usize) -> Shape {
    match rng.below(8) {
        0 => Shape::OneWay(draw_role(rng), draw_role(rng)),
        1 => Shape::Pair(draw_role(rng), draw_role(rng)),
        2 => Shape::Isolate(draw_role(rng)),
        3 => Shape::Deaf(draw_role(rng)),
        4 => Shape::Mute(draw_role(rng)),
        5 => Shape::Halves(1 + rng.below((1_u64 << members.min(62)) - 2)),
        6 => Shape::Ring,
        _ => Shape::Blackout,
    }
}

fn draw_reach(rng: &mut Rng) -> Reach {
    match rng.below(3) {
        0 => Reach::Everywhere,
        1 => Reach::Around(draw_role(rng)),
        _ => Reach::Towards(draw_role(rng)),
    }
}

/// Number of kinds in [`draw_kind`] and [`draw_crowd`] together.
const KINDS: usize = 27;
const CASCADE: usize = 25;

/// Draws a kind of fault for one process or some links; `None`: it is one for [`draw_crowd`].
fn draw_kind(rng: &mut Rng, which: usize, plan: &Plan) -> Option<Kind> {
    let calm = plan.weather;
    let role = draw_role(rng);
    let storm = |what, reach, weather| Kind::Storm { what, reach, weather };
    let kind = match which {
        0 => {
            let loss_ppm = [10_000, 50_000, 200_000, 400_000][index(rng, 4)];
            storm("loss", draw_reach(rng), Weather { loss_ppm, ..calm })
        }
        1 => {
            let (burst_ppm, burst_end_ppm) = (10_000, 50_000 + draw_u32(rng, 150_000));
            let weather = Weather { burst_ppm, burst_end_ppm, ..calm };
            storm("burst", draw_reach(rng), weather)
        }
        2 => {
            let duplicate_ppm = [10_000, 100_000, 500_000][index(rng, 3)];
            storm("duplicate", draw_reach(rng), Weather { duplicate_ppm, ..calm })
        }
        3 => {
            let jitter_ns = [2 * MS, 20 * MS, 100 * MS][index(rng, 3)];
            let weather = Weather { jitter_ns, in_order: false, ..calm };
            storm("jitter", draw_reach(rng), weather)
        }
        4 => {
            let (spike_ppm, spike_ns) = (20_000 + draw_u32(rng, 200_000), 3 * SECOND);
            let weather = Weather { spike_ppm, spike_ns, in_order: rng.chance_ppm(300_000), ..calm };
            storm("spikes", draw_reach(rng), weather)
        }
        5 => {
            let corrupt_ppm = [10_000, 100_000, 500_000][index(rng, 3)];
            storm("corrupt", draw_reach(rng), Weather { corrupt_ppm, ..calm })
        }
        6 => {
            let rate_bytes = [30_000, 200_000, 1_000_000][index(rng, 3)];
            storm("narrow", draw_reach(rng), Weather { rate_bytes, ..calm })
        }
        7..=9 => Kind::Cut(draw_shape(rng, plan.members)),
        10 => Kind::Flap {
            shape: draw_shape(rng, plan.members),
            period_ns: [20 * MS, 200 * MS, 1200 * MS][index(rng, 3)],
        },
        11 => Kind::Mtu { role, bytes: [600, 1000, 1300][index(rng, 3)] },
        12 => Kind::Buffer { role, bytes: [0, 3_000, 10_000, 40_000][index(rng, 4)] },
        13 | 14 => Kind::Crash {
            role,
            back_ns: rng.chance_ppm(700_000).then(|| 10 * MS + rng.below(3 * SECOND)),
            moved: rng.chance_ppm(500_000),
        },
        15 => Kind::Pause(role),
        16 => match rng.below(3) {
            0 => Kind::ClockJump { role, by_ns: 100 * MS + rng.below(10 * SECOND) },
            1 => Kind::SlowReader(role),
            _ => Kind::Slow { role, turn_ns: MS + rng.below(20 * MS) },
        },
        17 => Kind::Leave { role, back_ns: rng.chance_ppm(700_000).then(|| 100 * MS + rng.below(2 * SECOND)) },
        18 => Kind::Regroup(role),
        19 => match rng.below(5) {
            0 | 1 => Kind::Replay(100 + rng.below(2_000)),
            2 | 3 => Kind::Forge(100 + rng.below(2_000)),
            _ => Kind::Noise(100 + rng.below(2_000)),
        },
        20 | 21 => Kind::CrashSending {
            role,
            packets: draw_u32(rng, 24),
            back_ns: rng.chance_ppm(800_000).then(|| 10 * MS + rng.below(3 * SECOND)),
        },
        22 => Kind::Drift { role, ppm: [200, -200, 20_000, -20_000, 100_000, -100_000][index(rng, 6)] },
        23 | 24 => Kind::ByKind {
            reach: draw_reach(rng),
            kind: wire::Kind::ALL[index(rng, wire::Kind::ALL.len())],
            toll: Toll {
                loss_ppm: [0, 0, 300_000, 1_000_000][index(rng, 4)],
                delay_ns: [0, 20 * MS, 300 * MS, 2 * SECOND][index(rng, 4)],
            },
        },
        _ => return None,
    };
    Some(kind)
}

/// Adds to some seeds two coordinators, one after the other, whose proposals do not get through, and a fault that
/// begins a view change.
pub(crate) fn add_rivals(rng: &mut Rng, plan: &mut Plan) {
    if plan.mild || plan.lethal || !rng.chance_ppm(RIVALS_PPM) {
        return;
    }
    let at_ns = 4 * SECOND + rng.below(plan.heal_ns - 9 * SECOND);
    plan.faults.push(Fault { aim: Aim::At(at_ns), kind: Kind::Regroup(Role::Bystander), lasts_ns: 0 });
    let aim = Aim::Inside { busy: Busy::Gathering, from_ns: at_ns, after_ns: 0 };
    plan.faults.push(Fault { aim, kind: Kind::Rivals, lasts_ns: 2 * SECOND + rng.below(3 * SECOND) });
}

const RIVALS_PPM: u32 = 200_000;

fn draw_u32(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound))).unwrap_or(0)
}
