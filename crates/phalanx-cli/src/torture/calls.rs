//! The calls of a torture member: an endpoint on a thread of its own that calls all others and answers them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use phalanx_runtime::config::Config;
use phalanx_runtime::core::Incarnation;
use phalanx_runtime::core::rng::Rng;
use phalanx_runtime::rpc::{
    CallId, CallOptions, ClientCallId, HandlerResult, Outcome, Port, PortOptions, Service, SessionId,
};

use super::network::CALLS_PORT;
use super::report::Answered;
use super::told::Told;
use crate::exit::{Exit, Failure, While};

/// State shared between the endpoint's thread and the member.
pub(super) struct Calls {
    incarnation: u64,
    told: Told<Answered>,
}

impl Calls {
    /// Starts a member's endpoint, which calls those of all other hosts in the configuration.
    pub(super) fn start(config: &Config, seed: u64) -> Result<Self, Failure> {
        let config = Config { data_port: CALLS_PORT, control_port: 0, ..config.clone() };
        let hosts = config.seeds.iter().filter_map(|seed| seed.parse::<SocketAddr>().ok()).map(|seed| seed.ip());
        let others: Vec<_> =
            hosts.filter(|host| *host != config.bind).map(|host| SocketAddr::new(host, CALLS_PORT)).collect();
        let options = PortOptions { config, serves: true, ..PortOptions::default() };
        let port = Port::start(&options).map_err(|error| Failure::new(Exit::Unreachable, error.to_string()))?;
        let incarnation = port.endpoint().incarnation().0;
        let told = Told::default();
        let desk = Desk {
            rng: Rng::new(seed).fork("calls"),
            me: incarnation,
            told: told.clone(),
            made: 0,
            expected: BTreeMap::new(),
            owed: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("calls".to_owned());
        thread.spawn(move || serve(port, desk, &others)).when("cannot start a thread")?;
        Ok(Self { incarnation, told })
    }

    /// The endpoint's incarnation in traces.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Number of calls answered by each host so far.
    pub(super) fn answered(&self) -> Answered {
        self.told.counted()
    }

    /// Returns the errors found since the last call.
    pub(super) fn wrongs(&self) -> Vec<String> {
        self.told.wrongs()
    }
}

/// Makes a call now and then and answers those of others, forever.
fn serve(mut port: Port, mut desk: Desk, others: &[SocketAddr]) {
    let sessions: Vec<_> = others.iter().map(|&to| (to, port.connect(to, &mut desk))).collect();
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= due && !sessions.is_empty() {
            due = now + CALL_EVERY / 2 + CALL_EVERY * desk.below(100) / 100;
            let spot = desk.below(u32::try_from(sessions.len()).unwrap_or(1));
            desk.call(&mut port, sessions[spot as usize]);
        }
        desk.pay(&mut port, now);
        if let Some(error) = port.trace_failure() {
            trace_lost(error);
        }
        let next = desk.owed.iter().map(|owed| owed.due).fold(due, Instant::min);
        if port.poll(&mut desk) == 0 {
            let patience = next.saturating_duration_since(Instant::now());
            if let Err(error) = port.wait(Some(patience), &[]) {
                desk.wrong(format!("cannot wait for calls: {error}"));
                return;
            }
        }
    }
}

/// The application of the endpoint.
struct Desk {
    rng: Rng,
    me: u64,
    told: Told<Answered>,
    made: u64,
    /// The server of each call, and the expected answer if the call should succeed.
    expected: BTreeMap<ClientCallId, (SocketAddr, Option<Vec<u8>>)>,
    owed: Vec<Owed>,
}

/// An answer that is sent later.
struct Owed {
    due: Instant,
    call: CallId,
    answer: Vec<u8>,
}

