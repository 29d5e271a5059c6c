//! Multicasts delivered per second, beside a raw stream of the same size to as many receivers; and uniform abcasts
//! beside plain ones.

use crate::bench::{Bench, Case};
use crate::cell::{CellPlan, Times};
use crate::choice::{Ordering, Security, Senders, Transport};
use crate::error::BenchError;
use crate::protocol::Stream;
use crate::raw::{Streaming, stream};
use crate::row::Series;
use crate::{Request, Selection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    ordering: Ordering,
    senders: Senders,
    members: usize,
    size: usize,
    transport: Transport,
    security: Security,
}

impl Plan {
    fn name(&self) -> String {
        let Self { ordering, senders, members, size, transport, security } = self;
        let (ordering, senders) = (ordering.word(), senders.word());
        format!("{ordering}-{senders}-{members}x{size}-{}-{}", transport.word(), security.word())
    }

    fn what(&self) -> String {
        let who = match self.senders {
            Senders::One => "one sends",
            Senders::All => "all send",
        };
        let protected = match self.security {
            Security::Sealed => "sealed",
            Security::None => "not sealed",
        };
        let (order, members, size) = (self.ordering.word(), self.members, self.size);
        format!("{order} order, {members} members, {who} {size} B, {protected}, over {}", self.transport.word())
    }
}

pub(super) fn cases(request: &Request) -> Vec<Case> {
    let plans = if request.selection == Selection::default() {
        usual(request.is_sketch())
    } else {
        combined(&request.selection)
    };
    let case = |plan: Plan| Case::new(plan.name(), plan.what(), move |bench| measure(bench, &plan));
    let mut cases: Vec<Case> = plans.into_iter().map(case).collect();
    if request.selection == Selection::default() {
        let case = |plan: Plan| {
            let what = format!("{}, beside plain abcasts", plan.what());
            Case::new(format!("beside-plain-{}", plan.name()), what, move |bench| measure_beside_plain(bench, &plan))
        };
        cases.extend(beside_plain(request.is_sketch()).into_iter().map(case));
    }
    cases
}

/// Uniform abcasts, to be measured beside plain ones.
fn beside_plain(quick: bool) -> Vec<Plan> {
    let sizes: &[usize] = if quick { &[100] } else { &[100, 1_024, 7_168] };
    let mut plans = Vec::new();
    for &transport in Transport::ALL {
        for &senders in Senders::ALL {
            plans.extend(sizes.iter().map(|&size| Plan {
                ordering: Ordering::Uniform,
                senders,
                members: if quick { 2 } else { 4 },
                size,
                transport,
                security: Security::Sealed,
            }));
        }
    }
    plans
}

/// The most informative cases: some minutes, or some seconds if `quick`.
fn usual(quick: bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    for transport in Transport::ALL {
        let (all_sizes, order_sizes, cells): (&[usize], &[usize], &[usize]) =
            if quick { (&[100], &[], &[]) } else { (&SIZES, &[100, 1_024], &[2, 3, 8]) };
        let base = Plan {
            ordering: Ordering::Total,
            senders: Senders::One,
            members: if quick { 2 } else { 4 },
            size: 100,
            transport: *transport,
            security: Security::Sealed,
        };
        for security in Security::ALL {
            plans.extend(all_sizes.iter().map(|&size| Plan { size, security: *security, ..base }));
            let sizes = all_sizes.iter().filter(|size| quick || [100, 1_024, 7_168].contains(size));
            plans.extend(sizes.map(|&size| Plan { size, security: *security, senders: Senders::All, ..base }));
        }
        for &size in order_sizes {
            for ordering in [Ordering::Fifo, Ordering::Causal, Ordering::Uniform] {
                plans.extend(Senders::ALL.iter().map(|&senders| Plan { ordering, senders, size, ..base }));
            }
        }
        for &members in cells {
            plans.extend(Senders::ALL.iter().map(|&senders| Plan { members, senders, ..base }));
        }
    }
    // Cases with the same cell follow each other, so that it is started once.
    plans.sort_by_key(|plan| (plan.transport.word(), plan.security.word(), plan.members));
    plans
}

fn combined(selection: &Selection) -> Vec<Plan> {
    fn or<T: Copy>(asked: &[T], usual: T) -> Vec<T> {
        if asked.is_empty() { vec![usual] } else { asked.to_vec() }
    }
    let mut plans = Vec::new();
    for transport in or(&selection.transports, Transport::Udp) {
        for security in or(&selection.security, Security::Sealed) {
            for members in or(&selection.members, 4) {
                for ordering in or(&selection.orders, Ordering::Total) {
                    for senders in or(&selection.senders, Senders::One) {
                        let sizes = or(&selection.sizes, 100);
                        plans.extend(sizes.into_iter().map(|size| Plan {
                            ordering,
                            senders,
                            members,
                            size,
                            transport,
                            security,
                        }));
                    }
                }
            }
        }
    }
    plans
}

fn measure(bench: &mut Bench<'_>, plan: &Plan) -> Result<(), BenchError> {
    let Plan { ordering, senders, members, size, transport, security } = *plan;
    let mut cell = bench.cell(&CellPlan::new(members, transport, security))?;
    let medium = transport.medium();
    let Times { warm, measured } = bench.times();
    let receivers = medium.receivers(members - 1);
    let raw = Streaming { medium, size, receivers, how: Stream::Batched, cores: None, warm, measured };
    let series = |metric, unit| Series::new(metric, unit, members, size);
    let mut rate = series("throughput", "msg/s").against(format!("{} to {receivers}", medium.name()));
    let mut sender = series("processor time at a sender, per message", "ns");
    let mut receiver = series("processor time at a receiver, per message", "ns");
    let mut packets = series("packets sent by all, per message", "packets");
    let mut drops = series("packets dropped by the kernel", "packets");
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let baseline = stream(&raw, bench.interrupt())?.received_per_s;
        let ours = cell.measure(senders, ordering, size, Times { warm, measured })?;
        rate.add_beside(ours.delivered_per_s(), baseline);
        let cpu = ours.cpu_ns();
        sender.add(cpu.sender_ns);
        receiver.add(cpu.receivers_ns);
        packets.add(ours.packets_per_message());
        drops.add(ours.kernel_drops() as f64);
    }
    bench.keep(cell);
    bench.report([&rate, &sender, &receiver, &packets, &drops]);
    Ok(())
}

/// Measures one cell, in each round first with plain abcasts and then with uniform ones.
fn measure_beside_plain(bench: &mut Bench<'_>, plan: &Plan) -> Result<(), BenchError> {
    let Plan { senders, members, size, transport, security, .. } = *plan;
    let mut cell = bench.cell(&CellPlan::new(members, transport, security))?;
    let times = bench.times();
    let mut rate = Series::new("throughput", "msg/s", members, size).against("plain abcasts".to_owned());
    for round in 0..bench.rounds() {
        bench.round(round)?;
        let plain = cell.measure(senders, Ordering::Total, size, times)?.delivered_per_s();
        rate.add_beside(cell.measure(senders, Ordering::Uniform, size, times)?.delivered_per_s(), plain);
    }
    bench.keep(cell);
    bench.report([&rate]);
    Ok(())
}

const SIZES: [usize; 6] = [1, 64, 100, 1_024, 7_168, 65_536];
