//! The properties, one a file, each with its formal statement.
//!
//! Notation: `p`, `q` are processes, `u`, `v`, `w` views, `M_v` the members of `v`, `m` a multicast. `del_p(v)` is
//! the set and `seq_p(v)` the sequence of messages `p` delivered in `v`. `v -> w at p`: `p` installed `w` right
//! after `v`. A *survivor* of `v` is a process that went on to a next view.

mod anew;
mod bank;
mod carried;
mod e1;
mod i1;
mod i2;
mod i3;
mod i4;
mod l1;
mod l2;
mod m1;
mod m10;
mod m11;
mod m12;
mod m13;
mod m14;
mod m15;
mod m2;
mod m3;
mod m4;
mod m5;
mod m6;
mod m7;
mod m8;
mod m9;
mod o1;
mod o2;
mod o3;
mod o4;
mod o5;
mod o7;
mod past;
mod peer;
mod r1;
mod r2;
mod r3;
mod r4;
mod r5;
mod r6;
mod r7;
mod r8;
mod r9;
mod s1;
mod s10;
mod s11;
mod s12;
mod s13;
mod s2;
mod s3;
mod s4;
mod s5;
mod s6;
mod s7;
mod s8;
mod s9;
mod u1;
mod u2;
mod u3;
mod u4;
mod u5;
mod u6;
mod u7;
mod unsent;
mod v1;
mod v10;
mod v12;
mod v13;
mod v14;
mod v15;
mod v16;
mod v17;
mod v2;
mod v3;
mod v4;
mod v5;
mod v6;
mod v7;
mod v8;
mod v9;
mod x1;
mod x10;
mod x11;
mod x12;
mod x13;
mod x14;
mod x2;
mod x3;
mod x4;
mod x5;
mod x6;
mod x7;
mod x8;
mod x9;

use std::collections::HashSet;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::findings::Findings;
use crate::model::quiet::{NotDue, Quiet};
use crate::model::{EpochIx, Model, Over, ProcIx, Span};
use crate::property::m7::Dropped;
use crate::property::past::Pasts;
use crate::property::unsent::Unsent;
use crate::{Options, Require};

macro_rules! properties {
    ($($code:ident $title:literal $module:ident;)*) => {
        /// A guarantee, by its code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Property {
            $(#[doc = $title] $code,)*
        }

        impl Property {
            /// All properties, in the order of reports.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// The code, like `"S3"`.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)*
                }
            }

            /// A short statement.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$code => $title,)*
                }
            }

            fn check(self, run: &Run<'_>, out: &mut Findings) {
                match self {
                    $(Self::$code => $module::check(run, out),)*
                }
            }
        }
    };
}

