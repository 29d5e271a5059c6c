//! Calls between endpoints, as recorded.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_trace::CallOutcome;

use super::{Model, Moment, ProcIx};

/// All records of calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) made: Vec<Made>,
    pub(crate) runs: Vec<Ran>,
    /// Calls and runs of the same caller with the same request. Usually this is one call, since callers make no two
    /// requests alike if they are to be checked.
    pub(crate) alike: BTreeMap<(ProcIx, u64), Alike>,
}

/// A call, as its caller recorded it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) caller: ProcIx,
    pub(crate) number: u64,
    /// The address it was made to.
    pub(crate) to: String,
    pub(crate) idempotent: bool,
    pub(crate) request: u64,
    pub(crate) made: Moment,
    /// Time after `made` within which its caller is to learn the outcome.
    pub(crate) within_ns: Option<u64>,
    /// Outcomes that the caller learned, in order.
    pub(crate) told: Vec<(CallOutcome, Moment)>,
}

/// A run of a handler.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) server: ProcIx,
    pub(crate) caller: ProcIx,
    pub(crate) request: u64,
    pub(crate) begun: Moment,
    /// Its results, in order: the answer, or (`None`) that it did nothing.
    pub(crate) said: Vec<(Option<u64>, Moment)>,
}

/// Calls and runs that only their times distinguish.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    pub(crate) made: Vec<usize>,
    pub(crate) runs: Vec<usize>,
}

impl Calls {
    /// Assigns runs to calls.
    pub(super) fn link(&mut self) {
        for (at, call) in self.made.iter().enumerate() {
            self.alike.entry((call.caller, call.request)).or_default().made.push(at);
        }
        for (at, run) in self.runs.iter().enumerate() {
            self.alike.entry((run.caller, run.request)).or_default().runs.push(at);
        }
    }

    /// The runs that may belong to `call`.
    pub(crate) fn runs_of(&self, call: &Made) -> impl Iterator<Item = &Ran> {
        let alike = self.alike.get(&(call.caller, call.request));
        alike.into_iter().flat_map(|alike| &alike.runs).map(|&run| &self.runs[run])
    }

    /// Whether `call` is the only call of its caller with this request.
    pub(crate) fn is_single(&self, call: &Made) -> bool {
        self.alike.get(&(call.caller, call.request)).is_some_and(|alike| alike.made.len() == 1)
    }
}

/// Whether a call to `address` reaches the endpoint at `at`, which may stand for all addresses of its host.
pub(crate) fn is_at(at: &str, address: &str) -> bool {
    let port_of_all = |text: &str| text.parse::<SocketAddr>().ok().filter(|at| at.ip().is_unspecified());
    at == address
        || port_of_all(at).is_some_and(|at| address.parse().is_ok_and(|to: SocketAddr| to.port() == at.port()))
}

impl Ran {
    /// The time at which it reported to have done nothing, if it reported nothing else.
    pub(crate) fn did_nothing(&self) -> Option<Moment> {
        match self.said[..] {
            [(None, said)] => Some(said),
            _ => None,
        }
    }
}

impl Model {
    /// Whether the process's trace is complete.
    pub(crate) fn tells_all(&self, proc: ProcIx) -> bool {
        self.procs[proc].trace.is_some() && self.procs[proc].tail_complete
    }

    /// Whether the trace of each endpoint at this address is given, as far as can be known: at least one is, and all of
    /// them are complete.
    pub(crate) fn tells_all_at(&self, address: &str) -> bool {
        let here = |&p: &ProcIx| self.procs[p].endpoint.as_deref().is_some_and(|at| is_at(at, address));
        let mut here = (0..self.procs.len()).filter(here).peekable();
        here.peek().is_some() && here.all(|p| self.tells_all(p))
    }
}
