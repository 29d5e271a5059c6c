//! Results of one seed, and of many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::classes::Class;
use crate::history::Operation;

/// A violation: something that happened and must not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The property, by its code in the checker ("M6", "S3", ...), or one of the simulator's own: "panic", "nonce",
    /// "liveness", "determinism", "memory".
    pub code: String,
    /// Virtual time, in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// Description, for people.
    pub text: String,
}

/// Counts of one run, or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// Events of the simulator's queue.
    pub events: u64,
    /// Cell view installations, at all processes together.
    pub cell_view_installs: u64,
    /// Different cell views installed.
    pub cell_views: u64,
    /// Group view installations, at all processes together.
    pub group_view_installs: u64,
    /// Different group views installed.
    pub group_views: u64,
    /// Group views on whose way out a member was lost.
    pub lossy_changes: u64,
    /// Multicasts reported as stable.
    pub stable: u64,
    /// Multicasts in doubt: sent and not reported as stable by an incarnation that is over.
    pub doubted: u64,
    /// Times at which a process began to coordinate a view change while another one's was unfinished.
    pub take_overs: u64,
    /// The same, by the progress of the other one: "gathering", "filling", "proposing", or "decided", when no other
    /// process had installed what it decided.
    pub take_overs_at: BTreeMap<String, u64>,
    /// Processes notified of their exclusion.
    pub exclusions: u64,
    /// Accepted multicasts with a notice that they will not be sent.
    pub unsent: u64,
    /// Messages to one process with a notice that they are in doubt.
    pub in_doubt: u64,
    /// Times at which a process left the primary without being excluded.
    pub non_primary: u64,
    /// State transfers that ended.
    pub transfers: u64,
    /// Multicasts accepted.
    pub multicasts: u64,
    /// Multicasts refused for lack of credit.
    pub refused: u64,
    /// Token passes in groups, each counted once.
    #[serde(default)]
    pub passes: u64,
    /// Passes of these while a fault was in force.
    #[serde(default)]
    pub passes_in_faults: u64,
    /// Passes of these while some process was in a flush.
    #[serde(default)]
    pub passes_in_flush: u64,
    /// Messages delivered.
    pub deliveries: u64,
    /// Packets sent, one for each receiver.
    pub packets: u64,
    /// Bytes of these packets.
    pub packet_bytes: u64,
    /// Packets written to shared memory, one for each reader.
    pub shared: u64,
    /// Different sealed packets the nonce oracle saw.
    pub sealed: u64,
    /// Packets an attacker sent.
    pub attacks: u64,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Faults that struck while some process was in a flush.
    pub faults_in_flush: u64,
    /// Faults that struck while some process was joining.
    pub faults_in_join: u64,
    /// Faults that struck while a state was being transferred.
    pub faults_in_transfer: u64,
    /// Faults that struck inside any of the three.
    pub faults_inside: u64,
    /// Faults left out because they would have taken the last quorum, or had no target.
    pub faults_withheld: u64,
    /// Runs in which less than a quorum was left, so that liveness was not evaluated.
    pub without_quorum: u64,
    /// Runs that ended with a minority broken for good, and in which the liveness of the others was evaluated.
    pub ruined: u64,
    /// Views without a member that only one process knew, which crashed.
    pub lost_views: u64,
    /// Uniform messages whose only holders died, by the messages they held.
    pub holders: BTreeMap<String, u64>,
    /// Paths that broke in part, by kind.
    pub partial: BTreeMap<String, u64>,
    /// Paths of these in runs that failed.
    pub partial_failed: BTreeMap<String, u64>,
    /// Seeds of each class.
    #[serde(default)]
    pub classes: BTreeMap<String, u64>,
    /// Seeds of these that failed.
    #[serde(default)]
    pub classes_failed: BTreeMap<String, u64>,
    /// The longest time from the heal to one common view, in milliseconds.
    pub settle_ms_max: u64,
    /// Packets the network or a socket lost, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Fate of packets in shared memory: "records" written, one for all their readers; "read", by each of them, and of
    /// those "`of_the_dead`", "stale" and "`for_others`"; runs "lapped" and packets "lost" in them, or "cut";
    /// neighbours "attached" and "detached".
    pub memory: BTreeMap<String, u64>,
    /// The core's own counters, by name.
    pub core: BTreeMap<String, u64>,
    /// Moments that only the simulator sees, by name.
    #[serde(default)]
    pub moments: BTreeMap<String, u64>,
    /// How often each property was put to the test, by code (from the checker).
    pub checked: BTreeMap<String, u64>,
}

