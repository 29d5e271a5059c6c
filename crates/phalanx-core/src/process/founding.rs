//! Founding by named processes (`docs/founding.md`): one process of each name takes part in a ballot for view 1, and
//! any may lead it. A process writes to disk what it confirms before it sends it, so that a later process of its name
//! founds no other cell.

mod ballot;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::join::steady;
use super::{Process, Stage};
use crate::api::{CommandError, Effects, Founding};
use crate::id::{CellInstance, DecreeNumber, Incarnation, MemberInfo, ViewNumber};
use crate::member::{
    BootstrapMarker, Choice, Control, Directory, Ends, FirstView, FounderRecord, FoundingBallot, FoundingMessage,
    FoundingRefusal, Heard, LastView, Proposal, choose, mismatch, passed_on,
};
use crate::time::Instant;
use crate::wire::{DropReason, Tags};
use ballot::{Accepted, Contact, Led};

pub(super) use ballot::Foundation;

/// Time for which a command to found the cell again is valid.
const COMMAND_TTL: Duration = Duration::from_secs(5);
/// Time for which the only founder of a cell looks for it before it founds it.
const LOOK_FIRST: Duration = Duration::from_millis(500);
/// Time until the next attempt when nothing can be founded.
const DEAD_AGAIN: Duration = Duration::from_secs(3);

impl Process {
    /// The names of the founders, in order, if this process is one of them.
    pub(super) fn founders(&self) -> Option<&[String]> {
        match &self.set.founding {
            Founding::Named(names) => Some(names),
            Founding::Alone | Founding::Join | Founding::Reform(_) => None,
        }
    }

    /// Whether a process of that name is one of the configured founders.
    pub(super) fn is_named_founder(&self, name: &str) -> bool {
        self.founders().is_some_and(|founders| founders.iter().any(|founder| founder == name))
    }

    /// Whether it is the first founder by name: if two founders have different settings, it decides whose are wrong.
    pub(super) fn leads_founding(&self) -> bool {
        self.founders().and_then(<[String]>::first) == Some(&self.set.me.name)
    }

    /// The record that this process's state directory is to hold.
    #[must_use]
    pub fn record(&self) -> &FounderRecord {
        &self.set.record
    }

    /// Founds the next generation on an operator's word that no member of an earlier instance lives anywhere.
    ///
    /// The founders that look for the cell form it, which must be more than half. The word is valid for five seconds.
    /// Founders that find a living member first ignore it.
    ///
    /// # Errors
    /// [`CommandError::NotSearching`] when this process is no founder that looks for its cell.
    /// [`CommandError::TooFewFounders`] when it has not heard more than half of them within the last second.
    /// [`CommandError::Over`]. In all cases nothing was started.
    pub fn found_anew(&mut self, now: Instant) -> Result<(), CommandError> {
        if matches!(self.stage, Stage::Over) {
            return Err(CommandError::Over);
        }
        let names = self.founders().map(<[String]>::to_vec);
        let (Some(names), Stage::Searching(search)) = (names, &mut self.stage) else {
            return Err(CommandError::NotSearching);
        };
        let founding = &mut search.founding;
        founding.forget_silent(now);
        let here = founding.present(&self.set.me, &names).map_or(0, |present| present.len());
        if here * 2 <= names.len() {
            return Err(CommandError::TooFewFounders { here, names: names.len() });
        }
        founding.all_dead = Some(now + COMMAND_TTL);
        founding.lead_after = Some(now);
        founding.led = None;
        Ok(())
    }

    /// Notes a founder that answered a fresh challenge.
    pub(super) fn meet_founder(&mut self, now: Instant, info: MemberInfo, round_trip: Duration) {
        let Stage::Searching(search) = &mut self.stage else { return };
        let known = search.founding.contacts.get(&info.incarnation).map(|known| known.round_trip);
        let round_trip = steady(known, round_trip);
        // An earlier process at this address must have ended.
        search.founding.contacts.retain(|_, known| known.info.control != info.control);
        search.founding.contacts.insert(info.incarnation, Contact { info, at: now, round_trip });
    }

