//! When a cell is well again: all are in one view, and messages and calls get from everybody to everybody.

use std::collections::BTreeMap;

use super::report::{Answered, Pulse};

/// A member as it last told of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// The life that it is in; 0 before the first.
    pub(super) life: u64,
    /// How often it told since its process was started.
    pub(super) pulses: u64,
    pub(super) pulse: &'a Pulse,
}

/// How far a cell has recovered.
///
/// A member may begin another life meanwhile: an exclusion that was decided as the fault ended is told when all seem to be in
/// one view again. What the life before said would be waited for in vain, so everything begins anew.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    lives: Vec<u64>,
    /// Whether all were in one view at the last look.
    agreed: bool,
    step: Step,
}

/// What is waited for.
#[derive(Debug, Default)]
enum Step {
    /// One view of all.
    #[default]
    View,
    /// That everybody tells once more than so many times: it then knows of all that was sent before.
    Told(Vec<u64>),
    /// Of everybody a message that was sent later than the last one of that life.
    Messages { sent: BTreeMap<u64, u64>, answered: Vec<Answered> },
    /// That everybody has one more answer from each of the others.
    Calls { answered: Vec<Answered> },
}

impl Recovery {
    /// Goes on as far as it can with what is seen now; `agreed`: all are in one view. True: the cell is well.
    pub(super) fn look(&mut self, members: &[Seen<'_>], agreed: bool) -> bool {
        let lives: Vec<u64> = members.iter().map(|member| member.life).collect();
        if lives != self.lives {
            *self = Self { lives, ..Self::default() };
        }
        self.agreed = agreed;
        if !agreed {
            return false;
        }
        match &self.step {
            Step::View => self.step = Step::Told(members.iter().map(|member| member.pulses).collect()),
            Step::Told(before) => {
                if members.iter().zip(before).all(|(member, before)| member.pulses > *before) {
                    let sent = members.iter().map(|member| (member.life, member.pulse.sent)).collect();
                    let answered = members.iter().map(|member| member.pulse.answered.clone()).collect();
                    self.step = Step::Messages { sent, answered };
                }
            }
            Step::Messages { sent, answered } => {
                if members.iter().all(|member| has_heard_more(member.pulse, sent)) {
                    self.step = Step::Calls { answered: answered.clone() };
                }
            }
            Step::Calls { answered } => {
                let others = members.len() - 1;
                return members.iter().zip(answered).all(|(m, before)| answered_since(m.pulse, before) == others);
            }
        }
        false
    }

    /// What is missing.
    pub(super) fn lacks(&self) -> &'static str {
        match self.step {
            _ if !self.agreed => "no common view of all",
            Step::View | Step::Told(_) => "a member reports nothing any more",
            Step::Messages { .. } => "all are in one view, but messages did not flow",
            Step::Calls { .. } => "all are in one view, but calls were not answered",
        }
    }
}

fn has_heard_more(pulse: &Pulse, sent: &BTreeMap<u64, u64>) -> bool {
    let heard: BTreeMap<u64, u64> = pulse.heard.iter().copied().collect();
    sent.iter().all(|(who, number)| heard.get(who).is_some_and(|last| last > number))
}

/// How many endpoints have answered more calls than they had.
fn answered_since(pulse: &Pulse, before: &Answered) -> usize {
    pulse.answered.iter().filter(|(at, count)| before.get(at).is_none_or(|before| *count > before)).count()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A cell of two, each of which hears all that was sent so far, and is answered by the other.
    struct Cell {
        lives: [u64; 2],
        pulses: u64,
        sent: u64,
        calls: u64,
    }

    impl Cell {
        const YOUNG: Self = Self { lives: [1, 2], pulses: 0, sent: 0, calls: 0 };

        fn look(&self, recovery: &mut Recovery, agreed: bool) -> bool {
            let pulse = |other: u8| Pulse {
                sent: self.sent,
                heard: self.lives.iter().map(|life| (*life, self.sent)).collect(),
                answered: Answered::from([(IpAddr::from([10, 77, 0, other]), self.calls)]),
                ..Pulse::default()
            };
            let told = [pulse(2), pulse(1)];
            let seen = |(life, pulse)| Seen { life, pulses: self.pulses, pulse };
            recovery.look(&self.lives.into_iter().zip(&told).map(seen).collect::<Vec<_>>(), agreed)
        }

        /// Everybody sends, calls and tells.
        fn go_on(&mut self) {
            self.pulses += 1;
            self.sent += 1;
            self.calls += 1;
        }

        /// How often all is looked at until it is well.
        fn looks(&mut self, recovery: &mut Recovery) -> Option<usize> {
            (1..20).find(|_| {
                self.go_on();
                self.look(recovery, true)
            })
        }
    }

    #[test]
    fn a_cell_is_well_when_messages_and_calls_get_through() {
        let (mut cell, mut recovery) = (Cell::YOUNG, Recovery::default());
        assert!(!cell.look(&mut recovery, false));
        assert_eq!(recovery.lacks(), "no common view of all");
        assert_eq!(cell.looks(&mut recovery), Some(4));
    }

    #[test]
    fn who_stands_still_is_not_well_and_it_is_told_why() {
        let (mut cell, mut recovery) = (Cell::YOUNG, Recovery::default());
        let stands = |cell: &Cell, recovery: &mut Recovery| {
            assert!((0..10).all(|_| !cell.look(recovery, true)));
            recovery.lacks()
        };
        assert_eq!(stands(&cell, &mut recovery), "a member reports nothing any more");
        cell.pulses += 1;
        assert_eq!(stands(&cell, &mut recovery), "all are in one view, but messages did not flow");
        cell.sent += 1;
        assert_eq!(stands(&cell, &mut recovery), "all are in one view, but calls were not answered");
        cell.calls += 1;
        assert!(!cell.look(&mut recovery, false), "not while a view is being changed");
        assert!(cell.look(&mut recovery, true));
    }

    #[test]
    fn nothing_is_waited_for_of_a_life_that_ended_meanwhile() {
        for looks in 1..4 {
            let (mut cell, mut recovery) = (Cell::YOUNG, Recovery::default());
            for _ in 0..looks {
                cell.go_on();
                assert!(!cell.look(&mut recovery, true));
            }
            // The exclusion is told, and it comes back.
            cell.lives[0] = 3;
            assert!(!cell.look(&mut recovery, false));
            assert_eq!(cell.looks(&mut recovery), Some(4), "after {looks} looks");
        }
    }
}
