//! The crate `phalanx` with threads: one sends to a group, another reads its inbox.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use phalanx::{Cell, Group, Inbox, Next, View};
use phalanx_runtime::core::ViewNumber;

use super::commanding::{BATCH, TAKE, failed, met, obey, question, spawn};
use super::group_load::{GroupLoad, Job};
use crate::cell::CELL;
use crate::choice::{Until, Way};
use crate::commands::say;
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{AskPlan, InterfaceRole, Report};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let cell = settings.iter().fold(Cell::builder(CELL), |cell, (key, value)| cell.set(key, value));
    let cell = cell.blocking_start().map_err(failed("cannot start"))?;
    let (mut loads, mut senders) = (Vec::new(), Vec::new());
    for name in &role.groups {
        let (group, inbox) = cell.group(name.as_str()).blocking_join().map_err(failed("cannot join"))?;
        let load = Arc::new(GroupLoad::new());
        let (give, jobs) = channel();
        let (reads, sends) = (Arc::clone(&load), Arc::clone(&load));
        spawn("reader", move || read(inbox, &reads))?;
        spawn("sender", move || send(&group, &sends, &jobs))?;
        loads.push(load);
        senders.push(give);
    }
    obey(&loads, |group, job| senders[group].send(job).is_ok())
}

fn read(mut inbox: Inbox, load: &GroupLoad) -> Result<(), BenchError> {
    let mut items = Vec::with_capacity(TAKE);
    loop {
        load.rest();
        if inbox.blocking_next_batch(&mut items, TAKE) == 0 {
            return Ok(());
        }
        take(&mut items, load)?;
    }
}

/// Counts the messages among some items, answers asks, and reports views.
pub(super) fn take(items: &mut Vec<Next>, load: &GroupLoad) -> Result<(), BenchError> {
    let mut messages = 0;
    for item in items.drain(..) {
        match item {
            Next::Message(_) => messages += 1,
            Next::Asked(asked) => {
                messages += 1;
                // The asker waits no more for one that others answered before.
                let _ = asked.answer_bytes(asked.message.payload.clone());
            }
            Next::View(view) => say(&seen(&view))?,
            _ => {}
        }
    }
    load.took(messages);
    Ok(())
}

/// The report of a view.
pub(super) fn seen(view: &View) -> Report {
    let (group, members) = (view.group().to_owned(), view.len());
    Report::View { group, view: ViewNumber(view.number()), members, at_ns: now_ns() }
}

fn send(group: &Group, load: &GroupLoad, jobs: &Receiver<Job>) -> Result<(), BenchError> {
    for job in jobs {
        match job {
            Job::Load { number, size, way } => {
                let message = vec![0; size];
                while load.goes_on(number) {
                    match way {
                        Way::Batches => {
                            let batch = std::iter::repeat_n(&message, BATCH);
                            group.send_all(batch).uniform().blocking_post().map_err(failed("cannot send"))?;
                            load.sent(BATCH as u64);
                        }
                        Way::Posts => {
                            group.send(&message).uniform().blocking_post().map_err(failed("cannot send"))?;
                            load.sent(1);
                        }
                        Way::Receipts => {
                            group.send(&message).uniform().blocking().map_err(failed("cannot send"))?;
                            load.sent(1);
                        }
                    }
                }
            }
            Job::Trips { size, nanos, until } => trips(group, load, size, nanos, until)?,
            Job::Ask { ask, nanos } => asks(group, load, &ask, nanos)?,
        }
    }
    Ok(())
}

fn trips(group: &Group, load: &GroupLoad, size: usize, nanos: u64, until: Until) -> Result<(), BenchError> {
    let (message, mut times) = (vec![0; size], Times::new());
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            return say(&Report::Times(times.take()));
        }
        let sent = group.send(&message).uniform().blocking().map_err(failed("cannot send"))?;
        if until == Until::Delivered {
            sent.blocking_delivered().map_err(failed("in doubt"))?;
        }
        times.note(now_ns() - began);
        load.sent(1);
    }
}

fn asks(group: &Group, load: &GroupLoad, ask: &AskPlan, nanos: u64) -> Result<(), BenchError> {
    let (payload, mut times) = (Bytes::from(vec![0; ask.size]), Times::new());
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            return say(&Report::Times(times.take()));
        }
        met(&question(group, ask, &payload).blocking().map_err(failed("cannot ask"))?.end)?;
        times.note(now_ns() - began);
        load.sent(1);
    }
}
