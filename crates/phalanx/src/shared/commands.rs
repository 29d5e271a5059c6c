//! Commands from the application to the protocol thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use phalanx_core::{GroupTerms, OwnDomain, ReformWhen};
use phalanx_driver::Waker;

use super::asks::AskReceipt;
use super::group::GroupShared;
use super::queue::Queue;
use super::submits::Submits;
use crate::error::SendError;
use crate::next::Next;
use crate::replica::Replicating;
use crate::sent::Receipt;
use crate::sent_to::ToOneReceipt;
use crate::waiting::Waiters;

/// Where the items of a group go.
pub(crate) enum Destination {
    /// To an inbox of its own.
    Own(Arc<Queue<Next>>),
    /// To an inbox that other groups share.
    Merged(Arc<Queue<(Arc<str>, Next)>>),
}

impl Destination {
    /// The group never was, so that nothing comes.
    pub(crate) fn end(&self) {
        match self {
            Self::Own(queue) => queue.end(),
            // Other groups go on.
            Self::Merged(_) => {}
        }
    }
}

/// What is asked for in a group.
pub(crate) type Queued = phalanx_life::Queued<Waiter>;

/// What waits for something that was asked for.
pub(crate) enum Waiter {
    /// For a multicast or a flush.
    Multicast(Arc<Receipt>),
    /// For a message to one member.
    ToOne(Arc<ToOneReceipt>),
    /// For the answers of an ask.
    Ask(Arc<AskReceipt>),
    /// For what a client said to the table of its group. Boxed, because most of what is asked for is multicasts.
    Submit(Box<SubmitWaiter>),
}

/// Which client said it, and the number of its submit.
pub(crate) struct SubmitWaiter {
    pub(crate) submits: Arc<Submits>,
    pub(crate) client: u64,
    pub(crate) number: Option<u64>,
}

impl Waiter {
    /// It is not sent.
    pub(crate) fn refuse(self, why: SendError) {
        match self {
            Self::Multicast(receipt) => receipt.end(Err(why)),
            Self::ToOne(receipt) => receipt.end(Err(why)),
            Self::Ask(receipt) => receipt.end(Err(why)),
            // Only what comes by the ring is refused so, and what is submitted does not.
            Self::Submit(_) => debug_assert!(false, "a submit is refused for {why}"),
        }
    }
}

/// What a member keeps of its group's state.
#[derive(Default)]
pub(crate) struct Keeps {
    pub(crate) replica: Option<Box<dyn Replicating>>,
    /// What is submitted to it.
    pub(crate) submits: Vec<SubmitsTo>,
    /// It answers asks.
    pub(crate) answers: bool,
}

/// What the program submits to a replica.
#[derive(Debug)]
pub(crate) struct SubmitsTo {
    /// The domain of its clients.
    pub(crate) table: Arc<str>,
    pub(crate) submits: Arc<Submits>,
}

/// A command for the protocol thread.
pub(crate) enum Command {
    /// Something of one membership.
    Queue {
        group: Arc<GroupShared>,
        asked: Queued,
    },
    Join {
        group: Arc<GroupShared>,
        inbox: Destination,
        terms: GroupTerms,
        with_state: bool,
        observes: bool,
        /// What this process has for the group's state.
        own: Vec<OwnDomain>,
        keeps: Keeps,
    },
    RaiseLevel {
        level: u16,
    },
    GiveUpGroup {
        name: String,
    },
    Reform(ReformWhen),
    FoundAnew,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

/// Most commands that wait for the protocol thread.
const COMMANDS_MAX: usize = 1_024;

/// The ring. Any thread pushes; only the protocol thread pops. It sorts commands by group at once, so the ring is full
/// for no longer than one iteration of its loop.
pub(crate) struct Commands {
    ring: ArrayQueue<Command>,
    /// Commands that were accepted and not popped.
    accepted: AtomicUsize,
    pub(crate) room: Waiters,
    /// A group has room again, and who waits for that was not woken since.
    has_room: AtomicBool,
    protocol: Waker,
    /// Some group asks to be left.
    leaves: AtomicBool,
    leaving: AtomicBool,
    stopping: AtomicBool,
    over: AtomicBool,
}

impl Commands {
    pub(crate) fn new(protocol: Waker) -> Self {
        Self {
            ring: ArrayQueue::new(COMMANDS_MAX),
            accepted: AtomicUsize::new(0),
            room: Waiters::default(),
            has_room: AtomicBool::new(false),
            protocol,
            leaves: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Whether no command is accepted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.over.load(Ordering::SeqCst) || self.leaving.load(Ordering::SeqCst)
    }

    /// Queues a command; returns it if it is not accepted.
    pub(crate) fn push(&self, command: Command) -> Result<(), (SendError, Command)> {
        // Counted before the end is checked: `close` waits for commands that are counted and not in the ring yet.
        self.accepted.fetch_add(1, Ordering::SeqCst);
        if self.is_closed() {
            self.accepted.fetch_sub(1, Ordering::SeqCst);
            return Err((SendError::Over, command));
        }
        match self.ring.push(command) {
            Ok(()) => {
                self.protocol.wake();
                Ok(())
            }
            Err(command) => {
                self.accepted.fetch_sub(1, Ordering::SeqCst);
                Err((SendError::Full, command))
            }
        }
    }

    pub(crate) fn pop(&self) -> Option<Command> {
        let command = self.ring.pop()?;
        self.accepted.fetch_sub(1, Ordering::SeqCst);
        Some(command)
    }

    /// Whether every command that was accepted was popped.
    pub(crate) fn is_drained(&self) -> bool {
        self.accepted.load(Ordering::SeqCst) == 0
    }

    /// Notes that who waits for room is to be woken. Only the protocol thread calls it.
    pub(crate) fn note_room(&self) {
        self.has_room.store(true, Ordering::Relaxed);
    }

    /// Whether room was noted since the last call.
    pub(crate) fn take_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed) && self.has_room.swap(false, Ordering::Relaxed)
    }

