//! Detects when a cell has recovered: all are in one view, messages and calls get from everybody to everybody, and everybody is told
//! results of submits.

use std::collections::BTreeMap;

use super::report::{Answered, Pulse};

/// A member as it last reported itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// Its incarnation; 0 before the first.
    pub(super) life: u64,
    /// Number of its pulses since its process was started.
    pub(super) pulses: u64,
    pub(super) pulse: &'a Pulse,
}

/// Progress of a cell's recovery.
///
/// A member may begin another incarnation meanwhile: an exclusion that was decided as the fault ended is announced when
/// all seem to be in one view again. Messages of the earlier incarnation would be awaited without effect, so the
/// detection begins anew.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    lives: Vec<u64>,
    /// Whether all were in one view at the last poll.
    agreed: bool,
    step: Step,
}

/// The next condition.
#[derive(Debug, Default)]
enum Step {
    /// All are in one view.
    #[default]
    View,
    /// Every member has sent more pulses than these counts, and so reported everything it sent before.
    Told(Vec<u64>),
    /// Every member has received from every other a message sent after the last one of that incarnation.
    Messages { sent: BTreeMap<u64, u64>, answered: Vec<Answered> },
    /// Every member has one more answer from each of the others.
    Calls { answered: Vec<Answered> },
    /// Every member was told a result of more submits than these counts.
    Submits(Vec<u64>),
}

impl Recovery {
    /// Advances as far as the current reports allow. `agreed`: all are in one view. True: the cell has recovered.
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
                if members.iter().zip(answered).all(|(m, before)| answered_since(m.pulse, before) == others) {
                    self.step = Step::Submits(members.iter().map(|member| member.pulse.results).collect());
                }
            }
            Step::Submits(before) => return members.iter().zip(before).all(|(m, before)| m.pulse.results > *before),
        }
        false
    }

    /// Describes the missing condition.
    pub(super) fn lacks(&self) -> &'static str {
        match self.step {
            _ if !self.agreed => "no common view of all",
            Step::View | Step::Told(_) => "a member reports nothing any more",
            Step::Messages { .. } => "all are in one view, but messages did not flow",
            Step::Calls { .. } => "all are in one view, but calls were not answered",
            Step::Submits(_) => "all are in one view, but results of submits were not told",
        }
    }
}

fn has_heard_more(pulse: &Pulse, sent: &BTreeMap<u64, u64>) -> bool {
    let heard: BTreeMap<u64, u64> = pulse.heard.iter().copied().collect();
    sent.iter().all(|(who, number)| heard.get(who).is_some_and(|last| last > number))
}

/// Number of endpoints that have answered more calls than in `before`.
fn answered_since(pulse: &Pulse, before: &Answered) -> usize {
    pulse.answered.iter().filter(|(at, count)| before.get(at).is_none_or(|before| *count > before)).count()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A cell of two members. Each receives all messages sent so far, and the other answers its calls.
    struct Cell {
        lives: [u64; 2],
        pulses: u64,
        sent: u64,
        calls: u64,
        results: u64,
    }

    impl Cell {
        const YOUNG: Self = Self { lives: [1, 2], pulses: 0, sent: 0, calls: 0, results: 0 };

        fn look(&self, recovery: &mut Recovery, agreed: bool) -> bool {
            let pulse = |other: u8| Pulse {
                sent: self.sent,
                heard: self.lives.iter().map(|life| (*life, self.sent)).collect(),
                answered: Answered::from([(IpAddr::from([10, 77, 0, other]), self.calls)]),
                results: self.results,
                ..Pulse::default()
            };
            let told = [pulse(2), pulse(1)];
            let seen = |(life, pulse)| Seen { life, pulses: self.pulses, pulse };
            recovery.look(&self.lives.into_iter().zip(&told).map(seen).collect::<Vec<_>>(), agreed)
        }

        /// Lets every member send, call, submit and report.
        fn go_on(&mut self) {
            self.pulses += 1;
            self.sent += 1;
            self.calls += 1;
            self.results += 1;
        }

        /// Number of polls until the cell has recovered.
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
        assert_eq!(cell.looks(&mut recovery), Some(5));
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
        assert_eq!(stands(&cell, &mut recovery), "all are in one view, but results of submits were not told");
        cell.results += 1;
        assert!(!cell.look(&mut recovery, false), "not while a view is being changed");
        assert!(cell.look(&mut recovery, true));
    }

    #[test]
    fn nothing_is_waited_for_of_a_life_that_ended_meanwhile() {
        for looks in 1..5 {
            let (mut cell, mut recovery) = (Cell::YOUNG, Recovery::default());
            for _ in 0..looks {
                cell.go_on();
                assert!(!cell.look(&mut recovery, true));
            }
            // The exclusion is announced, and the member comes back.
            cell.lives[0] = 3;
            assert!(!cell.look(&mut recovery, false));
            assert_eq!(cell.looks(&mut recovery), Some(5), "after {looks} looks");
        }
    }
}
