//! The record of calls, runs and outcomes, and its evaluation. It knows nothing of sessions, slots or packets.
//!
//! R1, R2, R4, R5, R6 are the properties of calls. V12 says that every caller learns the outcome in time, and is
//! answered once everything is whole.

mod routes;

use std::collections::BTreeMap;

use phalanx_core::Incarnation;
use phalanx_core::rpc::Failure;

use super::payload::digest;
pub(super) use routes::{Asked, Look, Routed};

/// A call, its caller, and its outcome.
#[derive(Debug)]
pub(super) struct Call {
    /// The client: its number, and which of its lives made the call.
    pub(super) client: usize,
    pub(super) life: u32,
    /// Number of the call within that life.
    pub(super) number: u64,
    pub(super) server: usize,
    pub(super) idempotent: bool,
    pub(super) made_ns: u64,
    /// The latest time at which its outcome may be reported.
    pub(super) told_by_ns: u64,
    /// Whether it must be answered.
    pub(super) must_be_answered: bool,
    pub(super) told: Vec<(u64, Told)>,
    /// Whether its client was restarted.
    pub(super) abandoned: bool,
    /// Indices of its runs.
    pub(super) runs: Vec<usize>,
}

/// An outcome as reported to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The digest of an answer.
    Answer(u64),
    Failed(Failure),
}

/// A run of a handler.
#[derive(Debug)]
struct Run {
    call: Option<usize>,
    server: usize,
    life: u32,
    at_ns: u64,
    /// The digest of its first answer.
    answer: Option<u64>,
    /// Time at which it reported to have done nothing.
    refused_ns: Option<u64>,
}

/// The record of a simulated run.
#[derive(Debug, Default)]
pub(super) struct Judge {
    calls: Vec<Call>,
    runs: Vec<Run>,
    /// Calls by caller and request.
    requests: BTreeMap<(u64, usize, u64), usize>,
    routes: Vec<Routed>,
    /// When callers were told that members left the cell: by caller (and its life), and member.
    left: BTreeMap<((usize, u32), Incarnation), u64>,
    found: Vec<(u64, &'static str, String)>,
}

impl Judge {
    /// Records an accepted call. `caller` identifies this life of the client to servers.
    pub(super) fn called(&mut self, caller: u64, request: &[u8], call: Call) -> usize {
        let known = self.requests.insert((caller, request.len(), digest(request)), self.calls.len());
        assert!(known.is_none(), "no two calls have the same request");
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// Records the end of a client's life. Returns the number of its open calls.
    pub(super) fn abandon(&mut self, client: usize, life: u32) -> u64 {
        let mut count = 0;
        for call in self.calls.iter_mut().filter(|call| call.client == client && call.life == life) {
            count += u64::from(call.told.is_empty() && !call.abandoned);
            call.abandoned = true;
        }
        for route in self.routes.iter_mut().filter(|route| route.client == client && route.life == life) {
            route.abandoned = true;
        }
        count
    }

    /// Extends the time by which the outcome of `call` may be reported.
    pub(super) fn give_time(&mut self, call: usize, told_by_ns: u64) {
        self.calls[call].told_by_ns = self.calls[call].told_by_ns.max(told_by_ns);
    }

    /// Records the begin of a handler at a server, for `caller`. Returns the number of the run.
    pub(super) fn ran(&mut self, at_ns: u64, server: usize, life: u32, caller: u64, request: &[u8]) -> usize {
        let call = self.requests.get(&(caller, request.len(), digest(request))).copied();
        let run = self.runs.len();
        match call {
            Some(call) => self.calls[call].runs.push(run),
            None => {
                self.find(at_ns, "R6", format!("server {server} runs {} bytes that nobody asked for", request.len()));
            }
        }
        self.runs.push(Run { call, server, life, at_ns, answer: None, refused_ns: None });
        run
    }

    /// Records the end of the run `run`: its answer, or (`None`) that it did nothing.
    pub(super) fn returned(&mut self, at_ns: u64, run: usize, answer: Option<&[u8]>) {
        let run = &mut self.runs[run];
        run.answer = answer.map(digest);
        run.refused_ns = answer.is_none().then_some(at_ns);
    }

    /// Records a handler's second answer, which must not be taken.
    pub(super) fn returned_again(&mut self, at_ns: u64, run: usize, taken: bool) {
        if taken {
            self.find(at_ns, "R2", format!("a second answer of run {run} was taken"));
        }
    }

    /// Records the outcome that a caller learned.
    pub(super) fn told(&mut self, at_ns: u64, call: usize, told: Told) {
        self.calls[call].told.push((at_ns, told));
    }

    /// Records a defect that no property of calls covers.
    pub(super) fn find(&mut self, at_ns: u64, code: &'static str, text: String) {
        if self.found.len() < FOUND_MAX {
            self.found.push((at_ns, code, text));
        }
    }

    /// Number of calls that ran more than once.
    pub(super) fn ran_again(&self) -> u64 {
        self.calls.iter().filter(|call| call.runs.len() > 1).count() as u64
    }

    /// Number of runs.
    pub(super) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// All findings, in order of time.
    pub(super) fn verdict(mut self, now_ns: u64) -> Vec<String> {
        let mut found = std::mem::take(&mut self.found);
        for (at, call) in self.calls.iter().enumerate() {
            let mut find = |at_ns: u64, code: &'static str, text: &str| {
                let kind = if call.idempotent { "idempotent call" } else { "call" };
                let name = format!("{kind} {} of client {}.{}", call.number, call.client, call.life);
                found.push((at_ns, code, format!("{name}: {text}")));
            };
            self.r1_at_most_once(call, &mut find);
            self.r2_and_r6_integrity(at, call, &mut find);
            self.r4_definite_failure(call, &mut find);
            r5_one_outcome(call, &mut find);
            self.r6_right_server(call, &mut find);
            v12_told_in_time(call, now_ns, &mut find);
            v12_answered(call, &mut find);
        }
        found.sort();
        found.truncate(FOUND_MAX);
        let text = |(at_ns, code, text): &(u64, &str, String)| format!("{code} at {} s: {text}", seconds(*at_ns));
        found.iter().map(text).collect()
    }