    /// Leads a ballot, if it is this founder's turn.
    pub(super) fn lead_founding(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Some(names) = self.founders().map(<[String]>::to_vec) else { return };
        let me = self.set.me.clone();
        let rank = names.iter().position(|name| *name == me.name).unwrap_or(0);
        let jitter = Duration::from_millis(self.rng.below(200));
        let Stage::Searching(search) = &mut self.stage else { return };
        let founding = &mut search.founding;
        founding.forget_silent(now);
        let step = founding.step(&me);
        let patience = step.saturating_mul(u32::try_from(rank).unwrap_or(u32::MAX));
        // The only founder asks nobody. It waits for an answer of a cell member, or of another process of its name.
        let patience = if names.len() == 1 { LOOK_FIRST } else { patience };
        let takes = founding.ballot_takes(now, &me);
        let lead_after = *founding.lead_after.get_or_insert(now + patience);
        if founding.led.as_ref().is_some_and(|led| now.since(led.since) < takes) {
            return;
        }
        founding.vain += u32::from(founding.led.take().is_some_and(|led| !led.decided));
        if now < lead_after {
            return;
        }
        let all_dead = founding.is_commanded(now);
        let asked = match founding.present(&me, &names) {
            Ok(asked) => asked,
            Err(why) => {
                founding.hindrance = Some(why);
                return;
            }
        };
        let missing: Vec<&str> =
            names.iter().filter(|name| asked.iter().all(|a| a.name != **name)).map(String::as_str).collect();
        let is_enough = if all_dead { asked.len() * 2 > names.len() } else { missing.is_empty() };
        if !is_enough {
            let missing = missing.join(", ");
            founding.hindrance = Some(format!("waits for all founders; not heard: {missing}"));
            return;
        }
        let round = founding.promised.map_or(0, |ballot| ballot.round).saturating_add(1);
        let ballot = FoundingBallot { round, leader: me.incarnation };
        founding.lead_later(now, &me, founding.wait(now, &me) + patience + jitter);
        founding.led = Some(Led {
            ballot,
            since: now,
            asked: asked.clone(),
            by_command: all_dead,
            reports: BTreeMap::new(),
            proposed: None,
            accepted: BTreeSet::new(),
            decided: false,
        });
        self.counters.founding_ballots += 1;
        let ask = FoundingMessage::Ask { ballot, names, asked: asked.clone() };
        self.send_to_founders(now, &asked, &ask, fx);
    }

    /// Sends a message to each of `to` except this process.
    fn send_to_other_founders(&mut self, now: Instant, to: &[MemberInfo], message: &FoundingMessage) {
        let me = self.me();
        for member in to.iter().filter(|member| member.incarnation != me) {
            self.know(now, member);
            self.send_control(member.incarnation, &Control::Founding(message.clone()));
        }
    }

    /// Sends a message to each of `to`, including this process.
    fn send_to_founders(&mut self, now: Instant, to: &[MemberInfo], message: &FoundingMessage, fx: &mut dyn Effects) {
        self.send_to_other_founders(now, to, message);
        let me = self.me();
        if to.iter().any(|member| member.incarnation == me) {
            self.handle_founding(now, me, message.clone(), fx);
        }
    }

    fn answer_founder(&mut self, now: Instant, to: Incarnation, message: FoundingMessage, fx: &mut dyn Effects) {
        if to == self.me() {
            self.handle_founding(now, to, message, fx);
        } else {
            self.send_control(to, &Control::Founding(message));
        }
    }

