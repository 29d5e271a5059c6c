//! Reductions of a drawn plan, in one readable line, so that a command replays them exactly.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::clock::MS;
use crate::plan::Plan;
use crate::weather::Weather;

/// Changes to a drawn plan, each towards less. Everything else stays as drawn.
///
/// As text: `members=3,until=5200,gap=400,short,unanswered,one-group,fault3=150`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Number of processes.
    pub members: Option<usize>,
    /// End of the faulty phase, in milliseconds.
    pub until_ms: Option<u64>,
    /// Mean time between two multicasts of a process, in milliseconds.
    pub gap_ms: Option<u64>,
    /// Parts left out altogether.
    pub without: Vec<Part>,
    /// Duration of faults in milliseconds, by their number among all that the seed draws.
    pub lasts_ms: BTreeMap<usize, u64>,
}

/// A part of a plan that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Messages of several packets.
    LongMessages,
    /// Answers to deliveries.
    Answers,
    /// The second group.
    SecondGroup,
    /// Leaving and rejoining groups.
    Regrouping,
    /// The padding of states.
    BigStates,
    /// Named founders: the first process founds the cell alone.
    Founders,
    /// Loss, jitter and delay of the links outside of faults.
    Weather,
    /// Shared memory: everything goes over the network.
    Memory,
    /// Bursts of abcasts.
    Bursts,
    /// Inboxes of groups.
    Inboxes,
    /// The user's state: messages and states are the simulator's own.
    UserState,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::Bursts,
        Self::Inboxes,
        Self::UserState,
        Self::SecondGroup,
        Self::Regrouping,
        Self::LongMessages,
        Self::Answers,
        Self::BigStates,
        Self::Founders,
        Self::Weather,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::LongMessages => "short",
            Self::Answers => "unanswered",
            Self::SecondGroup => "one-group",
            Self::Regrouping => "settled",
            Self::BigStates => "small-state",
            Self::Founders => "unfounded",
            Self::Weather => "fine",
            Self::Memory => "datagrams",
            Self::Bursts => "no-bursts",
            Self::Inboxes => "one-inbox",
            Self::UserState => "no-user-state",
        }
    }
}

/// Fewer processes make no useful cell.
pub(crate) const MEMBERS_MIN: usize = 2;
/// Until then processes are started.
pub(crate) const UNTIL_MIN_MS: u64 = 1_000;

impl Reduction {
    /// Changes `plan`, which has all faults that its seed draws.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        if let Some(members) = self.members {
            plan.members = plan.members.min(members.max(MEMBERS_MIN));
            plan.hosts.truncate(plan.members);
            plan.founders = plan.founders.min(plan.members);
            plan.unequal.truncate(plan.members);
            let is_left = |slot: usize| slot < plan.members;
            plan.late.retain(|(slot, _)| is_left(*slot));
            plan.turn_gaps.retain(|(slot, _)| is_left(*slot));
            plan.stateless.retain(|(slot, _)| is_left(*slot));
            plan.churn.iter_mut().for_each(|churn| churn.who.retain(|slot| is_left(*slot)));
            plan.churn = plan.churn.take().filter(|churn| !churn.who.is_empty());
            plan.minority.retain(|slot| is_left(*slot));
            plan.twin = plan.twin.filter(|(who, whose)| is_left(*who) && is_left(*whose));
        }
        if let Some(until_ms) = self.until_ms {
            plan.heal_ns = plan.heal_ns.min(until_ms.max(UNTIL_MIN_MS) * MS);
        }
        if let Some(gap_ms) = self.gap_ms {
            plan.workload.gap_ns = plan.workload.gap_ns.max(gap_ms * MS);
        }
        for part in &self.without {
            match part {
                Part::LongMessages => (plan.workload.long_ppm, plan.workload.long_bytes) = (0, 0),
                Part::Answers => plan.workload.reply_ppm = 0,
                Part::SecondGroup => plan.workload.second_group_ppm = 0,
                Part::Regrouping => plan.workload.regroup_ns = 0,
                Part::BigStates => plan.workload.state_bytes = plan.workload.state_bytes.min(100),
                Part::Founders => plan.founders = 0,
                Part::Weather => plan.weather = Weather::FINE,
                Part::Memory => plan.memory = None,
                Part::Bursts => plan.bursts = None,
                Part::Inboxes => plan.inboxes = None,
                Part::UserState => plan.state = None,
            }
        }
        for (&number, &lasts_ms) in &self.lasts_ms {
            if let Some(fault) = plan.faults.get_mut(number) {
                fault.lasts_ns = fault.lasts_ns.min(lasts_ms * MS);
            }
        }
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.members.map(|members| format!("members={members}")));
        words.extend(self.until_ms.map(|until| format!("until={until}")));
        words.extend(self.gap_ms.map(|gap| format!("gap={gap}")));
        words.extend(self.without.iter().map(|part| part.word().to_owned()));
        words.extend(self.lasts_ms.iter().map(|(number, lasts)| format!("fault{number}={lasts}")));
        f.write_str(&words.join(","))
    }
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut reduction = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let Some((name, value)) = word.split_once('=') else {
                let part = Part::ALL.into_iter().find(|part| part.word() == word).ok_or_else(|| unknown(word))?;
                if !reduction.without.contains(&part) {
                    reduction.without.push(part);
                }
                continue;
            };
            let number: u64 = value.parse().map_err(|error| format!("'{word}': {error}"))?;
            match name {
                "members" => reduction.members = Some(usize::try_from(number).unwrap_or(usize::MAX)),
                "until" => reduction.until_ms = Some(number),
                "gap" => reduction.gap_ms = Some(number),
                _ => {
                    let fault = name.strip_prefix("fault").and_then(|fault| fault.parse().ok());
                    reduction.lasts_ms.insert(fault.ok_or_else(|| unknown(word))?, number);
                }
            }
        }
        Ok(reduction)
    }
}

fn unknown(word: &str) -> String {
    let words: Vec<&str> = Part::ALL.into_iter().map(Part::word).collect();
    format!("'{word}' is none of members=N, until=MS, gap=MS, faultN=MS, {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "members=3,until=5200,gap=400,short,unanswered,one-group,fault3=150,fault12=20";
        let reduction: Reduction = text.parse().expect("well formed");
        assert_eq!(reduction.to_string(), text);
        assert!("".parse::<Reduction>().expect("nothing").is_empty());
        for part in Part::ALL {
            assert_eq!(part.word().parse::<Reduction>().expect("a word").without, [part]);
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["members", "members=x", "gap=-1", "faultx=3", "loud"] {
            let error = text.parse::<Reduction>().expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_plan_only_becomes_less() {
        for seed in 0..50 {
            let drawn = Plan::draw_plain(seed, 5);
            let mut plan = drawn.clone();
            let text =
                "members=3,until=4000,gap=400,short,unanswered,one-group,settled,small-state,unfounded,fine,fault0=1";
            text.parse::<Reduction>().expect("well formed").apply(&mut plan);
            assert_eq!((plan.members, plan.hosts.len(), plan.heal_ns), (3, 3, 4_000 * MS));
            assert!(plan.workload.gap_ns >= drawn.workload.gap_ns && plan.workload.long_ppm == 0);
            assert!(plan.faults[0].lasts_ns <= MS && plan.faults[1..] == drawn.faults[1..]);
            let mut same = drawn.clone();
            "members=99,until=99999999,gap=0".parse::<Reduction>().expect("well formed").apply(&mut same);
            assert_eq!(same, drawn);
        }
    }
}