impl Counters {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.simulated_ms, other.simulated_ms),
            (&mut self.events, other.events),
            (&mut self.cell_view_installs, other.cell_view_installs),
            (&mut self.cell_views, other.cell_views),
            (&mut self.group_view_installs, other.group_view_installs),
            (&mut self.group_views, other.group_views),
            (&mut self.lossy_changes, other.lossy_changes),
            (&mut self.stable, other.stable),
            (&mut self.doubted, other.doubted),
            (&mut self.take_overs, other.take_overs),
            (&mut self.exclusions, other.exclusions),
            (&mut self.unsent, other.unsent),
            (&mut self.in_doubt, other.in_doubt),
            (&mut self.non_primary, other.non_primary),
            (&mut self.transfers, other.transfers),
            (&mut self.multicasts, other.multicasts),
            (&mut self.refused, other.refused),
            (&mut self.passes, other.passes),
            (&mut self.passes_in_faults, other.passes_in_faults),
            (&mut self.passes_in_flush, other.passes_in_flush),
            (&mut self.deliveries, other.deliveries),
            (&mut self.packets, other.packets),
            (&mut self.packet_bytes, other.packet_bytes),
            (&mut self.shared, other.shared),
            (&mut self.sealed, other.sealed),
            (&mut self.attacks, other.attacks),
            (&mut self.faults_in_flush, other.faults_in_flush),
            (&mut self.faults_in_join, other.faults_in_join),
            (&mut self.faults_in_transfer, other.faults_in_transfer),
            (&mut self.faults_inside, other.faults_inside),
            (&mut self.faults_withheld, other.faults_withheld),
            (&mut self.ruined, other.ruined),
            (&mut self.lost_views, other.lost_views),
            (&mut self.without_quorum, other.without_quorum),
        ];
        for (sum, count) in pairs {
            *sum += count;
        }
        self.settle_ms_max = self.settle_ms_max.max(other.settle_ms_max);
        let maps = [
            (&mut self.faults, &other.faults),
            (&mut self.holders, &other.holders),
            (&mut self.partial, &other.partial),
            (&mut self.partial_failed, &other.partial_failed),
            (&mut self.classes, &other.classes),
            (&mut self.classes_failed, &other.classes_failed),
            (&mut self.take_overs_at, &other.take_overs_at),
            (&mut self.lost, &other.lost),
            (&mut self.memory, &other.memory),
            (&mut self.core, &other.core),
            (&mut self.moments, &other.moments),
            (&mut self.checked, &other.checked),
        ];
        for (sums, counts) in maps {
            for (name, count) in counts {
                add_to(sums, name, *count);
            }
        }
    }

    /// All faults that struck.
    #[must_use]
    pub fn faults_total(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// Adds to a count by name. Allocates a name only for a new count.
pub(crate) fn add_to(map: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    match map.get_mut(name) {
        Some(sum) => *sum += count,
        None => {
            map.insert(name.to_owned(), count);
        }
    }
}

/// Result of one seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// Processes at the start.
    pub members: usize,
    /// The class that it drew.
    #[serde(default)]
    pub class: Option<Class>,
    /// A hash over all records of the trace, in order: equal for equal runs.
    pub trace_hash: u64,
    /// Whether it was a full test: at least thirty simulated seconds, ten multicasts a second from each member, three
    /// faults of which one struck inside a flush, a join or a transfer, and then an evaluation of liveness.
    pub full: bool,
    /// Violations; empty: the seed passed.
    pub violations: Vec<Violation>,
    /// Counts.
    pub counters: Counters,
    /// Of a failed seed: the command that replays it, the plan, and a table of the events around the violation.
    pub story: Option<String>,
    /// Operations of the objects' users and their answers; empty unless requested.
    #[serde(skip)]
    pub history: Vec<Operation>,
}

/// Result of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of seeds run.
    pub seeds: u64,
    /// Seeds of these that were full tests: [`SeedResult::full`].
    pub full: u64,
    /// Seeds run a second time to see whether they repeat.
    pub repeated: u64,
    /// Number of failed seeds.
    pub failures: u64,
    /// The first hundred failed seeds, in order.
    pub failed: Vec<SeedResult>,
    /// The counts of all seeds.
    pub totals: Counters,
    /// Properties that were never put to the test. A campaign of many seeds must leave none (vacuity).
    pub never_checked: Vec<String>,
}
