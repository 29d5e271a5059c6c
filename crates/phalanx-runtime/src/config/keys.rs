//! The schema: each key's name, accepted values, setter and text form. No other place lists the keys.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use phalanx_core::{SlowMembers, check_name};

use super::units::{parse_duration, parse_size, show_duration, show_size};
use super::{Config, DriverMode, SecurityMode, TapMode};

/// A value as written, before its key checked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A string of the file; a variable; a flag.
    Text(String),
    /// A number of the file.
    Integer(i64),
    /// A list of strings of the file.
    List(Vec<String>),
    /// A value that no key accepts, described for people.
    Other(&'static str),
}

type Set = fn(&mut Config, &Written) -> Result<(), String>;
type Show = fn(&Config) -> Option<String>;

/// One key of the configuration.
pub struct Key {
    /// Its name; a dot separates the table from the key.
    pub name: &'static str,
    /// The accepted values, for people.
    pub takes: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    pub(super) set: Set,
    pub(super) show: Show,
}

impl Key {
    /// The variable of the environment that sets it: `timing.heartbeat` is `PHALANX_TIMING__HEARTBEAT`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("PHALANX_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// The value in a configuration, as it would be written in a file; `None`: not set.
    #[must_use]
    pub fn show(&self, config: &Config) -> Option<String> {
        (self.show)(config)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("takes", &self.takes).finish_non_exhaustive()
    }
}

