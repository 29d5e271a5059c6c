//! Results of the faults, as a table and as JSON lines.

use serde::Serialize;
use serde_json::{Value, json};

use super::fault::{Fault, Role};
use crate::table::Table;

/// One fault at one member, from its beginning to the recovery.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) bout: usize,
    #[serde(serialize_with = "fault_name")]
    pub(super) fault: Fault,
    #[serde(serialize_with = "role_name")]
    pub(super) role: Role,
    /// The member that suffered it.
    pub(super) member: String,
    /// Beginning, on the clock of the traces.
    pub(super) began_ns: u64,
    /// Time from the beginning to another member's first view without the sufferer, if there was one before the
    /// recovery.
    pub(super) excluded_ms: Option<u64>,
    /// Time from its end to the recovery: one view of all, with messages from everybody to everybody.
    pub(super) recovered_ms: Option<u64>,
    /// The longest time during the fault for which an unaffected member was without a new uniform abcast of another
    /// unaffected one.
    pub(super) waited_ms: u64,
    /// The promised bound on that time.
    pub(super) promised_ms: Option<u64>,
    pub(super) violations: Vec<String>,
}

fn fault_name<S: serde::Serializer>(fault: &Fault, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&fault.name())
}

fn role_name<S: serde::Serializer>(role: &Role, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&role.name())
}

impl Outcome {
    pub(super) fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("an outcome is plain data");
        if let Some(object) = value.as_object_mut() {
            object.insert("kind".to_owned(), json!("outcome"));
        }
        value
    }
}

/// One row for each fault and role: number of faults, exclusions and their times, recovery times, violations.
pub(super) fn table(outcomes: &[Outcome], skipped: &[(Fault, String)]) -> String {
    let heads = [
        "fault",
        "role",
        "times",
        "excluded",
        "after ms",
        "others waited ms: median",
        "longest",
        "promised",
        "recovered ms: median",
        "longest",
        "violations",
    ];
    let mut table = Table::new(&heads).numbers_from(2);
    let mut keys: Vec<(Fault, Role)> = outcomes.iter().map(|o| (o.fault, o.role)).collect();
    keys.sort_unstable();
    keys.dedup();
    for (fault, role) in keys {
        let these: Vec<&Outcome> = outcomes.iter().filter(|o| (o.fault, o.role) == (fault, role)).collect();
        let excluded: Vec<u64> = these.iter().filter_map(|o| o.excluded_ms).collect();
        let recovered: Vec<u64> = these.iter().filter_map(|o| o.recovered_ms).collect();
        let waited: Vec<u64> = these.iter().map(|o| o.waited_ms).collect();
        let show = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        table.row([
            fault.name(),
            role.name(),
            these.len().to_string(),
            excluded.len().to_string(),
            show(median(&excluded)),
            show(median(&waited)),
            show(waited.iter().max().copied()),
            show(these.first().and_then(|o| o.promised_ms)),
            show(median(&recovered)),
            show(recovered.iter().max().copied()),
            these.iter().map(|o| o.violations.len()).sum::<usize>().to_string(),
        ]);
    }
    let mut text = table.to_string();
    for (fault, why) in skipped {
        text.push_str(&format!("\nskipped: {}: {why}", fault.name()));
    }
    text
}

fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_for_each_fault_and_role() {
        let outcome = |fault, recovered_ms, violations: &[&str]| Outcome {
            bout: 1,
            fault,
            role: Role::Bystander,
            member: "m1".to_owned(),
            began_ns: 0,
            excluded_ms: None,
            recovered_ms: Some(recovered_ms),
            waited_ms: 3,
            promised_ms: (fault == Fault::Kill).then_some(4),
            violations: violations.iter().map(|text| (*text).to_owned()).collect(),
        };
        let all = [outcome(Fault::Loss5, 7, &[]), outcome(Fault::Kill, 9, &["S3"]), outcome(Fault::Loss5, 5, &[])];
        let text = table(&all, &[(Fault::CpuQuota, "no groups".to_owned())]);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["kill", "bystander", "1", "0", "-", "3", "3", "4", "9", "9", "1"]);
        assert_eq!(rows[2], ["loss-5", "bystander", "2", "0", "-", "3", "3", "-", "5", "7", "0"]);
        assert_eq!(rows[3].join(" "), "skipped: cpu-quota: no groups");
        assert_eq!(all[1].to_json()["fault"], "kill");
    }
}
