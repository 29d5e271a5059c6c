//! Injects faults into a member, and undoes them.

use std::time::Duration;

use phalanx_runtime::core::member::LATE_TURN;

use super::crew::Crew;
use super::fault::{Fabric, Fault, Role};
use super::limits::{Buffers, Descriptors, Quota, empty, fill, is_full};
use super::mistreat::Mistreatment;
use super::network::{CONTROL_PORT, DATA_PORT, Network, SECOND_CONTROL_PORT, SECOND_DATA_PORT, TABLE, port};
use super::report::Order;
use super::tools::{run, run_in};
use crate::exit::{Exit, Failure, While};

/// A fault in force, with the state needed to undo it.
#[derive(Debug)]
pub(super) struct Harm {
    host: usize,
    fault: Fault,
    /// Packets that the bridge's rules had matched before.
    met: u64,
    /// Directed links that are cut, from host to host.
    links: Vec<(usize, usize)>,
    /// Whether they are cut now.
    cut: bool,
    /// Whether the wall clock has made its second jump.
    jumped_back: bool,
    buffers: Option<Buffers>,
    descriptors: Option<Descriptors>,
    quota: Option<Quota>,
}

/// Half a period of a flapping link.
const FLAP: Duration = Duration::from_millis(300);

impl Harm {
    /// Injects the fault into the member on `host`.
    pub(super) fn apply(
        fault: Fault,
        host: usize,
        network: &Network,
        crew: &mut Crew,
        group: &str,
    ) -> Result<Self, Failure> {
        let links = links(fault, host, network);
        // The bridge's rules count for the whole bout, so earlier matches are subtracted.
        let met = if fault.fabric() == Fabric::Bridge { hits(&network.hub(), "bridge")? } else { 0 };
        let mut harm = Self {
            host,
            fault,
            met,
            links,
            cut: false,
            jumped_back: false,
            buffers: None,
            descriptors: None,
            quota: None,
        };
        match fault {
            Fault::Kill => crew.kill(host)?,
            Fault::StopShort | Fault::StopLong => crew.hold(host, true)?,
            Fault::CutIn
            | Fault::CutOut
            | Fault::Isolate
            | Fault::CutPair
            | Fault::OneWay
            | Fault::TwoSides
            | Fault::Flap => {
                harm.set_cut(network, true)?;
            }
            Fault::Loss5 => pass_rule(network, host, "numgen random mod 1000 < 50 counter drop")?,
            Fault::Loss30 => pass_rule(network, host, "numgen random mod 1000 < 300 counter drop")?,
            Fault::MtuHole => pass_rule(network, host, "meta length > 1000 counter drop")?,
            Fault::DataPort => pass_rule(network, host, &drop_to([DATA_PORT, SECOND_DATA_PORT]))?,
            Fault::ControlPort => pass_rule(network, host, &drop_to([CONTROL_PORT, SECOND_CONTROL_PORT]))?,
            Fault::Duplicate => duplicate(network, host)?,
            Fault::Refuse => refuse(network, host)?,
            Fault::SendRefused => refuse_sends(network, host)?,
            Fault::Carrier | Fault::Interface => harm.link(network, "down")?,
            Fault::SmallBuffers => harm.buffers = Some(Buffers::shrink(crew.member(host).pid())?),
            Fault::Descriptors => harm.descriptors = Some(Descriptors::exhaust(crew.member(host).pid())?),
            Fault::CpuQuota => harm.quota = Some(Quota::impose(group, crew.member(host).pid())?),
            Fault::LateTurns => crew.order(host, Order::Dawdle { ms: millis(LATE_TURN) })?,
            Fault::HangingApplication => crew.order(host, Order::Hang { hangs: true })?,
            // It stopped itself, as ordered at its start.
            Fault::HangingJoiner => crew.write_stop(host)?,
            Fault::FullDisk => fill(&crew.plan().state(host))?,
            Fault::WallClock => set_wall_clock(crew, host, "+3600")?,
            Fault::Delay => harm.mistreat(network, Mistreatment::DELAY)?,
            Fault::Jitter => harm.mistreat(network, Mistreatment::JITTER)?,
            Fault::Reorder => harm.mistreat(network, Mistreatment::REORDER)?,
            Fault::LateDuplicate => harm.mistreat(network, Mistreatment::AGAIN)?,
            Fault::Corrupt => harm.mistreat(network, Mistreatment::CORRUPT)?,
            Fault::Narrow => harm.mistreat(network, Mistreatment::NARROW)?,
            Fault::Bursts => harm.mistreat(network, Mistreatment::BURSTS)?,
        }
        Ok(harm)
    }

