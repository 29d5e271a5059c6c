//! The protocol over calls of the crate `phalanx`: a server and a client of a process that is a member of a group.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use phalanx::{CallError, Cell, Client, Group, MemberId, Reason, Server, View};

use super::broadcast::Broadcast;
use super::member::Member;
use super::message::{Answer, Payload, Request};
use super::phases::{Calls, Outcomes, Phases};
use crate::error::{BenchError, While};
use crate::executor::block_on;

/// A process that broadcasts to the members of a group, and takes part in the broadcasts of others.
///
/// Its server has a thread, beside those of the library. Other calls run in the caller's thread. When it is dropped, it
/// serves no more.
pub(crate) struct Node {
    shared: Arc<Shared>,
    server: Server<Request, Answer>,
    cell: Cell,
    client: Client,
    me: MemberId,
    take_overs: AtomicU64,
}

/// What the server's thread shares with the callers.
struct Shared {
    member: Mutex<Member>,
    deliver: Box<Deliver>,
}

/// Takes a message of a sender, and returns the answer. It must not call the node.
type Deliver = dyn Fn(MemberId, Payload) -> Payload + Send + Sync;

impl Shared {
    fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, request: &Request) -> Answer {
        self.member().handle_request(request, &self.deliver)
    }
}

impl Node {
    /// Starts to serve. Views of the group have to be handed to [`Node::see`], the first one included.
    pub(crate) fn start(
        cell: &Cell,
        group: &Group,
        deliver: impl Fn(MemberId, Payload) -> Payload + Send + Sync + 'static,
    ) -> Result<Self, BenchError> {
        let failed = |error: phalanx::StartError| BenchError::Child(format!("cannot start: {error}"));
        let server: Server<Request, Answer> = group.server().start().map_err(failed)?;
        let client = cell.client().map_err(failed)?;
        let me = cell.me().id;
        let shared = Arc::new(Shared { member: Mutex::new(Member::new(me)), deliver: Box::new(deliver) });
        let (requests, handles) = (server.clone(), Arc::clone(&shared));
        let serve = move || {
            while let Some(request) = requests.blocking_next() {
                let answer = handles.handle(request.value());
                request.answer(&answer);
            }
        };
        std::thread::Builder::new().name("serves".to_owned()).spawn(serve).when("cannot start a thread")?;
        Ok(Self { shared, server, cell: cell.clone(), client, me, take_overs: AtomicU64::new(0) })
    }

    /// Takes a view of the group. If this member has to end what others began that left, this returns when it has.
    pub(crate) fn see(&self, view: &View) -> Result<(), BenchError> {
        let take_over = self.shared.member().handle_view(view.ids().collect());
        let Some(mut take_over) = take_over else { return Ok(()) };
        self.take_overs.fetch_add(1, Ordering::Relaxed);
        self.run(&mut take_over)
    }

    /// The number of members in the last view.
    pub(crate) fn members(&self) -> usize {
        self.shared.member().members()
    }

    /// How often it took over.
    #[cfg(test)]
    fn take_overs(&self) -> u64 {
        self.take_overs.load(Ordering::Relaxed)
    }

    /// Broadcasts to all members of the last view, and returns the answer of each that did not leave meanwhile, this one
    /// included. One at a time.
    pub(crate) fn broadcast(&self, payload: Payload) -> Result<Vec<(MemberId, Payload)>, BenchError> {
        let mut broadcast = self.begin(payload);
        self.run(&mut broadcast)?;
        Ok(broadcast.into_answers())
    }

    /// A broadcast of which no call has been made.
    fn begin(&self, payload: Payload) -> Broadcast {
        self.shared.member().begin(payload)
    }

    fn run(&self, machine: &mut impl Phases) -> Result<(), BenchError> {
        let mut outcomes = Outcomes::new();
        loop {
            let refused = |error: super::phases::Refused| BenchError::Child(error.to_string());
            let calls = machine.next(outcomes).map_err(refused)?;
            if calls.is_empty() {
                return Ok(());
            }
            outcomes = self.call_all(&calls)?;
        }
    }

