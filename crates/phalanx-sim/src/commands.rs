//! Actions of a plan or a script on the world: starts, crashes, stops and commands.

use std::net::SocketAddr;

use phalanx_core::member::Role;
use phalanx_core::process::Activity;
use phalanx_core::rng::Rng;
use phalanx_core::seal::CellKey;
use phalanx_core::{
    CommandError, DeathProof, Founding, GroupId, GroupTerms, Incarnation, LEVEL, Limits, MemberInfo, Order, Security,
    SendOptions, Settings, SlowMembers, Stability, Timing, TrafficClass, Uniformity,
};
use phalanx_runtime::{Node, NodeOptions};
use phalanx_trace as trace;

use crate::address::Endpoint;
use crate::app::{CELL, Request};
use crate::classes::late_death;
use crate::driver::{PACKET_OVERHEAD_BYTES, SimDriver, learn_names};
use crate::machine::Maker;
use crate::memory::Memory;
use crate::minima::Minima;
use crate::slot::Neighbours;
use crate::threads::end_thread;
use crate::world::{Event, World};

impl World {
    /// Starts the process of a slot. Its first incarnation is a founder, each later one only joins.
    pub(crate) fn start(&mut self, index: usize) {
        assert!(self.slots[index].node.is_none(), "a process runs there already");
        let settings = self.node_settings(index);
        let turn_ns = self.usual_turn_ns(index);
        let packet_bytes = settings.me.packet_bytes_max;
        // The key is fixed: nothing here depends on its secrecy, and runs must repeat.
        let key = CellKey::from_bytes([0x5a; CellKey::LEN]);
        let security = if self.settings.sealed { Security::Sealed(key) } else { Security::None };
        let slot = &mut self.slots[index];
        slot.life += 1;
        slot.started_in = slot.directory;
        slot.paused = false;
        slot.leaving = false;
        slot.turn_ns = turn_ns;
        slot.busy_until_ns = self.now_ns;
        slot.activity = Activity::default();
        slot.app.takes = true;
        slot.app.read_all();
        slot.app.wanted.clear();
        // Some are started again in a later version of the program.
        if slot.life > 1 && slot.rng.fork(&format!("version {}", slot.life)).chance_ppm(600_000) {
            slot.app.program.rise();
        }
        slot.app.told.start_anew();
        slot.neighbours = Neighbours::default();
        let memory =
            self.settings.memory.map(|memory| Memory::new(&memory, slot.rng.fork(&format!("memory {}", slot.life))));
        let driver = SimDriver::new(settings.me.data, settings.me.control, self.settings.buffer_bytes, packet_bytes)
            .sharing(memory)
            .behind(self.settings.egress)
            .shown(self.settings.tap.clone());
        // Incarnations and keys come from the seed as well, so that a run repeats byte by byte.
        let mut entropy: Rng = slot.rng.fork(&format!("life {}", slot.life));
        let node = Node::new(
            slot.local(self.now_ns),
            driver,
            settings,
            security,
            Box::new(move || entropy.next_u64()),
            NodeOptions { rejoin: true },
        );
        learn_names(slot.node.insert(node), &slot.name);
        let life = slot.life;
        self.begin_inboxes(index);
        self.note(Some(index), "starts");
        self.wake(index, self.now_ns);
        if self.settings.workload.is_some() {
            let event = Event::Work { slot: index, life };
            // One step later than the process's first iteration, which is due now.
            self.queue.push(self.now_ns + 1, event);
        }
    }

