//! Properties of levels: invariants, and states that must be reached.

use stateright::Property;

use super::state::{Phase, View};
use super::{Levels, Missing, State};

/// One value per decree, including entries that the coordinator does not know.
pub const ONE_VALUE: &str = "one decree decides one value, unknown entries included";
/// See the property.
pub const NO_FALL: &str = "the level never falls from view to view";
/// See the property.
pub const FOLLOWED: &str = "every member of a view can follow its level";
/// See the property.
pub const LOCKED_OUT: &str = "the level rises past no member that was there since the command was given";
/// See the property.
pub const NOT_ABOVE: &str = "nothing is said above the level of the view it is said in";
/// See the property.
pub const SENSE: &str = "what members say makes sense to whoever hears it";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(model: &Levels) -> Vec<Property<Levels>> {
    let mut all = vec![
        Property::always(ONE_VALUE, one_value),
        Property::always(NO_FALL, |m: &Levels, s: &State| steps(m, s).all(|(before, next)| next.level >= before.level)),
        Property::always(FOLLOWED, |m: &Levels, s: &State| {
            steps(m, s).all(|(_, next)| m.can_follow(next.members, next.level))
        }),
        Property::always(LOCKED_OUT, nobody_locked_out),
        Property::always(NOT_ABOVE, |m: &Levels, s: &State| said(m, s).all(|said| said.level <= said.of_view)),
        Property::always(SENSE, makes_sense),
    ];
    let founders_can = model.can_follow(model.founders, 2);
    if model.commands > 0 && founders_can {
        all.push(Property::sometimes("the level rises", |m: &Levels, s: &State| rises(m, s).next().is_some()));
        all.push(Property::sometimes("a member lags behind a rise", |m: &Levels, s: &State| {
            rises(m, s).any(|(before, _)| {
                let lags = |r: usize| before.members & 1 << r != 0 && s.processes[r].lives;
                (0..m.processes()).any(|r| lags(r) && s.view(s.processes[r].view).is_some_and(|v| v.level < 2))
            })
        }));
        if model.ballots > 1 {
            all.push(Property::sometimes("a rise is adopted", |m: &Levels, s: &State| {
                adopted(m, s).any(|(_, view)| view.settings != 0)
            }));
        }
    }
    let joiner_brings = (0..model.processes()).any(|r| model.founders & 1 << r == 0 && model.builds[r] > 1);
    if joiner_brings && model.ballots > 1 && !founders_can {
        all.push(Property::sometimes("build 1 adopts entries that it does not know", |m: &Levels, s: &State| {
            adopted(m, s).any(|(by, view)| m.builds[by] == 1 && view.records != 0)
        }));
    }
    if model.decrees > 1 && !model.can_follow((1 << model.processes()) - 1, 2) && model.commands > 0 {
        all.push(Property::sometimes(
            "the level rises after a member that could not follow is gone",
            |m, s: &State| {
                let gone = |view: &View| steps(m, s).any(|(b, _)| !m.can_follow(b.members & !view.members, 2));
                rises(m, s).any(|(before, _)| gone(before))
            },
        ));
    }
    all
}

/// Each decided view with the one before it.
fn steps<'a>(m: &'a Levels, s: &'a State) -> impl Iterator<Item = (&'a View, &'a View)> {
    (1..=m.decrees)
        .filter_map(|decree| Some((s.view(decree as u8)?, decree)))
        .flat_map(|(before, decree)| s.decisions(decree).map(move |next| (before, next)))
}

fn rises<'a>(m: &'a Levels, s: &'a State) -> impl Iterator<Item = (&'a View, &'a View)> {
    steps(m, s).filter(|(before, next)| next.level > before.level)
}

/// Proposals decided in another coordinator's ballot than the one they were built in, with the deciding coordinator.
fn adopted<'a>(m: &'a Levels, s: &'a State) -> impl Iterator<Item = (usize, &'a View)> {
    let coordinator = |ballot: usize| (ballot - 1) % m.processes();
    s.tries.iter().flat_map(|tries| (1..).zip(tries)).filter(|(_, t)| t.phase == Phase::Decided).filter_map(
        move |(number, t)| {
            let by = coordinator(number);
            (coordinator(usize::from(t.proposal.origin)) != by).then_some((by, &t.proposal))
        },
    )
}

fn one_value(m: &Levels, s: &State) -> bool {
    (1..=m.decrees).all(|decree| {
        let mut values = s.decisions(decree);
        let first = values.next();
        values.all(|v| Some(v) == first)
    })
}

/// Every member of any view since the command can follow, even if the others do not hear it at the moment.
fn nobody_locked_out(m: &Levels, s: &State) -> bool {
    (1..=m.decrees).all(|decree| {
        let rose = s.decisions(decree).find(|next| s.view(decree as u8).is_some_and(|b| next.level > b.level));
        rose.is_none_or(|next| {
            let since = (next.wished..=decree as u8).filter_map(|number| s.view(number));
            m.can_follow(since.fold(0, |set, view| set | view.members), next.level)
        })
    })
}

/// A message that a member sent to a process.
struct Said {
    /// The level at which it is sent.
    level: u8,
    /// The level of the view in which it is sent.
    of_view: u8,
    /// The receiver.
    to: usize,
    /// Whether the receiver is a member of that view.
    to_member: bool,
}

/// The messages that may be in flight: every process may have sent in any view it was in, to any other.
fn said<'a>(m: &'a Levels, s: &'a State) -> impl Iterator<Item = Said> + 'a {
    let speakers = (0..m.processes()).flat_map(move |by| (1..=s.processes[by].view).map(move |view| (by, view)));
    let views =
        speakers.filter_map(|(by, number)| s.view(number).filter(|v| v.members & 1 << by != 0).map(|v| (by, v)));
    views.flat_map(move |(by, view)| {
        (0..m.processes()).filter(move |&to| to != by).map(move |to| {
            let to_member = view.members & 1 << to != 0;
            let level = match (m.missing, to_member) {
                (Some(Missing::SpeaksAsBuilt), _) => m.builds[by],
                (Some(Missing::SpeaksToStrangers), _) | (_, true) => view.level,
                (_, false) => 1,
            };
            Said { level, of_view: view.level, to, to_member }
        })
    })
}

fn makes_sense(m: &Levels, s: &State) -> bool {
    said(m, s).all(|said| {
        let own = || s.view(s.processes[said.to].view).map_or(1, |view| view.level);
        let judged_by = if m.lacks(Missing::JudgesByOwnView) { own() } else { said.of_view };
        said.level <= m.builds[said.to] && (!said.to_member || said.level <= judged_by)
    })
}
