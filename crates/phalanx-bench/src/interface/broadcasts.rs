//! A program that has calls and no multicast: it asks all members by broadcasts in three phases. One thread broadcasts,
//! another answers, and a third takes the views.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use phalanx::{Cell, Inbox, Next};

use super::commanding::{failed, obey, spawn};
use super::group_load::{GroupLoad, Job};
use super::threads::seen;
use crate::cell::CELL;
use crate::commands::say;
use crate::error::BenchError;
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{InterfaceRole, Report};
use crate::three_phase::{Node, Payload};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let cell = settings.iter().fold(Cell::builder(CELL), |cell, (key, value)| cell.set(key, value));
    let cell = cell.blocking_start().map_err(failed("cannot start"))?;
    let (group, inbox) = cell.group(&role.groups[0]).blocking_join().map_err(failed("cannot join"))?;
    let load = Arc::new(GroupLoad::new());
    let takes = Arc::clone(&load);
    // The node delivers one message at a time.
    let deliver = move |_, payload| {
        takes.took(1);
        payload
    };
    let node = Arc::new(Node::start(&cell, &group, deliver)?);
    let (give, jobs) = channel();
    let (sees, sends) = (Arc::clone(&node), Arc::clone(&load));
    spawn("reader", move || read(inbox, &sees))?;
    spawn("sender", move || send(&node, &sends, &jobs))?;
    obey(&[load], |_, job| give.send(job).is_ok())
}

fn read(mut inbox: Inbox, node: &Node) -> Result<(), BenchError> {
    while let Some(next) = inbox.blocking_next() {
        if let Next::View(view) = next {
            node.see(&view)?;
            say(&seen(&view))?;
        }
    }
    Ok(())
}

fn send(node: &Node, load: &GroupLoad, jobs: &Receiver<Job>) -> Result<(), BenchError> {
    for job in jobs {
        let Job::Ask { ask, nanos } = job else {
            return Err(BenchError::Child("over calls it asks, and does nothing else".to_owned()));
        };
        asks(node, load, ask.size, nanos)?;
    }
    Ok(())
}

fn asks(node: &Node, load: &GroupLoad, size: usize, nanos: u64) -> Result<(), BenchError> {
    let (payload, mut times) = (Payload(Bytes::from(vec![0; size])), Times::new());
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            return say(&Report::Times(times.take()));
        }
        let answers = node.broadcast(payload.clone())?;
        times.note(now_ns() - began);
        if answers.len() != node.members() || answers.iter().any(|(_, answer)| answer.0.len() != size) {
            return Err(BenchError::Child("a member did not answer as it should".to_owned()));
        }
        load.sent(1);
    }
}
