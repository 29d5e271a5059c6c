//! Runs the requested explorations and prints their results.

use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use phalanx_model::cases;
use phalanx_model::credits::{FINISH, Missing};
use phalanx_model::ending;
use phalanx_model::explore::{Breach, Outcome, always_reaches, explore, shortest};
use phalanx_model::founding;
use phalanx_model::leaving;
use phalanx_model::levels;
use phalanx_model::orphans;
use phalanx_model::rules::Mutant;
use phalanx_model::validate::{Steps, validate_seed};
use phalanx_model::view_change::{Config, ViewChange};
use phalanx_model::waits::{self, DECIDES};
use phalanx_sim::Options;
use stateright::Model;

/// The totals of the explorations so far.
struct Explored {
    threads: usize,
    json: bool,
    good: bool,
    unique: usize,
    seconds: f64,
}

impl Explored {
    /// Explores a model and prints the result.
    fn add<M>(&mut self, text: &str, model: M)
    where
        M: Model + Send + Sync + 'static,
        M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
        M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
    {
        let outcome = explore(model, self.threads, &[]);
        print(text, &outcome, self.json);
        self.good &= outcome.is_good();
        self.unique += outcome.unique;
        self.seconds += outcome.seconds;
    }

    /// Follows every run of a family of cells, and prints the result.
    fn follow(&mut self, family: &waits::Family) {
        let (text, started) = (family.describe(), Instant::now());
        let found = family.explore();
        let seconds = started.elapsed().as_secs_f64();
        let holds = found.endless + found.cut == 0;
        if self.json {
            let waits::Explored { cells, states, longest, endless, cut, .. } = found;
            println!(
                "{{\"config\":\"{text}\",\"cells\":{cells},\"states\":{states},\"longest\":{longest},\"property\":\"{DECIDES}\",\"endless\":{endless},\"cut\":{cut}}}"
            );
        } else {
            println!("{text}\n  {} cells, {} states, {seconds:.1} s", found.cells, found.states);
            println!("  {} {DECIDES}, the longest after {} ticks", verdict(holds), found.longest);
            if let Some((cell, ticks)) = &found.example {
                println!("      {} without a decree; {cell}: repeats itself within {ticks} ticks", found.endless);
            }
        }
        self.good &= holds;
        self.unique += found.states;
        self.seconds += seconds;
    }
}

/// Explores these configurations and the credits. If `long` is given, also the long or short run of the models of
/// levels, orphans, founding, leaving, ends and waits. True if all invariants hold and all required states were reached.
pub(crate) fn explorations(configs: &[Config], long: Option<bool>, threads: usize, json: bool) -> bool {
    let mut all = Explored { threads, json, good: true, unique: 0, seconds: 0.0 };
    if let Some(long) = long {
        cases::levels(long).into_iter().for_each(|model| all.add(&model.describe(), model));
        cases::orphans(long).into_iter().for_each(|model| all.add(&model.describe(), model));
        cases::founding(long).into_iter().for_each(|model| all.add(&model.describe(), model));
        cases::leaving(long).into_iter().for_each(|model| all.add(&model.describe(), model));
        cases::ending(long).into_iter().for_each(|model| all.add(&model.describe(), model));
    }
    for config in configs {
        all.add(&config.describe(), ViewChange { config: config.clone() });
    }
    for credits in cases::credits() {
        let text =
            format!("credits: receivers {} packets {} window {}", credits.receivers, credits.packets, credits.window);
        all.add(&text, credits.clone());
        let (states, stuck) = always_reaches(&credits, |s| credits.is_finished(s));
        if json {
            let steps = stuck.as_ref().map_or("null".to_owned(), |path| path.len().to_string());
            println!(
                "{{\"config\":\"{text}\",\"states\":{states},\"property\":\"{FINISH}\",\"broken_after\":{steps}}}"
            );
        } else {
            println!("  {} {FINISH}, from each of {states} states", verdict(stuck.is_none()));
        }
        all.good &= stuck.is_none();
    }
    if let Some(long) = long {
        waits::cases(long).iter().for_each(|family| all.follow(family));
    }
    let Explored { good, unique, seconds, .. } = all;
    if json {
        println!("{{\"unique\":{unique},\"seconds\":{seconds:.1},\"good\":{good}}}");
    } else {
        println!("{unique} unique states in {seconds:.1} s: {}", verdict(good));
    }
    good
}

fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "BROKEN" }
}

fn print(config: &str, outcome: &Outcome, json: bool) {
    if json {
        let list = |found: &[phalanx_model::explore::Found]| {
            let mut text = String::new();
            for (index, f) in found.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let steps = f.path.as_ref().map_or("null".to_owned(), |path| path.len().to_string());
                let _ = write!(text, "{comma}{{\"property\":\"{}\",\"steps\":{steps}}}", f.name);
            }
            text
        };
        println!(
            "{{\"config\":\"{config}\",\"steps\":{},\"unique\":{},\"depth\":{},\"seconds\":{:.1},\"always\":[{}],\"sometimes\":[{}]}}",
            outcome.steps,
            outcome.unique,
            outcome.depth,
            outcome.seconds,
            list(&outcome.always),
            list(&outcome.sometimes)
        );
        return;
    }
    println!(
        "{config}\n  {} unique states, {} steps, depth {}, {:.1} s",
        outcome.unique, outcome.steps, outcome.depth, outcome.seconds
    );
    for found in &outcome.always {
        println!("  {} {}", verdict(found.path.is_none()), found.name);
        found.path.iter().flatten().for_each(|step| println!("      {step}"));
    }
    for found in &outcome.sometimes {
        match &found.path {
            Some(path) => println!("  reached in {} steps: {}", path.len(), found.name),
            None => println!("  NOT REACHED: {}", found.name),
        }
    }
}