    /// Performs the changes over time of the fault; `elapsed` counts from its beginning.
    pub(super) fn tick(&mut self, elapsed: Duration, network: &Network, crew: &mut Crew) -> Result<(), Failure> {
        match self.fault {
            Fault::Flap => {
                let cut = (elapsed.as_millis() / FLAP.as_millis()).is_multiple_of(2);
                if cut != self.cut {
                    self.set_cut(network, cut)?;
                }
            }
            Fault::WallClock if elapsed > self.fault.hold() / 2 && !self.jumped_back => {
                self.jumped_back = true;
                let wall = crew.member(self.host).pulse.wall_s;
                let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                // Verifies that the clock jumped; otherwise the fault would have no effect.
                if wall.abs_diff(real.map_or(0, |real| real.as_secs())) < 3_000 {
                    crew.wrongs.push("the member's wall clock did not jump".to_owned());
                }
                set_wall_clock(crew, self.host, "-3600")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Members that may be excluded because of it.
    pub(super) fn touched(&self, role: Role) -> Vec<usize> {
        match self.fault {
            // A joiner that answers late may have to try again. With a pair, either may be excluded; with two sides, it
            // is the smaller one.
            _ if self.fault.is_gentle() && role != Role::Joiner => Vec::new(),
            Fault::CutPair | Fault::OneWay => self.links.iter().flat_map(|(from, to)| [*from, *to]).collect(),
            Fault::TwoSides => self.links.iter().map(|(from, _)| *from).collect(),
            _ => vec![self.host],
        }
    }

    /// Members at an end of a faulty path, or faulty themselves.
    pub(super) fn ends(&self) -> Vec<usize> {
        match self.fault {
            Fault::CutPair | Fault::OneWay | Fault::TwoSides => self.touched(Role::Joiner),
            _ => vec![self.host],
        }
    }

    /// Whether it has had an effect by now.
    pub(super) fn felt(&self, network: &Network, crew: &Crew) -> Result<bool, Failure> {
        let (hub, host) = (network.hub(), network.namespace(self.host));
        Ok(match self.fault {
            Fault::CutIn
            | Fault::CutOut
            | Fault::Isolate
            | Fault::CutPair
            | Fault::OneWay
            | Fault::TwoSides
            | Fault::Flap
            | Fault::Loss5
            | Fault::Loss30
            | Fault::DataPort
            | Fault::ControlPort
            | Fault::MtuHole => hits(&hub, "bridge")? > self.met,
            Fault::Duplicate => hits(&hub, "netdev")? > 0,
            Fault::Refuse | Fault::SendRefused => hits(&host, "inet")? > 0,
            Fault::FullDisk => is_full(&crew.plan().state(self.host)),
            Fault::CpuQuota => self.quota.as_ref().is_some_and(Quota::felt),
            Fault::Delay
            | Fault::Jitter
            | Fault::Reorder
            | Fault::LateDuplicate
            | Fault::Corrupt
            | Fault::Narrow
            | Fault::Bursts => network.switch.as_ref().is_some_and(|switch| switch.mistreated() > 0),
            // These either take effect or fail with an error.
            Fault::Kill
            | Fault::StopShort
            | Fault::StopLong
            | Fault::Carrier
            | Fault::Interface
            | Fault::SmallBuffers
            | Fault::Descriptors
            | Fault::LateTurns
            | Fault::HangingApplication
            | Fault::HangingJoiner
            | Fault::WallClock => true,
        })
    }

    /// Undoes the fault. A killed member starts again.
    pub(super) fn heal(mut self, network: &Network, crew: &mut Crew) -> Result<(), Failure> {
        let host = self.host;
        match self.fault {
            Fault::Kill => crew.spawn(network, host)?,
            Fault::StopShort | Fault::StopLong | Fault::HangingJoiner => crew.hold(host, false)?,
            Fault::LateTurns => crew.order(host, Order::Dawdle { ms: 0 })?,
            Fault::HangingApplication => crew.order(host, Order::Hang { hangs: false })?,
            Fault::FullDisk => empty(&crew.plan().state(host))?,
            Fault::CutIn
            | Fault::CutOut
            | Fault::Isolate
            | Fault::CutPair
            | Fault::OneWay
            | Fault::TwoSides
            | Fault::Flap => {
                self.set_cut(network, false)?;
            }
            Fault::Loss5 | Fault::Loss30 | Fault::DataPort | Fault::ControlPort | Fault::MtuHole => {
                run_in(&network.hub(), "nft", &["flush", "chain", "bridge", TABLE, "faults"]).map(drop)?;
            }
            Fault::Duplicate => drop(run_in(&network.hub(), "nft", &["delete", "table", "netdev", TABLE])?),
            Fault::Refuse | Fault::SendRefused => {
                run_in(&network.namespace(host), "nft", &["delete", "table", "inet", TABLE]).map(drop)?;
            }
            Fault::Carrier | Fault::Interface => self.link(network, "up")?,
            Fault::SmallBuffers => drop(self.buffers.take().map(Buffers::restore).transpose()?),
            Fault::Descriptors => drop(self.descriptors.take().map(Descriptors::restore).transpose()?),
            Fault::CpuQuota => drop(self.quota.take()),
            Fault::WallClock => set_wall_clock(crew, host, "+0")?,
            Fault::Delay
            | Fault::Jitter
            | Fault::Reorder
            | Fault::LateDuplicate
            | Fault::Corrupt
            | Fault::Narrow
            | Fault::Bursts => {
                if let Some(switch) = &network.switch {
                    switch.heal();
                }
            }
        }
        Ok(())
    }

    /// Cuts or heals all links in one step.
    fn set_cut(&mut self, network: &Network, cut: bool) -> Result<(), Failure> {
        self.cut = cut;
        if cut {
            let pairs: Vec<String> =
                self.links.iter().map(|(from, to)| format!("\"{}\" . \"{}\"", port(*from), port(*to))).collect();
            let what = format!("add element bridge {TABLE} cut {{ {} }}", pairs.join(", "));
            run_in(&network.hub(), "nft", &[&what]).map(drop)
        } else {
            run_in(&network.hub(), "nft", &["flush", "set", "bridge", TABLE, "cut"]).map(drop)
        }
    }

    fn link(&self, network: &Network, to: &str) -> Result<(), Failure> {
        let (namespace, device) = if self.fault == Fault::Carrier {
            (network.hub(), port(self.host))
        } else {
            (network.namespace(self.host), "eth0".to_owned())
        };
        run("ip", &["-n", &namespace, "link", "set", &device, to]).map(drop)
    }

    fn mistreat(&self, network: &Network, how: Mistreatment) -> Result<(), Failure> {
        let what = || Failure::new(Exit::Failure, "this fault needs the switch, and the cell is on the bridge");
        network.switch.as_ref().ok_or_else(what)?.mistreat(self.host, network.count, how);
        Ok(())
    }
}

/// Directed links that the fault cuts.
fn links(fault: Fault, host: usize, network: &Network) -> Vec<(usize, usize)> {
    let out = |side: &[usize], rest: &[usize]| -> Vec<(usize, usize)> {
        side.iter().flat_map(|a| rest.iter().map(move |b| (*a, *b))).collect()
    };
    let others: Vec<usize> = network.others(host).collect();
    let both = |side: &[usize], rest: &[usize]| [out(side, rest), out(rest, side)].concat();
    match fault {
        Fault::CutIn => out(&others, &[host]),
        Fault::CutOut => out(&[host], &others),
        Fault::Isolate | Fault::Flap => both(&[host], &others),
        Fault::CutPair => both(&[host], &others[..1]),
        Fault::OneWay => out(&[host], &others[..1]),
        Fault::TwoSides => {
            // The smaller side: less than half, the member included.
            let (with, rest) = others.split_at((network.count - 1) / 2 - 1);
            both(&[&[host], with].concat(), rest)
        }
        _ => Vec::new(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What drops packets to one port of each cell.
fn drop_to([first, second]: [u16; 2]) -> String {
    format!("udp dport {{ {first}, {second} }} counter drop")
}

/// Adds a rule for all packets that pass the bridge to or from a host.
fn pass_rule(network: &Network, host: usize, what: &str) -> Result<(), Failure> {
    let port = port(host);
    let rules = format!(
        "add rule bridge {TABLE} faults iifname \"{port}\" {what}
         add rule bridge {TABLE} faults oifname \"{port}\" {what}"
    );
    run_in(&network.hub(), "nft", &[&rules]).map(drop)
}

fn duplicate(network: &Network, host: usize) -> Result<(), Failure> {
    let mut rules = format!("add table netdev {TABLE}\n");
    for from in 1..=network.count {
        let device = port(from);
        let chain = format!("netdev {TABLE} from{from}");
        rules.push_str(&format!("add chain {chain} {{ type filter hook ingress device \"{device}\" priority 0; }}\n"));
        for to in network.others(from).filter(|to| *to == host || from == host) {
            let (to, address) = (port(to), super::network::address(to));
            rules.push_str(&format!(
                "add rule {chain} ip daddr {address} numgen random mod 100 < 30 counter dup to \"{to}\"\n"
            ));
        }
    }
    run_in(&network.hub(), "nft", &[&rules]).map(drop)
}

fn refuse(network: &Network, host: usize) -> Result<(), Failure> {
    let rules = format!(
        "add table inet {TABLE}
         add chain inet {TABLE} coming {{ type filter hook input priority 0; }}
         add rule inet {TABLE} coming udp dport {DATA_PORT}-{SECOND_CONTROL_PORT} numgen random mod 100 < 30 counter reject with icmp type port-unreachable"
    );
    run_in(&network.namespace(host), "nft", &[&rules]).map(drop)
}

fn refuse_sends(network: &Network, host: usize) -> Result<(), Failure> {
    let rules = format!(
        "add table inet {TABLE}
         add chain inet {TABLE} going {{ type filter hook output priority 0; }}
         add rule inet {TABLE} going meta l4proto udp numgen random mod 100 < 50 counter drop"
    );
    run_in(&network.namespace(host), "nft", &[&rules]).map(drop)
}

/// Packets matched by the rules of this family since they were added.
fn hits(namespace: &str, family: &str) -> Result<u64, Failure> {
    let listed = run_in(namespace, "nft", &["list", "table", family, TABLE])?;
    let mut words = listed.split_whitespace();
    let mut sum = 0;
    while words.by_ref().any(|word| word == "packets") {
        sum += words.next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

fn set_wall_clock(crew: &Crew, host: usize, offset: &str) -> Result<(), Failure> {
    let path = crew.plan().wall_clock(host);
    std::fs::write(&path, format!("{offset}\n")).when(format_args!("cannot write {}", path.display()))
}