properties! {
    E1 "well-formed event streams" e1;
    M1 "a view holds each process that installs it" m1;
    M2 "view numbers grow, and each view follows the one before" m2;
    M3 "equal view numbers mean equal member lists" m3;
    M4 "no view holds two incarnations of one process" m4;
    M5 "joins and leaves are justified" m5;
    M6 "views form one chain" m6;
    M7 "the others deliver what a member left behind delivers as uniform" m7;
    M8 "exclusion is announced and final" m8;
    M9 "a member that a view dropped is heard no more" m9;
    M10 "a group ends with the last of its members" m10;
    M11 "levels and settings are agreed" m11;
    M12 "nobody loses a group without cause" m12;
    M13 "a cell is founded by all that its first view holds" m13;
    M14 "nobody ends a cell in silence over what still lives" m14;
    M15 "a membership ends for a reason, and says it" m15;
    S1 "delivered in the view it belongs to" s1;
    S2 "sent in the view it belongs to" s2;
    S3 "who goes on together delivered the same" s3;
    S4 "members that came along and joiners are listed rightly" s4;
    S5 "only members send, only members receive" s5;
    S6 "no send outside of a view" s6;
    S7 "no delivery outside of a view" s7;
    S8 "accepted multicasts are sent" s8;
    S9 "a message to one process is received, or in doubt" s9;
    S10 "a message reported as stable is at every member" s10;
    S11 "an application is told stable only what enough members have" s11;
    S12 "each accepted multicast has one outcome" s12;
    S13 "a message to one member is delivered once, or its sender is told" s13;
    I1 "nothing is created" i1;
    I2 "nothing is duplicated" i2;
    I3 "messages are delivered as they were sent" i3;
    I4 "nobody delivers in another's name, attackers or not" i4;
    O1 "each sender's messages in order, without gaps" o1;
    O2 "causal messages after their past" o2;
    O3 "one total order" o3;
    O4 "the total order extends the causal one" o4;
    O5 "the total order is numbered from 1 in each view" o5;
    O7 "a message to one member after its past" o7;
    U1 "every survivor delivers what any process delivered as uniform" u1;
    U2 "uniform messages have one order, for the dead too" u2;
    U3 "every member could receive a message before it is delivered as uniform" u3;
    U4 "every survivor delivers what its sender delivered as uniform" u4;
    U5 "a process that hears no quorum delivers nothing uniform" u5;
    U6 "uniform deliveries are in the state from which the group goes on" u6;
    U7 "too few send nothing uniform" u7;
    X1 "a joiner's state is the members' state at its first view" x1;
    X2 "snapshot and replay meet without gap or overlap" x2;
    X3 "one state transfer for each join" x3;
    X4 "equal views, equal states" x4;
    X5 "a process that asked for the state has it before its first view" x5;
    X6 "uniform deliveries of a member that left survive it" x6;
    X7 "members without the state are listed alike" x7;
    X8 "the views since a snapshot are replayed in their place" x8;
    X9 "a membership's state is told in one order" x9;
    X10 "a group has one list of domains, and each member has them" x10;
    X11 "a message to a domain is one to all" x11;
    X12 "a submit is executed at one place, with one result" x12;
    X13 "a submitter is told what was executed" x13;
    X14 "a submit has one outcome, and is unknown only after an end" x14;
    V1 "in the quiet phase all are in one view" v1;
    V2 "in the quiet phase every silence ends" v2;
    V3 "a sender delivers its own messages" v3;
    V4 "in the quiet phase all members deliver" v4;
    V5 "with nothing to say only heartbeats are sent" v5;
    V6 "in the quiet phase joins are done in time" v6;
    V7 "a process cut off from the quorum reports that in time" v7;
    V8 "bounded buffers keep their bounds, and empty in the calm" v8;
    V9 "a stopped member holds nobody up" v9;
    V10 "few views until all are in one" v10;
    V12 "in the quiet phase pending transfers end" v12;
    V13 "the connected agree and deliver while others stay broken" v13;
    V14 "paths broken in part hold up nobody on no such path" v14;
    V15 "a call ends by its deadline" v15;
    V16 "an inbox that is not read holds up no other group" v16;
    V17 "a sender learns that its multicasts are stable" v17;
    L1 "a lock has one holder" l1;
    L2 "a guarded resource lets in no older token" l2;
    R1 "a call that is not idempotent runs at most once" r1;
    R2 "an answer is what a run of the call returned" r2;
    R3 "an ask ends for the reason that it gives" r3;
    R4 "a call reported as not executed had not run" r4;
    R5 "each call has one end" r5;
    R6 "runs and answers belong to the call that was made" r6;
    R7 "registers are linearizable" r7;
    R8 "a place of an ask is filled once, by whom it names" r8;
    R9 "an ask in total order is handled at one place" r9;
    BANK "money is neither made nor lost" bank;
}

impl Property {
    /// Properties of calls between endpoints, which members of a cell do not make.
    pub const OF_CALLS: &'static [Self] = &[Self::R1, Self::R2, Self::R4, Self::R5, Self::R6, Self::V15];
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl std::str::FromStr for Property {
    type Err = UnknownProperty;

    fn from_str(code: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().copied().find(|p| p.code().eq_ignore_ascii_case(code));
        known.ok_or_else(|| UnknownProperty(code.to_owned()))
    }
}

/// Error: no property has this code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no property is called {0:?}")]
pub struct UnknownProperty(pub String);

impl Serialize for Property {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

/// Input of every check.
struct Run<'a> {
    model: &'a Model,
    options: &'a Options,
    pasts: Pasts,
    unsent: Unsent,
    wrong_state: HashSet<EpochIx>,
    dropped: Dropped,
    /// Times in which each process did not run.
    absences: Vec<Vec<Span>>,
    quiet: Result<Quiet, NotDue>,
    /// Whether the quiet phase is due, and all are in one view in time (V1).
    settled: bool,
}

impl Run<'_> {
    /// Time at which the last of the running, connected processes installed the last cell view.
    ///
    /// With partly broken paths, processes at their ends may come and go for ever. It is then the end of the bound.
    fn last_install(&self, quiet: &Quiet) -> u64 {
        if quiet.impaired_ns.is_some() {
            return quiet.settled_ns;
        }
        let own = |&p: &ProcIx| self.model.install_at(p, quiet.end_ns).map(|i| self.model.installs[i].moment.at_ns);
        quiet.running.iter().filter_map(own).fold(quiet.from_ns, u64::max)
    }
}

