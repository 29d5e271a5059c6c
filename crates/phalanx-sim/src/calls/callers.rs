//! Callers that make routed calls, and the directory in which they find servers: what they know, and what happens to them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_core::id::Incarnation;
use phalanx_core::rng::Rng;
use phalanx_core::rpc::{ClientCallId, Failure};
use phalanx_life::Destination;
use phalanx_runtime::rpc::RoutedCall;

use super::routes::RoutesPlan;
use super::servers::{Copied, Log};

/// All that exists for routed calls.
pub(super) struct Routes {
    pub(super) plan: RoutesPlan,
    pub(super) rng: Rng,
    pub(super) log: Log,
    /// What is drawn while views of the cell are told.
    pub(super) views_rng: Rng,
    /// The members that are out of the cell, in the order of the views without them.
    pub(super) left: Vec<Incarnation>,
    /// For each process: who it is in the directory's group, once it has joined.
    pub(super) joined: Vec<Option<Incarnation>>,
    /// For each process: who it is in the cell, while it is gone from the directory alone.
    pub(super) unlisted: Vec<Option<Incarnation>>,
    /// For each process.
    pub(super) callers: Vec<Caller>,
}

/// A life of a process that makes routed calls.
#[derive(Default)]
pub(super) struct Caller {
    pub(super) copy: Copied,
    /// How many of those that left it was told of.
    pub(super) left: usize,
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    /// Number of calls, which take turns.
    pub(super) turns: usize,
}

/// A routed call that is not over.
pub(super) struct UnderWay {
    pub(super) route: RoutedCall,
    pub(super) destination: Destination,
    pub(super) value: Vec<u8>,
    pub(super) until_ns: u64,
    /// Its number in the judge's record.
    pub(super) record: usize,
    /// The servers that are asked: one, or two if it is hedged.
    pub(super) asked: Vec<AskedServer>,
    pub(super) waits: bool,
}

/// A server that is asked for a routed call.
pub(super) struct AskedServer {
    pub(super) address: SocketAddr,
    pub(super) callees: Vec<Incarnation>,
    /// `None`: it was not called, or has failed, which the caller sees soon.
    pub(super) pending: Option<ClientCallId>,
    /// Its number among those that the judge has.
    pub(super) record: usize,
    pub(super) is_hedge: bool,
}

/// What happens to a caller. It waits while its process is stopped.
#[derive(Clone, Copy)]
pub(super) enum Calling {
    /// It makes a call.
    Act,
    /// It has the directory from now on.
    Follow,
    /// It learns of so many changes of the directory.
    Learn(usize),
    /// It is excluded from the directory's group.
    Lose,
    /// Its directory ends.
    End,
    /// It is told of so many that left the cell.
    Told(usize),
    /// The deadline of a call passes.
    Late(u64),
    /// A server that was asked for a call failed.
    Failed(u64, SocketAddr, Failure),
    /// A server was asked for so long that another one is asked for the call, too.
    Hedge(u64),
    /// It waits for a call no more.
    GiveUp(u64),
}

/// What happens in the directory's group and to visitors.
#[derive(Clone, Copy)]
pub(super) enum Serving {
    /// A server joins.
    Join { server: usize, life: u32 },
    /// A server serves something else from now on.
    Announce { server: usize },
    /// A view tells that a member is gone.
    Notice(Incarnation),
    /// A server that lives is no member any more: of the cell, or of the directory alone.
    Depart { server: usize, leaves_cell: bool, lasts_ns: u64 },
    /// It is a member again, as this one.
    Return { server: usize, life: u32, me: Incarnation },
    /// A visitor goes.
    Go(usize),
    /// A visitor comes, perhaps at another address.
    Come { server: usize, moves: bool },
}

/// What happens for routed calls.
#[derive(Clone, Copy)]
pub(super) enum Routing {
    /// The run begins.
    Begin,
    /// To the callers of a client.
    Client(usize, Calling),
    /// To servers.
    Servers(Serving),
    /// Everything is whole: another round of calls which must be answered.
    Whole(u64),
}

impl Routes {
    pub(super) fn new(plan: RoutesPlan, rng: Rng, nodes: usize) -> Self {
        Self {
            plan,
            views_rng: rng.fork("views"),
            rng,
            log: Log::default(),
            left: Vec::new(),
            joined: vec![None; nodes],
            unlisted: vec![None; nodes],
            callers: (0..nodes).map(|_| Caller::default()).collect(),
        }
    }
}
