//! The record of what was called, run and told, and the judgement on it. It knows nothing of sessions, slots or packets.
//!
//! R1, R2, R4, R5, R6 are the properties of calls; V12 says that whoever calls is told in time, and answered once all is whole.

use std::collections::BTreeMap;

use phalanx_core::rpc::Failure;

use super::payload::digest;

/// What was called, by whom, and what became of it.
#[derive(Debug)]
pub(super) struct Call {
    /// The caller: its number, and which life of it.
    pub(super) client: usize,
    pub(super) life: u32,
    /// In this life.
    pub(super) number: u64,
    pub(super) server: usize,
    pub(super) idempotent: bool,
    pub(super) made_ns: u64,
    /// The latest that its outcome may be told.
    pub(super) told_by_ns: u64,
    /// It must be answered.
    pub(super) must_be_answered: bool,
    pub(super) told: Vec<(u64, Told)>,
    /// Its client was started anew.
    pub(super) abandoned: bool,
    /// In the record of runs.
    pub(super) runs: Vec<usize>,
}

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The digest of an answer.
    Answer(u64),
    Failed(Failure),
}

/// A handler that was begun.
#[derive(Debug)]
struct Run {
    call: Option<usize>,
    server: usize,
    life: u32,
    at_ns: u64,
    /// The digest of what it returned first.
    answer: Option<u64>,
    /// When it said that it did nothing.
    refused_ns: Option<u64>,
}

/// The record.
#[derive(Debug, Default)]
pub(super) struct Judge {
    calls: Vec<Call>,
    runs: Vec<Run>,
    /// By caller and request.
    requests: BTreeMap<(u64, usize, u64), usize>,
    found: Vec<(u64, &'static str, String)>,
}

impl Judge {
    /// A call was accepted. `caller`: what names this life of the client to servers.
    pub(super) fn called(&mut self, caller: u64, request: &[u8], call: Call) -> usize {
        let known = self.requests.insert((caller, request.len(), digest(request)), self.calls.len());
        assert!(known.is_none(), "no two calls have the same request");
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// The life of a client is over.
    pub(super) fn abandon(&mut self, client: usize, life: u32) -> u64 {
        let mut count = 0;
        for call in self.calls.iter_mut().filter(|call| call.client == client && call.life == life) {
            count += u64::from(call.told.is_empty() && !call.abandoned);
            call.abandoned = true;
        }
        count
    }

    /// The latest that the outcome of `call` may be told, if that is now later than before.
    pub(super) fn give_time(&mut self, call: usize, told_by_ns: u64) {
        self.calls[call].told_by_ns = self.calls[call].told_by_ns.max(told_by_ns);
    }

    /// A handler was begun at a server, for `caller`. Returns the number of the run.
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

    /// How the run `run` ended: with this answer, or by saying that it did nothing.
    pub(super) fn returned(&mut self, at_ns: u64, run: usize, answer: Option<&[u8]>) {
        let run = &mut self.runs[run];
        run.answer = answer.map(digest);
        run.refused_ns = answer.is_none().then_some(at_ns);
    }

    /// Whether a second answer of a handler was taken is judged here: it must not be.
    pub(super) fn returned_again(&mut self, at_ns: u64, run: usize, taken: bool) {
        if taken {
            self.find(at_ns, "R2", format!("a second answer of run {run} was taken"));
        }
    }

    /// A caller was told how its call ended.
    pub(super) fn told(&mut self, at_ns: u64, call: usize, told: Told) {
        self.calls[call].told.push((at_ns, told));
    }

    /// Something was found that no property of calls is about, but that must not be.
    pub(super) fn find(&mut self, at_ns: u64, code: &'static str, text: String) {
        if self.found.len() < FOUND_MAX {
            self.found.push((at_ns, code, text));
        }
    }

    /// Calls that ran more than once.
    pub(super) fn ran_again(&self) -> u64 {
        self.calls.iter().filter(|call| call.runs.len() > 1).count() as u64
    }

    /// Handlers that were begun.
    pub(super) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// All that was found, in order of time.
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

    /// R2: an answer is what a run of that call returned; R6: not of another one.
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

    /// R4: what was told as not executed did not run before; R5: nor later.
    fn r4_definite_failure(&self, call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
        let sure = call.told.iter().find(|(_, told)| matches!(told, Told::Failed(Failure::NotExecuted(_))));
        let Some((told_ns, _)) = sure else { return };
        // A handler that said that it did nothing did nothing.
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

    /// R6: it runs where it was sent to.
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

/// R5: one outcome for each call.
fn r5_one_outcome(call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
    if let [first, .., last] = &call.told[..] {
        find(last.0, "R5", &format!("told {:?} and then {:?}", first.1, last.1));
    }
}

/// V12: the outcome of each call is told, and not long after its deadline; no one is left to be told when a client was started
/// anew.
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

/// V12: what is called when everything is whole is answered.
fn v12_answered(call: &Call, find: &mut impl FnMut(u64, &'static str, &str)) {
    if let (true, Some((at_ns, Told::Failed(failure)))) = (call.must_be_answered, call.told.first()) {
        find(*at_ns, "V12", &format!("nothing is broken any more, and it failed: {failure}"));
    }
}

pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// More is not told of one seed.
pub(super) const FOUND_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use phalanx_core::rpc::Reason;

    use super::*;

    /// One call, made at 0 to server 0, that has been told by 10.
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
