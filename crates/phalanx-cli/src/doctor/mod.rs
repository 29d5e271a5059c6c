//! `phalanx doctor`: checks what Phalanx needs of this machine, and prints a remedy where something is missing.

mod clock;
mod files;
mod kernel;
mod network;

use clap::Args;
use phalanx_runtime::config::Config;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::flags::CellFlags;
use crate::notice::data;

/// Looks at what Phalanx needs of this machine; each line ok, warn or fail, with what is wanted, why, and the remedy
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print one JSON document instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellFlags,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// Works, with a disadvantage.
    Warn,
    /// Does not work.
    Fail,
}

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// The threshold of the check, and the reason for it.
    wanted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A check: its name, and its threshold with the reason for it.
struct Check {
    name: &'static str,
    wanted: String,
}

impl Check {
    fn new(name: &'static str, wanted: impl Into<String>) -> Self {
        Self { name, wanted: wanted.into() }
    }

    fn ok(&self, found: impl Into<String>) -> Finding {
        self.find(Verdict::Ok, found.into(), None)
    }

    fn warn(&self, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.find(Verdict::Warn, found.into(), Some(remedy.into()))
    }

    fn fail(&self, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        self.find(Verdict::Fail, found.into(), Some(remedy.into()))
    }

    fn find(&self, verdict: Verdict, found: String, remedy: Option<String>) -> Finding {
        Finding { check: self.name, verdict, found, wanted: self.wanted.clone(), remedy }
    }
}

/// Runs every check. Fails if one of them does.
pub(crate) fn run(options: &Doctor) -> Result<Exit, Failure> {
    let resolved = options.cell.load()?;
    let findings = examine(&resolved.config);
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    if options.json {
        data(serde_json::json!({ "verdict": worst, "findings": findings }));
    } else {
        for finding in &findings {
            let mark = match finding.verdict {
                Verdict::Ok => "ok  ",
                Verdict::Warn => "warn",
                Verdict::Fail => "FAIL",
            };
            data(format_args!("{mark}  {:<16} {}", finding.check, finding.found));
            data(format_args!("                       wanted: {}", finding.wanted));
            if let Some(remedy) = &finding.remedy {
                data(format_args!("                       -> {remedy}"));
            }
        }
    }
    Ok(if worst == Verdict::Fail { Exit::Failure } else { Exit::Good })
}

fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        kernel::buffer("receive buffer", "net.core.rmem_max"),
        kernel::buffer("send buffer", "net.core.wmem_max"),
        kernel::open_files(),
        kernel::cores(),
        clock::reading(),
        clock::wake_ups(&config.timing),
    ];
    findings.extend(files::runtime_dir(config));
    findings.push(files::state_dir(config));
    findings.push(files::cell_key(config));
    findings.push(network::loopback());
    findings.push(network::bind(config));
    findings.extend(network::seeds(config));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_others_can_read_is_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let key = dir.path().join("cell.key");
        std::fs::write(&key, "00".repeat(32)).expect("writable");
        let mut config = Config { cell_key: Some(key.clone()), ..Config::default() };
        let mode = |mode| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).expect("own file");
        };
        mode(0o644);
        assert_eq!(files::cell_key(&config).verdict, Verdict::Fail);
        mode(0o600);
        assert_eq!(files::cell_key(&config).verdict, Verdict::Ok);
        std::fs::write(&key, "not a key").expect("writable");
        let finding = files::cell_key(&config);
        assert_eq!(finding.verdict, Verdict::Fail);
        assert!(!finding.found.contains("not a key"), "the content of a key file is never shown");
        config.cell_key = Some(dir.path().join("missing"));
        assert_eq!(files::cell_key(&config).verdict, Verdict::Fail);
    }

    #[test]
    fn a_state_directory_that_is_emptied_is_warned_of_where_there_are_founders() {
        // A memory file system if the machine has one; otherwise `/tmp`, which is cleaned.
        let memory = std::path::Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::path::Path::new("/tmp") };
        let dir = tempfile::tempdir_in(place).expect("a temporary directory");
        let mut config = Config {
            runtime_dir: Some(dir.path().join("run")),
            state_dir: Some(dir.path().join("state")),
            ..Config::default()
        };
        assert_eq!(files::state_dir(&config).verdict, Verdict::Ok);
        config.founders = vec!["a".to_owned()];
        let finding = files::state_dir(&config);
        assert!(finding.verdict == Verdict::Warn && finding.found.contains("reboot"), "{finding:?}");
        // `/proc` is not writable.
        config.state_dir = Some("/proc/state".into());
        let finding = files::state_dir(&config);
        assert_eq!(finding.verdict, Verdict::Fail);
        assert!(finding.remedy.is_some_and(|remedy| remedy.contains("state_dir")), "{}", finding.found);
    }

    #[test]
    fn an_address_of_another_host_cannot_be_bound() {
        let bind = |address: &str| Config { bind: address.parse().expect("an address"), ..Config::default() };
        assert_eq!(network::bind(&bind("127.0.0.1")).verdict, Verdict::Ok);
        // No host has an address of TEST-NET-1.
        let finding = network::bind(&bind("192.0.2.1"));
        assert_eq!(finding.verdict, Verdict::Fail);
        assert!(finding.remedy.is_some());
    }

    #[test]
    fn every_line_has_a_threshold_and_every_warning_and_failure_a_remedy() {
        let seeds = vec!["no-such-host.invalid:7401".to_owned()];
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = Config {
            bind: "192.0.2.1".parse().expect("an address"),
            seeds,
            runtime_dir: Some(dir.path().join("run")),
            state_dir: Some(dir.path().join("state")),
            ..Config::default()
        };
        for finding in examine(&config) {
            assert_eq!(finding.remedy.is_some(), finding.verdict != Verdict::Ok, "{finding:?}");
            let (threshold, reason) = finding.wanted.split_once(": ").expect("a threshold and a reason");
            assert!(!threshold.is_empty() && !reason.is_empty(), "{finding:?}");
        }
    }
}
