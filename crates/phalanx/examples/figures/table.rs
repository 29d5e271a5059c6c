//! Samples, and what is said of them.

use std::collections::BTreeMap;
use std::io::Write;

/// The value below which a share of the samples lies; 0 if there are none.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let index = (samples.len() as f64 * share) as usize;
    samples.get(index.min(samples.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// One value per round under each name, in the order names first came.
#[derive(Default)]
pub(crate) struct Table {
    names: Vec<String>,
    rounds: BTreeMap<String, Vec<f64>>,
}

impl Table {
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        if !self.rounds.contains_key(name) {
            self.names.push(name.to_owned());
        }
        self.rounds.entry(name.to_owned()).or_default().push(value);
    }

    /// Adds `of / to` of the newest round under a name of its own.
    pub(crate) fn ratio(&mut self, of: &str, to: &str) {
        let last = |name| self.rounds.get(name).and_then(|values: &Vec<f64>| values.last().copied());
        if let (Some(of_value), Some(to_value)) = (last(of), last(to))
            && to_value > 0.0
        {
            self.add(&format!("{of} / {to}"), of_value / to_value);
        }
    }

    /// Prints the medians over the rounds, with minimum and maximum.
    pub(crate) fn print(&self, title: &str, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "\n| {title} | median | min | max |\n| --- | ---: | ---: | ---: |")?;
        for name in &self.names {
            let mut values = self.rounds.get(name).cloned().unwrap_or_default();
            let [min, median, max] = [0.0, 0.5, 1.0].map(|share| show(quantile(&mut values, share)));
            writeln!(out, "| {name} | {median} | {min} | {max} |")?;
        }
        Ok(())
    }
}

fn show(value: f64) -> String {
    match value {
        v if v >= 100_000.0 => format!("{:.0} k", v / 1_000.0),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