    /// R1: a call that is not idempotent runs at most once, whatever became of its server.
    fn r1_at_most_once(&self, call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
        if let (false, [first, .., last]) = (call.idempotent, &call.runs[..]) {
            let (first, last) = (&self.runs[*first], &self.runs[*last]);
            let text = format!(
                "ran {} times, first at {} s at server {}.{}, last at {}.{}",
                call.runs.len(),
                seconds(first.at_ns),
                first.server,
                first.life,
                last.server,
                last.life
            );
            find(last.at_ns, "R1", &text);
        }
    }

    /// R2: an answer is what a run of that call returned; R6: it is not that of another call.
    fn r2_and_r6_integrity(&self, at: usize, call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
        for (at_ns, told) in &call.told {
            let Told::Answer(answer) = told else { continue };
            if call.runs.iter().any(|run| self.runs[*run].answer == Some(*answer)) {
                continue;
            }
            let other = self.runs.iter().find(|run| run.answer == Some(*answer) && run.call != Some(at));
            match other {
                Some(_) => find(*at_ns, "R6", "was given the answer of another call"),
                None if call.runs.is_empty() => find(*at_ns, "R2", "was answered and never ran"),
                None => find(*at_ns, "R2", "was given an answer that no run of it returned"),
            }
        }
    }

    /// R4: a call reported as not executed did not run before; R5: nor later.
    fn r4_definite_failure(&self, call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
        let sure = call.told.iter().find(|(_, told)| matches!(told, Told::Failed(Failure::NotExecuted(_))));
        let Some((told_ns, _)) = sure else { return };
        // A handler that reported to have done nothing did nothing.
        for run in
            call.runs.iter().map(|run| &self.runs[*run]).filter(|run| run.refused_ns.is_none_or(|at| at > *told_ns))
        {
            let when = seconds(*told_ns);
            let place = format!("server {}.{}", run.server, run.life);
            if run.at_ns <= *told_ns {
                find(*told_ns, "R4", &format!("told at {when} s as not executed, and had run at {place}"));
            } else {
                find(run.at_ns, "R5", &format!("told at {when} s as not executed, and runs at {place}"));
            }
        }
    }

