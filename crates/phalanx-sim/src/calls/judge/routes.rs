//! Routed calls: what a caller asked servers for, in what order, and what it was told in the end.
//!
//! Each server that was asked has a [`Call`](super::Call) of its own in the record. Here all of them are one call. The
//! directory is judged from what happened in its group. The callee of a call is whoever that names at the server's address,
//! and has left once the caller was told of views without it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use phalanx_core::Incarnation;
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
    /// The time after which another server is asked, too; `None`: it is not hedged.
    pub(in crate::calls) hedge_ns: Option<u64>,
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
    /// Whose server it is.
    callees: Vec<Incarnation>,
    /// Nothing was sent, because its callee has left.
    is_passed_over: bool,
}

impl Asked {
    /// A server that is asked now, and told that so much time is left.
    pub(in crate::calls) fn new(look: &Look, address: SocketAddr, left_ns: u64) -> Self {
        let callees = look.named.iter().filter(|(_, at)| *at == address).map(|(member, _)| *member).collect();
        Self { at_ns: look.at_ns, address, left_ns, changes: look.changes, call: None, callees, is_passed_over: false }
    }
}

/// What a caller's directory says when it is looked at, found from what happened in the group.
#[derive(Debug)]
pub(in crate::calls) struct Look {
    pub(in crate::calls) at_ns: u64,
    /// The servers that fit, with their members.
    pub(in crate::calls) named: Vec<(Incarnation, SocketAddr)>,
    pub(in crate::calls) is_current: bool,
    /// Counts its changes.
    pub(in crate::calls) changes: u64,
}

impl Look {
    fn lists(&self, address: SocketAddr) -> bool {
        self.named.iter().any(|(_, at)| *at == address)
    }

    fn listed(&self) -> impl Iterator<Item = SocketAddr> {
        self.named.iter().map(|(_, address)| *address)
    }
}

impl Judge {
    /// Records that a caller was told of these that left the cell.
    pub(in crate::calls) fn told_of_left(&mut self, at_ns: u64, caller: (usize, u32), left: &[Incarnation]) {
        self.left.extend(left.iter().map(|member| ((caller, *member), at_ns)));
    }

    /// When a caller knew that all these had left.
    fn left_ns(&self, routed: &Routed, callees: &[Incarnation]) -> Option<u64> {
        let caller = (routed.client, routed.life);
        let times: Option<Vec<u64>> = callees.iter().map(|member| self.left.get(&(caller, *member)).copied()).collect();
        times?.into_iter().max()
    }

    /// Records a routed call. Returns its number.
    pub(in crate::calls) fn routed(&mut self, routed: Routed) -> usize {
        self.routes.push(routed);
        self.routes.len() - 1
    }

    /// Records that a server is asked.
    /// Returns its number among those asked.
    pub(in crate::calls) fn asked(&mut self, route: usize, mut asked: Asked, look: &Look) -> usize {
        let routed = &self.routes[route];
        let fits = match &routed.destination {
            Destination::Address(address) => {
                // Who is there may be outside the cell.
                asked.callees.clear();
                asked.address == *address
            }
            Destination::Member(_) | Destination::Group(_) => look.lists(asked.address),
        };
        if !fits {
            let text = format!("{} asks {}, which is no such server", routed.name(), asked.address);
            self.find(look.at_ns, "R6", text);
        }
        self.routes[route].asked.push(asked);
        self.routes[route].asked.len() - 1
    }

    /// Records that no other server was found when a call was to be hedged.
    pub(in crate::calls) fn not_hedged(&mut self, route: usize, look: &Look) {
        let routed = &self.routes[route];
        if look.at_ns < routed.until_ns
            && let Some(address) = routed.left_out(look)
        {
            self.find(look.at_ns, "hedge", format!("{} is not hedged, and {address} was not asked", routed.name()));
        }
    }

    /// Records that the endpoint accepted the call at the server that was asked last.
    pub(in crate::calls) fn accepted(&mut self, route: usize, call: usize) {
        if let Some(asked) = self.routes[route].asked.last_mut() {
            asked.call = Some(call);
        }
    }

    /// Records that nothing is sent to the server that was asked last, because its callee has left.
    pub(in crate::calls) fn passed_over(&mut self, route: usize) {
        if let Some(asked) = self.routes[route].asked.last_mut() {
            asked.is_passed_over = true;
        }
    }

