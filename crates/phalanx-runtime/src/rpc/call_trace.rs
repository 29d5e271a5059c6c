//! Records the calls that an endpoint makes and answers, for the checker (`docs/checker.md`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use phalanx_core::Incarnation;
use phalanx_core::rpc::{CallId, CallOptions, ClientCallId, Failure, HandlerResult, Outcome, SessionId};
use phalanx_driver::fork::Home;
use phalanx_trace::{CallOutcome, Event, TraceError, TraceWriter, payload_hash};

use crate::clock::now;
use crate::traced::create;

/// The trace of one endpoint. Without one every method returns at once.
///
/// Records reach the operating system before any packet that may reveal them is sent, and before a handler starts. A
/// trace that cannot be written (a full disk) is given up: the reason is kept, and the endpoint continues without a
/// trace. A forked child writes nothing, because the file is its parent's.
#[derive(Default)]
pub(super) struct CallTrace {
    open: Option<Box<Open>>,
    failure: Option<TraceError>,
}

struct Open {
    home: Home,
    writer: TraceWriter<File>,
    /// The numbers of calls made and of runs started so far.
    made: u64,
    runs: u64,
    /// The server's address of each open session.
    sessions: BTreeMap<SessionId, SocketAddr>,
    /// The call that is being made, which the endpoint has not numbered yet.
    making: Option<u64>,
    /// The trace numbers of calls under way, and of runs whose answer comes later.
    under_way: BTreeMap<ClientCallId, u64>,
    running: BTreeMap<CallId, u64>,
}

impl CallTrace {
    /// Starts the trace of the endpoint `me`, called `name`, in a new file of `directory`, which is created if missing.
    pub(super) fn begin(
        directory: &Path,
        cell: &str,
        name: &str,
        me: Incarnation,
        address: SocketAddr,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let writer = create(directory, cell, name, me).map_err(into_io)?;
        let mut trace = Self {
            open: Some(Box::new(Open {
                home: Home::here(),
                writer,
                made: 0,
                runs: 0,
                sessions: BTreeMap::new(),
                making: None,
                under_way: BTreeMap::new(),
                running: BTreeMap::new(),
            })),
            failure: None,
        };
        trace.write(|_| Some(Event::Start));
        trace.write(|_| Some(Event::Endpoint { address: address.to_string() }));
        trace.flush();
        Ok(trace)
    }

    /// Why the trace was given up, if it was.
    pub(super) fn failure(&self) -> Option<&TraceError> {
        self.failure.as_ref()
    }

    pub(super) fn connected(&mut self, session: SessionId, server: SocketAddr) {
        if let Some(open) = &mut self.open {
            open.sessions.insert(session, server);
        }
    }

    pub(super) fn closed(&mut self, session: SessionId) {
        if let Some(open) = &mut self.open {
            open.sessions.remove(&session);
        }
    }

    /// Records a call that is about to be made. [`Self::made`] follows.
    #[inline]
    pub(super) fn making(&mut self, session: SessionId, request: &[u8], options: &CallOptions) {
        self.write(|open| {
            // Without its session the call is refused at once, and no server is involved.
            let to = open.sessions.get(&session).map(SocketAddr::to_string).unwrap_or_default();
            open.made += 1;
            open.making = Some(open.made);
            let (call, idempotent, hash) = (open.made, options.idempotent, payload_hash(request));
            Some(Event::CallMade { call, to, idempotent, hash })
        });
        self.write(|open| {
            let within_ns = u64::try_from(options.deadline.as_nanos()).unwrap_or(u64::MAX);
            Some(Event::CallDeadline { call: open.made, within_ns })
        });
    }

    /// Records that the call was accepted under this id, or was refused and did not run.
    #[inline]
    pub(super) fn made(&mut self, call_id: Option<ClientCallId>) {
        self.write(|open| {
            // `None`: the call has already ended.
            let call = open.making.take()?;
            match call_id {
                Some(call_id) => {
                    open.under_way.insert(call_id, call);
                    None
                }
                None => Some(Event::CallEnded { call, outcome: CallOutcome::NotExecuted }),
            }
        });
    }

    /// Records how a call ended, before its caller learns it.
    #[inline]
    pub(super) fn ended(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.write(|open| {
            let outcome = match outcome {
                Outcome::Answer(answer) => CallOutcome::Answer { hash: payload_hash(answer) },
                Outcome::Failed(Failure::NotExecuted(_)) => CallOutcome::NotExecuted,
                Outcome::Failed(Failure::Unknown(_)) => CallOutcome::Unknown,
            };
            // A call can end while it is being made, before its id is known.
            let call = open.under_way.remove(&call_id).or_else(|| open.making.take())?;
            Some(Event::CallEnded { call, outcome })
        });
    }

    /// Records that a handler is about to start. Returns the number of the run; 0 without a trace.
    #[inline]
    pub(super) fn runs(&mut self, from: Incarnation, request: &[u8]) -> u64 {
        let mut number = 0;
        self.write(|open| {
            open.runs += 1;
            number = open.runs;
            Some(Event::CallRan { run: number, from: from.0, hash: payload_hash(request) })
        });
        // Flushed first, so that no effect of the handler goes unrecorded.
        self.hand_on();
        number
    }

    /// Records that the handler of run `number` has returned.
    #[inline]
    pub(super) fn ran(&mut self, number: u64, call: CallId, served: HandlerResult, answer: &[u8]) {
        self.write(|open| {
            let answer = match served {
                HandlerResult::Answered => Some(payload_hash(answer)),
                HandlerResult::Refused | HandlerResult::Busy => None,
                HandlerResult::Later => {
                    open.running.insert(call, number);
                    return None;
                }
            };
            Some(Event::CallAnswered { run: number, answer })
        });
    }

    /// Records the deferred answer of a run; `None`: the handler did not run the call.
    pub(super) fn answers(&mut self, call: CallId, answer: Option<&[u8]>) {
        self.write(|open| {
            let run = open.running.remove(&call)?;
            Some(Event::CallAnswered { run, answer: answer.map(payload_hash) })
        });
    }

    /// Flushes the records that the next packet may reveal. Called before each packet.
    #[inline]
    pub(super) fn hand_on(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.writer.has_unflushed()) {
            self.flush();
        }
    }

    /// Writes the record that `event` makes, if there is a trace.
    #[inline]
    fn write(&mut self, event: impl FnOnce(&mut Open) -> Option<Event>) {
        let Some(open) = self.open() else { return };
        let Some(event) = event(open) else { return };
        // Each record has its own time, because the checker compares the time of a run with that of its call's end.
        let written = open.writer.write(now().nanos(), &event);
        self.settle(written);
    }

    #[inline]
    fn open(&mut self) -> Option<&mut Open> {
        if self.open.as_ref().is_some_and(|open| !open.home.is_here()) {
            self.abandon();
        }
        self.open.as_deref_mut()
    }

    #[cold]
    fn abandon(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.writer.abandon();
        }
    }

    #[cold]
    fn flush(&mut self) {
        let flushed = self.open().map_or(Ok(()), |open| open.writer.flush());
        self.settle(flushed);
    }

    fn settle(&mut self, outcome: Result<(), TraceError>) {
        if let Err(error) = outcome {
            self.open = None;
            self.failure = Some(error);
        }
    }
}

fn into_io(error: TraceError) -> io::Error {
    match error {
        TraceError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl Drop for CallTrace {
    fn drop(&mut self) {
        // A process that panics did not end cleanly, so its trace does not say so.
        if !std::thread::panicking() {
            self.write(|_| Some(Event::End));
            self.flush();
        }
    }
}
