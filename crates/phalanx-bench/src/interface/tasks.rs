//! The crate `phalanx` with tasks: one thread runs those that send and those that read.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use phalanx::{Cell, Group, Inbox, Sending};

use super::commanding::{BATCH, TAKE, failed, met, obey, question, spawn};
use super::group_load::{GroupLoad, Job};
use super::threads::take;
use crate::cell::CELL;
use crate::choice::{Until, Way};
use crate::commands::say;
use crate::error::BenchError;
use crate::executor::{self, Task, give_way};
use crate::histogram::Times;
use crate::measure::now_ns;
use crate::protocol::{AskPlan, InterfaceRole, Report};

pub(super) fn run(role: &InterfaceRole, settings: &[(String, String)]) -> Result<(), BenchError> {
    let cell = settings.iter().fold(Cell::builder(CELL), |cell, (key, value)| cell.set(key, value));
    // The groups are joined in the main thread, which has nothing else to do then.
    let cell = cell.blocking_start().map_err(failed("cannot start"))?;
    let (mut loads, mut mailboxes, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for name in &role.groups {
        let joined = cell.group(name.as_str()).blocking_join().map_err(failed("cannot join"))?;
        let (load, jobs) = (Arc::new(GroupLoad::new()), Arc::new(Mailbox::default()));
        loads.push(Arc::clone(&load));
        mailboxes.push(Arc::clone(&jobs));
        groups.push((joined, load, jobs));
    }
    spawn("executor", move || {
        let mut tasks: Vec<Task> = Vec::new();
        for ((group, inbox), load, jobs) in groups {
            let reads = Arc::clone(&load);
            tasks.push(Box::pin(async move { tell(read(inbox, &reads).await) }));
            tasks.push(Box::pin(async move { tell(send(&group, &load, &jobs).await) }));
        }
        executor::run(tasks);
        Ok(())
    })?;
    obey(&loads, |group, job| mailboxes[group].put(job))
}

/// Tells the benchmark if a task failed.
fn tell(outcome: Result<(), BenchError>) {
    if let Err(error) = outcome {
        let _ = say(&Report::Failed { why: error.to_string() });
    }
}

/// Jobs for the task that sends.
#[derive(Debug, Default)]
struct Mailbox(Mutex<(VecDeque<Job>, Option<Waker>)>);

impl Mailbox {
    /// True: the task that takes it is there as long as the process.
    fn put(&self, job: Job) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.push_back(job);
        if let Some(task) = inner.1.take() {
            task.wake();
        }
        true
    }

    async fn next(&self) -> Job {
        poll_fn(|context| {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match inner.0.pop_front() {
                Some(job) => Poll::Ready(job),
                None => {
                    inner.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

async fn read(mut inbox: Inbox, load: &GroupLoad) -> Result<(), BenchError> {
    let mut items = Vec::with_capacity(TAKE);
    loop {
        poll_fn(|context| if load.reads_or_wakes(context.waker()) { Poll::Ready(()) } else { Poll::Pending }).await;
        if inbox.next_batch(&mut items, TAKE).await == 0 {
            return Ok(());
        }
        take(&mut items, load)?;
        give_way().await;
    }
}

async fn send(group: &Group, load: &GroupLoad, jobs: &Mailbox) -> Result<(), BenchError> {
    loop {
        match jobs.next().await {
            Job::Load { number, size, way: Way::Batches } => {
                let message = vec![0; size];
                while load.goes_on(number) {
                    let batch = std::iter::repeat_n(&message, BATCH);
                    group.send_all(batch).uniform().post().await.map_err(failed("cannot send"))?;
                    load.sent(BATCH as u64);
                    give_way().await;
                }
            }
            Job::Load { number, size, way: Way::Posts } => {
                let message = vec![0; size];
                while load.goes_on(number) {
                    for _ in 0..BATCH {
                        group.send(&message).uniform().post().await.map_err(failed("cannot send"))?;
                        load.sent(1);
                    }
                    give_way().await;
                }
            }
            Job::Load { number, size, way: Way::Receipts } => receipts(group, load, number, size).await?,
            Job::Trips { size, nanos, until } => trips(group, load, size, nanos, until).await?,
            Job::Ask { ask, nanos } => asks(group, load, &ask, nanos).await?,
        }
    }
}

/// Sends with a receipt for each message, some of which are awaited at a time.
async fn receipts(group: &Group, load: &GroupLoad, number: u64, size: usize) -> Result<(), BenchError> {
    let message = vec![0; size];
    let mut under_way: VecDeque<Sending> = VecDeque::with_capacity(BATCH);
    loop {
        while under_way.len() < BATCH && load.goes_on(number) {
            let mut sending = group.send(&message).uniform().into_future();
            // The first poll queues the message.
            let outcome = poll_fn(|context| Poll::Ready(Pin::new(&mut sending).poll(context))).await;
            match outcome {
                Poll::Ready(outcome) => {
                    outcome.map_err(failed("cannot send"))?;
                    load.sent(1);
                }
                Poll::Pending => under_way.push_back(sending),
            }
        }
        let Some(sending) = under_way.front_mut() else { break };
        sending.await.map_err(failed("cannot send"))?;
        under_way.pop_front();
        load.sent(1);
    }
    Ok(())
}

async fn trips(group: &Group, load: &GroupLoad, size: usize, nanos: u64, until: Until) -> Result<(), BenchError> {
    let (message, mut times) = (vec![0; size], Times::new());
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            return say(&Report::Times(times.take()));
        }
        let sent = group.send(&message).uniform().await.map_err(failed("cannot send"))?;
        if until == Until::Delivered {
            sent.delivered().await.map_err(failed("in doubt"))?;
        }
        times.note(now_ns() - began);
        load.sent(1);
    }
}

async fn asks(group: &Group, load: &GroupLoad, ask: &AskPlan, nanos: u64) -> Result<(), BenchError> {
    let (payload, mut times) = (Bytes::from(vec![0; ask.size]), Times::new());
    let ends = now_ns() + nanos;
    loop {
        let began = now_ns();
        if began >= ends {
            return say(&Report::Times(times.take()));
        }
        met(&question(group, ask, &payload).await.map_err(failed("cannot ask"))?.end)?;
        times.note(now_ns() - began);
        load.sent(1);
    }
}
