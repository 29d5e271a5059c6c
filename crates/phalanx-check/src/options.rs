//! What the caller knows about the run.

use crate::Property;

/// How to evaluate a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which properties must have been put to the test at least once. Default: [`Require::Features`].
    pub require: Require,
    /// Which survivors of a cell view may form the next. Default: [`Quorum::OldestHalf`].
    pub quorum: Quorum,
    /// Whether the run should have one cell instance. A second one is then a violation of M6. Default false.
    pub one_instance: bool,
    /// Whether the traces of all processes and of the harness are given, from start to end. Otherwise nothing that
    /// depends on a process without a trace is evaluated. Default false.
    pub complete: bool,
    /// Whether the harness knows that no quorum is left for good. It is then no violation that nothing is due in its
    /// quiet phase. Default false.
    pub hopeless: bool,
    /// The most by which two records of one machine may be in the wrong order, because a process reads its clock once
    /// in each iteration of the event loop. Default 1 s; a simulator sets 0.
    pub clock_slack_ns: u64,
    /// V1: the longest from the start of the quiet phase to one cell view of all. Default 10 s.
    pub membership_bound_ns: u64,
    /// V3, V4: the longest from a send in the quiet phase to its deliveries. Default 5 s.
    pub delivery_bound_ns: u64,
    /// V14: the longest time for which a partly broken path may hold up processes on no such path. Default 15 s.
    pub impaired_bound_ns: u64,
    /// V14: the longest time until a multicast is delivered at the processes on no such path that are in its view. A
    /// path or member that fails in part has to be found by then, or nobody may have to wait for it. Default 15 s.
    pub impaired_delivery_bound_ns: u64,
    /// V2: the longest time for which a view change blocks the sends of a member of a settled cell. Default 5 s.
    pub flush_bound_ns: u64,
    /// V6, V12: the longest from a request to join, in a settled cell, to the first view. Default 10 s.
    pub join_bound_ns: u64,
    /// V7: the longest time until a process that no quorum reaches considers itself cut off. Default 5 s.
    pub cut_off_bound_ns: u64,
    /// V5, V8: the time from the last activity of any application to the calm. Default 2 s.
    pub calm_bound_ns: u64,
    /// V9: the longest time for which a stopped member holds the others up. Default 4 s.
    pub hostage_bound_ns: u64,
    /// V10: cell views in a quiet phase, besides those that starts, leaves and deaths in it cause. Default 3.
    pub churn_max: u64,
    /// V15: the longest time after a call's deadline until its caller learns the outcome. Default 5 s.
    pub call_bound_ns: u64,
    /// R7: steps after which the search for an order is given up. Histories of simulated runs take hundreds. A run with
    /// a search given up has not passed. Default 2,000,000.
    pub search_steps_max: usize,
    /// Violations kept with their evidence for each property. All are counted. Default 5.
    pub violations_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            require: Require::Features,
            quorum: Quorum::OldestHalf,
            one_instance: false,
            complete: false,
            hopeless: false,
            clock_slack_ns: 1_000_000_000,
            membership_bound_ns: 10_000_000_000,
            delivery_bound_ns: 5_000_000_000,
            impaired_bound_ns: 15_000_000_000,
            impaired_delivery_bound_ns: 15_000_000_000,
            flush_bound_ns: 5_000_000_000,
            join_bound_ns: 10_000_000_000,
            cut_off_bound_ns: 5_000_000_000,
            calm_bound_ns: 2_000_000_000,
            hostage_bound_ns: 4_000_000_000,
            churn_max: 3,
            call_bound_ns: 5_000_000_000,
            search_steps_max: 2_000_000,
            violations_max: 5,
        }
    }
}

/// Properties that must have been put to the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Require {
    /// Those that the kinds of records in the traces call for (deliveries call for integrity, abcasts for order...),
    /// and those that the harness names.
    Features,
    /// These, in addition to those that the kinds of records call for.
    These(Vec<Property>),
    /// None.
    Nothing,
}

/// Which part of a view counts as a quorum of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// More than half, or half with rank 0.
    OldestHalf,
    /// Any half: for cells in which a witness decides ties.
    AnyHalf,
}

impl Quorum {
    /// Whether `present` of a view's `size` members are a quorum. `with_oldest`: rank 0 is among them.
    #[must_use]
    pub fn holds(self, size: usize, present: usize, with_oldest: bool) -> bool {
        let half = 2 * present == size && (with_oldest || self == Self::AnyHalf);
        2 * present > size || half
    }
}