    fn node_settings(&self, index: usize) -> Settings {
        let slot = &self.slots[index];
        let founding = if index < self.settings.founders || self.is_founders_twin(index) {
            let list = slot.list.clone().unwrap_or_else(|| (0..self.settings.founders).collect());
            Founding::Named(list.into_iter().map(|founder| self.slots[founder].name.clone()).collect())
        } else if self.settings.founders == 0 && index == 0 && slot.life == 0 {
            Founding::Alone
        } else {
            Founding::Join
        };
        let others = (0..self.slots.len()).filter(|other| *other != index);
        let own = self.settings.unequal.get(index);
        let packet_bytes = own.map_or(self.settings.packet_bytes, |own| own.packet_bytes);
        let mut timing = Timing {
            expel_after: self.settings.expel_after.unwrap_or(Timing::default().expel_after),
            suspect_after: self.settings.suspect_after,
            ..Timing::default()
        };
        let mut limits = Limits {
            group_window_bytes: self.settings.window_bytes,
            outbox_bytes: Limits::default().outbox_bytes.min(self.settings.window_bytes / 8),
            watchers: self.settings.watchers,
            token_tally: self.settings.token_tally,
            slow_members: self.settings.expel_after.map_or(SlowMembers::Wait, |_| SlowMembers::Expel),
            members_min: self.settings.minima.map_or(1, |minima| minima.of_process(index)),
            ..Limits::default()
        };
        if let Some(own) = own {
            own.apply(&mut timing, &mut limits);
        }
        if let Some((heartbeat, suspect_after)) = self.settings.patience {
            (timing.heartbeat, timing.suspect_after) = (heartbeat, suspect_after);
        }
        if let Some((_, gap)) = self.settings.turn_gaps.iter().find(|(slot, _)| *slot == index) {
            timing.turn_gap_max = *gap;
        }
        let level = self.settings.builds.map_or(LEVEL, |builds| {
            builds.draw(&mut slot.rng.fork(&format!("build {}", slot.life)), index, slot.life == 0)
        });
        let mut me = MemberInfo {
            host: slot.host,
            packet_bytes_max: packet_bytes,
            receive_packets: if self.settings.tells_buffers { self.receive_packets(packet_bytes) } else { 0 },
            level,
            ..MemberInfo::new(
                Incarnation::NONE,
                slot.name.clone(),
                self.endpoint(index, TrafficClass::Data).address(),
                self.endpoint(index, TrafficClass::Control).address(),
            )
        };
        // Each slot has a state directory of its own.
        me.sit(index as u64 + 1 + (u64::from(slot.directory) << 32));
        let seeds: Vec<SocketAddr> =
            others.map(|other| self.endpoint(other, TrafficClass::Control).address()).collect();
        Settings { cell: CELL.into(), me, founding, record: slot.app.record.clone(), seeds, timing, limits }
    }

    /// Whether a process has a founder's name by mistake.
    fn is_founders_twin(&self, index: usize) -> bool {
        self.settings.twins.iter().any(|(who, whose)| *who == index && *whose < self.settings.founders)
    }

    /// Duration of a process's event-loop iteration outside of faults.
    pub(crate) fn usual_turn_ns(&self, index: usize) -> u64 {
        let late = self.settings.late.iter().find(|(slot, _)| *slot == index);
        late.map_or(self.settings.turn_ns, |(_, turn_ns)| *turn_ns)
    }

    /// Number of the longest packets that a socket takes.
    fn receive_packets(&self, packet_bytes: u32) -> u32 {
        let charge = packet_bytes as usize + PACKET_OVERHEAD_BYTES;
        u32::try_from(self.settings.buffer_bytes / charge).unwrap_or(u32::MAX).max(1)
    }

    /// Restarts a crashed or departed process after `after_ns`, at a new address if it `moved`.
    pub(crate) fn start_later(&mut self, index: usize, after_ns: u64, moved: bool) {
        self.slots[index].awaited = true;
        self.queue.push(self.now_ns + after_ns, Event::Start { slot: index, moved });
    }

    pub(crate) fn start_again(&mut self, index: usize, moved: bool) {
        self.slots[index].awaited = false;
        let slot = &self.slots[index];
        if slot.node.is_some() || slot.retired || slot.buried || self.ruined.contains(&index) {
            return;
        }
        if moved {
            let slot = &mut self.slots[index];
            slot.moves = slot.moves.wrapping_add(1);
        }
        self.start(index);
    }

