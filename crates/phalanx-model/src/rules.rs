//! The rules, each in one function. The model takes its steps by them, and the validator of simulated runs checks the
//! shipped code's steps by them: there is no second set. A [`Mutant`] switches one of them off.

/// The rules, with at most one missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rule that is missing, if any.
    pub without: Option<Mutant>,
}

/// A rule that is missing or replaced by a wrong one. Each variant states the wrong behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A wedged member keeps acknowledging what it holds.
    AckAfterReport,
    /// A member delivers to the cut when it accepts it.
    DeliverBeforeDecision,
    /// A cut is proposed although a member that the proposal names lacks a part of it.
    ProposeWithoutFilling,
    /// A member continues in the view after it reported.
    UnwedgeAfterPromise,
    /// A coordinator proposes as soon as a quorum reported, and keeps all members that it asked.
    SurvivorsBeyondReporters,
    /// An ack with a gap counts up to its highest packet.
    AckedRangesCount,
    /// Any half of a view is a quorum.
    HalfWithoutRank0,
    /// A coordinator proposes its own value, whatever was accepted.
    IgnoreAccepted,
    /// A coordinator adds its own change to an accepted proposal.
    MergeOwnChange,
    /// A coordinator takes the accepted proposal of the lowest ballot.
    AdoptLowest,
    /// An acceptor accepts in a ballot below its promise.
    AcceptBelowPromise,
    /// A member installs what it accepted.
    InstallBeforeDecision,
    /// A uniform message is delivered when received.
    UniformWithoutStability,
    /// A uniform message is delivered when it is stable, even if its causal past is not.
    UniformWithoutItsPast,
    /// A packet that arrives after the wedge is discarded. Allowed: it costs a fetch.
    DiscardInsteadOfKeep,
    /// A member skips a packet that makes no sense to it.
    SkipNonsense,
    /// A member acknowledges a packet that makes no sense to it.
    AcknowledgeNonsense,
    /// A member acts upon the part of a packet that precedes the nonsense.
    ActOnHalfPacket,
    /// A member reports everything it holds, whether it makes sense or not.
    ReportNonsenseAsHeld,
    /// A packet that is fetched for a cut is not parsed before the cut is decided.
    FillUnread,
    /// The same, and a member that finds nonsense when it delivers to the cut takes the state anew by itself.
    AnewAtTheEnd,
    /// The outcome of a stream is decided although some members have not read on to where others stopped.
    JudgeBeforeAllSaid,
    /// The cut is the longest prefix, and every member stays.
    NobodyTakesAnew,
    /// A member that acted upon more than the cut stays.
    PastTheCutStays,
    /// Deliveries at the time of the report count, not what the member acted upon.
    JudgeByDelivered,
    /// The sender goes, and the cut is still the longest prefix.
    LongestCutWithoutSender,
    /// Half against half: nothing is proposed.
    TieWaits,
    /// Only readers vote; the sender's vote on its own packet does not count.
    SenderHasNoVote,
    /// A member that acted upon more than the cut is named as staying, and takes the state anew by itself. Allowed.
    PastTheCutGoesByItself,
    /// Half against half stops the group, even if the sender leaves anyway. Allowed.
    TieStopsWithoutSender,
}

impl Mutant {
    /// All variants.
    pub const ALL: [Self; 30] = [
        Self::AckAfterReport,
        Self::DeliverBeforeDecision,
        Self::ProposeWithoutFilling,
        Self::UnwedgeAfterPromise,
        Self::SurvivorsBeyondReporters,
        Self::AckedRangesCount,
        Self::HalfWithoutRank0,
        Self::IgnoreAccepted,
        Self::MergeOwnChange,
        Self::AdoptLowest,
        Self::AcceptBelowPromise,
        Self::InstallBeforeDecision,
        Self::UniformWithoutStability,
        Self::UniformWithoutItsPast,
        Self::DiscardInsteadOfKeep,
        Self::SkipNonsense,
        Self::AcknowledgeNonsense,
        Self::ActOnHalfPacket,
        Self::ReportNonsenseAsHeld,
        Self::FillUnread,
        Self::AnewAtTheEnd,
        Self::JudgeBeforeAllSaid,
        Self::NobodyTakesAnew,
        Self::PastTheCutStays,
        Self::JudgeByDelivered,
        Self::LongestCutWithoutSender,
        Self::TieWaits,
        Self::SenderHasNoVote,
        Self::PastTheCutGoesByItself,
        Self::TieStopsWithoutSender,
    ];