impl Desk {
    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.rng.below(u64::from(bound))).unwrap_or(0)
    }

    fn wrong(&self, what: String) {
        self.told.wrong(what);
    }

    fn call(&mut self, port: &mut Port, (to, session): (SocketAddr, SessionId)) {
        self.made += 1;
        // A request holds its kind, its caller and a number, so no two requests are equal.
        let kind = if self.below(REFUSED_ONE_IN) == 0 {
            REFUSE
        } else if self.below(LATER_ONE_IN) == 0 {
            LATER
        } else {
            AT_ONCE
        };
        let mut request = vec![kind];
        request.extend_from_slice(&self.me.to_le_bytes());
        request.extend_from_slice(&self.made.to_le_bytes());
        let len = if self.below(LONG_ONE_IN) == 0 { self.below(LONG_BYTES_MAX) } else { self.below(200) };
        for _ in 0..len / 8 {
            request.extend_from_slice(&self.rng.next_u64().to_le_bytes());
        }
        let options = CallOptions { deadline: DEADLINE, idempotent: self.below(2) == 0, ..CallOptions::default() };
        let expected = (kind != REFUSE).then(|| answer_to(&request));
        // Too many calls wait: this one is dropped, as an application might do.
        if let Ok(call_id) = port.call(session, request, &options, self) {
            self.expected.insert(call_id, (to, expected));
        }
    }

    /// Sends the delayed answers that are due.
    fn pay(&mut self, port: &mut Port, now: Instant) {
        while let Some(spot) = self.owed.iter().position(|owed| owed.due <= now) {
            let Owed { call, answer, .. } = self.owed.swap_remove(spot);
            // The caller may have given up the call.
            let _ = port.answer(call, Some(answer.into()), self);
        }
    }
}

impl Service for Desk {
    fn request(&mut self, call: CallId, _from: Incarnation, request: &[u8], answer: &mut Vec<u8>) -> HandlerResult {
        match request.first() {
            Some(&AT_ONCE) => {
                answer.extend(answer_to(request));
                HandlerResult::Answered
            }
            Some(&LATER) => {
                let due = Instant::now() + Duration::from_millis(u64::from(self.below(LATER_MS_MAX)));
                self.owed.push(Owed { due, call, answer: answer_to(request) });
                HandlerResult::Later
            }
            _ => HandlerResult::Refused,
        }
    }

    fn outcome(&mut self, call_id: ClientCallId, outcome: Outcome<'_>) {
        let Some((to, expected)) = self.expected.remove(&call_id) else {
            return self.wrong(format!("a call ended that was not made, or ended twice: {call_id:?}"));
        };
        match (outcome, expected) {
            (Outcome::Answer(answer), Some(expected)) if answer == expected => {
                self.told.count(|answered| *answered.entry(to.ip()).or_default() += 1);
            }
            (Outcome::Answer(answer), _) => {
                self.wrong(format!("a call to {to} got an answer of {} bytes that is not its own", answer.len()));
            }
            // Whether a failure may say so is for the checker to evaluate.
            (Outcome::Failed(_), _) => {}
        }
    }
}

/// The expected answer: the reversed request.
fn answer_to(request: &[u8]) -> Vec<u8> {
    request.iter().rev().copied().collect()
}

const AT_ONCE: u8 = 0;
const LATER: u8 = 1;
const REFUSE: u8 = 2;

/// Mean time between two calls of a member.
const CALL_EVERY: Duration = Duration::from_millis(50);
/// Deadline of calls. Most faults last longer, so calls fail during them.
const DEADLINE: Duration = Duration::from_secs(2);
const REFUSED_ONE_IN: u32 = 20;
const LATER_ONE_IN: u32 = 3;
const LATER_MS_MAX: u32 = 100;
const LONG_ONE_IN: u32 = 10;
/// Length that takes several packets.
const LONG_BYTES_MAX: u32 = 12_000;

/// Ends a member of an experiment whose trace cannot be written: without a trace it proves nothing. Its parent sees the
/// exit.
fn trace_lost(error: &phalanx_trace::TraceError) {
    crate::notice::say(format_args!("the trace cannot be written: {error}"));
    std::process::exit(i32::from(Exit::Failure as u8));
}