    /// Crashes a process. Its trace just stops.
    pub(crate) fn crash(&mut self, index: usize) {
        let Some(dead) = self.slots[index].incarnation() else { return };
        // After a panic the process may have begun its next incarnation, of which its application knows nothing.
        let app = &self.slots[index].app;
        let panicked = app.traces.last().filter(|_| app.told.has_panicked());
        let dead = panicked.map_or(dead, |trace| Incarnation(trace.header.incarnation));
        self.keep_core_counters(index);
        let slot = &mut self.slots[index];
        // Half of the crashes are the end of the thread that runs the process, which its application outlives for a moment.
        if !slot.paused && slot.rng.fork(&format!("thread {}", slot.life)).below(2) == 0 {
            end_thread(self, index);
        }
        let slot = &mut self.slots[index];
        slot.end();
        slot.doom = None;
        slot.panic_next(None);
        slot.paused = false;
        self.queue.forget_turn(index);
        slot.activity = Activity::default();
        let host = slot.host;
        self.harness.push(self.now_ns, trace::Event::Crash { incarnation: dead.0 });
        self.note(Some(index), "CRASHES");
        if self.settings.death_notice {
            for told in 0..self.slots.len() {
                if told != index && self.slots[told].host == host && self.slots[told].runs() {
                    // Each survivor is notified at a time of its own.
                    let late_ns = self.settings.death_delay_ns.map_or(0, |most_ns| self.rng.below(most_ns));
                    let after_ns = 50_000 + self.rng.below(3_000_000) + late_ns;
                    self.queue.push(self.now_ns + after_ns, Event::Death { told, dead });
                }
            }
        }
    }

    pub(crate) fn tell_death(&mut self, index: usize, dead: Incarnation) {
        let slot = &mut self.slots[index];
        // A stopped process receives the notice when it runs again. Its supervisor would have to wait as well.
        if slot.paused {
            self.queue.push(self.now_ns + 1_000_000, Event::Death { told: index, dead });
            return;
        }
        let now = slot.local(self.now_ns);
        late_death::count_death(self, index, dead);
        if let Some(node) = self.slots[index].node.as_mut() {
            node.handle_death(now, dead, DeathProof::Ended);
            self.forget_neighbour(index, dead);
            self.wake(index, self.now_ns);
        }
    }

    /// Stops a process as SIGSTOP does. Its sockets continue to fill.
    pub(crate) fn pause(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(incarnation) = slot.incarnation() else { return };
        if slot.paused {
            return;
        }
        slot.paused = true;
        // A stopped process runs no iteration; `resume` schedules the next one.
        self.queue.forget_turn(index);
        self.harness.push(self.now_ns, trace::Event::Stop { incarnation: incarnation.0 });
        self.note(Some(index), "is stopped");
    }

    /// Lets a stopped process run again.
    pub(crate) fn resume(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if !slot.paused {
            return;
        }
        slot.paused = false;
        if let Some(incarnation) = slot.incarnation() {
            self.harness.push(self.now_ns, trace::Event::Cont { incarnation: incarnation.0 });
        }
        self.note(Some(index), "runs again");
        self.wake(index, self.now_ns);
    }

    /// Asks a process to leave the cell gracefully.
    pub(crate) fn leave(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        let Some(node) = slot.node.as_mut() else { return };
        if slot.leaving {
            return;
        }
        slot.leaving = true;
        slot.app.now_ns = self.now_ns;
        node.leave(now, &mut slot.app);
        self.note(Some(index), "leaves");
        self.wake(index, self.now_ns);
    }

    /// Sets whether a process's application takes deliveries.
    pub(crate) fn set_takes(&mut self, index: usize, takes: bool) {
        self.slots[index].app.takes = takes;
        self.wake(index, self.now_ns);
    }

