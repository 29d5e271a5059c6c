//! Calls between endpoints, as the records tell them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_trace::CallOutcome;

use super::{Model, Moment, ProcIx};

/// All that was recorded of calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) made: Vec<Made>,
    pub(crate) runs: Vec<Ran>,
    /// Calls and runs of the same caller with the same request: mostly one call, as callers that are to be judged make no two
    /// calls alike.
    pub(crate) alike: BTreeMap<(ProcIx, u64), Alike>,
}

/// A call, as its caller knows it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) caller: ProcIx,
    pub(crate) number: u64,
    /// The address that it was made to.
    pub(crate) to: String,
    pub(crate) idempotent: bool,
    pub(crate) request: u64,
    pub(crate) made: Moment,
    /// From then on its caller is to be told within this time.
    pub(crate) within_ns: Option<u64>,
    /// What the caller was told, each time.
    pub(crate) told: Vec<(CallOutcome, Moment)>,
}

/// A handler that was begun.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) server: ProcIx,
    pub(crate) caller: ProcIx,
    pub(crate) request: u64,
    pub(crate) begun: Moment,
    /// What it said, each time: the answer, or (`None`) that it did nothing.
    pub(crate) said: Vec<(Option<u64>, Moment)>,
}

/// Calls and runs that only their times tell apart.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    pub(crate) made: Vec<usize>,
    pub(crate) runs: Vec<usize>,
}

impl Calls {
    /// Puts together what belongs together.
    pub(super) fn link(&mut self) {
        for (at, call) in self.made.iter().enumerate() {
            self.alike.entry((call.caller, call.request)).or_default().made.push(at);
        }
        for (at, run) in self.runs.iter().enumerate() {
            self.alike.entry((run.caller, run.request)).or_default().runs.push(at);
        }
    }

    /// The runs that may be of `call`.
    pub(crate) fn runs_of(&self, call: &Made) -> impl Iterator<Item = &Ran> {
        let alike = self.alike.get(&(call.caller, call.request));
        alike.into_iter().flat_map(|alike| &alike.runs).map(|&run| &self.runs[run])
    }

    /// Whether no other call of this caller is like `call`.
    pub(crate) fn is_single(&self, call: &Made) -> bool {
        self.alike.get(&(call.caller, call.request)).is_some_and(|alike| alike.made.len() == 1)
    }
}

/// Whether who calls `address` calls the endpoint at `at`, which may stand for all addresses of its host.
pub(crate) fn is_at(at: &str, address: &str) -> bool {
    let port_of_all = |text: &str| text.parse::<SocketAddr>().ok().filter(|at| at.ip().is_unspecified());
    at == address
        || port_of_all(at).is_some_and(|at| address.parse().is_ok_and(|to: SocketAddr| to.port() == at.port()))
}

impl Ran {
    /// When it said that it did nothing, if it said nothing else.
    pub(crate) fn did_nothing(&self) -> Option<Moment> {
        match self.said[..] {
            [(None, said)] => Some(said),
            _ => None,
        }
    }
}

impl Model {
    /// Whether all that the process recorded is there.
    pub(crate) fn tells_all(&self, proc: ProcIx) -> bool {
        self.procs[proc].trace.is_some() && self.procs[proc].tail_complete
    }

    /// Whether the record of each endpoint at this address is there, as far as anybody can tell: there is one, and all are whole.
    pub(crate) fn tells_all_at(&self, address: &str) -> bool {
        let here = |&p: &ProcIx| self.procs[p].endpoint.as_deref().is_some_and(|at| is_at(at, address));
        let mut here = (0..self.procs.len()).filter(here).peekable();
        here.peek().is_some() && here.all(|p| self.tells_all(p))
    }
}
