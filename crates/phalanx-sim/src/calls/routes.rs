//! The plan of calls that are routed: by group, by member or by address, as the public client makes them.

use phalanx_core::rng::Rng;

use super::plan::{MS, SECOND, pick};

/// The plan of routed calls, and of the servers that only they find.
pub(super) struct RoutesPlan {
    /// Mean time between two calls of a client.
    pub(super) gap_ns: u64,
    /// The longest usual time until a caller learns of a change of the directory.
    pub(super) lag_ns: u64,
    /// Changes in a million of which a caller learns seconds later.
    pub(super) slow_ppm: u32,
    /// The longest time until a process has joined the directory.
    pub(super) join_ns: u64,
    /// The longest time until a view tells of a death.
    pub(super) noticed_ns: u64,
    /// Calls in a million whose callers do not wait for the end.
    pub(super) give_up_ppm: u32,
    /// Number of servers that come and go, besides the others.
    pub(super) visitors: usize,
    /// For each server, visitors last: what it serves from when on, in order of time.
    pub(super) serving: Vec<Vec<(u64, Serves)>>,
    pub(super) visits: Vec<Visit>,
    pub(super) spells: Vec<Spell>,
    /// The longest usual time until a caller is told of a view of the cell.
    pub(super) told_ns: u64,
    pub(super) absences: Vec<Absence>,
}

/// What a server announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    Nothing,
    /// It is found by its member.
    Alone,
    Group(u64),
}

/// A visitor comes or goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) at_ns: u64,
    /// Number of the visitor.
    pub(super) visitor: usize,
    pub(super) comes: bool,
    /// It has another address from now on.
    pub(super) moves: bool,
}

/// A time in which a client's directory is not as it should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    pub(super) at_ns: u64,
    /// Number of the client.
    pub(super) client: usize,
    /// Until when it is excluded; `None`: it has ended.
    pub(super) until_ns: Option<u64>,
}

/// A time in which a server that lives is no member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) at_ns: u64,
    /// Number of the server, visitors last.
    pub(super) server: usize,
    /// A view of the cell is decided without it. Otherwise it is gone from the directory alone.
    pub(super) leaves_cell: bool,
    pub(super) lasts_ns: u64,
}

impl RoutesPlan {
    /// `None`: no call is routed.
    pub(super) fn draw(rng: &mut Rng, servers: usize, clients: usize, faulty_ns: u64) -> Option<Self> {
        if !rng.chance_ppm(400_000) {
            return None;
        }
        let visitors = rng.below(3) as usize;
        let serving = (0..servers + visitors).map(|_| serving(rng, faulty_ns)).collect();
        let visits = (0..visitors).flat_map(|visitor| visits(rng, visitor, faulty_ns)).collect();
        let spells = (0..rng.below(3)).map(|_| spell(rng, clients, faulty_ns)).collect();
        let gap_ns = faulty_ns / pick(rng, &[10, 30, 60]);
        let lag_ns = pick(rng, &[MS / 10, 2 * MS, 20 * MS, 200 * MS]);
        let slow_ppm = pick(rng, &[0, 50_000, 300_000]) as u32;
        let join_ns = pick(rng, &[MS, 50 * MS, 400 * MS]);
        let noticed_ns = pick(rng, &[20 * MS, 300 * MS, 2 * SECOND]);
        let give_up_ppm = pick(rng, &[0, 30_000, 150_000]) as u32;
        let told_ns = pick(rng, &[MS / 10, 2 * MS, 20 * MS, 200 * MS]);
        let absences = (0..rng.below(5)).map(|_| absence(rng, servers + visitors, faulty_ns)).collect();
        Some(Self {
            gap_ns,
            lag_ns,
            slow_ppm,
            join_ns,
            noticed_ns,
            give_up_ppm,
            visitors,
            serving,
            visits,
            spells,
            told_ns,
            absences,
        })
    }
}

fn serves(rng: &mut Rng) -> Serves {
    match rng.below(20) {
        0 => Serves::Nothing,
        1 | 2 => Serves::Alone,
        3..6 => Serves::Group(1),
        _ => Serves::Group(0),
    }
}

fn serving(rng: &mut Rng, faulty_ns: u64) -> Vec<(u64, Serves)> {
    let changes = pick(rng, &[0, 0, 0, 1, 2]);
    let mut at: Vec<u64> = (0..changes).map(|_| rng.below(faulty_ns)).collect();
    at.sort_unstable();
    std::iter::once(0).chain(at).map(|at_ns| (at_ns, serves(rng))).collect()
}

fn visits(rng: &mut Rng, visitor: usize, faulty_ns: u64) -> Vec<Visit> {
    let mut visits = Vec::new();
    let mut at_ns = if rng.chance_ppm(500_000) { 0 } else { rng.below(faulty_ns) };
    while at_ns < faulty_ns {
        let comes = visits.len() % 2 == 0;
        let moves = comes && !visits.is_empty() && rng.chance_ppm(700_000);
        visits.push(Visit { at_ns, visitor, comes, moves });
        at_ns += if comes { rng.below(2 * faulty_ns) } else { 1 + rng.below(500 * MS) };
        if !comes && rng.chance_ppm(300_000) {
            break;
        }
    }
    visits
}

fn spell(rng: &mut Rng, clients: usize, faulty_ns: u64) -> Spell {
    let at_ns = rng.below(faulty_ns);
    let until_ns = rng.chance_ppm(700_000).then(|| at_ns + 1 + rng.below(SECOND));
    Spell { at_ns, client: rng.below(clients as u64) as usize, until_ns }
}

fn absence(rng: &mut Rng, servers: usize, faulty_ns: u64) -> Absence {
    Absence {
        at_ns: rng.below(faulty_ns),
        server: rng.below(servers as u64) as usize,
        leaves_cell: rng.chance_ppm(500_000),
        lasts_ns: 1 + rng.below(SECOND),
    }
}