    pub(super) fn handle_founding(
        &mut self,
        now: Instant,
        from: Incarnation,
        message: FoundingMessage,
        fx: &mut dyn Effects,
    ) {
        if !message.is_sound() {
            return self.counters.drop(DropReason::Malformed);
        }
        // Processes in a view and processes that are no founders take no part.
        if !matches!(self.stage, Stage::Searching(_)) || self.founders().is_none() {
            return;
        }
        match message {
            FoundingMessage::Ask { ballot, names, asked } => {
                self.answer_ask(now, from, ballot, (&names, &asked), fx);
            }
            FoundingMessage::Report { ballot, record } => self.take_report(now, from, ballot, *record, fx),
            FoundingMessage::Refuse { ballot, why } => self.take_refusal(now, from, ballot, why),
            FoundingMessage::Propose { ballot, first } => self.answer_proposal(now, from, ballot, first, fx),
            FoundingMessage::Accept { ballot } => self.take_acceptance(now, from, ballot, fx),
            FoundingMessage::Decide { ballot } => {
                if self.confirm(from, ballot, fx) {
                    self.announce_marked(now, fx);
                }
            }
            FoundingMessage::Marked { instance } => self.handle_marked(now, from, instance, fx),
            FoundingMessage::Confirmed(first) => self.install_confirmed(now, first, fx),
            FoundingMessage::Dead { ballot, last, but_for } => {
                if let Stage::Searching(search) = &mut self.stage
                    && search.founding.promised == Some(ballot)
                {
                    search.founding.hindrance = Some(announce_dead(&last, but_for.as_deref()));
                }
            }
        }
    }

    /// Why this founder does not take part in a ballot, if so.
    fn stands_aside(&self, ballot: FoundingBallot, names: &[String]) -> Option<FoundingRefusal> {
        let own = self.founders()?;
        if own != names {
            return Some(FoundingRefusal::Names(own.to_vec()));
        }
        let Stage::Searching(search) = &self.stage else { return None };
        // Two processes with one founder's name would vote twice under it. The founder stays out of ballots while it
        // hears a namesake, and writes nothing down: then the mistake ends with the second process (departures, *Two
        // processes with one founder's name*).
        if let Some(at) = search.founding.namesake(&self.set.me) {
            return Some(FoundingRefusal::Namesake(at));
        }
        search.founding.promised.filter(|promised| *promised > ballot).map(FoundingRefusal::Promised)
    }

    fn answer_ask(
        &mut self,
        now: Instant,
        from: Incarnation,
        ballot: FoundingBallot,
        (names, asked): (&[String], &[MemberInfo]),
        fx: &mut dyn Effects,
    ) {
        let me = self.me();
        let is_asked = |who: Incarnation| asked.iter().any(|member| member.incarnation == who);
        if ballot.leader != from || !is_asked(from) || !is_asked(me) {
            return;
        }
        if let Some(why) = self.stands_aside(ballot, names) {
            return self.answer_founder(now, from, FoundingMessage::Refuse { ballot, why }, fx);
        }
        for member in asked.iter().filter(|member| member.incarnation != me) {
            self.know(now, member);
        }
        self.promise_founding(now, ballot);
        if let Stage::Searching(search) = &mut self.stage {
            search.founding.hindrance = None;
            // All that were asked take part, whether they answered a challenge of this process or not.
            let met = asked.iter().filter(|member| member.incarnation != me);
            for member in met {
                let known = search.founding.contacts.get(&member.incarnation);
                let round_trip = known.map_or(Duration::ZERO, |known| known.round_trip);
                let contact = Contact { info: member.clone(), at: now, round_trip };
                search.founding.contacts.insert(member.incarnation, contact);
            }
        }
        let record = Box::new(self.set.record.clone());
        self.answer_founder(now, from, FoundingMessage::Report { ballot, record }, fx);
    }

    /// Follows a later ballot: an own one is over, and the next is not led soon.
    fn promise_founding(&mut self, now: Instant, ballot: FoundingBallot) {
        let jitter = Duration::from_millis(self.rng.below(300));
        let Stage::Searching(search) = &mut self.stage else { return };
        let founding = &mut search.founding;
        founding.promised = Some(ballot);
        if founding.led.as_ref().is_some_and(|led| led.ballot != ballot) {
            founding.led = None;
        }
        if founding.led.is_none() {
            let wait = founding.wait(now, &self.set.me) + founding.step(&self.set.me);
            founding.lead_later(now, &self.set.me, wait + jitter);
        }
    }

    /// The ballot that this process leads, if it is `ballot`.
    fn led(&mut self, ballot: FoundingBallot) -> Option<&mut Led> {
        let Stage::Searching(search) = &mut self.stage else { return None };
        search.founding.led.as_mut().filter(|led| led.ballot == ballot)
    }

