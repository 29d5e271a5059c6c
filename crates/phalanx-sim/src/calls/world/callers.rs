//! Callers that make routed calls, as the public client does, and the directory in which they find servers.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::id::Incarnation;
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{CallError, CallOptions, ClientCallId, Endpoint, Failure, Reason};
use phalanx_life::{Destination, Entry, split_request, with_deadline};
use phalanx_runtime::rpc::{AfterFailure, RoutedAttempt, RoutedCall, Step};

use super::{Event, LONGEST_DEADLINE_NS, Purpose, SLACK_NS, World, tell};
use crate::calls::callers::{AskedServer, Caller, Calling, Routes, Serving, UnderWay};
use crate::calls::judge::{Asked, Look, Routed, Told};
use crate::calls::node::{Node, Session, address_after, draw_len, node_at};
use crate::calls::payload::{digest, request};
use crate::calls::plan::{MS, SECOND};
use crate::calls::routes::Serves;

/// The callers of a run and their directory.
pub(super) struct Callers<'a>(pub(super) &'a mut World);

impl Callers<'_> {
    /// Schedules what the plan says.
    pub(super) fn begin(&mut self) {
        let World { plan, queue, routes, nodes, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        let first_visitor = plan.servers + plan.clients;
        for (at, serving) in routes.plan.serving.iter().enumerate() {
            let server = if at < plan.servers { at } else { at + plan.clients };
            for (at_ns, _) in &serving[1..] {
                queue.push(*at_ns, Event::Serving(Serving::Announce { server }));
            }
        }
        for visit in &routes.plan.visits {
            let server = first_visitor + visit.visitor;
            let what = if visit.comes { Serving::Come { server, moves: visit.moves } } else { Serving::Go(server) };
            queue.push(visit.at_ns, Event::Serving(what));
        }
        for absence in &routes.plan.absences {
            let server = if absence.server < plan.servers { absence.server } else { absence.server + plan.clients };
            let what = Serving::Depart { server, leaves_cell: absence.leaves_cell, lasts_ns: absence.lasts_ns };
            queue.push(absence.at_ns, Event::Serving(what));
        }
        for spell in &routes.plan.spells {
            let client = plan.servers + spell.client;
            // The life then may be another one, which is let be.
            let life = nodes[client].life;
            match spell.until_ns {
                Some(until_ns) => {
                    queue.push(spell.at_ns, Event::Calling { client, life, what: Calling::Lose });
                    queue.push(until_ns, Event::Calling { client, life, what: Calling::Follow });
                }
                None => queue.push(spell.at_ns, Event::Calling { client, life, what: Calling::End }),
            }
        }
    }

    /// A life of a process begins.
    pub(super) fn started(&mut self, at: usize) {
        let World { plan, queue, routes, nodes, now_ns, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        let life = nodes[at].life;
        let join_ns = *now_ns + routes.rng.below(routes.plan.join_ns);
        if plan.is_client(at) {
            routes.callers[at] = Caller::default();
            queue.push(join_ns, Event::Calling { client: at, life, what: Calling::Follow });
            let act_ns = *now_ns + routes.rng.below(routes.plan.gap_ns);
            queue.push(act_ns, Event::Calling { client: at, life, what: Calling::Act });
        } else {
            queue.push(join_ns, Event::Serving(Serving::Join { server: at, life }));
        }
    }

    /// A life of a process is over.
    pub(super) fn stopped(&mut self, at: usize) {
        let World { queue, routes, now_ns, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        routes.callers[at] = Caller::default();
        let unlisted = routes.unlisted[at].take();
        if let Some(member) = routes.joined[at].take().or(unlisted) {
            let at_ns = *now_ns + routes.rng.below(routes.plan.noticed_ns);
            queue.push(at_ns, Event::Serving(Serving::Notice(member)));
        }
    }

    pub(super) fn serving(&mut self, what: Serving) {
        match what {
            Serving::Join { server, life } => {
                let node = &self.0.nodes[server];
                let me = node.endpoint.as_ref().filter(|_| node.life == life).map(Endpoint::incarnation);
                if let Some(me) = me {
                    self.join(server, me);
                }
            }
            Serving::Depart { server, leaves_cell, lasts_ns } => self.depart(server, leaves_cell, lasts_ns),
            Serving::Return { server, life, me } => {
                let lives = self.0.nodes[server].endpoint.is_some() && self.0.nodes[server].life == life;
                if lives {
                    self.join(server, me);
                }
            }
            Serving::Announce { server } => {
                let Some(me) = self.0.routes.as_ref().and_then(|routes| routes.joined[server]) else { return };
                let entries = self.entries(server);
                tell!(self.0, "node {server} announces {entries:?}");
                self.announce(me, entries);
                self.spread();
            }
            Serving::Notice(member) => {
                if let Some(routes) = &mut self.0.routes {
                    routes.log.leave(member);
                }
                tell!(self.0, "{:x} is gone from the directory and from the cell", member.0);
                self.spread();
                self.leave_cell(member);
            }
            Serving::Go(server) => self.0.stop(server),
            Serving::Come { server, moves } => {
                self.0.nodes[server].moves += u8::from(moves);
                self.0.stats.visits += 1;
                self.0.start(server);
            }
        }
    }

    /// A server that lives becomes a member of the directory.
    fn join(&mut self, server: usize, me: Incarnation) {
        let Some(routes) = &mut self.0.routes else { return };
        routes.joined[server] = Some(me);
        routes.unlisted[server] = None;
        routes.log.join(me);
        tell!(self.0, "node {server} joins the directory as {:x}", me.0);
        // An empty list needs no announcement by a member that never announced another one.
        let entries = self.entries(server);
        if !entries.is_empty() {
            self.announce(me, entries);
        }
        self.spread();
    }

    /// A server that lives leaves the directory, and the cell or not.
    fn depart(&mut self, server: usize, leaves_cell: bool, lasts_ns: u64) {
        let life = self.0.nodes[server].life;
        let Some(routes) = &mut self.0.routes else { return };
        let Some(member) = routes.joined[server].take() else { return };
        routes.log.leave(member);
        // Who left the cell comes back as another one.
        let me = if leaves_cell { Incarnation(routes.views_rng.next_u64().max(1)) } else { member };
        routes.unlisted[server] = (!leaves_cell).then_some(member);
        self.0.queue.push(self.0.now_ns + lasts_ns, Event::Serving(Serving::Return { server, life, me }));
        tell!(self.0, "node {server} leaves the directory, and the cell: {leaves_cell}");
        if leaves_cell {
            self.0.stats.excluded_alive += 1;
        } else {
            self.0.stats.unlisted_alive += 1;
        }
        self.spread();
        if leaves_cell {
            self.leave_cell(member);
        }
    }

    /// A view of the cell is decided without a member, and each caller will be told of it at its own time.
    fn leave_cell(&mut self, member: Incarnation) {
        let World { plan, queue, routes, nodes, now_ns, .. } = &mut *self.0;
        let Some(Routes { plan: drawn, views_rng: rng, left, .. }) = routes else { return };
        left.push(member);
        for client in (0..nodes.len()).filter(|&at| plan.is_client(at) && nodes[at].endpoint.is_some()) {
            let is_slow = rng.chance_ppm(drawn.slow_ppm);
            let lag_ns = rng.below(if is_slow { 3 * SECOND } else { drawn.told_ns });
            let (life, what) = (nodes[client].life, Calling::Told(left.len()));
            queue.push(*now_ns + lag_ns, Event::Calling { client, life, what });
        }
    }

    /// A caller is told of those that left the cell, and its calls to them end.
    fn told_of_left(&mut self, client: usize, count: usize) {
        let (now, now_ns, life) = (self.0.now(), self.0.now_ns, self.0.nodes[client].life);
        let World { routes, nodes, judge, .. } = &mut *self.0;
        let Some(Routes { left, callers, .. }) = routes else { return };
        let Caller { left: told, under_way, .. } = &mut callers[client];
        if count <= *told {
            return;
        }
        judge.told_of_left(now_ns, (client, life), &left[*told..count]);
        *told = count;
        let mut alive = Vec::new();
        let Node { endpoint: Some(endpoint), call_ids, place, .. } = &mut nodes[client] else { return };
        let asked = under_way.values().flat_map(|call| &call.asked);
        for asked in asked.filter(|asked| have_left(&left[..count], &asked.callees)) {
            let open = asked.pending.and_then(|call_id| Some((call_id, call_ids.get(&call_id)?)));
            let Some((call_id, open)) = open else { continue };
            alive.push(node_at(asked.address));
            if !endpoint.callee_left(now, open.session, call_id, place) {
                judge.find(now_ns, "R5", format!("the callee of {call_id:?} left, and the call is not found"));
            }
        }
        endpoint.check_invariants();
        alive.retain(|server| nodes[*server].endpoint.is_some());
        self.0.stats.routes_left_alive += alive.len() as u64;
    }

    fn announce(&mut self, me: Incarnation, entries: Vec<Entry>) {
        if let Some(routes) = &mut self.0.routes {
            routes.log.announce(me, entries);
        }
    }

    /// What a server serves now.
    fn entries(&self, server: usize) -> Vec<Entry> {
        let World { plan, routes, nodes, now_ns, .. } = &*self.0;
        let Some(routes) = routes else { return Vec::new() };
        let at = if server < plan.servers { server } else { server - plan.clients };
        let serves = routes.plan.serving[at].iter().rfind(|(from_ns, _)| from_ns <= now_ns).map(|(_, serves)| *serves);
        let address = address_after(server, nodes[server].moves);
        match serves {
            None | Some(Serves::Nothing) => Vec::new(),
            Some(Serves::Alone) => vec![Entry { group: None, address }],
            Some(Serves::Group(number)) => vec![Entry { group: Some(group(number)), address }],
        }
    }

    /// Callers will learn what is new in the directory, each at its own time.
    fn spread(&mut self) {
        let World { plan, queue, routes, nodes, now_ns, is_whole, .. } = &mut *self.0;
        let Some(Routes { plan: drawn, rng, log, .. }) = routes else { return };
        for client in (0..nodes.len()).filter(|&at| plan.is_client(at) && nodes[at].endpoint.is_some()) {
            let is_slow = rng.chance_ppm(drawn.slow_ppm) && !*is_whole;
            let lag_ns = rng.below(if is_slow { 3 * SECOND } else { drawn.lag_ns });
            let (life, what) = (nodes[client].life, Calling::Learn(log.len()));
            queue.push(*now_ns + lag_ns, Event::Calling { client, life, what });
        }
    }

    pub(super) fn calling(&mut self, client: usize, what: Calling) {
        match what {
            Calling::Act => self.act(client),
            Calling::Late(number) => {
                if self.under_way(client, number).is_some_and(|call| call.waits) {
                    self.step(client, number);
                }
            }
            Calling::Failed(number, address, failure) => self.failed(client, number, (address, failure)),
            Calling::Hedge(number) => self.hedge(client, number),
            Calling::GiveUp(number) => self.give_up(client, number),
            // Who joins has a view without all that left before.
            Calling::Follow => {
                let left = self.0.routes.as_ref().map_or(0, |routes| routes.left.len());
                self.told_of_left(client, left);
                self.learn(client, what);
            }
            Calling::Told(count) => self.told_of_left(client, count),
            Calling::Learn(_) | Calling::Lose | Calling::End => self.learn(client, what),
        }
        self.0.settle(client);
    }

    /// The directory of a caller changes, and those that wait look again.
    fn learn(&mut self, client: usize, what: Calling) {
        let Some(Routes { log, callers, .. }) = &mut self.0.routes else { return };
        let Caller { copy, under_way, .. } = &mut callers[client];
        let is_news = match what {
            Calling::Learn(count) => copy.learn(log, count),
            Calling::Lose => {
                copy.lose();
                true
            }
            Calling::End => {
                copy.is_over = true;
                true
            }
            _ => {
                copy.follow(log);
                true
            }
        };
        if !is_news {
            return;
        }
        let waiting: Vec<u64> = under_way.iter().filter(|(_, call)| call.waits).map(|(number, _)| *number).collect();
        tell!(self.0, "client {client} has another directory, and {} calls wait for it", waiting.len());
        for number in waiting {
            self.step(client, number);
        }
    }

    /// A caller sees that a server failed.
    fn failed(&mut self, client: usize, number: u64, (address, failure): (SocketAddr, Failure)) {
        let Some(call) = self.under_way(client, number) else { return };
        call.asked.retain(|asked| asked.address != address);
        let after = call.route.failed(address, failure);
        if call.route.needs_directory() {
            self.note(client, address, Err(failure));
        }
        let is_left = matches!(failure, Failure::NotExecuted(Reason::Left) | Failure::Unknown(Reason::Left));
        self.0.stats.routes_left += u64::from(is_left);
        self.0.stats.routes_left_and_go_on += u64::from(is_left && after == AfterFailure::Next);
        match after {
            AfterFailure::Other => {}
            AfterFailure::Next => self.step(client, number),
            AfterFailure::End(failure) => {
                let look = self.look(client, number);
                self.tell(client, number, Told::Failed(failure), look.as_ref());
            }
        }
    }

    /// A caller notes whether a server that its directory named was silent.
    fn note(&mut self, client: usize, server: SocketAddr, ended: Result<(), Failure>) {
        let now_ns = self.0.now_ns;
        if let Some(Routes { callers, .. }) = &mut self.0.routes {
            callers[client].copy.note(server, ended, now_ns);
        }
    }

    /// The server that is asked for a call has not answered for a while.
    fn hedge(&mut self, client: usize, number: u64) {
        let Some(look) = self.look(client, number) else { return };
        let World { routes, judge, stats, now_ns, .. } = &mut *self.0;
        let Some(Routes { callers, .. }) = routes else { return };
        let Caller { copy, under_way, .. } = &mut callers[client];
        let Some(call) = under_way.get_mut(&number) else { return };
        let left = Duration::from_nanos(call.until_ns.saturating_sub(*now_ns));
        // Another server may be asked by now.
        if call.route.hedges_in(left) != Some(Duration::ZERO) {
            return;
        }
        match call.route.hedge(copy.known(*now_ns), left) {
            Some(asking) => {
                stats.routes_hedged += 1;
                self.ask(client, number, (asking, &look), true);
            }
            None => {
                stats.routes_not_hedged += 1;
                if !copy.is_over {
                    judge.not_hedged(call.record, &look);
                }
            }
        }
    }

    fn under_way(&mut self, client: usize, number: u64) -> Option<&mut UnderWay> {
        self.0.routes.as_mut()?.callers[client].under_way.get_mut(&number)
    }

    /// Makes a call, and schedules the next one.
    fn act(&mut self, client: usize) {
        let World { plan, queue, routes, nodes, now_ns, is_whole, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        let Routes { plan: drawn, rng, log, .. } = routes;
        if *is_whole || *now_ns >= plan.faulty_ns {
            return;
        }
        let life = nodes[client].life;
        let next_ns =
            *now_ns + if rng.chance_ppm(400_000) { rng.below(drawn.gap_ns / 8) } else { rng.below(3 * drawn.gap_ns) };
        queue.push(next_ns, Event::Calling { client, life, what: Calling::Act });
        let destination = match rng.below(20) {
            0..10 => Destination::Group(group(0)),
            10..13 => Destination::Group(group(1)),
            // Nobody serves it.
            13 => Destination::Group(group(2)),
            14..17 => {
                let members = log.announcers();
                let of = |members: Vec<Incarnation>, rng: &mut Rng| members[rng.below(members.len() as u64) as usize];
                Destination::Member(if members.is_empty() { Incarnation(1) } else { of(members, rng) })
            }
            _ => {
                let servers: Vec<usize> = (0..nodes.len()).filter(|&at| !plan.is_client(at)).collect();
                let server = servers[rng.below(servers.len() as u64) as usize];
                Destination::Address(address_after(server, nodes[server].moves))
            }
        };
        let deadline_ns = [20 * MS, 150 * MS, SECOND, 3 * SECOND, 10 * SECOND][rng.below(5) as usize];
        let options = CallOptions {
            deadline: Duration::from_nanos(deadline_ns),
            idempotent: rng.chance_ppm(250_000),
            waits_for_server: rng.chance_ppm(500_000),
        };
        let packet = nodes[client].plan.packet_bytes_max as usize;
        let len = draw_len(rng, packet, plan.long_ppm, plan.len_max);
        let gives_up = rng.chance_ppm(drawn.give_up_ppm).then(|| rng.below(SECOND) >> rng.below(12));
        let hedge_ns = hedge_ns(&mut routes.views_rng);
        let number = self.call(client, destination, len, (options, hedge_ns), false);
        if let (Some(number), Some(after_ns)) = (number, gives_up) {
            let what = Calling::GiveUp(number);
            self.0.queue.push(self.0.now_ns + after_ns, Event::Calling { client, life, what });
        }
    }

    /// Makes a call, which has to be answered or not.
    fn call(
        &mut self,
        client: usize,
        destination: Destination,
        len: usize,
        (options, hedge_ns): (CallOptions, Option<u64>),
        must_be_answered: bool,
    ) -> Option<u64> {
        let World { queue, routes, nodes, judge, stats, now_ns, .. } = &mut *self.0;
        let caller = &mut routes.as_mut()?.callers[client];
        let node = &mut nodes[client];
        let (life, number) = (node.life, node.next_call);
        node.next_call += 1;
        let until_ns = *now_ns + options.deadline.as_nanos() as u64;
        let record = judge.routed(Routed {
            client,
            life,
            number,
            destination: destination.clone(),
            idempotent: options.idempotent,
            waits: options.waits_for_server,
            hedge_ns,
            made_ns: *now_ns,
            until_ns,
            told_by_ns: until_ns + SLACK_NS,
            must_be_answered,
            asked: Vec::new(),
            told: Vec::new(),
            abandoned: false,
        });
        stats.routes += 1;
        match &destination {
            Destination::Group(_) => stats.routes_to_groups += 1,
            Destination::Member(_) => stats.routes_to_members += 1,
            Destination::Address(_) => stats.routes_to_addresses += 1,
        }
        stats.routes_after += u64::from(must_be_answered);
        let route = RoutedCall::new(destination.clone(), caller.turns, options);
        let route = match hedge_ns {
            Some(hedge_ns) => route.hedged(Duration::from_nanos(hedge_ns)),
            None => route,
        };
        caller.turns += 1;
        let value = request(client as u32, life, number, len);
        let call = UnderWay {
            route,
            destination: destination.clone(),
            value,
            until_ns,
            record,
            asked: Vec::new(),
            waits: false,
        };
        caller.under_way.insert(number, call);
        queue.push(until_ns, Event::Calling { client, life, what: Calling::Late(number) });
        tell!(self.0, "client {client}.{life} calls {destination:?}: call {number}, {options:?}");
        self.step(client, number);
        Some(number)
    }

    /// What the directory of a caller says of the servers for a call.
    fn look(&self, client: usize, number: u64) -> Option<Look> {
        let Routes { log, callers, .. } = self.0.routes.as_ref()?;
        let Caller { copy, under_way, .. } = &callers[client];
        let named = log.named(copy.count, &under_way.get(&number)?.destination);
        Some(Look { at_ns: self.0.now_ns, named, is_current: copy.is_current, changes: copy.changes })
    }

    /// Does what is to be done for a call.
    fn step(&mut self, client: usize, number: u64) {
        let Some(look) = self.look(client, number) else { return };
        let World { routes, judge, stats, now_ns, .. } = &mut *self.0;
        let Some(Routes { callers, .. }) = routes else { return };
        let Caller { copy, under_way, .. } = &mut callers[client];
        let Some(call) = under_way.get_mut(&number) else { return };
        let left = Duration::from_nanos(call.until_ns.saturating_sub(*now_ns));
        let (record, waited) = (call.record, std::mem::take(&mut call.waits));
        match call.route.next(Some(copy.known(*now_ns)), left) {
            Step::Ask(asking) => {
                stats.routes_came += u64::from(waited);
                let mut others = look.named.iter().filter(|(_, at)| *at != asking.address);
                let is_past = !copy.is_asked_last(asking.address) && others.any(|(_, at)| copy.is_asked_last(*at));
                stats.routes_past_silent += u64::from(is_past);
                self.ask(client, number, (asking, &look), false);
            }
            Step::Wait => {
                call.waits = true;
                stats.routes_waited_for_directory += u64::from(!copy.is_current && !waited);
                judge.waits(record, &look);
            }
            Step::End(failure) => {
                let is_late = waited && left.is_zero();
                stats.routes_over += u64::from(copy.is_over);
                stats.routes_late += u64::from(is_late);
                let is_nobody = failure == Failure::NotExecuted(Reason::Unreachable);
                stats.routes_to_nobody += u64::from(is_nobody && !is_late);
                self.tell(client, number, Told::Failed(failure), Some(&look));
            }
        }
    }

    /// Asks a server, in a session that is kept for all calls to its address.
    fn ask(&mut self, client: usize, number: u64, (asking, look): (RoutedAttempt, &Look), is_hedge: bool) {
        let RoutedAttempt { address, callees, options } = asking;
        let World { routes, judge, stats, queue, nodes, now_ns, .. } = &mut *self.0;
        let Some(Routes { left, callers, .. }) = routes else { return };
        let Caller { left: told, under_way, .. } = &mut callers[client];
        let Some(call) = under_way.get_mut(&number) else { return };
        let request = with_deadline(options.deadline, &call.value);
        // What the server reads counts.
        let left_ns = split_request(&request).map_or(u64::MAX, |(left, _)| left.as_nanos() as u64);
        let left_ns = left_ns.max(options.deadline.as_nanos() as u64);
        let record = judge.asked(call.record, Asked::new(look, address, left_ns), look);
        let is_left = have_left(&left[..*told], &callees);
        call.asked.push(AskedServer { address, callees, pending: None, record, is_hedge });
        if let Some(due) = call.route.hedges_in(options.deadline) {
            let (life, what) = (nodes[client].life, Calling::Hedge(number));
            queue.push(*now_ns + due.as_nanos() as u64, Event::Calling { client, life, what });
        }
        if is_left {
            stats.routes_to_left += 1;
            judge.passed_over(call.record);
            return self.fails(client, number, (address, Failure::NotExecuted(Reason::Left)));
        }
        let server = node_at(address);
        let is_there =
            self.0.nodes[server].endpoint.is_some() && address_after(server, self.0.nodes[server].moves) == address;
        self.0.stats.routes_stale += u64::from(!is_there);
        let Some(session) = self.session(client, address) else { return };
        let called = self.0.call(client, session, (number, &request), &options, Purpose::Routed);
        let Some(call) = self.under_way(client, number) else { return };
        match called {
            Ok(call_id) => {
                let route = call.record;
                call.asked
                    .iter_mut()
                    .filter(|asked| asked.record == record)
                    .for_each(|asked| asked.pending = Some(call_id));
                if let Some(open) = self.0.nodes[client].call_ids.get(&call_id) {
                    self.0.judge.accepted(route, open.call);
                }
            }
            Err(error) => {
                let reason = match error {
                    CallError::TooLong(_) => Reason::RequestTooLong,
                    CallError::QueueFull => Reason::QueueFull,
                    _ => Reason::Cancelled,
                };
                self.fails(client, number, (address, Failure::NotExecuted(reason)));
            }
        }
    }

    fn session(&mut self, client: usize, at: SocketAddr) -> Option<Session> {
        let now = self.0.now();
        let node = &mut self.0.nodes[client];
        // In the end there is one session with each server, for all calls.
        let is_for_it = |session: &&Session| session.at == at && (session.is_kept || self.0.is_whole);
        if let Some(session) = node.sessions.iter().find(is_for_it) {
            return Some(*session);
        }
        let id = node.endpoint.as_mut()?.connect(now, at, &mut node.place);
        let session = Session { id, server: node_at(at), at, is_kept: true, open: 0 };
        node.sessions.push(session);
        Some(session)
    }

    /// The server that was asked for a call failed, as its caller will see soon.
    fn fails(&mut self, client: usize, number: u64, (address, failure): (SocketAddr, Failure)) {
        let World { queue, routes, nodes, now_ns, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        // A caller that does something else sees it late.
        let seen_ns = SEEN_NS * if routes.rng.chance_ppm(100_000) { 50_000 } else { 100 };
        let at_ns = *now_ns + SEEN_NS + routes.rng.below(seen_ns);
        let (life, what) = (nodes[client].life, Calling::Failed(number, address, failure));
        queue.push(at_ns, Event::Calling { client, life, what });
    }

    /// The endpoint has reported how the call at the server that was asked ended.
    pub(super) fn outcome(
        &mut self,
        client: usize,
        number: u64,
        call_id: ClientCallId,
        outcome: &Result<Vec<u8>, Failure>,
    ) {
        let Some(call) = self.under_way(client, number) else { return };
        let Some(asked) = call.asked.iter_mut().find(|asked| asked.pending == Some(call_id)) else { return };
        asked.pending = None;
        let (address, is_hedge) = (asked.address, asked.is_hedge);
        match outcome {
            Ok(answer) => {
                // The other one is not waited for any more.
                let others: Vec<ClientCallId> = call.asked.iter().filter_map(|asked| asked.pending).collect();
                let is_named = call.route.needs_directory();
                self.0.stats.routes_hedge_won += u64::from(is_hedge);
                self.0.stats.routes_hedge_cancelled += others.len() as u64;
                if is_named {
                    self.note(client, address, Ok(()));
                }
                self.tell(client, number, Told::Answer(digest(answer)), None);
                let (at_ns, life) = (self.0.now_ns, self.0.nodes[client].life);
                // Its answer may be here as well.
                let cancels = others.into_iter().map(|call_id| Event::Cancel { client, life, call_id });
                cancels.for_each(|cancel| self.0.queue.push(at_ns, cancel));
            }
            Err(failure) => self.fails(client, number, (address, *failure)),
        }
    }

    /// Tells the caller how its call ended.
    fn tell(&mut self, client: usize, number: u64, told: Told, look: Option<&Look>) {
        let World { routes, judge, stats, now_ns, .. } = &mut *self.0;
        let Some(routes) = routes else { return };
        let Some(call) = routes.callers[client].under_way.remove(&number) else { return };
        judge.route_told(*now_ns, call.record, told, look);
        let is_named = call.route.needs_directory();
        match told {
            Told::Answer(_) => {
                stats.routes_answered += 1;
                let mut callees =
                    call.asked.iter().filter(|asked| asked.pending.is_none()).flat_map(|asked| &asked.callees);
                let is_unlisted = callees.any(|callee| routes.unlisted.contains(&Some(*callee)));
                stats.routes_answered_unlisted += u64::from(is_unlisted);
            }
            Told::Failed(Failure::Unknown(Reason::SessionLost)) => stats.routes_restarted += u64::from(is_named),
            Told::Failed(_) => {}
        }
        stats.routes_passed_over += u64::from(judge.servers_asked(call.record) > 1);
        stats.routes_asked_again += u64::from(judge.asked_again(call.record));
        tell!(self.0, "client {client} is told call {number}: {told:?}");
    }

    fn give_up(&mut self, client: usize, number: u64) {
        let Some(routes) = &mut self.0.routes else { return };
        let Some(call) = routes.callers[client].under_way.remove(&number) else { return };
        self.0.judge.given_up(call.record);
        self.0.stats.routes_given_up += 1;
        tell!(self.0, "client {client} waits for call {number} no more");
        for call_id in call.asked.iter().filter_map(|asked| asked.pending) {
            self.0.cancel(client, call_id);
        }
    }

    /// Makes calls of each client, which must be answered if all servers for them can. In round 0 servers may have
    /// forgotten the sessions: each is called where it is, and the calls may be repeated.
    pub(super) fn call_when_whole(&mut self, round: u64) {
        let World { plan, routes, nodes, .. } = &*self.0;
        let Some(routes) = routes else { return };
        let members: Vec<usize> = (0..nodes.len()).filter(|&at| routes.joined[at].is_some()).collect();
        let mut calls = Vec::new();
        for client in (0..nodes.len()).filter(|&at| plan.is_client(at)) {
            let destinations: Vec<Destination> = match round {
                0 => members.iter().map(|&at| Destination::Address(address_after(at, nodes[at].moves))).collect(),
                _ if round % 3 < 2 => vec![Destination::Group(group(round % 3))],
                _ => {
                    let turn = members.len().checked_sub(1).map(|last| members[(round as usize + client) % (last + 1)]);
                    turn.and_then(|at| routes.joined[at]).map(Destination::Member).into_iter().collect()
                }
            };
            let copy = &routes.callers[client].copy;
            for destination in destinations {
                let listed = routes.log.listed(routes.log.len(), &destination);
                // A server that keeps few answers may be full of untaken ones, and then refuses calls.
                let answers = |address: &SocketAddr| {
                    let node = &nodes[node_at(*address)];
                    node.endpoint.is_some()
                        && address_after(node_at(*address), node.moves) == *address
                        && node.plan.limits.answers_bytes >= 1 << 20
                };
                // All calls of a client go to one server in the end, and wait there.
                let waits = nodes[client].plan.limits.queued_calls >= 1_000;
                let must =
                    waits && copy.is_current && !copy.is_over && !listed.is_empty() && listed.iter().all(answers);
                calls.push((client, destination, must));
            }
        }
        for (client, destination, must) in calls {
            let deadline = Duration::from_nanos(LONGEST_DEADLINE_NS);
            // A late report says nothing of the server that is there now.
            let options = CallOptions { deadline, idempotent: round == 0, waits_for_server: true };
            self.call(client, destination, 100, (options, None), must);
            self.0.settle(client);
        }
    }
}

/// Whether a call to these has nobody left to answer it.
fn have_left(left: &[Incarnation], callees: &[Incarnation]) -> bool {
    !callees.is_empty() && callees.iter().all(|callee| left.contains(callee))
}

/// After which time a call is hedged, if it is. One that is not idempotent must not be.
fn hedge_ns(rng: &mut Rng) -> Option<u64> {
    let after_ns = [MS / 2, 5 * MS, 50 * MS, 300 * MS][rng.below(4) as usize];
    rng.chance_ppm(600_000).then(|| 1 + rng.below(2 * after_ns))
}

fn group(number: u64) -> String {
    format!("group {number}")
}

/// The shortest time until a caller sees how a call ended. Two servers are never asked with the same time left.
const SEEN_NS: u64 = 1_000;