    /// Makes a process's clock jump ahead.
    pub(crate) fn jump_clock(&mut self, index: usize, by_ns: u64) {
        self.slots[index].clock.jump(by_ns);
        if let Some(whose) = self.slots[index].incarnation() {
            // Begin and end at once: a jump takes no time, and the checker only has to know that it happened.
            self.trouble(trace::Trouble::Slow, whose, true);
            self.trouble(trace::Trouble::Slow, whose, false);
        }
        self.wake(index, self.now_ns);
    }

    /// Makes a process's clock fast or slow from now on; 0: exact.
    pub(crate) fn drift_clock(&mut self, index: usize, ppm: i32) {
        let now_ns = self.now_ns;
        self.slots[index].clock.drift(now_ns, ppm);
        self.wake(index, now_ns);
    }

    /// Asks for membership of a group.
    pub(crate) fn join_group(&mut self, index: usize, name: &str, with_state: bool) -> Result<(), CommandError> {
        let terms = self.settings.minima.map(Minima::terms).unwrap_or_default();
        self.join_group_on(index, name, if with_state { Role::State } else { Role::Stateless }, terms)
    }

    /// Asks for a group in a role, with its terms if this process founds it.
    pub(crate) fn join_group_on(
        &mut self,
        index: usize,
        name: &str,
        role: Role,
        terms: GroupTerms,
    ) -> Result<(), CommandError> {
        self.move_inbox(index, name);
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        let node = slot.node.as_mut().ok_or(CommandError::Over)?;
        slot.app.now_ns = self.now_ns;
        match role {
            Role::Observer => node.observe_group(now, name, &mut slot.app)?,
            Role::State => {
                let own = slot.app.maker.as_ref().map_or_else(|| slot.app.program.own(name), Maker::own);
                node.join_group_with(now, name, terms, own, &mut slot.app)?;
            }
            Role::Stateless => node.join_group(now, name, false, terms, &mut slot.app)?,
        }
        slot.app.wanted.insert(name.to_owned(), role == Role::State);
        let inbox = slot.app.reading.inboxes.get(name).copied().unwrap_or_default();
        let (with_state, observes) = (role == Role::State, role == Role::Observer);
        slot.app.told.joins(Request { name: name.to_owned(), with_state, observes, inbox });
        self.wake(index, self.now_ns);
        Ok(())
    }

    /// Leaves a group.
    pub(crate) fn leave_group(&mut self, index: usize, name: &str) -> Result<(), CommandError> {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        let node = slot.node.as_mut().ok_or(CommandError::Over)?;
        slot.app.now_ns = self.now_ns;
        let (group, _) = slot.app.member_of(name).ok_or(CommandError::NotMember)?;
        node.leave_group(now, group, &mut slot.app)?;
        slot.app.told.leaves(group);
        slot.app.wanted.remove(name);
        self.wake(index, self.now_ns);
        Ok(())
    }

    /// Asks the cell to rise to a level.
    pub(crate) fn raise_level(&mut self, index: usize, level: u16) -> Result<(), CommandError> {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        let node = slot.node.as_mut().ok_or(CommandError::Over)?;
        slot.app.now_ns = self.now_ns;
        node.raise_level(now, level, &mut slot.app)?;
        self.wake(index, self.now_ns);
        Ok(())
    }

