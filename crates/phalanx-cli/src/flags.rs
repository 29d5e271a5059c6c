//! Flags that select the cell of a command, and the configuration that results from them, the file and the environment.

use std::path::PathBuf;

use clap::Args;
use phalanx::{Cell, CellBuilder, Guarantee};
use phalanx_runtime::config::{Config, Resolved};
use phalanx_runtime::core::{BadName, check_name};

use crate::exit::{Exit, Failure};
use crate::notice::say;
use crate::table::Table;

/// Flags of the configuration. They override `PHALANX_*` variables, which override the file, which overrides defaults.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cell options")]
pub(crate) struct CellFlags {
    /// TOML file with any of the keys of docs/configuration.md
    #[arg(long, value_name = "FILE", env = "PHALANX_CONFIG")]
    config: Option<PathBuf>,
    /// The cell's name
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,
    /// This process's name, unique in its cell
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The address to receive on
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// The UDP port for data; 0: the system chooses
    #[arg(long, value_name = "PORT")]
    data_port: Option<String>,
    /// The UDP port for control traffic; 0: the system chooses
    #[arg(long, value_name = "PORT")]
    control_port: Option<String>,
    /// Addresses at which to look for the cell: control addresses with commas between them
    #[arg(long, value_name = "HOST:PORT,..")]
    seeds: Option<String>,
    /// Names of the processes that found the cell together
    #[arg(long, value_name = "NAME,..")]
    founders: Option<String>,
    /// The file that holds the cell key
    #[arg(long, value_name = "FILE")]
    cell_key: Option<String>,
    /// "sealed" or "none"
    #[arg(long, value_name = "HOW")]
    security: Option<String>,
    /// Directory of locks and counters files
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<String>,
    /// Directory of the local cell key and founders' records; it must survive reboots
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// A directory for a trace of everything this process saw
    #[arg(long, value_name = "DIR")]
    trace: Option<String>,
    /// Any other key: --set timing.heartbeat=50ms
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// A group's name on the command line.
pub(crate) fn group_name(text: &str) -> Result<String, BadName> {
    check_name(text).map(|()| text.to_owned())
}

/// The guarantee that these flags of a command request.
pub(crate) fn guarantee(uniform: bool, plain: bool) -> Guarantee {
    match (plain, uniform) {
        (true, _) => Guarantee::Plain,
        (false, true) => Guarantee::Uniform,
        (false, false) => Guarantee::GroupDefault,
    }
}

impl CellFlags {
    /// Keys and values, as given.
    fn given(&self) -> Result<Vec<(String, String)>, Failure> {
        let named = [
            ("cell", &self.cell),
            ("name", &self.name),
            ("bind", &self.bind),
            ("data_port", &self.data_port),
            ("control_port", &self.control_port),
            ("seeds", &self.seeds),
            ("founders", &self.founders),
            ("cell_key", &self.cell_key),
            ("security", &self.security),
            ("runtime_dir", &self.runtime_dir),
            ("state_dir", &self.state_dir),
            ("trace", &self.trace),
        ];
        let given = |(key, value): (&str, &Option<String>)| Some((key.to_owned(), value.clone()?));
        let mut flags: Vec<(String, String)> = named.into_iter().filter_map(given).collect();
        for pair in &self.set {
            let Some((key, value)) = pair.split_once('=') else {
                let what = format!("--set {pair}: write it as KEY=VALUE, like timing.heartbeat=50ms");
                return Err(Failure::new(Exit::Usage, what));
            };
            flags.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(flags)
    }

    /// How to start a process with them, the environment and the file, whose merged configuration is `config`. It warns as
    /// [`Self::load`] does.
    pub(crate) fn builder(&self, config: &Config) -> Result<CellBuilder, Failure> {
        // The library has no default for the cell's name.
        let builder = Cell::builder(config.cell.as_str()).environment();
        let builder = self.config.iter().fold(builder, CellBuilder::file);
        Ok(self.given()?.into_iter().fold(builder, |builder, (key, value)| builder.set(key, value)))
    }

    /// Merges flags, environment and file, and prints the warnings.
    pub(crate) fn load(&self) -> Result<Resolved, Failure> {
        let flags = self.given()?;
        // A variable that is not valid UTF-8 cannot be one of this program's.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text);
        let resolved = Config::load(&flags, environment, self.config.as_deref())
            .map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
        for warning in &resolved.warnings {
            say(format_args!("WARNING: {warning}"));
        }
        Ok(resolved)
    }
}

/// Formats the configuration in force: value and origin of every key.
pub(crate) fn show(resolved: &Resolved, json: bool) -> String {
    if json {
        let lines: Vec<serde_json::Value> = resolved
            .shown()
            .into_iter()
            .map(|s| serde_json::json!({"key": s.key, "value": s.value, "origin": s.origin.to_string()}))
            .collect();
        return serde_json::Value::Array(lines).to_string();
    }
    let mut table = Table::new(&["key", "value", "from"]);
    for shown in resolved.shown() {
        table.row([shown.key, shown.value.as_deref().unwrap_or("-"), &shown.origin.to_string()]);
    }
    table.to_string()
}
