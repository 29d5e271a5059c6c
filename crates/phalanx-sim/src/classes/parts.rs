//! What several classes do to a plan.

use crate::bounds::Bounds;
use crate::clock::SECOND;
use crate::driver::PACKET_OVERHEAD_BYTES;
use crate::fault::{Aim, Kind};
use crate::plan::Plan;

/// What members that are far or late can carry: a sender has one window under way in each exchange. Longer messages would
/// only wait for each other.
const LONG_BYTES_MAX: u64 = 20_000;

/// The number of longest packets for which each receive buffer has room at least. A buffer of 212,992 bytes leaves a sender
/// in a cell of five as few as four packets in each exchange: a state of 300,000 bytes takes 45 s where that is 0.8 s, and 20 messages a second are more
/// than what passes.
const BUFFER_PACKETS: usize = 350;

/// Adapts a plan to members that are far or late. No message is longer than a window, and no receive buffer is short.
/// Late members have no slow interface: one that is filled once an iteration carries some packets in each, whatever its
/// rate. And all faults and the heal are put off, because founding takes longer in a cell of far or late members.
pub(super) fn allow_for_distance(plan: &mut Plan) {
    if !plan.late.is_empty() {
        plan.egress = None;
    }
    plan.buffer_bytes = plan.buffer_bytes.max(BUFFER_PACKETS * (plan.packet_bytes as usize + PACKET_OVERHEAD_BYTES));
    plan.workload.long_bytes = plan.workload.long_bytes.min(LONG_BYTES_MAX);
    let more_ns = Bounds::founding_more_ns(exchange_ns(plan));
    plan.heal_ns += more_ns;
    for fault in &mut plan.faults {
        let (Aim::At(at_ns) | Aim::Inside { from_ns: at_ns, .. }) = &mut fault.aim;
        *at_ns += more_ns;
    }
}

/// Leaves of the drawn plan a good network, a quiet workload, and `faults` of its faults, so that the class's own
/// events are the run's.
pub(super) fn calm(plan: &mut Plan, faults: usize) {
    (plan.mild, plan.lethal, plan.ruin, plan.sealed) = (false, false, false, true);
    (plan.memory, plan.twin, plan.bursts, plan.minima, plan.egress) = (None, None, None, None, None);
    (plan.hosts, plan.founders) = ((1..=plan.members as u64).collect(), 0);
    plan.unequal.clear();
    plan.minority.clear();
    plan.workload.regroup_ns = 0;
    plan.workload.state_bytes = plan.workload.state_bytes.min(2_000);
    plan.heal_ns = plan.heal_ns.min(14 * SECOND);
    let heal_ns = plan.heal_ns;
    plan.faults.retain(|fault| {
        let (Aim::At(at_ns) | Aim::Inside { from_ns: at_ns, .. }) = fault.aim;
        let of_a_class = matches!(
            fault.kind,
            Kind::Perish { .. }
                | Kind::Behead
                | Kind::Disband
                | Kind::Empty(_)
                | Kind::Strand { .. }
                | Kind::FoundAgain
                | Kind::Holders { .. }
                | Kind::LostView { .. }
        );
        !of_a_class && at_ns < heal_ns
    });
    plan.faults.truncate(faults);
}

/// The longest exchange between two members, in nanoseconds: the round trip to the farthest, and a declared gap, or a long
/// iteration, at each end. 0: all are near and on time.
pub(crate) fn exchange_ns(plan: &Plan) -> u64 {
    let round_trip_ns = plan.far.as_ref().map_or(0, |far| 2 * (far.base_ns + plan.weather.jitter_ns));
    let declared = plan.turn_gaps.iter().map(|(_, gap)| u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX));
    let gap_ns = declared.chain(plan.late.iter().map(|(_, turn_ns)| *turn_ns)).max();
    round_trip_ns + 2 * gap_ns.unwrap_or(0)
}
