//! Calls one after another, by a thread that waits for each.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_core::rpc::{CallOptions, ClientCallId, Failure, Outcome, SessionId};

use super::caller::reason;
use super::port::{Port, PortOptions, Service};
use crate::start::StartError;

/// Makes calls and blocks until each has ended. In a forked child it is dead, as a [`Port`] is: each call fails at once
/// with [`Reason::Forked`](phalanx_core::rpc::Reason::Forked) and does not run.
///
/// ```no_run
/// use phalanx_runtime::rpc::{CallOptions, Client, PortOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = Client::start(&PortOptions::default())?;
/// let answer = client.call("127.0.0.1:4711".parse()?, b"hello", &CallOptions::default())?;
/// # let _ = answer;
/// # Ok(())
/// # }
/// ```
pub struct Client {
    port: Port,
    sessions: BTreeMap<SocketAddr, SessionId>,
    last: Last,
}

/// The outcome of the one call under way.
#[derive(Default)]
struct Last {
    call_id: Option<ClientCallId>,
    outcome: Option<Result<Vec<u8>, Failure>>,
}

impl Last {
    fn end(&mut self, call_id: ClientCallId, outcome: Result<Vec<u8>, Failure>) {
        if self.call_id.is_none_or(|expected| expected == call_id) {
            self.outcome = Some(outcome);
        }
    }
}

impl Service for Last {
    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        self.end(call_id, outcome.to_result());
    }

    fn long_answer(&mut self, call_id: ClientCallId, answer: &mut Vec<u8>) {
        self.end(call_id, Ok(std::mem::take(answer)));
    }
}

impl Client {
    /// Starts a client with its own socket.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: &PortOptions) -> Result<Self, StartError> {
        Ok(Self { port: Port::start(options)?, sessions: BTreeMap::new(), last: Last::default() })
    }

    /// Calls the endpoint at `server` and waits for the outcome. The session is kept for later calls to it.
    ///
    /// # Errors
    /// [`Failure::NotExecuted`]: it did not run. [`Failure::Unknown`]: it may have run.
    pub fn call(&mut self, server: SocketAddr, request: &[u8], options: &CallOptions) -> Result<Vec<u8>, Failure> {
        let Self { port, sessions, last } = self;
        *last = Last::default();
        let session = *sessions.entry(server).or_insert_with(|| port.connect(server, last));
        match port.call(session, request, options, last) {
            Ok(call_id) => last.call_id = Some(call_id),
            Err(error) => return Err(Failure::NotExecuted(reason(error))),
        }
        loop {
            // No packet can have arrived yet, so wait first. If the socket cannot be waited on, the deadline still ends
            // the call.
            if port.wait(None, &[]).is_err() {
                std::thread::yield_now();
            }
            loop {
                let came = port.poll(last);
                if let Some(outcome) = last.outcome.take() {
                    return outcome;
                }
                if came == 0 {
                    break;
                }
            }
        }
    }

    /// See [`Port::keep_trace`].
    pub fn keep_trace(&mut self, records: usize) {
        self.port.keep_trace(records);
    }

    /// The port inside.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }
}