    /// Makes all calls at once, and returns when all have ended. What it has to do itself it does while the others do theirs.
    fn call_all(&self, calls: &Calls) -> Result<Outcomes, BenchError> {
        let others: Vec<_> = calls.iter().filter(|(to, _)| *to != self.me).collect();
        let mut under_way = Together::new(others.iter().map(|(to, request)| self.call(*to, request)).collect());
        let (mine, answers) = block_on(async {
            // The first poll makes them.
            poll_fn(|context| Poll::Ready(under_way.poll_all(context))).await;
            let mine = calls.iter().find(|(to, _)| *to == self.me).map(|(_, request)| self.shared.handle(request));
            (mine, under_way.await)
        });
        let mut outcomes: Outcomes = mine.into_iter().map(|answer| (self.me, Some(answer))).collect();
        for ((to, _), answer) in others.into_iter().zip(answers) {
            outcomes.push((*to, answer?));
        }
        Ok(outcomes)
    }

    /// Calls a member until it answers. `None`: it left. A step that is done twice is done once, so a call that may have run is
    /// made again.
    async fn call(&self, to: MemberId, request: &Request) -> Result<Option<Answer>, BenchError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.client.call(to, request).wait_for_server().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => error,
            };
            if matches!(error, CallError::NotExecuted(Reason::Left { .. }) | CallError::Unknown(Reason::Left { .. })) {
                return Ok(None);
            }
            let Some(view) = self.cell.view().filter(|view| view.me() == self.me) else {
                return Err(BenchError::Child("this process was excluded".to_owned()));
            };
            if view.members().all(|member| member.id != to) {
                return Ok(None);
            }
            let passes = matches!(error, CallError::NotExecuted(_) | CallError::Unknown(_));
            if !passes || tries == TRIES {
                return Err(BenchError::Child(format!("a call failed: {error}")));
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.stop();
    }
}

/// How often a call is made to a member that is there and does not answer in time.
const TRIES: u32 = 3;

/// Futures of which each is polled until it is ready. There are a few.
struct Together<F: Future> {
    futures: Vec<Result<F::Output, Pin<Box<F>>>>,
}

impl<F: Future> Together<F> {
    fn new(futures: Vec<F>) -> Self {
        Self { futures: futures.into_iter().map(|future| Err(Box::pin(future))).collect() }
    }

    /// Whether all are ready.
    fn poll_all(&mut self, context: &mut Context<'_>) -> bool {
        let mut is_over = true;
        for future in &mut self.futures {
            let Err(waits) = future else { continue };
            match waits.as_mut().poll(context) {
                Poll::Ready(output) => *future = Ok(output),
                Poll::Pending => is_over = false,
            }
        }
        is_over
    }
}

impl<F: Future> Unpin for Together<F> {}

