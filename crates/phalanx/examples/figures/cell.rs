//! A cell of such members, and what is measured of it.

use std::error::Error;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::child::{Child, Mark};
use crate::raw::{MEASURED, WARM};
use crate::table::Table;

/// Members in order of their age.
pub(crate) struct Cell {
    members: Vec<Child>,
    security: &'static str,
}

impl Cell {
    /// Starts members one after the other, until all see all.
    pub(crate) fn start(count: usize, directory: &Path, security: &'static str) -> Result<Self, Box<dyn Error>> {
        let directory = directory.join(security);
        std::fs::create_dir_all(&directory)?;
        let path = directory.to_str().ok_or("the directory's name is not text")?;
        let mut members: Vec<Child> = Vec::new();
        for index in 0..count {
            members.push(Child::start(&["member", &format!("member-{index}"), path, security])?);
            let complete = [(index + 1) as f64];
            for member in &mut members {
                while member.hear("members")? != complete {}
            }
        }
        Ok(Self { members, security })
    }

    /// One round of everything. A changed membership is an error: its figures would mean nothing.
    pub(crate) fn round(&mut self, size: usize, table: &mut Table) -> Result<(), Box<dyn Error>> {
        let security = self.security;
        let last = self.members.len() - 1;
        let one = self.throughput(size, &[last])?;
        table.add(&format!("abcast {security}, {size} B, one sender, messages/s"), one);
        let all: Vec<usize> = (0..=last).collect();
        let all = self.throughput(size, &all)?;
        table.add(&format!("abcast {security}, {size} B, all senders, messages/s"), all);
        self.probes(size, table)?;
        self.pings(size, false, table)?;
        if last == 1 {
            // More members than processors cannot spin.
            self.pings(size, true, table)?;
        }
        Ok(())
    }

    /// Deliveries in a second at a member, the mean over those that do not send (over all, if all send).
    fn throughput(&mut self, size: usize, senders: &[usize]) -> Result<f64, Box<dyn Error>> {
        for &sender in senders {
            self.members[sender].tell(&format!("load {size}"))?;
        }
        sleep(WARM);
        let first = self.marks()?;
        sleep(MEASURED);
        let second = self.marks()?;
        for &sender in senders {
            self.members[sender].tell("stop")?;
        }
        self.settle()?;
        let everybody = senders.len() == self.members.len();
        let rates = first.iter().zip(&second).enumerate();
        let rates = rates.filter(|(rank, _)| everybody || !senders.contains(rank));
        let rates: Vec<f64> = rates.map(|(_, (first, second))| second.rate_since(first)).collect();
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }

    fn marks(&mut self) -> Result<Vec<Mark>, Box<dyn Error>> {
        self.members.iter_mut().try_for_each(|member| member.tell("mark"))?;
        self.members.iter_mut().map(Child::hear_mark).collect()
    }

    /// Until all delivered the same number, and no more come.
    fn settle(&mut self) -> Result<(), Box<dyn Error>> {
        let mut before = -1.0;
        loop {
            let counts: Vec<f64> = self.marks()?.iter().map(|mark| mark.count).collect();
            if counts.iter().all(|count| *count == before) {
                return Ok(());
            }
            before = counts[0];
            sleep(Duration::from_millis(20));
        }
    }

    /// The youngest multicasts one message at a time into an idle group.
    fn probes(&mut self, size: usize, table: &mut Table) -> Result<(), Box<dyn Error>> {
        let last = self.members.len() - 1;
        self.members[last].tell(&format!("probe {size} {PROBES} {PROBE_GAP_US}"))?;
        self.members[last].hear("done")?;
        self.settle()?;
        let mut others = Vec::new();
        for (rank, member) in self.members.iter_mut().enumerate() {
            let (p50, p99) = samples(member, PROBES)?;
            if rank == last {
                add(table, &format!("abcast {}, {size} B, own delivery", self.security), p50, p99);
            } else {
                others.push((p50, p99));
            }
        }
        let worst = others.into_iter().fold((0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        add(table, &format!("abcast {}, {size} B, one way, slowest member", self.security), worst.0, worst.1);
        Ok(())
    }

    /// The youngest multicasts, the oldest answers with a multicast.
    fn pings(&mut self, size: usize, spin: bool, table: &mut Table) -> Result<(), Box<dyn Error>> {
        let last = self.members.len() - 1;
        let spinning = if spin { "on" } else { "off" };
        self.members.iter_mut().try_for_each(|member| member.tell(&format!("spin {spinning}")))?;
        self.members[0].tell("echo on")?;
        self.marks()?; // all have obeyed
        self.members[last].tell(&format!("ping {size} {PINGS} 0"))?;
        self.members[last].hear("done")?;
        let (p50, p99) = samples(&mut self.members[last], PINGS)?;
        self.members[0].tell("echo off")?;
        self.members.iter_mut().try_for_each(|member| member.tell("spin off"))?;
        self.settle()?;
        let waiting = if spin { "spinning" } else { "blocking" };
        add(table, &format!("abcast {} ping-pong {waiting}, {size} B, round trip", self.security), p50, p99);
        Ok(())
    }
}

fn samples(member: &mut Child, wanted: usize) -> Result<(f64, f64), Box<dyn Error>> {
    member.tell("samples")?;
    match member.hear("samples")?[..] {
        [count, p50, p99] if count == wanted as f64 => Ok((p50, p99)),
        ref other => Err(format!("{wanted} samples expected: {other:?}").into()),
    }
}

fn add(table: &mut Table, name: &str, p50: f64, p99: f64) {
    table.add(&format!("{name} p50 µs"), p50);
    table.add(&format!("{name} p99 µs"), p99);
}

const PROBES: usize = 60;
const PROBE_GAP_US: usize = 1_000;
const PINGS: usize = 150;