    /// Its name, which is also that of the mutant of the code.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AckAfterReport => "ack_after_report",
            Self::DeliverBeforeDecision => "deliver_before_decision",
            Self::ProposeWithoutFilling => "propose_without_filling",
            Self::UnwedgeAfterPromise => "unwedge_after_promise",
            Self::SurvivorsBeyondReporters => "survivors_beyond_reporters",
            Self::AckedRangesCount => "acked_ranges_count",
            Self::HalfWithoutRank0 => "half_without_rank_0",
            Self::IgnoreAccepted => "ignore_accepted",
            Self::MergeOwnChange => "merge_own_change",
            Self::AdoptLowest => "adopt_lowest",
            Self::AcceptBelowPromise => "accept_below_promise",
            Self::InstallBeforeDecision => "install_before_decision",
            Self::UniformWithoutStability => "uniform_without_stability",
            Self::UniformWithoutItsPast => "uniform_without_its_past",
            Self::DiscardInsteadOfKeep => "discard_instead_of_keep",
            Self::SkipNonsense => "skip_nonsense",
            Self::AcknowledgeNonsense => "acknowledge_nonsense",
            Self::ActOnHalfPacket => "act_on_half_packet",
            Self::ReportNonsenseAsHeld => "report_nonsense_as_held",
            Self::FillUnread => "fill_unread",
            Self::AnewAtTheEnd => "anew_at_the_end",
            Self::JudgeBeforeAllSaid => "judge_before_all_said",
            Self::NobodyTakesAnew => "nobody_takes_anew",
            Self::PastTheCutStays => "past_the_cut_stays",
            Self::JudgeByDelivered => "judge_by_delivered",
            Self::LongestCutWithoutSender => "longest_cut_without_sender",
            Self::TieWaits => "tie_waits",
            Self::SenderHasNoVote => "sender_has_no_vote",
            Self::PastTheCutGoesByItself => "past_the_cut_goes_by_itself",
            Self::TieStopsWithoutSender => "tie_stops_without_sender",
        }
    }
}

impl Rules {
    /// Whether `mutant` is the rule that is missing.
    #[must_use]
    pub fn lacks(self, mutant: Mutant) -> bool {
        self.without == Some(mutant)
    }

    /// Quorum: a majority, or half with rank 0. (`member::is_quorum`)
    #[must_use]
    pub fn is_quorum(self, present: usize, of: usize, with_rank_0: bool) -> bool {
        let half = present * 2 == of && of > 0;
        present * 2 > of || (half && (with_rank_0 || self.lacks(Mutant::HalfWithoutRank0)))
    }

    /// Whether an acceptor promises a ballot: unless it promised a later one. (`Acceptor::promise`)
    #[must_use]
    pub fn promises<B: Ord>(self, promised: B, ballot: B) -> bool {
        promised <= ballot
    }

    /// Whether it accepts: under the same condition. (`Acceptor::accept`)
    #[must_use]
    pub fn accepts<B: Ord>(self, promised: B, ballot: B) -> bool {
        self.promises(promised, ballot) || self.lacks(Mutant::AcceptBelowPromise)
    }

    /// Whether a coordinator may propose: all that it asked have reported, and they are a quorum.
    /// (`Process::handle_report`)
    #[must_use]
    pub fn has_gathered(self, all_reported: bool, quorum_reported: bool) -> bool {
        quorum_reported && (all_reported || self.lacks(Mutant::SurvivorsBeyondReporters))
    }

    /// The accepted proposal that must be proposed again unchanged: that of the highest ballot reported.
    /// (`Coordinator::proposal`)
    pub fn adopted<B: Ord, P>(self, reported: impl Iterator<Item = (B, P)>) -> Option<P> {
        if self.lacks(Mutant::IgnoreAccepted) {
            return None;
        }
        let by_ballot = |a: &(B, P), b: &(B, P)| a.0.cmp(&b.0);
        let found =
            if self.lacks(Mutant::AdoptLowest) { reported.min_by(by_ballot) } else { reported.max_by(by_ballot) };
        found.map(|(_, proposal)| proposal)
    }

    /// Whether a member survives: it reported and does not request to leave. (`build_proposal`)
    #[must_use]
    pub fn survives(self, asked: bool, reported: bool, leaves: bool) -> bool {
        let counts = reported || (asked && self.lacks(Mutant::SurvivorsBeyondReporters));
        counts && !leaves
    }