    /// R6: a call runs at the server it was sent to.
    fn r6_right_server(&self, call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
        for run in call.runs.iter().map(|run| &self.runs[*run]).filter(|run| run.server != call.server) {
            find(run.at_ns, "R6", &format!("made to server {}, ran at {}", call.server, run.server));
        }
    }
}

impl Call {
    pub(super) fn new(client: usize, life: u32, number: u64, server: usize) -> Self {
        Self {
            client,
            life,
            number,
            server,
            idempotent: false,
            made_ns: 0,
            told_by_ns: 0,
            must_be_answered: false,
            told: Vec::new(),
            abandoned: false,
            runs: Vec::new(),
        }
    }
}

/// R5: each call has one outcome.
fn r5_one_outcome(call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
    if let [first, .., last] = &call.told[..] {
        find(last.0, "R5", &format!("told {:?} and then {:?}", first.1, last.1));
    }
}

/// V12: the outcome of each call is reported, and not long after its deadline. If a client was restarted, no caller is
/// left.
fn v12_told_in_time(call: &Call, now_ns: u64, find: &mut impl FnMut(u64, &'static str, &str)) {
    match call.told.first() {
        Some((at_ns, _)) if *at_ns > call.told_by_ns => {
            find(*at_ns, "V12", &format!("told {} s too late", seconds(at_ns - call.told_by_ns)));
        }
        None if !call.abandoned && now_ns > call.told_by_ns => {
            find(now_ns, "V12", &format!("made at {} s, and never told how it ended", seconds(call.made_ns)));
        }
        _ => {}
    }
}

/// V12: a call made when everything is whole is answered.
fn v12_answered(call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
    if let (true, Some((at_ns, Told::Failed(failure)))) = (call.must_be_answered, call.told.first()) {
        find(*at_ns, "V12", &format!("nothing is broken any more, and it failed: {failure}"));
    }
}

pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// Findings kept of one seed.
pub(super) const FOUND_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use phalanx_core::rpc::Reason;

    use super::*;

    /// One call, made at 0 to server 0, whose outcome is due by 10.
    fn record(idempotent: bool) -> (Judge, usize) {
        let mut judge = Judge::default();
        let call = judge.called(7, b"one", Call { idempotent, told_by_ns: 10, ..Call::new(1, 0, 0, 0) });
        (judge, call)
    }

    fn codes(judge: Judge) -> Vec<String> {
        let verdict = judge.verdict(100);
        verdict.iter().filter_map(|text| text.split(' ').next().map(str::to_owned)).collect()
    }

    const SURE: Told = Told::Failed(Failure::NotExecuted(Reason::Deadline));
    const UNSURE: Told = Told::Failed(Failure::Unknown(Reason::Deadline));

    #[test]
    fn what_is_right_is_let_be() {
        let (mut judge, call) = record(false);
        let run = judge.ran(1, 0, 0, 7, b"one");
        judge.returned(1, run, Some(b"done"));
        judge.told(2, call, Told::Answer(digest(b"done")));
        assert!(codes(judge).is_empty());
        let (mut judge, call) = record(false);
        let run = judge.ran(1, 0, 0, 7, b"one");
        judge.returned(1, run, None);
        judge.told(2, call, SURE);
        assert!(codes(judge).is_empty(), "who refuses did nothing");
    }

    #[test]
    fn each_property_can_be_broken() {
        let twice = |idempotent| {
            let (mut judge, call) = record(idempotent);
            judge.ran(1, 0, 0, 7, b"one");
            judge.ran(2, 0, 1, 7, b"one");
            judge.told(3, call, UNSURE);
            codes(judge)
        };
        assert_eq!(twice(false), ["R1"]);
        assert!(twice(true).is_empty());

        let (mut judge, call) = record(false);
        judge.told(3, call, Told::Answer(5));
        assert_eq!(codes(judge), ["R2"], "never ran");

        let (mut judge, call) = record(false);
        judge.called(7, b"two", Call { told_by_ns: 200, ..Call::new(1, 0, 1, 0) });
        judge.ran(1, 0, 0, 7, b"one");
        let run = judge.ran(1, 0, 0, 7, b"two");
        judge.returned(1, run, Some(b"done"));
        judge.told(3, call, Told::Answer(digest(b"done")));
        assert_eq!(codes(judge), ["R6"], "of another call");

        let (mut judge, call) = record(true);
        judge.ran(1, 0, 0, 7, b"one");
        judge.told(3, call, SURE);
        judge.ran(5, 0, 0, 7, b"one");
        assert_eq!(codes(judge), ["R4", "R5"]);

        let (mut judge, call) = record(false);
        judge.told(3, call, UNSURE);
        judge.told(4, call, UNSURE);
        assert_eq!(codes(judge), ["R5"]);

        let (mut judge, call) = record(false);
        judge.ran(1, 4, 0, 7, b"one");
        judge.ran(1, 0, 0, 7, b"noise");
        judge.told(11, call, UNSURE);
        assert_eq!(codes(judge), ["R6", "R6", "V12"]);

        let (judge, _) = record(false);
        assert_eq!(codes(judge), ["V12"], "never told");
        let (mut judge, _) = record(false);
        assert_eq!(judge.abandon(1, 0), 1);
        assert!(codes(judge).is_empty());
    }
}