    /// Multicasts to a group.
    pub(crate) fn multicast(
        &mut self,
        index: usize,
        group: GroupId,
        order: Order,
        uniformity: Uniformity,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        slot.app.now_ns = self.now_ns;
        // The stability is requested explicitly only if the group's default differs, so that both ways are tested.
        let stability =
            if slot.app.default_of(group) == Some(uniformity) { Stability::GroupDefault } else { uniformity.into() };
        let was_outside = slot.begin_watch();
        let own = self.settings.unequal.iter().map(|own| own.packet_bytes);
        let packet_max = own.fold(self.settings.packet_bytes, u32::max) as usize;
        let node = slot.node.as_mut().ok_or(CommandError::Over)?;
        let outcome = match slot.app.names_view(group, payload) {
            Some(view) => {
                let options = SendOptions { in_view: Some(view), ..SendOptions::new(order, stability) };
                let outcome = node.multicast_with(now, group, options, &[payload], &mut slot.app);
                slot.app.note_named((group, view), payload.len(), packet_max, &outcome);
                match outcome {
                    // It goes out anyway, as an application may decide that has no reason to insist on the view.
                    Err(CommandError::OtherView | CommandError::NoCredit | CommandError::TooLong(_)) => {
                        node.multicast(now, group, order, stability, &[payload], &mut slot.app)
                    }
                    outcome => outcome,
                }
            }
            None => {
                let domain = slot.app.domain_of(group, order, payload);
                let options = SendOptions { domain, ..SendOptions::new(order, stability) };
                node.multicast_with(now, group, options, &[payload], &mut slot.app)
            }
        };
        slot.end_watch(was_outside);
        match &outcome {
            Ok(_) => self.counters.multicasts += 1,
            Err(CommandError::NoCredit) => self.counters.refused += 1,
            Err(_) => {}
        }
        self.carry(index);
        self.wake(index, self.now_ns);
        outcome.map(drop)
    }

    /// Sends a point-to-point message.
    pub(crate) fn send_to(&mut self, index: usize, to: Incarnation, payload: &[u8]) -> Result<(), CommandError> {
        let slot = &mut self.slots[index];
        let now = slot.local(self.now_ns);
        let node = slot.node.as_mut().ok_or(CommandError::Over)?;
        slot.app.now_ns = self.now_ns;
        node.send(now, to, payload, &mut slot.app)?;
        self.wake(index, self.now_ns);
        Ok(())
    }

    /// Sets the attacker's packets per second: replays, noise, and forged packets.
    pub(crate) fn set_attack(&mut self, replay_rate: u64, noise_rate: u64, forge_rate: u64) {
        self.attacker.replay_rate = replay_rate;
        self.attacker.noise_rate = noise_rate;
        self.attacker.forge_rate = forge_rate;
        self.attack_epoch += 1;
        self.schedule_attack();
    }

    fn schedule_attack(&mut self) {
        let rate = self.attacker.rate();
        if let Some(mean_ns) = 1_000_000_000_u64.checked_div(rate) {
            let at_ns = self.now_ns + 1 + self.rng.below(2 * mean_ns);
            let epoch = self.attack_epoch;
            self.queue.push(at_ns, Event::Attack { epoch });
        }
    }

    pub(crate) fn attack(&mut self) {
        let n = self.slots.len() as u64;
        let (from, to) = (self.random_endpoint(n + 1), self.random_endpoint(n));
        let draw = self.rng.below(self.attacker.rate());
        let packet = if draw < self.attacker.replay_rate {
            self.attacker.replay(to)
        } else if draw < self.attacker.replay_rate + self.attacker.noise_rate {
            Some(self.attacker.noise(from, to))
        } else {
            self.attacker.forge(from, to)
        };
        if let Some(packet) = packet {
            self.counters.attacks += 1;
            let (from, to, bytes) = (packet.from, packet.to, packet.bytes);
            self.queue.push(self.now_ns, Event::Arrive { from, to, bytes });
        }
        self.schedule_attack();
    }

    /// A socket of one of the first `slots` slots; the number after the last is an unused address.
    fn random_endpoint(&mut self, slots: u64) -> Endpoint {
        let slot = usize::try_from(self.rng.below(slots)).unwrap_or(0);
        let class = if self.rng.chance_ppm(500_000) { TrafficClass::Data } else { TrafficClass::Control };
        let moves = self.slots.get(slot).map_or(0, |slot| slot.moves);
        Endpoint::new(slot, moves, class)
    }
}
