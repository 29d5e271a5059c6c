//! The bounds of an exploration: processes, messages, ballots and crashes.

use crate::rules::{Mutant, Rules};

/// Most processes.
pub const PROCESSES: usize = 4;
/// Most streams that carry messages.
pub const STREAMS: usize = 2;
/// Most packets of a stream, one message each.
pub const PACKETS: usize = 2;
/// Most ballot numbers: rounds times processes.
pub const BALLOTS: usize = 9;

/// A change that coordinators want, besides excluding members that they do not hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// None: without a candidate or a promise there is no ballot.
    Nothing,
    /// A process requests to join the cell: the members change, the group does not.
    Cell,
    /// A process requests to join the group.
    Group,
}

/// A packet that makes no sense to some of its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// The stream.
    pub stream: usize,
    /// The packet, from 0.
    pub packet: usize,
    /// The readers to whom it makes no sense, a bit each; `None`: every set of readers in turn.
    pub readers: Option<u8>,
}

/// One bounded model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of members of the cell view in force.
    pub processes: usize,
    /// Members of the group, a bit each.
    pub group: u8,
    /// The ranks whose streams carry messages.
    pub senders: Vec<usize>,
    /// For each sender and message: whether it is uniform.
    pub uniform: Vec<Vec<bool>>,
    /// Packets that may make no sense to some of their readers.
    pub poisoned: Vec<Poison>,
    /// The change that every coordinator wants.
    pub wish: Wish,
    /// A member that requested to leave.
    pub leaver: Option<usize>,
    /// Rounds by which ballots are numbered.
    pub rounds: usize,
    /// Ballots, in all.
    pub ballots: usize,
    /// Crashes, in all.
    pub crashes: u8,
    /// The rules.
    pub rules: Rules,
}

impl Config {
    /// `processes` members, all in the group, without messages.
    #[must_use]
    pub fn bare(processes: usize) -> Self {
        Self {
            processes,
            group: (1 << processes) - 1,
            senders: Vec::new(),
            uniform: Vec::new(),
            poisoned: Vec::new(),
            wish: Wish::Nothing,
            leaver: None,
            rounds: 2,
            ballots: 2,
            crashes: 1,
            rules: Rules::default(),
        }
    }

    /// The same model with another stream: one entry per message, true if it is uniform.
    #[must_use]
    pub fn stream(mut self, sender: usize, uniform: &[bool]) -> Self {
        self.senders.push(sender);
        self.uniform.push(uniform.to_vec());
        self
    }

    /// The same model with a packet of that stream, numbered from 1, that makes no sense to any set of its readers.
    #[must_use]
    pub fn poison(mut self, stream: usize, packet: usize) -> Self {
        self.poisoned.push(Poison { stream, packet: packet - 1, readers: None });
        self
    }

    /// The same model with a packet that makes no sense to these readers.
    #[must_use]
    pub fn poison_for(mut self, stream: usize, packet: usize, readers: u8) -> Self {
        self.poisoned.push(Poison { stream, packet: packet - 1, readers: Some(readers) });
        self
    }

    /// The same model with other bounds.
    #[must_use]
    pub fn bounds(self, rounds: usize, ballots: usize, crashes: u8) -> Self {
        Self { rounds, ballots, crashes, ..self }
    }

    /// The same model with another wanted change.
    #[must_use]
    pub fn wish(self, wish: Wish) -> Self {
        Self { wish, ..self }
    }

    /// The same model with a rule missing.
    #[must_use]
    pub fn without(self, mutant: Mutant) -> Self {
        Self { rules: Rules { without: Some(mutant) }, ..self }
    }

    /// Checks that the fixed-size state can hold the model.
    ///
    /// # Panics
    /// If it cannot, which is an error in the configuration.
    pub fn check(&self) {
        assert!((1..=PROCESSES).contains(&self.processes), "1 to {PROCESSES} processes");
        assert!(self.senders.len() <= STREAMS, "at most {STREAMS} streams");
        assert_eq!(self.senders.len(), self.uniform.len(), "each stream has its messages");
        assert!(self.uniform.iter().all(|m| m.len() <= PACKETS), "at most {PACKETS} packets");
        assert!(self.rounds * self.processes <= BALLOTS, "at most {BALLOTS} ballots");
        assert!(self.group < 1 << self.processes, "members of the group are members of the cell");
        assert!(self.senders.iter().all(|&s| self.is_member(s)), "senders are members of the group");
        let exists = |p: &Poison| self.uniform.get(p.stream).is_some_and(|m| p.packet < m.len());
        assert!(self.poisoned.iter().all(exists), "what makes no sense is sent");
    }

    /// Every combination of readers to whom the poisoned packets make no sense, by stream and packet.
    pub(super) fn draws(&self) -> Vec<[[u8; PACKETS]; STREAMS]> {
        let mut draws = vec![[[0; PACKETS]; STREAMS]];
        for &Poison { stream, packet, readers } in &self.poisoned {
            let all = self.group & !(1 << self.senders[stream]);
            let sets = || (0..=all).filter(|set| readers.map_or(set & !all == 0, |readers| *set == readers));
            let with = |draw: &[[u8; PACKETS]; STREAMS], set| {
                let mut draw = *draw;
                draw[stream][packet] = set;
                draw
            };
            draws = draws.iter().flat_map(|draw| sets().map(|set| with(draw, set)).collect::<Vec<_>>()).collect();
        }
        draws
    }

    /// Whether a rank is a member of the group.
    #[must_use]
    pub fn is_member(&self, rank: usize) -> bool {
        self.group & 1 << rank != 0
    }

    /// Whether these ranks are a quorum of the view in force.
    #[must_use]
    pub fn is_quorum(&self, ranks: u8) -> bool {
        self.rules.is_quorum(ranks.count_ones() as usize, self.processes, ranks & 1 == 1)
    }

    /// The round (from 1) of a ballot number (from 1).
    #[must_use]
    pub fn round_of(&self, ballot: u8) -> u8 {
        if ballot == 0 { 0 } else { (ballot - 1) / self.processes as u8 + 1 }
    }

    /// The coordinator of a ballot.
    #[must_use]
    pub fn coordinator_of(&self, ballot: u8) -> usize {
        (usize::from(ballot) - 1) % self.processes
    }

    /// The number of a ballot: a later round has a higher number, and within a round the higher rank.
    #[must_use]
    pub fn ballot(&self, round: u8, rank: usize) -> u8 {
        (round - 1) * self.processes as u8 + rank as u8 + 1
    }

    /// A description of the model for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let streams: Vec<String> = self
            .senders
            .iter()
            .zip(&self.uniform)
            .map(|(s, m)| format!("{s}:{}", m.iter().map(|u| if *u { 'u' } else { 'p' }).collect::<String>()))
            .collect();
        let streams = if streams.is_empty() { "-".to_owned() } else { streams.join(",") };
        let poisoned: Vec<String> =
            self.poisoned.iter().map(|p| format!("{}:{}", self.senders[p.stream], p.packet + 1)).collect();
        let poisoned = if poisoned.is_empty() { String::new() } else { format!(" nonsense {}", poisoned.join(",")) };
        format!(
            "processes {} group {:04b} streams {streams}{poisoned} wish {:?} leaver {} rounds {} ballots {} crashes {}",
            self.processes,
            self.group,
            self.wish,
            self.leaver.map_or("-".to_owned(), |l| l.to_string()),
            self.rounds,
            self.ballots,
            self.crashes
        )
    }
}
