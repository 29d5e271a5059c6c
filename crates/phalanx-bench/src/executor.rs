//! A small executor: some tasks, or one future, on one thread. Each is polled only when it was woken.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A task of no result.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Runs tasks on this thread until all are over.
pub(crate) fn run(tasks: Vec<Task>) {
    let ready = |task| {
        let woken = Woken::here();
        (task, Arc::clone(&woken), Waker::from(woken))
    };
    let mut tasks: Vec<(Task, Arc<Woken>, Waker)> = tasks.into_iter().map(ready).collect();
    while !tasks.is_empty() {
        let mut is_idle = true;
        tasks.retain_mut(|(task, woken, waker)| {
            if !woken.is_woken.swap(false, Ordering::AcqRel) {
                return true;
            }
            is_idle = false;
            task.as_mut().poll(&mut Context::from_waker(waker)).is_pending()
        });
        if is_idle {
            std::thread::park();
        }
    }
}

/// Runs a future on this thread until it is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let woken = Woken::here();
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    loop {
        if !woken.is_woken.swap(false, Ordering::AcqRel) {
            std::thread::park();
        } else if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

struct Woken {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Woken {
    /// For this thread. What it wakes has to be polled a first time.
    fn here() -> Arc<Self> {
        Arc::new(Self { is_woken: AtomicBool::new(true), thread: std::thread::current() })
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

/// Lets the other tasks go on.
pub(crate) async fn give_way() {
    let mut gave = false;
    poll_fn(|context| {
        if std::mem::replace(&mut gave, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn tasks_that_give_way_take_turns() {
        let said = Rc::new(RefCell::new(Vec::new()));
        let task = |name: &'static str| {
            let said = Rc::clone(&said);
            let task: Task = Box::pin(async move {
                for number in 0..3 {
                    said.borrow_mut().push((name, number));
                    give_way().await;
                }
            });
            task
        };
        run(vec![task("a"), task("b")]);
        assert_eq!(*said.borrow(), [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
    }

    #[test]
    fn a_future_is_polled_again_when_another_thread_wakes_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let mut polls = 0;
        let waits = poll_fn(|context| {
            polls += 1;
            if let Ok(value) = told.try_recv() {
                return Poll::Ready(value);
            }
            let (tell, waker) = (tell.clone(), context.waker().clone());
            std::thread::spawn(move || {
                tell.send(7).expect("it is waited for");
                waker.wake();
            });
            Poll::Pending
        });
        assert_eq!(block_on(waits), 7);
        assert_eq!(polls, 2);
    }
}
