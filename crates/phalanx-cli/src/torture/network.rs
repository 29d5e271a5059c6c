//! The members' hosts: network namespaces, joined by a bridge in a namespace of its own, or by the switch in this
//! program.

use super::fault::Fabric;
use super::switch::Switch;
use super::tools::{run, run_in};
use crate::exit::Failure;

/// Ports of every member.
pub(super) const CONTROL_PORT: u16 = 7401;
pub(super) const DATA_PORT: u16 = 7400;
pub(super) const CALLS_PORT: u16 = 7402;
/// Those of the second cell.
pub(super) const SECOND_DATA_PORT: u16 = 7403;
pub(super) const SECOND_CONTROL_PORT: u16 = 7404;

/// Name of the packet filter table in the bridge's and the members' namespaces.
pub(super) const TABLE: &str = "torture";

/// Hosts 1 to `count` and their network.
#[derive(Debug)]
pub(super) struct Network {
    prefix: String,
    pub(super) count: usize,
    /// The switch, if it replaces the bridge.
    pub(super) switch: Option<Switch>,
}

impl Network {
    pub(super) fn make(prefix: &str, count: usize, fabric: Fabric, seed: u64) -> Result<Self, Failure> {
        let mut network = Self { prefix: prefix.to_owned(), count, switch: None };
        for host in 1..=count {
            run("ip", &["netns", "add", &network.namespace(host)])?;
        }
        match fabric {
            Fabric::Bridge => network.bridge()?,
            Fabric::Switch => {
                let namespaces: Vec<String> = (1..=count).map(|host| network.namespace(host)).collect();
                network.switch = Some(Switch::start(&namespaces, seed)?);
            }
        }
        for host in 1..=count {
            let (namespace, address) = (network.namespace(host), format!("{}/24", address(host)));
            run("ip", &["-n", &namespace, "link", "set", "lo", "up"])?;
            run("ip", &["-n", &namespace, "addr", "add", &address, "dev", "eth0"])?;
            run("ip", &["-n", &namespace, "link", "set", "eth0", "up"])?;
        }
        Ok(network)
    }

    fn bridge(&self) -> Result<(), Failure> {
        let hub = self.hub();
        run("ip", &["netns", "add", &hub])?;
        run("ip", &["-n", &hub, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0", "forward_delay", "0"])?;
        run("ip", &["-n", &hub, "link", "set", "br0", "up"])?;
        for host in 1..=self.count {
            let (namespace, port) = (self.namespace(host), port(host));
            run(
                "ip",
                &[
                    "link", "add", "name", "eth0", "netns", &namespace, "type", "veth", "peer", "name", &port, "netns",
                    &hub,
                ],
            )?;
            run("ip", &["-n", &hub, "link", "set", &port, "master", "br0", "up"])?;
        }
        // ARP always passes. Without it the healthy direction would fail with the cut one as soon as the neighbour's
        // entry expires.
        let rules = format!(
            "add table bridge {TABLE}
             add set bridge {TABLE} cut {{ type ifname . ifname; }}
             add chain bridge {TABLE} faults
             add chain bridge {TABLE} passing {{ type filter hook forward priority 0; }}
             add rule bridge {TABLE} passing ether type arp accept
             add rule bridge {TABLE} passing iifname . oifname @cut counter drop
             add rule bridge {TABLE} passing jump faults"
        );
        run_in(&hub, "nft", &[&rules]).map(drop)
    }

    pub(super) fn namespace(&self, host: usize) -> String {
        format!("{}{host}", self.prefix)
    }

    /// Name of the bridge's namespace.
    pub(super) fn hub(&self) -> String {
        format!("{}hub", self.prefix)
    }

    /// All hosts but this one.
    pub(super) fn others(&self, host: usize) -> impl Iterator<Item = usize> + use<> {
        (1..=self.count).filter(move |other| *other != host)
    }
}

pub(super) fn address(host: usize) -> String {
    format!("10.77.0.{host}")
}

/// Name of a host's port at the bridge.
pub(super) fn port(host: usize) -> String {
    format!("p{host}")
}