    /// Notes that a group asks to be left. Needs no place in the ring, so that it never waits.
    pub(crate) fn ask_to_leave_group(&self) {
        self.leaves.store(true, Ordering::SeqCst);
        self.protocol.wake();
    }

    /// Whether a group asked to be left since the last call.
    pub(crate) fn take_leaves(&self) -> bool {
        self.leaves.load(Ordering::SeqCst) && self.leaves.swap(false, Ordering::SeqCst)
    }

    /// Requests a graceful leave; no command is accepted afterwards.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.protocol.wake();
        self.room.wake();
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Makes the protocol thread end at once.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.protocol.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Ends acceptance, and passes every command that was accepted and not carried out to `each`.
    pub(crate) fn close(&self, mut each: impl FnMut(Command)) {
        self.over.store(true, Ordering::SeqCst);
        loop {
            while let Some(command) = self.pop() {
                each(command);
            }
            if self.accepted.load(Ordering::SeqCst) == 0 {
                break;
            }
            // A thread is between the count and the ring.
            std::thread::yield_now();
        }
        self.room.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use phalanx_driver::{Udp, UdpOptions, Wait};

    use super::*;

    fn driver() -> Udp {
        Udp::bind(&UdpOptions::default()).expect("loopback has free ports")
    }

    fn command(number: u64) -> Command {
        Command::GiveUpGroup { name: number.to_string() }
    }

    fn number(command: &Command) -> u64 {
        match command {
            Command::GiveUpGroup { name } => name.parse().expect("a number"),
            other => panic!("{other:?}"),
        }
    }

    /// A lost wake-up hangs it.
    #[test]
    fn commands_of_many_threads_all_arrive_each_in_its_order() {
        const THREADS: usize = 4;
        const EACH: u64 = 4_000;
        let mut driver = driver();
        let commands = Commands::new(driver.waker());
        thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let commands = &commands;
                scope.spawn(move || {
                    for i in 0..EACH {
                        let mut next = command(thread * EACH + i);
                        while let Err((refused, again)) = commands.push(next) {
                            assert_eq!(refused, SendError::Full);
                            thread::yield_now();
                            next = again;
                        }
                    }
                });
            }
            let mut next = [0; THREADS];
            while next.iter().sum::<u64>() < THREADS as u64 * EACH {
                match commands.pop() {
                    Some(command) => {
                        let number = number(&command);
                        let of = &mut next[usize::try_from(number / EACH).expect("few")];
                        assert_eq!(number % EACH, *of, "in order");
                        *of += 1;
                    }
                    None => drop(driver.wait(None, &[]).expect("waiting works")),
                }
            }
        });
    }

    /// None is accepted and lost.
    #[test]
    fn a_push_that_races_with_the_end_is_refused_or_given_back() {
        for _ in 0..200 {
            let driver = driver();
            let commands = Commands::new(driver.waker());
            let (mut carried, mut given_back) = (0_u64, 0_u64);
            let accepted: u64 = thread::scope(|scope| {
                let push_all = || {
                    let mut accepted = 0;
                    loop {
                        match commands.push(command(accepted)) {
                            Ok(()) => accepted += 1,
                            Err((SendError::Full, _)) => thread::yield_now(),
                            Err((refused, _)) => {
                                assert_eq!(refused, SendError::Over);
                                break accepted;
                            }
                        }
                    }
                };
                let pushers = [scope.spawn(push_all), scope.spawn(push_all)];
                while carried < 50 {
                    carried += u64::from(commands.pop().is_some());
                }
                commands.close(|_| given_back += 1);
                pushers.into_iter().map(|pusher| pusher.join().expect("no panic")).sum()
            });
            assert_eq!(accepted, carried + given_back);
            assert!(commands.pop().is_none());
        }
    }
}