/// All keys, in the order they are shown.
pub const KEYS: &[Key] = &[
    Key {
        name: "cell",
        takes: "name",
        help: "The cell: the processes that see one membership.",
        set: |c, w| name(w).map(|v| c.cell = v),
        show: |c| Some(quoted(&c.cell)),
    },
    Key {
        name: "name",
        takes: "name",
        help: "This process's name, unique in its cell; survives restarts.",
        set: |c, w| name(w).map(|v| c.name = Some(v)),
        show: |c| c.name.as_deref().map(quoted),
    },
    Key {
        name: "bind",
        takes: "IP address",
        help: "The address this process receives on.",
        set: |c, w| address(w).map(|v| c.bind = v),
        show: |c| Some(quoted(&c.bind.to_string())),
    },
    Key {
        name: "data_port",
        takes: "port",
        help: "The UDP port for data; 0 lets the system choose.",
        set: |c, w| port(w).map(|v| c.data_port = v),
        show: |c| Some(c.data_port.to_string()),
    },
    Key {
        name: "control_port",
        takes: "port",
        help: "The UDP port for control traffic; 0 lets the system choose.",
        set: |c, w| port(w).map(|v| c.control_port = v),
        show: |c| Some(c.control_port.to_string()),
    },
    Key {
        name: "driver",
        takes: "\"auto\" or \"udp\"",
        help: "What carries packets: shared memory between processes of this host where it can, or datagrams alone.",
        set: |c, w| driver(w).map(|v| c.driver = v),
        show: |c| Some(quoted(if c.driver == DriverMode::Udp { "udp" } else { "auto" })),
    },
    Key {
        name: "tap",
        takes: "\"off\", \"sealed\" or \"clear\"",
        help: "What a tap of the same user may show of this process's packets: nothing, what goes over the network, or also the frames in clear.",
        set: |c, w| tap(w).map(|v| c.tap = v),
        show: |c| Some(quoted(c.tap.word())),
    },
    Key {
        name: "seeds",
        takes: "list of host:port",
        help: "Where to look for the cell: control addresses.",
        set: |c, w| each(w, seed).map(|v| c.seeds = v),
        show: |c| Some(quoted_list(&c.seeds)),
    },
    Key {
        name: "founders",
        takes: "list of names",
        help: "The processes that found the cell together, by name; each must accept the first view.",
        set: |c, w| each(w, |item| name(&Written::Text(item.to_owned())).map(drop)).map(|v| c.founders = v),
        show: |c| Some(quoted_list(&c.founders)),
    },
    Key {
        name: "cell_key",
        takes: "path",
        help: "The file that holds the cell key; the same on every host of the cell.",
        set: |c, w| path(w).map(|v| c.cell_key = Some(v)),
        show: |c| c.cell_key.as_ref().map(|p| quoted(&p.to_string_lossy())),
    },
    Key {
        name: "security",
        takes: "\"sealed\" or \"none\"",
        help: "How packets are protected; \"none\" lets anybody who reaches the port join and forge.",
        set: |c, w| security(w).map(|v| c.security = v),
        show: |c| Some(quoted(if c.security == SecurityMode::None { "none" } else { "sealed" })),
    },
    Key {
        name: "runtime_dir",
        takes: "path",
        help: "Where locks and counters files lie.",
        set: |c, w| path(w).map(|v| c.runtime_dir = Some(v)),
        show: |c| c.runtime_dir.as_ref().map(|p| quoted(&p.to_string_lossy())),
    },
    Key {
        name: "state_dir",
        takes: "path",
        help: "Where the local cell key and founders' records lie; it must survive reboots.",
        set: |c, w| path(w).map(|v| c.state_dir = Some(v)),
        show: |c| c.state_dir.as_ref().map(|p| quoted(&p.to_string_lossy())),
    },
    Key {
        name: "trace",
        takes: "path",
        help: "A directory for a trace of everything this process saw; `phalanx check` checks it.",
        set: |c, w| path(w).map(|v| c.trace = Some(v)),
        show: |c| c.trace.as_ref().map(|p| quoted(&p.to_string_lossy())),
    },
    Key {
        name: "timing.heartbeat",
        takes: "duration",
        help: "Between heartbeats to each watcher.",
        set: |c, w| duration(w).map(|v| c.timing.heartbeat = v),
        show: |c| Some(quoted(&show_duration(c.timing.heartbeat))),
    },
    Key {
        name: "timing.suspect_after",
        takes: "duration",
        help: "Unheard this long, a link is suspected.",
        set: |c, w| duration(w).map(|v| c.timing.suspect_after = v),
        show: |c| Some(quoted(&show_duration(c.timing.suspect_after))),
    },
    Key {
        name: "timing.ballot_step",
        takes: "duration",
        help: "Patience of a coordinator with one step of a view change.",
        set: |c, w| duration(w).map(|v| c.timing.ballot_step = v),
        show: |c| Some(quoted(&show_duration(c.timing.ballot_step))),
    },
    Key {
        name: "timing.probe",
        takes: "duration",
        help: "Between probes of a process that looks for its cell.",
        set: |c, w| duration(w).map(|v| c.timing.probe = v),
        show: |c| Some(quoted(&show_duration(c.timing.probe))),
    },
    Key {
        name: "timing.ack_delay",
        takes: "duration",
        help: "The longest an acknowledgement is held back.",
        set: |c, w| duration(w).map(|v| c.timing.ack_delay = v),
        show: |c| Some(quoted(&show_duration(c.timing.ack_delay))),
    },
    Key {
        name: "timing.expel_after",
        takes: "duration",
        help: "A member that holds others back for so long is too slow, where limits.slow_members is \"expel\".",
        set: |c, w| duration(w).map(|v| c.timing.expel_after = v),
        show: |c| Some(quoted(&show_duration(c.timing.expel_after))),
    },
    Key {
        name: "timing.turn_gap_max",
        takes: "duration",
        help: "The longest gap between two iterations of the event loop of this process, in normal operation.",
        set: |c, w| duration(w).map(|v| c.timing.turn_gap_max = v),
        show: |c| Some(quoted(&show_duration(c.timing.turn_gap_max))),
    },
    Key {
        name: "timing.end_wait",
        takes: "duration",
        help: "The last members wait so long for members that are cut off, before they leave together.",
        set: |c, w| duration_or_zero(w).map(|v| c.timing.end_wait = v),
        show: |c| Some(quoted(&show_duration(c.timing.end_wait))),
    },
    Key {
        name: "limits.group_window",
        takes: "size",
        help: "What all streams of one group may hold until every member has it.",
        set: |c, w| size(w, 64 << 10).map(|v| c.limits.group_window_bytes = v),
        show: |c| Some(quoted(&show_size(c.limits.group_window_bytes as u64))),
    },
    Key {
        name: "limits.channel_window",
        takes: "size",
        help: "The window of one channel between two processes.",
        set: |c, w| size(w, 16 << 10).map(|v| c.limits.channel_window_bytes = v),
        show: |c| Some(quoted(&show_size(c.limits.channel_window_bytes as u64))),
    },
    Key {
        name: "limits.outbox",
        takes: "size",
        help: "Accepted for sending and not yet in a packet, per group.",
        set: |c, w| size(w, 1 << 10).map(|v| c.limits.outbox_bytes = v),
        show: |c| Some(quoted(&show_size(c.limits.outbox_bytes as u64))),
    },
    Key {
        name: "limits.members",
        takes: "count",
        help: "Most processes in a cell.",
        set: |c, w| count(w, 1..=1024).map(|v| c.limits.members = v),
        show: |c| Some(c.limits.members.to_string()),
    },
    Key {
        name: "limits.members_min",
        takes: "count",
        help: "In a cell view with fewer members no uniform message is sent.",
        set: |c, w| count(w, 1..=1024).map(|v| c.limits.members_min = v),
        show: |c| Some(c.limits.members_min.to_string()),
    },
    Key {
        name: "limits.slow_members",
        takes: "\"wait\" or \"expel\"",
        help: "What becomes of a member that stays behind: the others wait for it, or go on without it.",
        set: |c, w| slow_members(w).map(|v| c.limits.slow_members = v),
        show: |c| Some(quoted(if c.limits.slow_members == SlowMembers::Expel { "expel" } else { "wait" })),
    },
];

fn text<'a>(written: &'a Written, wanted: &str) -> Result<&'a str, String> {
    match written {
        Written::Text(text) => Ok(text),
        Written::Integer(number) => Err(format!("{number} is a bare number; write {wanted}")),
        Written::List(_) => Err(format!("a list does not fit here; write {wanted}")),
        Written::Other(what) => Err(format!("{what} does not fit here; write {wanted}")),
    }
}