/// Explores with each rule missing in turn. True if each breaks what it must.
pub(crate) fn mutants(json: bool) -> bool {
    let mut good = true;
    let mut tell = |name: &str, property: Option<&str>, found: Option<Breach>| {
        let as_expected = property.is_some() == found.is_some();
        good &= as_expected;
        if json {
            let quoted = property.map_or("null".to_owned(), |p| format!("\"{p}\""));
            let number = |n: Option<usize>| n.map_or("null".to_owned(), |n| n.to_string());
            println!(
                "{{\"mutant\":\"{name}\",\"property\":{quoted},\"steps\":{},\"states\":{},\"as_expected\":{as_expected}}}",
                number(found.map(|f| f.steps)),
                number(found.map(|f| f.states))
            );
        } else {
            let text = match (property, found) {
                (Some(property), Some(Breach { steps, states })) => {
                    format!("breaks after {steps:2} steps, within {states:6} states: {property}")
                }
                (Some(property), None) => format!("NOT RECOGNISED: {property} holds"),
                (None, None) => "breaks nothing, as it should".to_owned(),
                (None, Some(Breach { steps, .. })) => format!("BREAKS something after {steps} steps and should not"),
            };
            println!("{name:28} {text}");
        }
    };
    for mutant in Mutant::ALL {
        let (config, property) = cases::mutant(mutant);
        tell(mutant.name(), property, breaks(&ViewChange { config }, property));
    }
    for missing in levels::Missing::ALL {
        for (model, property) in cases::without_level_rule(missing) {
            tell(missing.name(), property, breaks(&model, property));
        }
    }
    for missing in founding::Missing::ALL {
        for (model, property) in cases::without_founding_rule(missing) {
            tell(missing.name(), Some(property), shortest(&model, property));
        }
    }
    for missing in leaving::Missing::ALL {
        let (model, property) = cases::without_leaving_rule(missing);
        tell(missing.name(), Some(property), shortest(&model, property));
    }
    for missing in ending::Missing::ALL {
        let (model, property) = cases::without_ending_rule(missing);
        tell(missing.name(), property, breaks(&model, property));
    }
    for missing in orphans::Missing::ALL {
        for (model, property) in cases::without_orphan_rule(missing) {
            tell(missing.name(), property, breaks(&model, property));
        }
    }
    for (missing, property) in Missing::ALL {
        tell(missing.name(), Some(property), cases::without_credit_rule(missing, property));
    }
    for missing in waits::Missing::ALL {
        let (families, property) = waits::without(missing);
        let found = families.iter().map(waits::Family::explore).find(|found| found.endless > 0);
        let breach = |found: waits::Explored| {
            Some(Breach { steps: found.example.map(|(_, ticks)| ticks)?, states: found.states })
        };
        tell(missing.name(), property, found.and_then(breach));
    }
    good
}

/// The fewest steps to a state that breaks a property, and the states seen until then. Without a property: to a state
/// that breaks any.
fn breaks<M>(model: &M, property: Option<&'static str>) -> Option<Breach>
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let Some(property) = property else {
        let outcome = explore(model.clone(), 1, &[]);
        return outcome
            .broken()
            .filter_map(|f| f.path.as_ref())
            .map(|path| Breach { steps: path.len(), states: outcome.unique })
            .next();
    };
    shortest(model, property)
}

/// Checks simulated runs by the model's rules. True if every step is explained, and all important kinds of steps
/// occurred.
pub(crate) fn validation(seeds: Range<u64>, members: usize, threads: usize, json: bool) -> bool {
    let options = Options { members, ..Options::default() };
    let started = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let (mut total, mut failed) = (Steps::default(), 0_u64);
    thread::scope(|scope| {
        let (results, inbox) = mpsc::channel();
        for _ in 0..threads {
            let (results, next, options, end) = (results.clone(), &next, &options, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || results.send(validate_seed(seed, options)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for judged in inbox {
            total.add(&judged.steps);
            failed += u64::from(!judged.faults.is_empty());
            for (slot, at_ns, text) in &judged.faults {
                let at = *at_ns as f64 / 1e9;
                println!("seed {}: model p{slot} at {at:.6} s: {text}", judged.seed);
            }
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let ballots = total.take_overs > 0 && total.adopted > 0 && total.filling > 0;
    let reached = ballots && total.orphaned > 0 && total.revived > 0 && total.held > 0;
    let good = failed == 0 && reached;
    let count = seeds.end - seeds.start;
    if json {
        let steps: Vec<String> = total.each().iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        println!(
            "{{\"seeds\":{count},\"failed\":{failed},\"seconds\":{seconds:.1},{},\"good\":{good}}}",
            steps.join(",")
        );
        return good;
    }
    for (name, count) in total.each() {
        println!("  {count:>10} {name}");
    }
    if !reached {
        println!(
            "NOT REACHED: a take-over, an adopted proposal, a filled cut, an orphan, one that came back or a leaver that \
             was held is missing: more seeds are needed"
        );
    }
    println!(
        "{count} seeds, {failed} with steps that no rule explains; {} steps explained, {} take-overs, in {seconds:.1} s: {}",
        total.explained(),
        total.take_overs,
        verdict(good)
    );
    good
}
