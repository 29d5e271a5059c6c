//! Reads the harness's records.

use phalanx_trace::Event;

use super::Builder;
use crate::model::{Fault, FaultKind, Gauge, Impaired, Moment, Span, Traffic};

impl Builder {
    pub(super) fn harness_event(&mut self, event: &Event, moment: Moment) {
        match event {
            Event::Stop { incarnation } => self.fault(FaultKind::Stop, *incarnation, moment),
            Event::Cont { incarnation } => self.fault(FaultKind::Cont, *incarnation, moment),
            Event::Crash { incarnation } => self.fault(FaultKind::Crash, *incarnation, moment),
            Event::Phase { phase, connected } => {
                self.model.harness.phases.push((*phase, connected.clone(), moment));
            }
            Event::Cut { links } => self.links(links, true, moment),
            Event::Mend { links } => self.links(links, false, moment),
            Event::Attack { active } => Span::note(&mut self.model.harness.attacks, *active, moment),
            Event::Trouble { what, incarnation, begins } => {
                let whom = (*incarnation != 0).then(|| self.proc(*incarnation));
                Span::note(self.model.harness.troubles.entry((*what, whom)).or_default(), *begins, moment);
            }
            Event::Gauge { incarnation, name, value, limit, idle } => {
                let (proc, name) = (self.proc(*incarnation), name.clone());
                let gauge = Gauge { proc, name, value: *value, limit: *limit, idle: *idle, moment };
                self.model.harness.gauges.push(gauge);
            }
            Event::Traffic { incarnation, packets, idle } => {
                let proc = self.proc(*incarnation);
                let traffic = Traffic { packets: *packets, idle: *idle, moment };
                self.model.harness.traffic.entry(proc).or_default().push(traffic);
            }
            Event::Impaired { ends, sends_every_ns, .. } => {
                let first = self.model.harness.impaired.take();
                let mut impaired = first.unwrap_or_else(|| Impaired { ends: Vec::new(), sends_every_ns: 0, moment });
                impaired.ends.extend(ends.iter().cloned());
                impaired.sends_every_ns = *sends_every_ns;
                self.model.harness.impaired = Some(impaired);
            }
            Event::Unread { incarnation, inbox, begins } => {
                let of = (self.proc(*incarnation), *inbox);
                Span::note(self.model.harness.unread.entry(of).or_default(), *begins, moment);
            }
            Event::About { codes } => codes.iter().for_each(|code| match code.parse() {
                Ok(property) => self.model.harness.about.push(property),
                Err(unknown) => self.malformed(unknown.to_string()),
            }),
            Event::End => self.model.harness.ended = Some(moment),
            // The stream rules (E1) report this.
            _ => {}
        }
    }

    /// Handles the end of the experiment, and the kills that follow it.
    pub(super) fn killed_after(&mut self, event: &Event) {
        let &Event::Crash { incarnation } = event else { return };
        let proc = self.proc(incarnation);
        self.model.procs[proc].killed_after = true;
    }

    fn links(&mut self, links: &[(String, String)], cut: bool, moment: Moment) {
        for link in links {
            Span::note(self.model.harness.cuts.entry(link.clone()).or_default(), cut, moment);
        }
    }

    fn fault(&mut self, kind: FaultKind, incarnation: u64, moment: Moment) {
        let proc = self.proc(incarnation);
        self.model.harness.faults.push(Fault { kind, proc, moment });
        if kind == FaultKind::Crash {
            let crashed = &mut self.model.procs[proc].crashed;
            *crashed = crashed.or(Some(moment));
        }
    }
}