    fn take_report(
        &mut self,
        now: Instant,
        from: Incarnation,
        ballot: FoundingBallot,
        record: FounderRecord,
        fx: &mut dyn Effects,
    ) {
        let Some(led) = self.led(ballot) else { return };
        let Some(name) = led.asked_name(from).map(str::to_owned) else { return };
        led.reports.insert(name, record);
        if led.proposed.is_some() || led.reports.len() < led.asked.len() {
            return;
        }
        let (asked, by_command) = (led.asked.clone(), led.by_command);
        let heard = |record: &FounderRecord| record.heard.map_or(CellInstance::NONE, |heard| heard.instance);
        let known: Vec<CellInstance> =
            led.reports.values().flat_map(|record| [record.instance(), heard(record)]).collect();
        let latest = known.iter().copied().max().unwrap_or_default();
        let ends = Ends::told(&asked, led.reports.values().filter_map(|record| record.end.as_ref()));
        let is_later = by_command || known.iter().any(|instance| ends.is_over(*instance));
        let (earlier, waiting) = passed_on(&led.reports, &ends);
        let first = match choose(&asked, &led.reports, &ends) {
            // A marked list may have been confirmed and installed, so this ballot completes it.
            Choice::Again(first) => first,
            Choice::Dead(instance) if !by_command => {
                let but_for = ends.but_for(instance).map(|lost| lost.iter().map(|lost| lost.name.clone()).collect());
                return self.announce_dead(now, ballot, but_for, fx);
            }
            // The cell exists, so a new list would found a second one.
            Choice::Heard(name, heard) if !by_command => {
                let at = heard.at;
                let why = format!(
                    "founder {name} has heard a member of the cell at {at}: the cell exists, and is not founded"
                );
                return self.wait_for_change(now, why);
            }
            Choice::New | Choice::Dead(_) | Choice::Heard(..) => {
                // Later than any instance known here: a process without a quorum yields to a later generation only. A list
                // that was overruled was never confirmed, so the one in its place is of the same generation.
                let generation = if is_later { latest.next_generation() } else { latest.generation().max(1) };
                let instance = CellInstance::fresh(generation, self.rng.next_u64());
                FirstView::new(instance, asked.clone(), &self.agreed()).with(waiting.passed_on_to(earlier, instance))
            }
        };
        // Nobody could read such a list, the leader included, and the ballot would fail without a reason.
        let differs = |member: &&MemberInfo| mismatch(first.level, &first.settings, member).is_some();
        if let Some(other) = first.members.iter().find(differs) {
            return self.take_refusal(now, other.incarnation, ballot, FoundingRefusal::Settings);
        }
        if let Some(led) = self.led(ballot) {
            led.proposed = Some(first.clone());
        }
        self.send_to_founders(now, &asked, &FoundingMessage::Propose { ballot, first }, fx);
    }

    /// Ends the ballot: an instance may have been confirmed, and has no quorum here.
    fn announce_dead(
        &mut self,
        now: Instant,
        ballot: FoundingBallot,
        but_for: Option<Vec<String>>,
        fx: &mut dyn Effects,
    ) {
        let Some(led) = self.led(ballot) else { return };
        let last = led.reports.iter().map(|(name, record)| (name.clone(), record.last.clone())).collect();
        let asked = led.asked.clone();
        self.counters.foundings_dead += 1;
        self.send_to_founders(now, &asked, &FoundingMessage::Dead { ballot, last, but_for }, fx);
        if let Stage::Searching(search) = &mut self.stage {
            search.founding.led = None;
            search.founding.lead_after = Some(now + DEAD_AGAIN);
        }
    }

    /// Gives up the ballot that this process leads, because what hinders it does not end soon.
    fn wait_for_change(&mut self, now: Instant, hindrance: String) {
        let Stage::Searching(search) = &mut self.stage else { return };
        search.founding.led = None;
        search.founding.hindrance = Some(hindrance);
        search.founding.lead_later(now, &self.set.me, DEAD_AGAIN);
    }