/// The group of a stay, as records name it.
fn group_of(model: &Model, epoch: EpochIx) -> u32 {
    model.groups[model.views[model.epochs[epoch].view].group].id
}

/// The stays of a process in that view of a group: more than one if the group was made anew.
fn stays_in(model: &Model, p: ProcIx, group: u32, view: u64) -> impl DoubleEndedIterator<Item = EpochIx> + '_ {
    let is_it =
        move |stay: &EpochIx| group_of(model, *stay) == group && model.views[model.epochs[*stay].view].number == view;
    model.procs[p].epochs.iter().copied().filter(is_it)
}

/// Runs all checks.
pub(crate) fn check_all(model: &Model, options: &Options) -> Vec<Findings> {
    let mut run = Run {
        model,
        options,
        pasts: Pasts::of(model),
        unsent: Unsent::of(model),
        wrong_state: x1::wrong_state(model),
        dropped: Dropped::of(model),
        absences: model.absences(),
        quiet: model.quiet(options),
        settled: false,
    };
    // First, because the other liveness properties are due only if all are in one view.
    if let Ok(quiet) = &run.quiet {
        let mut found = Findings::new(Property::V1, 0);
        match quiet.impaired_ns {
            None => v1::judge(&run, quiet, &mut found),
            Some(_) => v14::membership(&run, quiet, &mut found),
        }
        run.settled = found.violations == 0;
    }
    let judge = |&property: &Property| {
        let mut findings = Findings::new(property, options.violations_max);
        property.check(&run, &mut findings);
        findings
    };
    Property::ALL.iter().map(judge).collect()
}

/// The properties that must have been put to the test.
pub(crate) fn required(model: &Model, options: &Options) -> Vec<Property> {
    use Property as P;
    let sum = |count: fn(&crate::model::Kinds) -> u64| model.traces.iter().map(|t| count(&t.kinds)).sum::<u64>();
    let quiet = model.quiet(options);
    let impaired = quiet.as_ref().is_ok_and(|q| q.impaired_ns.is_some());
    let excluded = model.procs.iter().any(|p| matches!(p.over, Some((Over::Excluded(_), _))));
    let called_for: [(bool, &[P]); 17] = [
        (model.calls.made.iter().any(|call| !call.told.is_empty()), &[P::R5]),
        (sum(|k| k.cell_views) > 0, &[P::E1, P::M1]),
        (model.cells.values().any(|views| views.len() > 1), &[P::M6]),
        (excluded, &[P::M8]),
        (sum(|k| k.group_views) > 0, &[P::M2]),
        (sum(|k| k.sends) > 0, &[P::S2, P::S6]),
        (sum(|k| k.accepts) > 0, &[P::S8]),
        (sum(|k| k.receipts) > 0, &[P::S10]),
        (sum(|k| k.deliveries) > 0, &[P::S1, P::S7, P::I1, P::I2, P::I3]),
        (sum(|k| k.from_others) > 0, &[P::S5]),
        (sum(|k| k.later) > 0, &[P::O1]),
        (sum(|k| k.total) > 0, &[P::O5]),
        (sum(|k| k.state_ends) > 0, &[P::X3]),
        (sum(|k| k.p2p) > 0, &[P::I1]),
        (quiet.as_ref().is_ok_and(|q| !q.broken_outside), &[P::V1]),
        (quiet.as_ref().is_ok_and(|q| q.broken_outside && !impaired), &[P::V13]),
        (impaired, &[P::V14]),
    ];
    let called = called_for.iter().filter(|(called, _)| *called).flat_map(|(_, p)| p.iter().copied());
    let called = called.chain(model.harness.about.iter().copied());
    let mut required: Vec<P> = match &options.require {
        Require::Features => called.collect(),
        Require::These(these) => called.chain(these.iter().copied()).collect(),
        Require::Nothing => Vec::new(),
    };
    required.sort_unstable();
    required.dedup();
    required
}
