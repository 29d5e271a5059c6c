//! Starting: from settings to a process that can be polled.

mod error;
mod founding;
mod identity;

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::{BadName, Founding, Incarnation, MemberInfo, Security, Settings, check_name};
use phalanx_driver::{Driver, Faults, Shm, ShmOptions, Udp, UdpOptions};

use crate::belief::Believer;
use crate::config::{Config, DriverMode, SecurityMode};
use crate::local::{Advert, Kept, LivenessLock, LocalCell, Role, host, read_key};
use crate::node::Entropy;
pub use error::StartError;
pub(crate) use founding::Plan;
pub(crate) use identity::{entropy, name};

/// How to start a process of a cell. The defaults find, or found, the cell of this user on this host.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings that can also be in a file.
    pub config: Config,
    /// How the process may come into its first view. `None`: as one of the fixed founders if there are any; else by
    /// joining at the seeds if there are any; else, on a loopback address, as this host's lock decides.
    pub founding: Option<Founding>,
    /// Whether it comes back after an exclusion, as a new incarnation, and joins the same groups again. Default true.
    pub rejoin: bool,
    /// For a process with a thread of its own: how long the thread polls before it sleeps. A longer time makes answers
    /// quicker and costs processor time; zero never spins. Default: zero on one or two processors, else 20
    /// microseconds.
    pub spin: Duration,
    /// Faults applied to everything that arrives at a process of [`Inline::start_lossy`](crate::Inline::start_lossy), and
    /// the seed that decides them. Default none.
    pub faults: Option<(Faults, u64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self::from(Config::default())
    }
}

impl From<Config> for Options {
    fn from(config: Config) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            config,
            founding: None,
            rejoin: true,
            spin: if processors > 2 { SPIN } else { Duration::ZERO },
            faults: None,
        }
    }
}

/// The parts of a node, and its files and locks on this host.
pub(crate) struct Prepared {
    pub(crate) driver: Shm<Udp>,
    pub(crate) settings: Settings,
    pub(crate) security: Security,
    pub(crate) entropy: Entropy,
    pub(crate) liveness_lock: LivenessLock,
    pub(crate) local: LocalCell,
    pub(crate) kept: Kept,
    pub(crate) plan: Plan,
    pub(crate) notices: Vec<String>,
    pub(crate) believer: Believer,
}

/// Binds the sockets, enters the liveness lock and decides how to enter the cell.
pub(crate) fn prepare(options: &Options) -> Result<Prepared, StartError> {
    let config = &options.config;
    let mut entropy = entropy()?;
    let local = open_local(config)?;
    let security = security(config, &local)?;
    let seeds = identity::resolve(&config.seeds)?;
    let driver = bind(config, None)?;
    let name = name(config)?;
    let addresses = identity::reachable(&driver, &seeds)?;
    let mut me = MemberInfo {
        host: host::host_id(),
        packet_bytes_max: driver.packet_bytes_max(),
        receive_packets: driver.receive_packets(),
        ..MemberInfo::new(Incarnation(entropy().max(1)), name, addresses.data, addresses.control)
    };
    // Only a key from the state directory is restored there; a configured key file is not this process's to write.
    let own_key = match &security {
        Security::Sealed(key) if config.cell_key.is_none() => Some(key.clone()),
        Security::Sealed(_) | Security::None => None,
    };
    let kept = Kept::new(&local, own_key)?;
    let advert = Advert::mine(&me.name, me.data, me.control).with_memory(driver.offer());
    let plan = Plan::new(options, &local, &advert, seeds)?;
    // Two processes of one name share a seat, so a start at it would falsely prove the end of the other.
    if plan.is_only_one() {
        me.sit(local.seat(&me.name)?);
    }
    let role = Role { founder: plan.has_name().then_some(me.name.as_str()), keyed: kept.has_key() };
    let (liveness_lock, standing) = local.enter(me.incarnation, &advert, plan.intent(), role)?;
    let (founding, seeds) = plan.resolve(standing);
    let settings = Settings {
        cell: config.cell.clone(),
        me,
        founding,
        record: plan.record(),
        seeds,
        timing: config.timing.clone(),
        limits: config.limits.clone(),
    };
    let believer = Believer::new(settings.me.incarnation);
    let mut notices = plan.notices();
    if let Some(error) = driver.unavailable() {
        notices.push(format!(
            "no shared memory, so processes of this host are reached by datagrams: {error}; driver = \"udp\" says no more of it"
        ));
    }
    Ok(Prepared { driver, settings, security, entropy, liveness_lock, local, kept, plan, notices, believer })
}

/// Makes the configured driver. `longest`: the longest packet to receive, in bytes; `None`: the default for the bound
/// addresses.
pub(crate) fn bind(config: &Config, longest: Option<u32>) -> Result<Shm<Udp>, StartError> {
    let sockets = Udp::bind(&UdpOptions {
        packet_bytes_max: longest,
        data: SocketAddr::new(config.bind, config.data_port),
        control: SocketAddr::new(config.bind, config.control_port),
        ..UdpOptions::default()
    })?;
    Ok(match config.driver {
        DriverMode::Auto => Shm::new(sockets, &memory(config)),
        DriverMode::Udp => Shm::without_memory(sockets),
    })
}

/// A ring holds twice a group's window, so that a reader within flow control is not overtaken.
fn memory(config: &Config) -> ShmOptions {
    let default = ShmOptions::default();
    let data_ring_bytes = default.data_ring_bytes.max(config.limits.group_window_bytes.saturating_mul(2));
    ShmOptions { data_ring_bytes, ..default }
}

fn check_cell(cell: &str) -> Result<(), StartError> {
    check_name(cell).map_err(|BadName| StartError::BadName { what: "cell", name: cell.to_owned() })
}

/// Opens the cell's directories on this host.
pub(crate) fn open_local(config: &Config) -> Result<LocalCell, StartError> {
    check_cell(&config.cell)?;
    Ok(LocalCell::open(config.runtime_dir.as_deref(), config.state_dir.as_deref(), &config.cell)?)
}

pub(crate) fn security(config: &Config, local: &LocalCell) -> Result<Security, StartError> {
    match (config.security, &config.cell_key) {
        (SecurityMode::None, _) => Ok(Security::None),
        (SecurityMode::Sealed, Some(path)) => Ok(Security::Sealed(read_key(path)?)),
        (SecurityMode::Sealed, None) if config.bind.is_loopback() => Ok(Security::Sealed(local.key()?)),
        (SecurityMode::Sealed, None) => Err(StartError::NoKey { bind: config.bind, local: local.key_path() }),
    }
}

/// How long a thread polls before it sleeps where processors are not scarce: about the time that a wake-up takes.
const SPIN: Duration = Duration::from_micros(20);