    fn take_refusal(&mut self, now: Instant, from: Incarnation, ballot: FoundingBallot, why: FoundingRefusal) {
        let Some(led) = self.led(ballot) else { return };
        let Some(name) = led.asked_name(from).map(str::to_owned) else { return };
        let by_command = led.by_command;
        let own = self.founders().map(<[String]>::to_vec).unwrap_or_default();
        let Stage::Searching(search) = &mut self.stage else { return };
        let founding = &mut search.founding;
        founding.led = None;
        let text = match why {
            FoundingRefusal::Promised(promised) => {
                founding.promised = founding.promised.max(Some(promised));
                if by_command {
                    // Leads again before another founder does: the other's ballot would find nothing to found, and this
                    // one will.
                    founding.lead_after = Some(now);
                }
                return;
            }
            FoundingRefusal::Names(theirs) => format!(
                "founder {name} is configured with other founders: {} there, and {} here; they must be the same at all",
                theirs.join(", "),
                own.join(", ")
            ),
            FoundingRefusal::Namesake(at) => {
                format!("founder {name} has heard another living process of its name at {at}: end one of them")
            }
            FoundingRefusal::Settings => format!("founder {name} has other settings than this process"),
        };
        self.wait_for_change(now, text);
    }

    fn answer_proposal(
        &mut self,
        now: Instant,
        from: Incarnation,
        ballot: FoundingBallot,
        first: FirstView,
        fx: &mut dyn Effects,
    ) {
        let differs = mismatch(first.level, &first.settings, &self.set.me).is_some();
        let Stage::Searching(search) = &mut self.stage else { return };
        let founding = &mut search.founding;
        if ballot.leader != from || founding.promised != Some(ballot) {
            return;
        }
        if differs {
            let why = FoundingRefusal::Settings;
            return self.answer_founder(now, from, FoundingMessage::Refuse { ballot, why }, fx);
        }
        founding.accepted = Some(Accepted { ballot, first });
        self.answer_founder(now, from, FoundingMessage::Accept { ballot }, fx);
    }

    fn take_acceptance(&mut self, now: Instant, from: Incarnation, ballot: FoundingBallot, fx: &mut dyn Effects) {
        let Some(led) = self.led(ballot) else {
            self.counters.founding_acceptances_late += 1;
            return;
        };
        if led.asked_name(from).is_none() || led.decided || led.proposed.is_none() {
            return;
        }
        led.accepted.insert(from);
        if led.accepted.len() < led.asked.len() {
            return;
        }
        led.decided = true;
        let (asked, me) = (led.asked.clone(), self.me());
        // The leader's own marker is on disk before any other founder is asked to set one.
        if self.confirm(me, ballot, fx) {
            self.send_to_other_founders(now, &asked, &FoundingMessage::Decide { ballot });
            self.announce_marked(now, fx);
        }
    }

    /// Sets this process's marker because all accepted its accepted list, unless it has promised a later ballot since.
    /// Returns whether the marker is set.
    fn confirm(&mut self, from: Incarnation, ballot: FoundingBallot, fx: &mut dyn Effects) -> bool {
        let Stage::Searching(search) = &self.stage else { return false };
        let founding = &search.founding;
        self.counters.founding_decisions_late += u64::from(founding.promised.is_some_and(|later| later > ballot));
        let stands = founding.promised == Some(ballot) && ballot.leader == from;
        let Some(accepted) = founding.accepted.as_ref().filter(|accepted| stands && accepted.ballot == ballot) else {
            return false;
        };
        let first = accepted.first.clone();
        self.set_bootstrap_marker(BootstrapMarker::of_list(ballot, first), fx)
    }

    /// Announces to all that were asked or are listed that this process's marker is on disk.
    fn announce_marked(&mut self, now: Instant, fx: &mut dyn Effects) {
        let Stage::Searching(search) = &self.stage else { return };
        let Some(Accepted { first, .. }) = &search.founding.accepted else { return };
        let instance = first.instance;
        let mut to: BTreeMap<Incarnation, MemberInfo> =
            first.members.iter().map(|member| (member.incarnation, member.clone())).collect();
        to.extend(search.founding.contacts.values().map(|known| (known.info.incarnation, known.info.clone())));
        to.insert(self.me(), self.set.me.clone());
        let to: Vec<MemberInfo> = to.into_values().collect();
        self.send_to_founders(now, &to, &FoundingMessage::Marked { instance }, fx);
    }

