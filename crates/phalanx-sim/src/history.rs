//! The operations of a run as histories, for checkers that do not read traces.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_trace::{Action, Event, Outcome, Trace};
use serde::Serialize;

/// An operation of one process on one object, from its invocation to its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The group. Its number is never reused, so its objects begin and end with it.
    pub group: u32,
    /// "register", "lock" or "bank".
    pub object: &'static str,
    /// Which register or lock.
    pub number: u32,
    /// The incarnation of the invoking process.
    pub process: u64,
    /// "read", "write", "cas"; "acquire", "release"; "transfer"; and "leave": from then on, or earlier, the process is
    /// no longer in a view of the group, so it loses the lock.
    pub action: &'static str,
    /// The written value, the returned token, or the moved amount.
    pub value: u64,
    /// The expected value of a compare-and-swap.
    pub expected: u64,
    /// Time of the invocation, in virtual nanoseconds.
    pub call_ns: u64,
    /// Time of the answer. `None`: the operation may have happened, or not.
    pub return_ns: Option<u64>,
    /// "value", "done", "granted", "held", "nothing".
    pub outcome: Option<&'static str>,
    /// The value read, or the token of a lock.
    pub told: u64,
    /// The holder of a lock that was refused.
    pub holder: u64,
}

/// All operations of a run that happened or may have happened, in the order of their invocations.
pub(crate) fn operations<'a>(traces: impl Iterator<Item = &'a Trace> + Clone) -> Vec<Operation> {
    let mut operations: Vec<Operation> = traces.clone().flat_map(of_process).collect();
    let leaves = leaves(traces, &operations);
    operations.extend(leaves);
    operations.sort_by_key(|one| (one.call_ns, one.process));
    operations
}

fn of_process(trace: &Trace) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut refused: BTreeSet<usize> = BTreeSet::new();
    let mut asked: BTreeMap<u64, usize> = BTreeMap::new();
    let mut first = 0;
    for record in &trace.records {
        first = first_generation(&record.event).unwrap_or(first);
        match record.event {
            Event::Invoke { group, op, action } => {
                let group = numbered(group, first);
                asked.insert(op, operations.len());
                operations.push(question(trace.header.incarnation, group, action, record.at_ns));
            }
            Event::Return { op, outcome } => {
                let Some(index) = asked.remove(&op) else { continue };
                if outcome == Outcome::NotSent {
                    refused.insert(index);
                }
                answer(&mut operations[index], outcome, record.at_ns);
            }
            _ => {}
        }
    }
    let kept = operations.into_iter().enumerate().filter(|(index, _)| !refused.contains(index));
    kept.map(|(_, one)| one).collect()
}

/// The generation of the instance in which the groups of a cell view were founded, if the record has it.
fn first_generation(event: &Event) -> Option<u32> {
    let instance = match event {
        Event::CellView { instance, .. } => instance,
        Event::Ancestors { instances } => instances.last()?,
        _ => return None,
    };
    u32::try_from(instance >> 48).ok()
}

/// A number of its own for each group of a cell that was founded again, because such a cell numbers its groups from the
/// beginning.
fn numbered(group: u32, generation: u32) -> u32 {
    group + generation.saturating_sub(1) * 1_000_000
}

fn question(process: u64, group: u32, action: Action, call_ns: u64) -> Operation {
    let (object, number, action, value, expected) = match action {
        Action::Read { key } => ("register", key, "read", 0, 0),
        Action::Write { key, value } => ("register", key, "write", value, 0),
        Action::Cas { key, expected, value } => ("register", key, "cas", value, expected),
        Action::Acquire { lock } => ("lock", lock, "acquire", 0, 0),
        Action::Release { lock, token } => ("lock", lock, "release", token, 0),
        Action::Transfer { amount, .. } => ("bank", 0, "transfer", amount, 0),
    };
    let (return_ns, outcome, told, holder) = (None, None, 0, 0);
    Operation { group, object, number, process, action, value, expected, call_ns, return_ns, outcome, told, holder }
}