impl<F: Future> Future for Together<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.poll_all(context) {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut self.futures).into_iter().filter_map(Result::ok).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use phalanx::{Inbox, Next};

    use super::*;

    /// A process with a node, and a thread that hands views to it.
    struct Process {
        cell: Cell,
        node: Arc<Node>,
        delivered: Receiver<(MemberId, Payload)>,
        views: Receiver<usize>,
    }

    impl Process {
        fn start(directory: &Path, name: &str, driver: &str) -> Self {
            let builder = Cell::builder("broadcast").name(name).set("driver", driver);
            let builder = builder.directories(directory.join("run"), directory.join("state"));
            // Another's work on this machine may take the processors for long.
            let cell = builder.set("timing.suspect_after", "2s").blocking_start().expect("starts");
            let (group, inbox) = cell.group("g").blocking_join().expect("joins");
            let (tell, delivered) = channel();
            let deliver = move |sender, payload: Payload| {
                let _ = tell.send((sender, payload.clone()));
                payload
            };
            let node = Arc::new(Node::start(&cell, &group, deliver).expect("starts"));
            let (tell, views) = channel();
            let sees = Arc::clone(&node);
            std::thread::spawn(move || see(inbox, &sees, &tell));
            Self { cell, node, delivered, views }
        }

        /// Waits until it has taken a view of that many members, and done what follows from it.
        fn await_view(&self, members: usize) {
            while self.views.recv_timeout(PATIENCE).expect("a view") != members {}
        }

        /// It ends without a word.
        fn die(self) {
            self.node.server.stop();
            // It is stopped rather than left, and so is its client.
            let stopped = self.cell.blocking_leave(Duration::ZERO);
            assert_eq!(stopped, Err(phalanx::LeaveError::Timeout));
        }
    }

    /// Views that come when the test is over are of no interest.
    fn see(mut inbox: Inbox, node: &Node, tell: &Sender<usize>) {
        while let Some(next) = inbox.blocking_next() {
            let Next::View(view) = next else { continue };
            if let Err(error) = node.see(&view) {
                eprintln!("{error}");
            }
            if tell.send(view.len()).is_err() {
                return;
            }
        }
    }

    fn start(directory: &Path, driver: &str) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for name in ["ann", "bob", "cat"] {
            processes.push(Process::start(directory, name, driver));
            processes.iter().for_each(|process| process.await_view(processes.len()));
        }
        processes
    }

    fn payload(len: usize) -> Payload {
        Payload(Bytes::from(vec![7; len]))
    }

    #[test]
    fn all_deliver_and_answer() {
        for driver in ["auto", "udp"] {
            let directory = tempfile::tempdir().expect("a directory");
            let processes = start(directory.path(), driver);
            for len in [0, 1, 1_100, 7 << 10, 100_000] {
                let answers = processes[2].node.broadcast(payload(len)).expect("nobody leaves");
                let mut who: Vec<MemberId> = answers.iter().map(|(who, _)| *who).collect();
                let mut all: Vec<MemberId> = processes.iter().map(|process| process.cell.me().id).collect();
                who.sort_unstable();
                all.sort_unstable();
                assert_eq!(who, all);
                assert!(
                    answers.iter().all(|(_, answer)| *answer == payload(len)),
                    "an answer is as long as the message"
                );
                for process in &processes {
                    // It delivered before it answered.
                    assert_eq!(process.delivered.try_recv(), Ok((processes[2].cell.me().id, payload(len))));
                    assert!(process.delivered.try_recv().is_err(), "once");
                }
            }
            assert!(processes.iter().all(|process| process.node.take_overs() == 0));
        }
    }

    /// The sender makes this many calls of the phase that follows the given number of whole phases, and stops.
    fn stop_in(driver: &str, whole_phases: usize, calls: usize, is_delivered: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut processes = start(directory.path(), driver);
        let sender = processes.pop().expect("there are three");
        let mut broadcast = sender.node.begin(payload(1_100));
        let mut outcomes = Outcomes::new();
        for _ in 0..whole_phases {
            let calls = broadcast.next(outcomes).expect("nobody refuses");
            outcomes = sender.node.call_all(&calls).expect("nobody leaves");
        }
        // The last ones first: the member that takes over is the first.
        let mut some = broadcast.next(outcomes).expect("nobody refuses");
        some.reverse();
        some.truncate(calls);
        sender.node.call_all(&some).expect("nobody leaves");
        let id = sender.cell.me().id;
        sender.die();
        processes.iter().for_each(|process| process.await_view(2));
        // The other one may have had the view before the one that takes over had done so.
        for process in &processes {
            let end = Instant::now() + PATIENCE;
            while process.node.shared.member().held().count() > 0 {
                assert!(Instant::now() < end, "nobody took over");
                std::thread::sleep(Duration::from_millis(5));
            }
            let delivered: Vec<_> = process.delivered.try_iter().collect();
            let expected: Vec<_> = is_delivered.then(|| (id, payload(1_100))).into_iter().collect();
            assert_eq!(delivered, expected, "stopped after {whole_phases} phases and {calls} calls");
        }
        let took_over: Vec<u64> = processes.iter().map(|process| process.node.take_overs()).collect();
        assert_eq!(took_over, [1, 0], "the lowest rank");
        // Those that are left go on.
        assert_eq!(processes[1].node.broadcast(payload(1)).expect("nobody leaves").len(), 2);
        assert!(processes.iter().all(|process| process.delivered.try_iter().count() == 1));
    }

    #[test]
    fn a_sender_that_stops_between_phases_is_taken_over() {
        for (whole_phases, is_delivered) in [(0, false), (1, true), (2, true), (3, true)] {
            stop_in("auto", whole_phases, 0, is_delivered);
        }
    }

    #[test]
    fn a_sender_that_stops_within_a_phase_is_taken_over() {
        // Itself is the first that it calls, and the second one is not the one that takes over.
        for whole_phases in 0..3 {
            stop_in("udp", whole_phases, 2, true);
        }
    }

    const PATIENCE: Duration = Duration::from_secs(120);
}