fn address(written: &Written) -> Result<IpAddr, String> {
    let text = text(written, "an IP address like \"10.1.2.3\"")?;
    text.parse().map_err(|_no_address| {
        format!("'{text}' is not an IP address; write it like \"10.1.2.3\" (host names do not fit here)")
    })
}

fn name(written: &Written) -> Result<String, String> {
    let name = text(written, "a name in quotes")?;
    check_name(name).map_err(|bad| format!("{bad}, this one has {}", name.len()))?;
    if name.chars().any(|c| c.is_control() || c == '/') {
        return Err("a name holds no control characters and no '/'".to_owned());
    }
    Ok(name.to_owned())
}

fn path(written: &Written) -> Result<PathBuf, String> {
    let path = text(written, "a path in quotes")?;
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    Ok(PathBuf::from(path))
}

fn port(written: &Written) -> Result<u16, String> {
    count(written, 0..=65_535).and_then(|port| u16::try_from(port).map_err(|e| e.to_string()))
}

fn count(written: &Written, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let bad = |what: &dyn std::fmt::Display| {
        format!("{what} is not a whole number from {} to {}", range.start(), range.end())
    };
    let value = match written {
        Written::Integer(number) => usize::try_from(*number).map_err(|_negative| bad(number))?,
        Written::Text(text) => text.parse().map_err(|_no_number| bad(&format_args!("'{text}'")))?,
        Written::List(_) => return Err(bad(&"a list")),
        Written::Other(what) => return Err(bad(what)),
    };
    if range.contains(&value) { Ok(value) } else { Err(bad(&value)) }
}

fn duration(written: &Written) -> Result<Duration, String> {
    let value = duration_or_zero(written)?;
    if value.is_zero() || value > DURATION_MAX {
        return Err(format!("must lie between 1ns and {}", show_duration(DURATION_MAX)));
    }
    Ok(value)
}

fn duration_or_zero(written: &Written) -> Result<Duration, String> {
    parse_duration(text(written, "a duration with its unit, like \"150ms\"")?)
}

fn size(written: &Written, min: u64) -> Result<usize, String> {
    let value = parse_size(text(written, "a size with its unit, like \"64KiB\"")?)?;
    if value < min || value > SIZE_MAX {
        return Err(format!("must lie between {} and {}", show_size(min), show_size(SIZE_MAX)));
    }
    usize::try_from(value).map_err(|e| e.to_string())
}

fn security(written: &Written) -> Result<SecurityMode, String> {
    match text(written, "\"sealed\" or \"none\"")? {
        "sealed" => Ok(SecurityMode::Sealed),
        "none" => Ok(SecurityMode::None),
        other => Err(format!("'{other}' is neither \"sealed\" nor \"none\"")),
    }
}

fn driver(written: &Written) -> Result<DriverMode, String> {
    match text(written, "\"auto\" or \"udp\"")? {
        "auto" => Ok(DriverMode::Auto),
        "udp" => Ok(DriverMode::Udp),
        other => Err(format!("'{other}' is neither \"auto\" nor \"udp\"")),
    }
}

fn tap(written: &Written) -> Result<TapMode, String> {
    let takes = "\"off\", \"sealed\" or \"clear\"";
    let word = text(written, takes)?;
    let mode = [TapMode::Off, TapMode::Sealed, TapMode::Clear].into_iter().find(|mode| mode.word() == word);
    mode.ok_or_else(|| format!("'{word}' is none of {takes}"))
}

fn slow_members(written: &Written) -> Result<SlowMembers, String> {
    match text(written, "\"wait\" or \"expel\"")? {
        "wait" => Ok(SlowMembers::Wait),
        "expel" => Ok(SlowMembers::Expel),
        other => Err(format!("'{other}' is neither \"wait\" nor \"expel\"")),
    }
}

fn seed(item: &str) -> Result<(), String> {
    let port = item.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    match port.map(str::parse::<u16>) {
        Some(Ok(port)) if port != 0 => Ok(()),
        _ => Err(format!("'{item}' is not an address with a port; write it like \"10.1.2.3:7401\"")),
    }
}

/// The items of a list: a list of the file, or a text with commas between them.
fn each(written: &Written, check: impl Fn(&str) -> Result<(), String>) -> Result<Vec<String>, String> {
    let items: Vec<String> = match written {
        Written::List(items) => items.clone(),
        Written::Text(text) => text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect(),
        Written::Integer(_) => return Err("a number does not fit here; write a list of strings".to_owned()),
        Written::Other(what) => return Err(format!("{what} does not fit here; write a list of strings")),
    };
    items.iter().try_for_each(|item| check(item))?;
    Ok(items)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn quoted_list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Longer periods are certainly a mistake in the unit.
const DURATION_MAX: Duration = Duration::from_secs(3600);

/// Larger windows do not fit the memory of one process.
const SIZE_MAX: u64 = 1 << 32;
