//! The harness's records.

use phalanx_trace::Event;

use super::Builder;
use crate::model::{Fault, FaultKind, Moment};

impl Builder {
    pub(super) fn harness_event(&mut self, event: &Event, moment: Moment) {
        match event {
            Event::Stop { incarnation } => self.fault(FaultKind::Stop, *incarnation, moment),
            Event::Cont { incarnation } => self.fault(FaultKind::Cont, *incarnation, moment),
            Event::Crash { incarnation } => self.fault(FaultKind::Crash, *incarnation, moment),
            Event::Phase { phase, connected } => {
                self.model.harness.phases.push((*phase, connected.clone(), moment));
            }
            Event::End => self.model.harness.ended = Some(moment),
            // Told by the stream rules already.
            _ => {}
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