    fn handle_marked(&mut self, now: Instant, from: Incarnation, instance: CellInstance, fx: &mut dyn Effects) {
        let names = self.founders().map_or(0, <[String]>::len);
        let me = self.set.me.clone();
        let Stage::Searching(search) = &mut self.stage else { return };
        let founding = &mut search.founding;
        let Some(Accepted { first, .. }) = founding.accepted.as_ref().filter(|a| a.first.instance == instance) else {
            return;
        };
        let listed = first.members.iter().chain([&me]).find(|member| member.incarnation == from);
        let Some(name) = listed.or(founding.contacts.get(&from).map(|known| &known.info)).map(|info| info.name.clone())
        else {
            return;
        };
        let first = first.clone();
        founding.marked.retain(|of, _| *of == instance);
        let marked = founding.marked.entry(instance).or_default();
        marked.insert(name);
        // Counted over all configured names, whichever of them were asked (`docs/founding.md`, *Assumptions*).
        if marked.len() * 2 > names {
            self.install_confirmed(now, first, fx);
        }
    }

    /// Installs a list that more than half of the names have a marker of.
    fn install_confirmed(&mut self, now: Instant, first: FirstView, fx: &mut dyn Effects) {
        if !first.lists(self.me()) {
            return;
        }
        let is_marked = self.set.record.instance() == first.instance;
        if !is_marked && !self.set_bootstrap_marker(BootstrapMarker::of_list(FoundingBallot::NONE, first.clone()), fx) {
            return;
        }
        self.send_to_other_founders(now, &first.members, &FoundingMessage::Confirmed(first.clone()));
        self.install_first(now, first, fx);
    }

    /// Sets this process's bootstrap marker. Returns false if it is not on disk: then nothing may rely on it.
    pub(super) fn set_bootstrap_marker(&mut self, mark: BootstrapMarker, fx: &mut dyn Effects) -> bool {
        let FounderRecord { last, end, .. } = self.set.record.clone();
        // A process that is in an instance again did not leave it, so the old record of its end is dropped.
        let end = end.filter(|end| end.instance() != mark.instance);
        self.keep_record(FounderRecord { mark: Some(mark), heard: None, last, end }, fx)
    }

    pub(super) fn keep_record(&mut self, record: FounderRecord, fx: &mut dyn Effects) -> bool {
        let kept = fx.keep_record(&record);
        self.counters.records_refused += u64::from(!kept);
        if kept {
            self.set.record = record;
        } else if let Stage::Searching(search) = &mut self.stage {
            let why = "what a founder must not forget cannot be written to its state directory";
            search.founding.hindrance = Some(why.to_owned());
        }
        kept
    }

    /// Sets the marker of a founder that a cell takes in, before it enters. Returns false if the marker cannot be
    /// written.
    pub(super) fn mark_joined(&mut self, instance: CellInstance, directory: &Directory, fx: &mut dyn Effects) -> bool {
        let record = &self.set.record;
        let has_left = record.end.as_ref().is_some_and(|end| end.instance() == instance);
        // A founder that was to reform its cell, and joins another's instance, has no list any more, and has a marker.
        let is_no_founder = self.founders().is_none() && record.mark.is_none();
        is_no_founder
            || record.instance() == instance && !has_left
            || self.set_bootstrap_marker(BootstrapMarker::taken_in(instance, directory), fx)
    }

    /// Handles a cell member that answered a fresh challenge. A founder without a marker records that, and founds no
    /// cell from then on.
    pub(super) fn hear_member(&mut self, instance: CellInstance, at: SocketAddr, fx: &mut dyn Effects) {
        let record = &self.set.record;
        if self.founders().is_none() || record.mark.is_some() || record.heard.is_some() {
            return;
        }
        let Stage::Searching(search) = &self.stage else { return };
        let accepted = search.founding.accepted.as_ref().map(|accepted| &accepted.first);
        if accepted.is_some_and(|first| first.instance == instance && first.lists(self.me())) {
            return; // it is a member of view 1, and the confirmation is on its way
        }
        let record = FounderRecord { heard: Some(Heard { instance, at }), ..record.clone() };
        self.counters.founders_heard += 1;
        self.keep_record(record, fx);
    }