fn answer(one: &mut Operation, outcome: Outcome, at_ns: u64) {
    let (text, told, holder) = match outcome {
        Outcome::Value(value) => ("value", value, 0),
        Outcome::Done => ("done", 0, 0),
        Outcome::Granted { token } => ("granted", token, 0),
        Outcome::Held { holder, token } => ("held", token, holder),
        Outcome::Nothing | Outcome::NotSent => ("nothing", 0, 0),
    };
    (one.return_ns, one.outcome, one.told, one.holder) = (Some(at_ns), Some(text), told, holder);
}

/// For each process that ever requested a lock: the first evidence that it was out of the view, once for each such
/// view.
fn leaves<'a>(traces: impl Iterator<Item = &'a Trace>, operations: &[Operation]) -> Vec<Operation> {
    let mut gone: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
    // Members and first installation, by group and view.
    let mut views: BTreeMap<(u32, u64), (&[u64], u64)> = BTreeMap::new();
    for trace in traces {
        let mut first = 0;
        for record in &trace.records {
            first = first_generation(&record.event).unwrap_or(first);
            let Event::GroupView { group, view, members, left, .. } = &record.event else { continue };
            let installed = views.entry((numbered(*group, first), *view)).or_insert((members, record.at_ns));
            installed.1 = record.at_ns.min(installed.1);
            for (who, _) in left {
                let first_ns = gone.entry((numbered(*group, first), *view, *who)).or_insert(record.at_ns);
                *first_ns = record.at_ns.min(*first_ns);
            }
        }
    }
    // A process that was cut off with the whole group is in no list of leavers, if the group continues through another
    // one.
    for ((before, after), (members, at_ns)) in views.iter().zip(views.iter().skip(1)).map(|(u, w)| ((u, w.0), *w.1)) {
        if before.0.0 == after.0 {
            for who in before.1.0.iter().filter(|who| !members.contains(who)) {
                gone.entry((after.0, after.1, *who)).or_insert(at_ns);
            }
        }
    }
    let asked = operations.iter().filter(|one| one.action == "acquire");
    let asked: BTreeSet<(u32, u32, u64)> = asked.map(|one| (one.group, one.number, one.process)).collect();
    let each = gone.iter().flat_map(|(&(group, _, who), &at_ns)| {
        let locks = asked.iter().filter(move |(of, _, process)| (*of, *process) == (group, who));
        locks.map(move |&(_, lock, _)| {
            let question = question(who, group, Action::Acquire { lock }, at_ns);
            Operation { action: "leave", ..question }
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use phalanx_trace::{Header, LeaveReason};

    use super::*;

    #[test]
    fn questions_meet_their_answers() {
        let mut p = Trace::new(Header::process("cell", "p", 7, "clock"));
        p.push(1, Event::Invoke { group: 2, op: 1, action: Action::Acquire { lock: 1 } });
        p.push(2, Event::Invoke { group: 2, op: 2, action: Action::Write { key: 3, value: 9 } });
        p.push(3, Event::Return { op: 2, outcome: Outcome::NotSent });
        p.push(4, Event::Return { op: 1, outcome: Outcome::Granted { token: 5 } });
        p.push(5, Event::Invoke { group: 2, op: 3, action: Action::Read { key: 3 } });
        let view = |left| Event::GroupView {
            group: 2,
            name: "a".into(),
            view: 4,
            prev: Some(3),
            members: vec![8],
            joined: vec![],
            left,
        };
        let mut q = Trace::new(Header::process("cell", "q", 8, "clock"));
        q.push(6, view(vec![(7, LeaveReason::Died), (9, LeaveReason::Died)]));
        let found = operations([&p, &q].into_iter());
        let told: Vec<_> = found.iter().map(|one| (one.action, one.call_ns, one.return_ns, one.told)).collect();
        assert_eq!(told, [("acquire", 1, Some(4), 5), ("read", 5, None, 0), ("leave", 6, None, 0)]);
        assert!(found.iter().all(|one| one.process == 7));
    }
}
