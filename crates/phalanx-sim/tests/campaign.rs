//! Tests of the campaign itself: few seeds, but all of its machinery.

use phalanx_sim::{Options, Stop, campaign, run_seed};

#[test]
fn a_seed_repeats_and_results_come_in_order() {
    let options = Options { members: 0, threads: 3, repeat_every: 4, ..Options::default() };
    let mut order = Vec::new();
    let summary = campaign(20..32, &options, |result| order.push(result.seed));
    assert_eq!(order, (20..32).collect::<Vec<_>>());
    assert_eq!((summary.seeds, summary.repeated), (12, 3));
    if let Some(failed) = summary.failed.first() {
        panic!("{}", failed.story.as_deref().unwrap_or("a failed seed has a story"));
    }
    assert!(summary.totals.faults_total() >= 30);
    assert!(summary.totals.deliveries > 1000);
    assert!(summary.totals.simulated_ms >= 12 * 28_000);
}

#[test]
fn a_campaign_stops_where_it_is_told() {
    let options = Options { members: 3, stop: Stop::AtCodes(vec!["S3".into()]), ..Options::default() };
    let summary = campaign(200..203, &options, |_| {});
    assert_eq!(summary.seeds, 3, "a code that is not reported stops nothing");
}

#[test]
fn other_seeds_have_other_traces() {
    let options = Options::default();
    let hashes: std::collections::BTreeSet<u64> = (100..104).map(|seed| run_seed(seed, &options).trace_hash).collect();
    assert_eq!(hashes.len(), 4);
    assert_eq!(options.replay_command(7), "phalanx sim --seeds 7..8 --members 5 --reduced no-user-state");
}
