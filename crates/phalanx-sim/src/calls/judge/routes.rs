//! Routed calls: what a caller asked servers for, in what order, and what it was told in the end.
//!
//! Each server that was asked has a [`Call`](super::Call) of its own in the record. Here all of them are one call. The
//! directory is judged from what happened in its group.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use phalanx_core::rpc::{Failure, Reason, Refusal};
use phalanx_life::Destination;

use super::{Judge, Told, seconds};

/// A routed call and its outcome.
#[derive(Debug)]
pub(in crate::calls) struct Routed {
    pub(in crate::calls) client: usize,
    pub(in crate::calls) life: u32,
    pub(in crate::calls) number: u64,
    pub(in crate::calls) destination: Destination,
    pub(in crate::calls) idempotent: bool,
    /// Whether it waits for a server.
    pub(in crate::calls) waits: bool,
    pub(in crate::calls) made_ns: u64,
    pub(in crate::calls) until_ns: u64,
    /// The latest time at which its outcome may be reported.
    pub(in crate::calls) told_by_ns: u64,
    pub(in crate::calls) must_be_answered: bool,
    pub(in crate::calls) asked: Vec<Asked>,
    pub(in crate::calls) told: Vec<(u64, Told)>,
    /// Whether nobody waits for it any more.
    pub(in crate::calls) abandoned: bool,
}

/// A server that was asked.
#[derive(Debug)]
pub(in crate::calls) struct Asked {
    pub(in crate::calls) at_ns: u64,
    pub(in crate::calls) address: SocketAddr,
    /// The time that the server was told is left.
    pub(in crate::calls) left_ns: u64,
    /// Changes of the caller's directory.
    pub(in crate::calls) changes: u64,
    /// Its call in the record, if it was accepted.
    pub(in crate::calls) call: Option<usize>,
}

/// What a caller's directory says when it is looked at, found from what happened in the group.
#[derive(Debug)]
pub(in crate::calls) struct Look {
    pub(in crate::calls) at_ns: u64,
    /// The servers that fit.
    pub(in crate::calls) listed: Vec<SocketAddr>,
    pub(in crate::calls) is_current: bool,
    /// Counts its changes.
    pub(in crate::calls) changes: u64,
}

impl Judge {
    /// Records a routed call. Returns its number.
    pub(in crate::calls) fn routed(&mut self, routed: Routed) -> usize {
        self.routes.push(routed);
        self.routes.len() - 1
    }

    /// Records that a server is asked.
    pub(in crate::calls) fn asked(&mut self, route: usize, asked: Asked, look: &Look) {
        let routed = &self.routes[route];
        let fits = match &routed.destination {
            Destination::Address(address) => asked.address == *address,
            Destination::Member(_) | Destination::Group(_) => look.listed.contains(&asked.address),
        };
        if !fits {
            let text = format!("{} asks {}, which is no such server", routed.name(), asked.address);
            self.find(look.at_ns, "R6", text);
        }
        self.routes[route].asked.push(asked);
    }

    /// Records that the endpoint accepted the call at the server that was asked last.
    pub(in crate::calls) fn accepted(&mut self, route: usize, call: usize) {
        if let Some(asked) = self.routes[route].asked.last_mut() {
            asked.call = Some(call);
        }
    }

    /// Records that the caller waits.
    pub(in crate::calls) fn waits(&mut self, route: usize, look: &Look) {
        let routed = &self.routes[route];
        let text = if look.at_ns >= routed.until_ns {
            "waits on after its deadline"
        } else if let Some(address) = routed.left_out(look) {
            return self.find(look.at_ns, "V12", format!("{} waits, and {address} was not asked", routed.name()));
        } else if let Some(asked) = look.listed.iter().find_map(|address| {
            let last = routed.asked.iter().rfind(|asked| asked.address == *address)?;
            (last.changes != look.changes && self.was_nobody(last)).then_some(last)
        }) {
            let text = format!("{} waits, and {} may be back", routed.name(), asked.address);
            return self.find(look.at_ns, "V12", text);
        } else if !routed.waits && look.is_current {
            "waits for a server, and was told not to"
        } else {
            return;
        };
        self.find(look.at_ns, "V12", format!("{} {text}", routed.name()));
    }

    /// Whether the server that was asked was not there.
    fn was_nobody(&self, asked: &Asked) -> bool {
        let told = asked.call.and_then(|call| self.calls[call].told.first());
        told.is_some_and(|(_, told)| *told == Told::Failed(Failure::NotExecuted(Reason::Unreachable)))
    }

