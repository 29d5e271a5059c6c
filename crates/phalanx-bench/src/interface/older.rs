//! The older threaded runtime: one queue of items for all groups, and no receipts.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use phalanx_runtime::Options;
use phalanx_runtime::cell::{Cell, Group, Item, JoinOptions};
use phalanx_runtime::config::Config;
use phalanx_runtime::core::{Event, Order, Stability};

use super::commanding::{BATCH, TAKE, failed, obey, spawn};
use super::group_load::{GroupLoad, Job};
use crate::choice::Way;
use crate::commands::say;
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{InterfaceRole, Report};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let config = Config::load(settings, [], None).map_err(failed("cannot configure"))?.config;
    let cell = Arc::new(Cell::start(Options::from(config)).map_err(failed("cannot start"))?);
    let group = cell.join_group(&role.groups[0], JoinOptions::default()).map_err(failed("cannot join"))?;
    let load = Arc::new(GroupLoad::new());
    let (give, jobs) = channel();
    let (reads, sends, reading) = (Arc::clone(&load), Arc::clone(&load), Arc::clone(&cell));
    spawn("reader", move || read(&reading, &reads))?;
    spawn("sender", move || send(&cell, &group, &sends, &jobs))?;
    obey(&[load], |_, job| give.send(job).is_ok())
}

fn read(cell: &Cell, load: &GroupLoad) -> Result<(), BenchError> {
    let mut items = Vec::with_capacity(TAKE);
    loop {
        load.rest();
        cell.recv_many(&mut items, TAKE).map_err(failed("cannot receive"))?;
        let mut messages = 0;
        for item in items.drain(..) {
            messages += u64::from(is_message(&item)?);
        }
        load.took(messages);
    }
}

/// Whether an item is a message. A view is reported.
fn is_message(item: &Item) -> Result<bool, BenchError> {
    if let Item::Event(Event::GroupView(view)) = item {
        let (group, members) = (view.name.to_string(), view.members.len());
        say(&Report::View { group, view: view.view, members, at_ns: now_ns() })?;
    }
    Ok(matches!(item, Item::Message(_)))
}

fn send(cell: &Cell, group: &Group, load: &GroupLoad, jobs: &Receiver<Job>) -> Result<(), BenchError> {
    for job in jobs {
        match job {
            Job::Load { number, size, way } => {
                let message = vec![0; size];
                while load.goes_on(number) {
                    if way == Way::Batches {
                        let batch = std::iter::repeat_n(&message, BATCH);
                        group.cast_all(Order::Total, Stability::Uniform, batch).map_err(failed("cannot cast"))?;
                        load.sent(BATCH as u64);
                    } else {
                        group.cast(Order::Total, Stability::Uniform, &message).map_err(failed("cannot cast"))?;
                        load.sent(1);
                    }
                }
            }
            Job::Trips { size, nanos, .. } => trips(cell, group, load, size, nanos)?,
        }
    }
    Ok(())
}

/// Casts one message after the other, each when the one before came back: nothing else tells what became of it. This
/// thread takes the items meanwhile, as a program without receipts would.
fn trips(cell: &Cell, group: &Group, load: &GroupLoad, size: usize, nanos: u64) -> Result<(), BenchError> {
    let (message, mut times) = (vec![0; size], Times::new());
    load.set_reads(false);
    // Wakes the reader, which then rests.
    group.cast(Order::Total, Stability::Uniform, &message).map_err(failed("cannot cast"))?;
    load.sent(1);
    load.wait_for_rest();
    while cell.try_recv().map_err(failed("cannot receive"))?.is_some() {
        load.took(1);
    }
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            break;
        }
        group.cast(Order::Total, Stability::Uniform, &message).map_err(failed("cannot cast"))?;
        load.sent(1);
        // Only this member sends.
        while !is_message(&cell.recv().map_err(failed("cannot receive"))?)? {}
        times.note(now_ns() - began);
        load.took(1);
    }
    load.set_reads(true);
    say(&Report::Times(times.take()))
}