    /// Why this founder does not found its cell, for people to read.
    pub(super) fn founding_hindrance(&self) -> Option<String> {
        let names = self.founders()?;
        let Stage::Searching(search) = &self.stage else { return None };
        if let Some(at) = search.founding.namesake(&self.set.me) {
            return Some(format!(
                "another process with the name {} looks for the cell, at {at}: end one of them",
                self.set.me.name
            ));
        }
        if let Some(heard) = self.set.record.heard {
            return Some(format!(
                "this founder heard a member of the cell at {}, so the cell exists: it waits until a member takes it in. If the cell is no more anywhere, `phalanx reform --all-dead` founds it again",
                heard.at
            ));
        }
        if let Some(hindrance) = &search.founding.hindrance {
            return Some(hindrance.clone());
        }
        (names.len() > 1).then(|| "the founders are agreeing on the first view".to_owned())
    }

    /// Founds a cell with this process as its only member.
    pub(super) fn found_alone(&mut self, now: Instant, fx: &mut dyn Effects) {
        let next = self.set.record.instance().next_generation();
        let instance = CellInstance::fresh(next, self.rng.next_u64());
        if self.set_bootstrap_marker(BootstrapMarker::bare(instance), fx) {
            let own = self.agreed();
            self.install_first(now, FirstView::new(instance, vec![self.set.me.clone()], &own), fx);
        }
    }

    /// Installs view 1.
    pub(super) fn install_first(&mut self, now: Instant, first: FirstView, fx: &mut dyn Effects) {
        let directory = first.directory();
        self.enter_first(now, first.instance, directory, fx);
    }

    /// Enters view 1 of an instance, which begins with `directory`.
    pub(super) fn enter_first(
        &mut self,
        now: Instant,
        instance: CellInstance,
        directory: Directory,
        fx: &mut dyn Effects,
    ) {
        self.instance = instance;
        let proposal = Proposal {
            decree: DecreeNumber::FIRST,
            view: ViewNumber::FIRST,
            joined: directory.members.clone(),
            left: Vec::new(),
            groups: Vec::new(),
            next_group: directory.next_group,
            next_space: directory.next_space,
            level: directory.level,
            settings: directory.settings.clone(),
            tail: Tags::default(),
        };
        self.enter(now, directory, Arc::new(proposal), fx);
    }
}

/// Explains for people why nothing can be founded.
fn announce_dead(last: &[(String, Option<LastView>)], but_for: Option<&[String]>) -> String {
    let latest =
        last.iter().filter_map(|(_, last)| last.as_ref()).max_by_key(|last| (last.instance.generation(), last.view));
    let recorded = last.iter().map(|(name, last)| match last {
        Some(last) => format!("{name} view {}", last.view),
        None => format!("{name} none"),
    });
    let recorded: Vec<String> = recorded.collect();
    if let Some(but_for) = but_for {
        return format!(
            "the members of the cell left, but for some of which nobody knows that they ended: {}. The cell is founded again when each of \
             them is started where it ran before. If they are gone for good, `phalanx reform --all-dead` at one host founds it. The last \
             view that each founder recorded: {}",
            but_for.join(", "),
            recorded.join(", ")
        );
    }
    let away: Vec<&str> = latest.map_or(Vec::new(), |latest| {
        let is_away = |name: &&String| last.iter().all(|(here, _)| here != *name);
        latest.members.iter().filter(is_away).map(String::as_str).collect()
    });
    let missing =
        if away.is_empty() { String::new() } else { format!("; not heard of that view: {}", away.join(", ")) };
    format!(
        "the whole cell died, or its living members cannot be reached: all founders are here, and none is in a view. The last view that each recorded: {}{missing}. \
         If no member lives anywhere, `phalanx reform --all-dead` at one host founds the cell again",
        recorded.join(", ")
    )
}
