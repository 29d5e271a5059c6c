//! Families of cells, which differ in how far their members are from each other.

use super::{DECIDES, Fault, Missing, Waits};
use crate::explore::course;

/// States of one cell after which its exploration is given up.
const STATES_MAX: usize = 1_000_000;

/// Cells with each combination of these delays.
#[derive(Clone, Debug)]
pub struct Family {
    /// What the cells have in common.
    pub cell: Waits,
    /// Ticks that a message may take.
    pub delays: Vec<u16>,
    /// A path may be longer in one direction than in the other.
    pub directed: bool,
}

/// What the exploration of a family found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Cells.
    pub cells: usize,
    /// States of all of them.
    pub states: usize,
    /// The longest run, in ticks, of those that end.
    pub longest: usize,
    /// Cells with a run that never comes to a decree.
    pub endless: usize,
    /// The first of them, and the length of such a run until it repeats itself.
    pub example: Option<(String, usize)>,
    /// Cells with too many states.
    pub cut: usize,
}

impl Family {
    fn new(members: usize, delays: &[u16], fault: Fault) -> Self {
        Self { cell: Waits { fault, ..Waits::new(members) }, delays: delays.to_vec(), directed: false }
    }

    /// A description of the family for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let Waits { members, fault, measured, spread, jitter, .. } = self.cell;
        let directed = if self.directed { ", each direction by itself" } else { "" };
        format!(
            "waits: members {members} delays {:?}{directed} fault {fault:?} measured {measured} spread {spread} jitter {jitter}",
            self.delays
        )
    }

    /// Its cells.
    fn cells(&self) -> Vec<Waits> {
        let members = self.cell.members;
        let mut cells = vec![self.cell.clone()];
        for one in 0..members {
            for other in (0..members).filter(|other| if self.directed { *other != one } else { *other > one }) {
                let each = |cell: Waits| {
                    self.delays.iter().map(move |&delay| {
                        let mut cell = cell.clone();
                        cell.delay[one][other] = delay;
                        if !self.directed {
                            cell.delay[other][one] = delay;
                        }
                        cell
                    })
                };
                cells = cells.into_iter().flat_map(each).collect();
            }
        }
        cells
    }

    /// Explores every run of each cell.
    #[must_use]
    pub fn explore(&self) -> Explored {
        let mut all = Explored::default();
        for cell in self.cells() {
            let found = course(&cell, |s| s.decided, STATES_MAX);
            all.cells += 1;
            all.states += found.states;
            all.cut += usize::from(found.cut);
            match found.endless {
                Some(run) => {
                    all.endless += 1;
                    all.example.get_or_insert_with(|| (cell.describe(), run.len()));
                }
                None => all.longest = all.longest.max(found.longest),
            }
        }
        all
    }
}

/// The families of the test, and those of the long run.
#[must_use]
pub fn cases(long: bool) -> Vec<Family> {
    let all = |members: usize| {
        let stopped = (0..members).map(Fault::Stopped);
        [Fault::None, Fault::Deaf(0), Fault::HalfDeaf(0)].into_iter().chain(stopped)
    };
    let mut families = Vec::new();
    for measured in [false, true] {
        for fault in all(3) {
            let mut family = Family::new(3, &[1, 4, 12], fault);
            family.cell.measured = measured;
            families.push(family);
        }
    }
    if long {
        for fault in all(3) {
            families.push(Family { directed: true, ..Family::new(3, &[1, 4, 12], fault) });
        }
        for fault in all(4) {
            let mut family = Family::new(4, &[1, 12], fault);
            family.cell.spread = 2;
            families.push(family);
        }
    }
    families
}

/// Families that show the lack of a rule, and the property that breaks in one of them. `None`: it breaks in none, because
/// the rule is no condition.
#[must_use]
pub fn without(missing: Missing) -> (Vec<Family>, Option<&'static str>) {
    let with = |fault| {
        let mut family = Family::new(3, &[1, 4, 12], fault);
        family.cell.missing = Some(missing);
        family
    };
    match missing {
        Missing::NoRival | Missing::NoDistance => (vec![with(Fault::None)], Some(DECIDES)),
        Missing::MuteAnew | Missing::GivenUp | Missing::GivenUpHeeded => (vec![with(Fault::Deaf(0))], Some(DECIDES)),
        Missing::NoTurns
        | Missing::NoDoubling
        | Missing::NotRenewed
        | Missing::NoVain
        | Missing::NoBackoff
        | Missing::Announced => (vec![with(Fault::None), with(Fault::Deaf(0)), with(Fault::HalfDeaf(0))], None),
    }
}
