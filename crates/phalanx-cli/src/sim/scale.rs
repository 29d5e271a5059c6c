//! `phalanx sim --scale`: measures the costs of cells of several sizes.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use phalanx_sim::scale::{Cost, ScaleOptions, ScaleRow, measure, svg};

use crate::exit::{Exit, Failure};
use crate::notice::{data, say};
use crate::table::Table;

/// Flags of `--scale`.
#[derive(Args, Debug)]
pub(super) struct Scale {
    /// Measure cells of these sizes instead of running seeds: packets, bytes, memory and times against the size
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(4..=4096))]
    #[arg(conflicts_with_all = ["seeds", "members", "mild", "faults", "threads", "stop", "all_tested", "tap"])]
    scale: Option<Vec<u16>>,
    /// With --scale: seconds for which each idle cell is measured
    #[arg(long, value_name = "SECONDS", requires = "scale", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    idle: u64,
}

impl Scale {
    /// Whether `--scale` was given.
    pub(super) fn is_asked(&self) -> bool {
        self.scale.is_some()
    }
}

/// Measures each size. With `json`, prints one line for each.
pub(super) fn run(scale: &Scale, picture: Option<&Path>, watchers: Option<usize>, json: bool) -> Result<Exit, Failure> {
    let mut sizes: Vec<usize> = scale.scale.iter().flatten().map(|size| usize::from(*size)).collect();
    // Ascending sizes: memory is measured for the whole process, and a larger cell reuses the memory of a smaller one,
    // not the reverse.
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows: Vec<ScaleRow> = Vec::new();
    for members in sizes {
        let options = ScaleOptions { members, idle: Duration::from_secs(scale.idle), seed: 1, watchers };
        let row = measure(&options)
            .map_err(|what| Failure::new(Exit::Failure, format!("a cell of {members} was not measured: {what}")))?;
        say(format_args!("{members} members measured in {:.1} s", row.real_ms as f64 / 1e3));
        if json {
            data(serde_json::json!(row));
        }
        rows.push(row);
    }
    if !json {
        data(tell(&rows));
    }
    if let Some(file) = picture {
        save(file, &svg(&rows))?;
    }
    Ok(Exit::Good)
}

fn save(file: &Path, picture: &str) -> Result<(), Failure> {
    std::fs::write(file, picture).map_err(|error| {
        let what = format!("{} cannot be written: {error}; name a file in a folder of yours", file.display());
        Failure::new(Exit::Failure, what)
    })
}

/// Prints one column a size.
fn tell(rows: &[ScaleRow]) -> String {
    let mut heads = vec![String::new()];
    heads.extend(rows.iter().map(|row| format!("{} members", row.members)));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads).numbers_from(1);
    let mut line = |name: &str, figure: &dyn Fn(&ScaleRow) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(rows.iter().map(figure)));
    };
    line("formed after, ms", &|r| format!("{:.0}", r.form_ms));
    costs(&mut line, "idle, a second", &[("rank 0", |r| r.idle_coordinator), ("a member", |r| r.idle_member)]);
    line("a crash is seen after, ms", &|r| format!("{:.0}", r.detect_ms));
    line("then a view at all after, ms", &|r| format!("{:.1}", r.change_ms));
    costs(&mut line, "that view", &[("coordinator", |r| r.change_coordinator), ("a member", |r| r.change_member)]);
    line("a join at all after, ms", &|r| format!("{:.0}", r.join_ms));
    costs(&mut line, "that join", &[("coordinator", |r| r.join_coordinator), ("a member", |r| r.join_member)]);
    line("memory of a member, KiB", &|r| {
        r.memory_bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{}", bytes / 1024))
    });
    let mut text = table.to_string();
    let _ = write!(text, "\nmemory: what this program holds, simulated network and records included, by members");
    text
}

type Who = (&'static str, fn(&ScaleRow) -> Cost);

fn costs(line: &mut impl FnMut(&str, &dyn Fn(&ScaleRow) -> String), what: &str, whose: &[Who]) {
    for (name, cost) in whose {
        line(&format!("{what}: packets sent, {name}"), &|r| format!("{:.1}", cost(r).sent_packets));
        line(&format!("{what}: packets received, {name}"), &|r| format!("{:.1}", cost(r).received_packets));
        line(&format!("{what}: bytes sent, {name}"), &|r| format!("{:.0}", cost(r).sent_bytes));
        line(&format!("{what}: bytes received, {name}"), &|r| format!("{:.0}", cost(r).received_bytes));
    }
}