    /// Records the outcome that the caller of a routed call learned. `look`: what it saw, unless an answer came.
    pub(in crate::calls) fn route_told(&mut self, at_ns: u64, route: usize, told: Told, look: Option<&Look>) {
        self.routes[route].told.push((at_ns, told));
        let (Some(look), Told::Failed(Failure::NotExecuted(reason))) = (look, told) else { return };
        let routed = &self.routes[route];
        if at_ns < routed.until_ns
            && is_of_one_server(reason)
            && let Some(address) = routed.left_out(look)
        {
            self.find(at_ns, "V12", format!("{} ends ({reason}), and {address} was not asked", routed.name()));
        }
    }

    /// Records that the caller does not wait for the outcome.
    pub(in crate::calls) fn given_up(&mut self, route: usize) {
        self.routes[route].abandoned = true;
    }

    /// How many servers were asked.
    pub(in crate::calls) fn servers_asked(&self, route: usize) -> usize {
        self.routes[route].asked.iter().map(|asked| asked.address).collect::<BTreeSet<_>>().len()
    }

    /// Whether a server was asked twice.
    pub(in crate::calls) fn asked_again(&self, route: usize) -> bool {
        self.servers_asked(route) < self.routes[route].asked.len()
    }

    /// The findings of all routed calls, in order of time.
    pub(in crate::calls) fn verdict_of_routes(&self, now_ns: u64) -> Vec<String> {
        let mut found = Vec::new();
        for routed in &self.routes {
            let mut find = |at_ns: u64, code: &'static str, text: &str| {
                found.push((at_ns, code, format!("{}: {text}", routed.name())));
            };
            self.effects(routed, &mut find);
            self.told_in_time(routed, now_ns, &mut find);
            self.asks(routed, &mut find);
        }
        found.sort();
        found.truncate(super::FOUND_MAX);
        found.iter().map(|(at_ns, code, text)| format!("{code} at {} s: {text}", seconds(*at_ns))).collect()
    }

    /// R1, R2, R4, R5 over all servers that were asked. A handler that reported to have done nothing did nothing.
    fn effects(&self, routed: &Routed, find: &mut impl FnMut(u64, &'static str, &str)) {
        let runs: Vec<&super::Run> = routed
            .asked
            .iter()
            .filter_map(|asked| asked.call)
            .flat_map(|call| self.calls[call].runs.iter().map(|run| &self.runs[*run]))
            .collect();
        let effects: Vec<&&super::Run> = runs.iter().filter(|run| run.refused_ns.is_none()).collect();
        if let (false, [first, .., last]) = (routed.idempotent, &effects[..]) {
            let text =
                format!("had an effect at server {}.{} and at {}.{}", first.server, first.life, last.server, last.life);
            find(last.at_ns, "R1", &text);
        }
        match routed.told.first() {
            Some((at_ns, Told::Answer(answer))) if runs.iter().all(|run| run.answer != Some(*answer)) => {
                find(*at_ns, "R2", "was given an answer that no run of it returned");
            }
            Some((told_ns, Told::Failed(Failure::NotExecuted(_)))) => {
                for run in runs.iter().filter(|run| run.refused_ns.is_none_or(|at_ns| at_ns > *told_ns)) {
                    let code = if run.at_ns <= *told_ns { "R4" } else { "R5" };
                    let text = format!("told as not executed, and ran at server {}.{}", run.server, run.life);
                    find(run.at_ns.max(*told_ns), code, &text);
                }
            }
            Some((_, Told::Answer(_) | Told::Failed(Failure::Unknown(_)))) | None => {}
        }
        if let [first, .., last] = &routed.told[..] {
            find(last.0, "R5", &format!("told {:?} and then {:?}", first.1, last.1));
        }
    }

    /// V12: its caller learns the outcome in time, and no sooner than it has to, if that is that no server is there.
    fn told_in_time(&self, routed: &Routed, now_ns: u64, find: &mut impl FnMut(u64, &'static str, &str)) {
        match routed.told.first() {
            Some((at_ns, _)) if *at_ns > routed.told_by_ns => {
                find(*at_ns, "V12", &format!("told {} s too late", seconds(at_ns - routed.told_by_ns)));
            }
            Some((at_ns, Told::Failed(Failure::NotExecuted(Reason::Unreachable))))
                if routed.waits && *at_ns < routed.until_ns =>
            {
                find(*at_ns, "V12", "waits for a server, and is told that none is there while time is left");
            }
            Some((at_ns, Told::Failed(failure))) if routed.must_be_answered => {
                find(*at_ns, "V12", &format!("nothing is broken any more, and it failed: {failure}"));
            }
            None if !routed.abandoned && now_ns > routed.told_by_ns => {
                find(now_ns, "V12", &format!("made at {} s, and never told how it ended", seconds(routed.made_ns)));
            }
            Some(_) | None => {}
        }
    }

    /// V12: no server is asked after the deadline, or given more time than is left. A server is asked again only if
    /// the call waits, the server asked last was not there, and the directory has changed.
    fn asks(&self, routed: &Routed, find: &mut impl FnMut(u64, &'static str, &str)) {
        for (at, asked) in routed.asked.iter().enumerate() {
            let Asked { at_ns, address, left_ns, .. } = *asked;
            if at_ns >= routed.until_ns {
                find(at_ns, "V12", &format!("asks {address} after its deadline"));
            }
            let left_most_ns = routed.until_ns.saturating_sub(at_ns);
            if left_ns > left_most_ns {
                let text = format!("gives {address} {} s, and has {} s", seconds(left_ns), seconds(left_most_ns));
                find(at_ns, "V12", &text);
            }
            let Some(before) = routed.asked[..at].iter().rposition(|before| before.address == address) else {
                continue;
            };
            let may_be_back = routed.asked[before..=at].windows(2).any(|two| {
                let [last, next] = two else { return false };
                self.was_nobody(last) && next.changes != routed.asked[before].changes
            });
            if !(routed.waits && may_be_back) {
                find(at_ns, "again", &format!("asks {address} again"));
            }
        }
    }
}

impl Routed {
    fn name(&self) -> String {
        let kind = if self.idempotent { "idempotent call" } else { "call" };
        format!("{kind} {} of client {}.{} to {:?}", self.number, self.client, self.life, self.destination)
    }

    /// A server that fits and was not asked.
    fn left_out(&self, look: &Look) -> Option<SocketAddr> {
        let is_asked = |address: &SocketAddr| self.asked.iter().any(|asked| asked.address == *address);
        let is_named = !matches!(self.destination, Destination::Address(_));
        look.listed.iter().find(|address| is_named && !is_asked(address)).copied()
    }
}

/// Whether a server says that it did not run a call, for a reason that another one need not have.
fn is_of_one_server(reason: Reason) -> bool {
    use Refusal::{Busy, NoService, NumbersUsedUp, Other};
    matches!(reason, Reason::Unreachable | Reason::Refused(Busy | NoService | NumbersUsedUp | Other))
}

#[cfg(test)]
mod tests {
    use super::super::Call;
    use super::*;
    use crate::calls::payload::digest;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    const REFUSED: Told = Told::Failed(Failure::NotExecuted(Reason::Refused(Refusal::Busy)));
    const NOBODY: Told = Told::Failed(Failure::NotExecuted(Reason::Unreachable));
    const UNSURE: Told = Told::Failed(Failure::Unknown(Reason::SessionLost));

    /// A call of group `g`, made at 0, whose deadline is 100.
    fn record(waits: bool) -> Judge {
        let mut judge = Judge::default();
        judge.routed(Routed {
            client: 1,
            life: 0,
            number: 0,
            destination: Destination::Group("g".to_owned()),
            idempotent: false,
            waits,
            made_ns: 0,
            until_ns: 100,
            told_by_ns: 100,
            must_be_answered: false,
            asked: Vec::new(),
            told: Vec::new(),
            abandoned: false,
        });
        judge
    }

    fn look(at_ns: u64, listed: &[u16], changes: u64) -> Look {
        Look { at_ns, listed: listed.iter().map(|port| at(*port)).collect(), is_current: true, changes }
    }

    /// Asks the server at `port`, which fails like this, or answers with `done`.
    fn ask(judge: &mut Judge, port: u16, look: &Look, told: Told) {
        let left_ns = 100_u64.saturating_sub(look.at_ns);
        let asked = Asked { at_ns: look.at_ns, address: at(port), left_ns, changes: look.changes, call: None };
        judge.asked(0, asked, look);
        let request = [&port.to_be_bytes()[..], &look.at_ns.to_be_bytes()].concat();
        let call = judge.called(7, &request, Call { told_by_ns: 1_000, ..Call::new(1, 0, 0, usize::from(port)) });
        judge.accepted(0, call);
        if told != NOBODY {
            let run = judge.ran(look.at_ns, usize::from(port), 0, 7, &request);
            if told != UNSURE {
                judge.returned(look.at_ns, run, (told != REFUSED).then_some(b"done"));
            }
        }
        judge.told(look.at_ns, call, told);
    }

    fn codes(judge: Judge) -> Vec<String> {
        let routes = judge.verdict_of_routes(1_000);
        let all = routes.into_iter().chain(judge.verdict(1_000));
        all.filter_map(|text| text.split(' ').next().map(str::to_owned)).collect()
    }

    #[test]
    fn what_is_right_is_let_be() {
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1, 2], 1), REFUSED);
        ask(&mut judge, 2, &look(2, &[1, 2], 2), Told::Answer(digest(b"done")));
        judge.route_told(3, 0, Told::Answer(digest(b"done")), None);
        assert!(codes(judge).is_empty(), "a refused run had no effect");
        let mut judge = record(true);
        judge.waits(0, &look(1, &[], 1));
        ask(&mut judge, 1, &look(2, &[1], 2), NOBODY);
        judge.waits(0, &look(3, &[1], 2));
        ask(&mut judge, 1, &look(4, &[1], 3), NOBODY);
        judge.route_told(100, 0, NOBODY, Some(&look(100, &[1], 3)));
        assert!(codes(judge).is_empty(), "who was gone may be back");
    }

    #[test]
    fn an_effect_at_two_servers_and_a_wrong_outcome_are_found() {
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1, 2], 1), UNSURE);
        ask(&mut judge, 2, &look(2, &[1, 2], 1), Told::Answer(digest(b"done")));
        judge.route_told(3, 0, Told::Answer(digest(b"done")), None);
        assert_eq!(codes(judge), ["R1"]);
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1], 1), Told::Answer(digest(b"done")));
        judge.route_told(3, 0, Told::Answer(5), None);
        judge.route_told(4, 0, UNSURE, None);
        assert_eq!(codes(judge), ["R2", "R5"]);
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1], 1), UNSURE);
        judge.route_told(3, 0, REFUSED, Some(&look(3, &[1], 1)));
        assert_eq!(codes(judge), ["R4"]);
        let mut judge = record(false);
        ask(&mut judge, 2, &look(1, &[1], 1), Told::Answer(digest(b"done")));
        judge.route_told(3, 0, Told::Answer(digest(b"done")), None);
        assert_eq!(codes(judge), ["R6"], "the directory does not name it");
    }

    #[test]
    fn who_waits_too_long_or_not_long_enough_is_found() {
        let ends = |waits, told, look: &Look| {
            let mut judge = record(waits);
            judge.route_told(look.at_ns, 0, told, Some(look));
            codes(judge)
        };
        assert_eq!(ends(true, NOBODY, &look(99, &[], 1)), ["V12"], "time is left");
        assert!(ends(true, NOBODY, &look(100, &[], 1)).is_empty());
        assert_eq!(ends(false, REFUSED, &look(99, &[1], 1)), ["V12"], "another server is listed");
        assert_eq!(ends(false, UNSURE, &look(101, &[], 1)), ["V12"], "too late");
        assert_eq!(codes(record(false)), ["V12"], "never told");
        let waits = |waits, asks: bool, look_then: &Look| {
            let mut judge = record(waits);
            if asks {
                ask(&mut judge, 1, &look(1, &[1], 1), NOBODY);
            }
            judge.waits(0, look_then);
            judge.route_told(100, 0, NOBODY, Some(&look(100, &[], 1)));
            codes(judge)
        };
        assert!(waits(true, false, &look(2, &[], 1)).is_empty());
        assert_eq!(waits(false, false, &look(2, &[], 1)), ["V12"], "it was told not to wait");
        assert_eq!(waits(true, false, &look(2, &[1], 1)), ["V12"], "a server is there");
        assert_eq!(waits(true, true, &look(2, &[1], 2)), ["V12"], "it may be back");
        assert_eq!(waits(true, false, &look(100, &[], 1)), ["V12"], "the deadline has passed");
    }

    #[test]
    fn a_server_that_is_asked_again_or_late_is_found() {
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1], 1), NOBODY);
        ask(&mut judge, 1, &look(2, &[1], 2), NOBODY);
        judge.route_told(3, 0, NOBODY, Some(&look(3, &[1], 2)));
        assert_eq!(codes(judge), ["again"]);
        let mut judge = record(false);
        let late = look(100, &[1], 1);
        let asked = Asked { at_ns: 100, address: at(1), left_ns: 1, changes: 1, call: None };
        judge.asked(0, asked, &late);
        judge.route_told(100, 0, NOBODY, Some(&late));
        assert_eq!(codes(judge), ["V12", "V12"], "after the deadline, and with time that is not left");
    }
}