    /// Records that the caller waits.
    pub(in crate::calls) fn waits(&mut self, route: usize, look: &Look) {
        let routed = &self.routes[route];
        let text = if look.at_ns >= routed.until_ns {
            "waits on after its deadline"
        } else if let Some(address) = routed.left_out(look) {
            return self.find(look.at_ns, "V12", format!("{} waits, and {address} was not asked", routed.name()));
        } else if let Some(asked) = look.listed().find_map(|address| {
            let last = routed.asked.iter().rfind(|asked| asked.address == address)?;
            (last.changes != look.changes && self.was_nobody(routed, last)).then_some(last)
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

    /// Whether the server that was asked was not there, or its callee left and the call goes on.
    fn was_nobody(&self, routed: &Routed, asked: &Asked) -> bool {
        let told = asked.call.and_then(|call| self.calls[call].told.first());
        asked.is_passed_over
            || told.is_some_and(|(_, told)| match told {
                Told::Failed(Failure::NotExecuted(Reason::Unreachable)) => true,
                Told::Failed(failure) => routed.goes_on_without_callee(*failure),
                Told::Answer(_) => false,
            })
    }

    /// Records the outcome that the caller of a routed call learned. `look`: what it saw, unless an answer came.
    pub(in crate::calls) fn route_told(&mut self, at_ns: u64, route: usize, told: Told, look: Option<&Look>) {
        self.routes[route].told.push((at_ns, told));
        let (Some(look), Told::Failed(failure)) = (look, told) else { return };
        let routed = &self.routes[route];
        let is_of_one_server = match failure {
            Failure::NotExecuted(reason) if is_of_one_server(reason) => true,
            failure => routed.goes_on_without_callee(failure),
        };
        if at_ns < routed.until_ns
            && is_of_one_server
            && let Some(address) = routed.left_out(look)
        {
            self.find(at_ns, "V12", format!("{} ends ({failure}), and {address} was not asked", routed.name()));
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
            self.ends_by_view(routed, &mut find);
            self.hedges(routed, &mut find);
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
            Some((at_ns, Told::Failed(failure)))
                if routed.waits && *at_ns < routed.until_ns && routed.goes_on_without_callee(*failure) =>
            {
                find(*at_ns, "V12", "waits for a server, and is told that one left while time is left");
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
                self.was_nobody(routed, last) && next.changes != routed.asked[before].changes
            });
            // Of two servers that are asked at once, the one that was asked first may fail last.
            let is_hedged = routed.hedge_ns.is_some() && asked.changes != routed.asked[before].changes;
            let was_nobody = routed.asked[before..at].iter().any(|since| self.was_nobody(routed, since));
            if !(routed.waits && (may_be_back || is_hedged && was_nobody)) {
                find(at_ns, "again", &format!("asks {address} again"));
            }
        }
    }
}

impl Judge {
    /// A call is open at a server until its callee has left by the views that its caller was told of, and no longer.
    /// *left*: it ended so, or was not made, while its callee was in the view.
    fn ends_by_view(&self, routed: &Routed, find: &mut impl FnMut(u64, &'static str, &str)) {
        for asked in &routed.asked {
            let Asked { at_ns, address, callees, .. } = asked;
            let left_ns = if callees.is_empty() { None } else { self.left_ns(routed, callees) };
            let was_left = left_ns.is_some_and(|left_ns| left_ns < *at_ns);
            let Some(call) = asked.call.map(|call| &self.calls[call]) else {
                if asked.is_passed_over && left_ns.is_none_or(|left_ns| left_ns > *at_ns) {
                    find(*at_ns, "left", &format!("passes {address} over, whose callee is in the view"));
                }
                continue;
            };
            if was_left {
                find(*at_ns, "left", &format!("asks {address}, whose callee has left"));
            }
            let told = call.told.first().map(|(told_ns, told)| (*told_ns, *told));
            let ended_ns = told.map_or(u64::MAX, |(told_ns, _)| told_ns);
            let by_leave = told.is_some_and(|(_, told)| {
                matches!(told, Told::Failed(Failure::NotExecuted(Reason::Left) | Failure::Unknown(Reason::Left)))
            });
            if by_leave && left_ns.is_none_or(|left_ns| left_ns > ended_ns) {
                find(ended_ns, "left", &format!("is told that the callee at {address} left, which is in the view"));
            }
            // A caller that waits no more is told by the server whether it ran. So is one that another server has answered.
            let waits_ns = routed.told.first().map_or(u64::MAX, |(told_ns, _)| *told_ns);
            let goes_on = |left_ns: &u64| *left_ns < ended_ns && *left_ns < waits_ns && !was_left && !routed.abandoned;
            if let Some(left_ns) = left_ns.filter(goes_on) {
                find(left_ns, "left", &format!("its callee at {address} left, and the call goes on"));
            }
        }
    }
}

impl Judge {
    /// *hedge*: two servers are asked at once for a hedged call alone, the second one not before it is time, and never three.
    /// The first answer is what the caller is told.
    fn hedges(&self, routed: &Routed, find: &mut impl FnMut(u64, &'static str, &str)) {
        let ended_ns = |asked: &Asked| match asked.call.map(|call| self.calls[call].told.first()) {
            Some(None) => u64::MAX,
            Some(Some((told_ns, _))) => *told_ns,
            None => asked.at_ns,
        };
        for (at, asked) in routed.asked.iter().enumerate() {
            let mut open = routed.asked[..at].iter().filter(|before| ended_ns(before) > asked.at_ns);
            let (Some(before), others) = (open.next(), open.count()) else { continue };
            let is_time = routed.hedge_ns.is_some_and(|after_ns| asked.at_ns >= before.at_ns + after_ns);
            if others > 0 || !routed.idempotent || !is_time {
                let text = format!("asks {} while {} may answer", asked.address, before.address);
                find(asked.at_ns, "hedge", &text);
            }
        }
        let answers = routed.asked.iter().filter_map(|asked| asked.call).filter_map(|call| {
            let (told_ns, told) = self.calls[call].told.first()?;
            matches!(told, Told::Answer(_)).then_some(*told_ns)
        });
        let told_ns = routed.told.first().map_or(u64::MAX, |(told_ns, _)| *told_ns);
        if let Some(answered_ns) = answers.min().filter(|answered_ns| *answered_ns < told_ns && !routed.abandoned) {
            find(answered_ns, "hedge", "a server answers, and its caller is not told");
        }
    }
}

impl Routed {
    /// Whether the callee of a server left the cell, and another server may run the call.
    fn goes_on_without_callee(&self, failure: Failure) -> bool {
        let may_run_again = match failure {
            Failure::NotExecuted(Reason::Left) => true,
            Failure::Unknown(Reason::Left) => self.idempotent,
            Failure::NotExecuted(_) | Failure::Unknown(_) => false,
        };
        may_run_again && matches!(self.destination, Destination::Group(_))
    }

    fn name(&self) -> String {
        let kind = if self.idempotent { "idempotent call" } else { "call" };
        format!("{kind} {} of client {}.{} to {:?}", self.number, self.client, self.life, self.destination)
    }

    /// A server that fits and was not asked.
    fn left_out(&self, look: &Look) -> Option<SocketAddr> {
        let is_asked = |address: &SocketAddr| self.asked.iter().any(|asked| asked.address == *address);
        let is_named = !matches!(self.destination, Destination::Address(_));
        look.listed().find(|address| is_named && !is_asked(address))
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
            hedge_ns: None,
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
        // A server has the port of its member's number.
        let named = listed.iter().map(|port| (Incarnation(u64::from(*port)), at(*port))).collect();
        Look { at_ns, named, is_current: true, changes }
    }

    /// Asks the server at `port`, which fails like this, or answers with `done`.
    fn ask(judge: &mut Judge, port: u16, look: &Look, told: Told) {
        let left_ns = 100_u64.saturating_sub(look.at_ns);
        judge.asked(0, Asked::new(look, at(port), left_ns), look);
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
        judge.route_told(2, 0, Told::Answer(digest(b"done")), None);
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
        judge.route_told(2, 0, Told::Answer(digest(b"done")), None);
        assert_eq!(codes(judge), ["R1"]);
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1], 1), Told::Answer(digest(b"done")));
        judge.route_told(1, 0, Told::Answer(5), None);
        judge.route_told(4, 0, UNSURE, None);
        assert_eq!(codes(judge), ["R2", "R5"]);
        let mut judge = record(false);
        ask(&mut judge, 1, &look(1, &[1], 1), UNSURE);
        judge.route_told(3, 0, REFUSED, Some(&look(3, &[1], 1)));
        assert_eq!(codes(judge), ["R4"]);
        let mut judge = record(false);
        ask(&mut judge, 2, &look(1, &[1], 1), Told::Answer(digest(b"done")));
        judge.route_told(1, 0, Told::Answer(digest(b"done")), None);
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
        judge.asked(0, Asked::new(&late, at(1), 1), &late);
        judge.route_told(100, 0, NOBODY, Some(&late));
        assert_eq!(codes(judge), ["V12", "V12"], "after the deadline, and with time that is not left");
    }

    /// The server at port 1 is asked, and its callee leaves at `left_ns`. The call there fails like this at `told_ns`.
    fn leave(left_ns: Option<u64>, told_ns: u64, told: Told) -> Vec<String> {
        let mut judge = record(false);
        judge.asked(0, Asked::new(&look(1, &[1], 1), at(1), 99), &look(1, &[1], 1));
        let call = judge.called(7, b"one", Call { told_by_ns: 1_000, ..Call::new(1, 0, 0, 1) });
        judge.accepted(0, call);
        if let Some(at_ns) = left_ns {
            judge.told_of_left(at_ns, (1, 0), &[Incarnation(1)]);
        }
        judge.told(told_ns, call, told);
        judge.route_told(told_ns, 0, told, Some(&look(told_ns, &[1], 1)));
        codes(judge)
    }

    #[test]
    fn a_call_that_does_not_end_with_its_callee_is_found() {
        let by_leave = Told::Failed(Failure::Unknown(Reason::Left));
        assert!(leave(Some(5), 5, by_leave).is_empty());
        assert!(leave(None, 9, UNSURE).is_empty());
        assert_eq!(leave(None, 5, by_leave), ["left"], "it is in the view");
        assert_eq!(leave(Some(6), 5, by_leave), ["left"], "it left later");
        assert_eq!(leave(Some(5), 9, UNSURE), ["left"], "the call went on");
        let mut judge = record(false);
        judge.told_of_left(1, (1, 0), &[Incarnation(1)]);
        ask(&mut judge, 1, &look(2, &[1], 1), UNSURE);
        judge.route_told(2, 0, UNSURE, Some(&look(2, &[1], 1)));
        assert_eq!(codes(judge), ["left"], "it was asked after it had left");
        let mut judge = record(true);
        ask(&mut judge, 1, &look(1, &[1], 1), Told::Failed(Failure::NotExecuted(Reason::Left)));
        judge.told_of_left(1, (1, 0), &[Incarnation(1)]);
        let failure = Told::Failed(Failure::NotExecuted(Reason::Left));
        judge.route_told(2, 0, failure, Some(&look(2, &[1, 2], 1)));
        assert!(codes(judge).contains(&"V12".to_owned()), "another server is listed, and time is left");
    }

    #[test]
    fn a_hedge_that_must_not_be_is_found() {
        let hedged = |idempotent, hedge_ns, second_ns| {
            let mut judge = record(false);
            (judge.routes[0].idempotent, judge.routes[0].hedge_ns) = (idempotent, hedge_ns);
            let both = look(1, &[1, 2], 1);
            for (port, at_ns) in [(1, 1), (2, second_ns)] {
                let look = look(at_ns, &[1, 2], 1);
                judge.asked(0, Asked::new(&look, at(port), 100 - at_ns), &look);
                let request = port.to_be_bytes();
                let to = Call { idempotent, told_by_ns: 1_000, ..Call::new(1, 0, 0, usize::from(port)) };
                let call = judge.called(7, &request, to);
                judge.accepted(0, call);
                let run = judge.ran(at_ns, usize::from(port), 0, 7, &request);
                judge.returned(at_ns, run, Some(&request));
                judge.told(50, call, Told::Answer(digest(&request)));
            }
            judge.not_hedged(0, &both);
            judge.route_told(50, 0, Told::Answer(digest(&1_u16.to_be_bytes())), None);
            codes(judge)
        };
        assert!(hedged(true, Some(10), 11).is_empty());
        assert_eq!(hedged(true, Some(10), 10), ["hedge"], "too soon");
        assert_eq!(hedged(true, None, 11), ["hedge"], "nobody asked for it");
        assert_eq!(hedged(false, Some(10), 11), ["R1", "hedge"], "it may run once");
        let mut judge = record(false);
        judge.not_hedged(0, &look(5, &[1], 1));
        ask(&mut judge, 1, &look(6, &[1], 1), Told::Answer(digest(b"done")));
        judge.route_told(7, 0, UNSURE, Some(&look(7, &[1], 1)));
        assert_eq!(codes(judge), ["hedge", "hedge"], "another one is listed; an answer is not told");
    }
}