    /// Whether a member continues with a group's state. Where groups wait, it must have reported to have the state.
    /// (`change_group`)
    #[must_use]
    pub fn goes_on(self, groups_wait: bool, stays: bool, complete: bool) -> bool {
        stays && (complete || !groups_wait)
    }

    /// Whether a leaver must be kept. There are three reasons: it gives a group's state, the remaining members would be
    /// no quorum of the view without its leavers, or a group would be left to members without its state.
    /// (`held_leavers`)
    #[must_use]
    pub fn must_stay(self, gives: bool, no_quorum: bool, leaves_without: bool) -> bool {
        gives || no_quorum || leaves_without
    }

    /// Whether a group that loses its last members waits for one of them: it may live and keep the state, and did not
    /// request to leave. (`Directory::after`)
    #[must_use]
    pub fn is_waited_for(self, lives_and_keeps: bool, asked: bool) -> bool {
        lives_and_keeps && !asked
    }

    /// Whether an orphan may return with a member: the member kept the state of a listed holder, and is in the next
    /// view. (`change_orphan`)
    #[must_use]
    pub fn may_revive(self, listed: bool, keeps: bool, in_next_view: bool) -> bool {
        listed && keeps && in_next_view
    }

    /// The cut of a stream: the longest reported prefix. (`change_group`)
    pub fn cut<P: Ord + Default>(self, reported: impl Iterator<Item = P>) -> P {
        reported.max().unwrap_or_default()
    }

    /// Whether a reporter lacks a part of the cut, which must be recovered before the cut is proposed.
    /// (`Coordinator::lacking`)
    #[must_use]
    pub fn must_fill<P: Ord>(self, held: P, cut: P) -> bool {
        held < cut && !self.lacks(Mutant::ProposeWithoutFilling)
    }

    /// The round of a new ballot: above all rounds that its coordinator has seen. (`Process::start_ballot`)
    #[must_use]
    pub fn next_round<R: Ord + Copy + std::ops::Add<Output = R> + From<u8>>(self, seen: R, promised: R) -> R {
        seen.max(promised) + R::from(1)
    }

    /// The gate: a member acknowledges, parses and sends only in a view that is installed and not wedged.
    /// (`ViewStreams::send_acks`, `ViewStreams::handle_packet`, `ViewStreams::may_pack`)
    #[must_use]
    pub fn gate_is_open(self, installed: bool, wedged: bool) -> bool {
        installed && !wedged
    }

    /// Whether a member stops reading a stream before a packet that makes no sense to it.
    #[must_use]
    pub fn stops_at_nonsense(self) -> bool {
        !self.lacks(Mutant::SkipNonsense)
    }

    /// Whether a wedged member parses packets that it fetched for a cut before it reports to hold them.
    #[must_use]
    pub fn looks_at_fetched(self) -> bool {
        !self.lacks(Mutant::FillUnread) && !self.lacks(Mutant::AnewAtTheEnd)
    }

    /// Whether a promise leaves the member wedged. (`Process::handle_wedge`)
    #[must_use]
    pub fn wedges(self) -> bool {
        !self.lacks(Mutant::UnwedgeAfterPromise)
    }

    /// Whether a member that accepted may deliver to the cut: only once that is decided. (`Process::handle_propose`,
    /// `Process::try_install`)
    #[must_use]
    pub fn may_finish(self, decided: bool) -> bool {
        decided || self.lacks(Mutant::DeliverBeforeDecision)
    }

    /// Whether a view may be installed: its proposal is decided and its cut is held. (`Process::try_install`)
    #[must_use]
    pub fn may_install(self, decided: bool, holds_cut: bool) -> bool {
        (decided || self.lacks(Mutant::InstallBeforeDecision)) && holds_cut
    }

    /// The packets that an ack counts for: the contiguous prefix. (`Sending::handle_ack`)
    #[must_use]
    pub fn acknowledged<P>(self, prefix: P, highest: P) -> P {
        if self.lacks(Mutant::AckedRangesCount) { highest } else { prefix }
    }

    /// Whether a uniform message may be delivered: every member has received it and its causal past.
    /// (`ViewStreams::is_stable`)
    #[must_use]
    pub fn may_deliver_uniform(self, stable: bool, past_stable: bool) -> bool {
        let past = past_stable || self.lacks(Mutant::UniformWithoutItsPast);
        (stable && past) || self.lacks(Mutant::UniformWithoutStability)
    }
}
