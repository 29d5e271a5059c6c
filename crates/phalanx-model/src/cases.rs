//! The explored configurations, and the property that each missing rule must break.

use crate::credits::{Credits, FINISH, Missing};
use crate::ending::{self, Ending};
use crate::explore::{Breach, always_reaches, shortest};
use crate::founding::{self, Founding};
use crate::leaving::{self, Leaving};
use crate::levels::{self, Levels};
use crate::orphans::{self, Orphans};
use crate::rules::Mutant;
use crate::view_change::property::{
    BLAME, CAN_FINISH, FEWER, ONE_DECISION, REACHABLE, SAME_DELIVERIES, SKIPPED, UNIFORM,
};
use crate::view_change::{Config, Wish};

/// The configurations of the long run: together more than ten million states.
#[must_use]
pub fn long(processes: usize) -> Vec<Config> {
    let with = Config::bare;
    match processes {
        3 => vec![
            // Three ballots, with rounds enough for each to overtake the one before; no messages.
            with(3).bounds(3, 3, 2).wish(Wish::Cell),
            // Two streams with one message each: a uniform one and a plain one in its causal past, or the other way
            // round.
            with(3).stream(0, &[true]).stream(1, &[false]).bounds(2, 2, 1),
            // A stream with two messages, and three ballots.
            with(3).stream(1, &[false, true]).bounds(2, 3, 1),
            with(3).stream(0, &[true]).bounds(3, 3, 2),
            // A packet that some readers cannot parse: three ballots; each of two packets; two senders whose packets
            // others cannot parse.
            with(3).stream(1, &[true]).poison(0, 1).bounds(2, 3, 1),
            with(3).stream(0, &[false, true]).poison(0, 1).poison(0, 2).bounds(1, 2, 1),
            with(3).stream(0, &[false]).stream(1, &[true]).poison(0, 1).poison(1, 1).bounds(1, 2, 1),
        ],
        _ => vec![
            with(4).bounds(2, 3, 1),
            with(4).stream(0, &[true]).bounds(2, 2, 1),
            Config { group: 0b0110, ..with(4).stream(1, &[true]).bounds(2, 2, 1) },
            with(4).stream(1, &[false]).poison(0, 1).bounds(1, 2, 1),
            Config { group: 0b0111, ..with(4).stream(1, &[false]).poison(0, 1).bounds(1, 2, 1) },
        ],
    }
}

/// The configurations of the test: about a million states.
#[must_use]
pub fn short() -> Vec<Config> {
    let with = Config::bare;
    vec![
        with(3).bounds(2, 3, 1),
        with(3).stream(0, &[true]).bounds(2, 2, 1),
        with(3).stream(0, &[true]).bounds(2, 2, 1).wish(Wish::Group),
        with(3).stream(1, &[false, true]).bounds(1, 2, 1),
        Config { leaver: Some(0), ..with(3).stream(1, &[true]).bounds(1, 2, 1) },
        Config { group: 0b0011, ..with(3).stream(0, &[true]).bounds(2, 2, 1) },
        Config { group: 0b1110, ..with(4).stream(1, &[false]).stream(2, &[true]).bounds(1, 1, 0) },
        with(2).stream(1, &[true]).poison(0, 1).bounds(2, 2, 1),
        with(3).stream(1, &[false]).poison(0, 1).bounds(1, 2, 1),
        with(3).stream(0, &[true, false]).poison(0, 1).bounds(1, 1, 1),
        with(4).stream(1, &[false]).poison(0, 1).bounds(1, 1, 0),
    ]
}

/// A configuration that shows the lack of a rule, and the property that breaks there. `None`: no property breaks,
/// because the rule is a choice.
#[must_use]
pub fn mutant(mutant: Mutant) -> (Config, Option<&'static str>) {
    let with = Config::bare;
    let (config, breaks) = match mutant {
        Mutant::AckAfterReport => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::DeliverBeforeDecision => {
            (Config { group: 0b0011, ..with(3).stream(0, &[true]).bounds(1, 2, 0) }, Some(UNIFORM))
        }
        Mutant::ProposeWithoutFilling => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(REACHABLE)),
        Mutant::UnwedgeAfterPromise => (with(3).stream(0, &[false]).bounds(1, 1, 0), Some(SAME_DELIVERIES)),
        Mutant::SurvivorsBeyondReporters => {
            (with(3).stream(0, &[false]).bounds(1, 1, 0).wish(Wish::Group), Some(SAME_DELIVERIES))
        }
        Mutant::AckedRangesCount => (with(3).stream(0, &[false, true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::HalfWithoutRank0 => (with(4).bounds(1, 2, 0), Some(ONE_DECISION)),
        Mutant::IgnoreAccepted | Mutant::MergeOwnChange | Mutant::AcceptBelowPromise => {
            (with(3).bounds(2, 2, 0), Some(ONE_DECISION))
        }
        Mutant::AdoptLowest => (with(3).bounds(3, 3, 0), Some(ONE_DECISION)),
        Mutant::InstallBeforeDecision => (with(3).bounds(1, 2, 0), Some(ONE_DECISION)),
        Mutant::UniformWithoutStability => (with(3).stream(0, &[true]).bounds(1, 1, 0), Some(UNIFORM)),
        Mutant::UniformWithoutItsPast => {
            (Config { group: 0b1110, ..with(4).stream(1, &[false]).stream(2, &[true]).bounds(1, 1, 0) }, Some(UNIFORM))
        }
        Mutant::DiscardInsteadOfKeep => (with(3).stream(0, &[true]).bounds(1, 2, 1), None),
        _ => nonsense(mutant),
    };
    (config.without(mutant), breaks)
}

/// The same, for rules about packets that make no sense to some of their readers.
fn nonsense(mutant: Mutant) -> (Config, Option<&'static str>) {
    let with = |processes, sender| Config::bare(processes).stream(sender, &[false]).poison(0, 1).bounds(1, 1, 0);
    let uniform = || Config::bare(3).stream(0, &[true]).poison(0, 1).bounds(1, 1, 0);
    match mutant {
        Mutant::SkipNonsense => (with(3, 0), Some(SKIPPED)),
        Mutant::AcknowledgeNonsense => (uniform(), Some(UNIFORM)),
        Mutant::ReportNonsenseAsHeld | Mutant::FillUnread => (with(3, 0), Some(REACHABLE)),
        Mutant::AnewAtTheEnd => (with(3, 0), Some(FEWER)),
        Mutant::JudgeBeforeAllSaid => (with(3, 0), Some(BLAME)),
        Mutant::NobodyTakesAnew | Mutant::LongestCutWithoutSender => (with(3, 0), Some(REACHABLE)),
        Mutant::ActOnHalfPacket => (with(3, 0), Some(SAME_DELIVERIES)),
        Mutant::PastTheCutStays => (with(4, 0), Some(SAME_DELIVERIES)),
        Mutant::JudgeByDelivered => {
            let readers = 0b0110;
            let config = Config::bare(4).stream(0, &[true, false]).poison_for(0, 2, readers).bounds(1, 1, 0);
            (config, Some(SAME_DELIVERIES))
        }
        Mutant::TieWaits => (with(2, 0), Some(CAN_FINISH)),
        Mutant::SenderHasNoVote => (with(3, 0), Some(BLAME)),
        Mutant::PastTheCutGoesByItself => (with(4, 0), None),
        _ => (with(3, 1).bounds(1, 2, 1), None),
    }
}

/// The configurations of the credit model.
#[must_use]
pub fn credits() -> Vec<Credits> {
    let with = |receivers, packets, window| Credits { receivers, packets, window, missing: None };
    vec![with(1, 6, 2), with(1, 5, 3), with(2, 3, 1), with(2, 3, 2)]
}

/// The steps to a state that breaks `property` without a rule of credits, if there is one, and the number of states
/// seen.
#[must_use]
pub fn without_credit_rule(missing: Missing, property: &'static str) -> Option<Breach> {
    let model = Credits { receivers: 2, packets: 3, window: 1, missing: Some(missing) };
    if property == FINISH {
        let (states, path) = always_reaches(&model, |s| model.is_finished(s));
        return path.map(|path| Breach { steps: path.len(), states });
    }
    shortest(&model, property)
}

/// The configurations of the model of levels: a few, and those of the long run.
#[must_use]
pub fn levels(long: bool) -> Vec<Levels> {
    let with = Levels::new;
    let mut all = vec![
        // Build 1 adopts an entry that build 2 put into the record of a joiner.
        with(&[1, 2, 2], 2).bounds(1, 2, 2).events(0, 1),
        // A rise with rivals, and with a member that is late.
        with(&[2, 2, 2], 3).bounds(1, 2, 2).events(1, 1),
        // Build 1 is cut off, and the level rises when it is excluded.
        with(&[2, 2, 1], 3).bounds(2, 1, 1).events(2, 1),
        // Build 1 joins while a request is under way.
        with(&[2, 2, 1], 2).bounds(3, 1, 1).events(2, 0),
    ];
    if long {
        all.extend([
            with(&[1, 2, 2, 2], 3).bounds(1, 2, 3).events(0, 1),
            with(&[2, 2, 2], 3).bounds(2, 1, 2).events(1, 0),
            with(&[2, 2, 1], 3).bounds(2, 1, 2).events(2, 1),
            with(&[2, 2, 1], 2).bounds(3, 1, 1).events(2, 1),
        ]);
    }
    all
}

/// Configurations that show the lack of a rule of levels, and the property that breaks there. `None`: none breaks,
/// because another rule also prevents it.
#[must_use]
pub fn without_level_rule(missing: levels::Missing) -> Vec<(Levels, Option<&'static str>)> {
    use levels::{FOLLOWED, LOCKED_OUT, Missing, NO_FALL, NOT_ABOVE, ONE_VALUE, SENSE};
    let with = |builds: &[u8], founders| Levels { missing: Some(missing), ..Levels::new(builds, founders) };
    let (old_member, old_joiner) = (with(&[2, 2, 1], 3), with(&[2, 2, 1], 2));
    match missing {
        Missing::EncodesAgain => vec![(with(&[1, 2, 2], 2).bounds(1, 2, 2), Some(ONE_VALUE))],
        Missing::LevelInForceAtAdoption => vec![(with(&[2, 2, 2], 3).bounds(1, 2, 2), Some(ONE_VALUE))],
        Missing::LeastOfMembers => {
            vec![(old_member, Some(LOCKED_OUT)), (old_joiner.bounds(2, 1, 1).events(0, 0), Some(NO_FALL))]
        }
        Missing::OnlyStayersCount => vec![(old_member, Some(LOCKED_OUT))],
        Missing::OnlyPresentCount => vec![(old_joiner, Some(FOLLOWED))],
        Missing::OldWishCounts | Missing::WishOutlives => vec![(old_joiner.bounds(3, 1, 1), Some(LOCKED_OUT))],
        Missing::AnyJoiner => vec![(old_joiner.bounds(2, 1, 1), Some(FOLLOWED))],
        Missing::SpeaksAsBuilt => vec![(old_member, Some(NOT_ABOVE))],
        Missing::SpeaksToStrangers => vec![(old_member.bounds(2, 1, 1), Some(SENSE))],
        Missing::JudgesByOwnView => vec![(with(&[2, 2], 2), Some(SENSE))],
        Missing::AcceptsAnyLevel => vec![(old_joiner.bounds(3, 1, 1), None)],
        Missing::WrongCoordinators => vec![(old_member.bounds(2, 1, 1), None), (old_joiner.bounds(2, 1, 1), None)],
    }
}

/// The configurations of the model of founding: a few, and those of the long run.
#[must_use]
pub fn founding(long: bool) -> Vec<Founding> {
    let with = Founding::new;
    let lists = |lists: &[u8]| Founding { lists: lists.to_vec(), ..with(3) };
    let mut all = vec![
        // Founders that start again, with their directory or an emptied one, while others found.
        with(2).bounds(2, 2, 1).faults(1, 1),
        with(3).bounds(2, 1, 0).faults(1, 0),
        // A second process under a founder's name.
        with(2).bounds(2, 1, 1).faults(1, 0).twin(0),
        Founding { twin_hears: true, ..with(2).bounds(2, 1, 0).faults(1, 1).twin(0) },
        // All founders leave, and a joiner continues.
        with(2).bounds(2, 1, 3).faults(1, 0).joiner(),
        // Lists that differ.
        lists(&[0b111, 0b111, 0b100]).bounds(2, 2, 0).faults(1, 0),
        lists(&[0b011, 0b011, 0b110]).bounds(2, 1, 0).faults(1, 1),
    ];
    if long {
        all.extend([
            with(2).bounds(2, 1, 3).faults(2, 2).joiner(),
            with(2).bounds(3, 2, 1).faults(1, 1),
            with(2).bounds(2, 2, 1).faults(1, 1).twin(0),
            with(2).bounds(2, 2, 1).faults(1, 1).twin(1),
            Founding { twin_hears: true, ..with(2).bounds(2, 1, 1).faults(2, 1).twin(0) },
            with(3).bounds(2, 1, 1).faults(1, 1),
            with(3).bounds(2, 1, 0).faults(2, 1),
            with(3).bounds(2, 1, 0).faults(1, 0).twin(0),
            with(3).bounds(2, 1, 1).twin(1),
            with(3).bounds(3, 1, 0).faults(1, 0),
        ]);
    }
    all
}

/// Configurations that show the lack of a rule of founding, and the property that breaks there.
#[must_use]
pub fn without_founding_rule(missing: founding::Missing) -> Vec<(Founding, &'static str)> {
    use founding::{CAN_FINISH, Missing, ONE_LIST, ONE_PRIMARY};
    let with = |names: usize| Founding { missing: Some(missing), ..Founding::new(names) };
    let two = || with(2).bounds(2, 1, 1);
    let heard = || Founding { twin_hears: true, ..with(2).bounds(2, 1, 0).twin(0) };
    let lists = |lists: &[u8]| Founding { lists: lists.to_vec(), ..with(3).bounds(2, 1, 0) };
    match missing {
        Missing::MajorityAccepts => {
            vec![(with(3).bounds(2, 1, 0).twin(0), ONE_PRIMARY), (with(3).bounds(2, 1, 0).faults(1, 1), ONE_LIST)]
        }
        Missing::FirstHalfConfirms => vec![(two().twin(0), ONE_PRIMARY), (two().faults(1, 1), ONE_LIST)],
        Missing::IgnoresMarks | Missing::MarkAfter => vec![(two().bounds(2, 1, 3).joiner(), ONE_PRIMARY)],
        Missing::ConfirmsRenounced => vec![(with(3).bounds(2, 1, 0).twin(1), ONE_PRIMARY)],
        Missing::JoinsUnmarked => vec![(two().faults(3, 2), ONE_LIST)],
        Missing::HeardDoesNotCount => vec![(heard().faults(1, 1), ONE_PRIMARY)],
        Missing::HeardIsForgotten => vec![(heard().faults(2, 1), ONE_PRIMARY)],
        Missing::BuriesOne => vec![(heard().bounds(2, 1, 2).faults(1, 1).joiner(), ONE_PRIMARY)],
        Missing::ListsNotCompared => {
            vec![
                (lists(&[0b111, 0b111, 0b100]), ONE_PRIMARY),
                (lists(&[0b011, 0b011, 0b110]).faults(1, 1), ONE_PRIMARY),
            ]
        }
        Missing::NotRestored => vec![(two().faults(2, 2), ONE_LIST)],
        Missing::AdoptsUnmarked | Missing::NeverOverruled | Missing::OnlyListedConfirm => {
            vec![(two().faults(1, 0), CAN_FINISH)]
        }
        Missing::OverrulesUnseen => vec![(two().faults(1, 1), ONE_LIST)],
        Missing::AllDamaged => vec![(two().faults(2, 2), ONE_LIST), (two().faults(1, 1).twin(0), ONE_PRIMARY)],
    }
}

/// The configurations of the model of leaving: a few, and those of the long run.
#[must_use]
pub fn leaving(long: bool) -> Vec<Leaving> {
    let with = Leaving::new;
    let mut all = vec![
        with(2, 2, 2).bounds(2, 1, 2),
        // A joiner that is no founder, and a member that is none.
        with(3, 2, 2).bounds(2, 1, 2),
        with(3, 3, 2).bounds(2, 1, 2),
        with(4, 4, 2).bounds(2, 0, 0),
    ];
    if long {
        all.extend([
            with(3, 2, 2).bounds(3, 1, 2),
            with(3, 3, 2).bounds(3, 2, 3),
            with(4, 3, 2).bounds(2, 1, 1),
            with(4, 4, 2).bounds(2, 1, 2),
            with(4, 4, 3).bounds(3, 0, 0),
        ]);
    }
    all
}

/// A configuration that shows the lack of a rule of leaving, and the property that breaks there.
#[must_use]
pub fn without_leaving_rule(missing: leaving::Missing) -> (Leaving, &'static str) {
    use leaving::{CAN_GO_ON, FINDABLE, Missing, NOBODY, ONE_DECISION, OVER};
    let with = |members, founders| Leaving { missing: Some(missing), ..Leaving::new(members, members, founders) };
    match missing {
        Missing::OnlyWholeQuorum => (with(3, 3), NOBODY),
        Missing::OnlyMajorityOfRest => (with(3, 3), ONE_DECISION),
        Missing::MajorityOfRest => (with(2, 2).bounds(1, 1, 0), CAN_GO_ON),
        Missing::GoesAtOnce => (with(2, 2), FINDABLE),
        Missing::GoesAfterOne => (with(4, 4).bounds(1, 1, 0), FINDABLE),
        Missing::LeaverClears | Missing::AllFoundersLeft | Missing::EndsRegardless | Missing::EndsWithoutLeavers => {
            (with(3, 2).bounds(2, 0, 2), OVER)
        }
    }
}

/// The configurations of the model of orphans: a few, and those of the long run.
#[must_use]
pub fn orphans(long: bool) -> Vec<Orphans> {
    let with = Orphans::new;
    let (uniform, both) = ([(0, true)], [(0, true), (1, false)]);
    let mut all = vec![
        with(2, 2, &both).bounds(3, 1, 2),
        // A member's state transfer is under way, and a member leaves at its request.
        Orphans { incomplete: 0b10, leaves: 1, ..with(2, 2, &both).bounds(3, 0, 2) },
        // A holder starts again without its state.
        Orphans { incomplete: 0b10, starts: 1, ..with(2, 2, &uniform).bounds(2, 1, 1) },
        // The group begins with one member, and another joins.
        with(2, 1, &uniform).bounds(3, 0, 1),
        with(3, 3, &uniform).bounds(2, 0, 2),
        // A member observes.
        Orphans { observers: 0b10, leaves: 1, starts: 1, ..with(2, 2, &uniform).bounds(3, 1, 2) },
        // The same, beside one whose state transfer is under way.
        Orphans { observers: 0b10, incomplete: 0b100, ..with(3, 3, &uniform).bounds(2, 0, 1) },
    ];
    if long {
        let three = [(0, true), (1, true), (0, false)];
        all.extend([
            with(3, 2, &uniform).bounds(3, 0, 2),
            with(3, 3, &both).bounds(2, 1, 2),
            Orphans { incomplete: 0b100, ..with(3, 3, &[(0, true), (1, true)]).bounds(2, 1, 2) },
            Orphans { starts: 1, leaves: 1, ..with(2, 2, &uniform).bounds(4, 1, 3) },
            Orphans { incomplete: 0b10, starts: 1, leaves: 1, ..with(2, 2, &three).bounds(3, 1, 2) },
            with(4, 3, &uniform).bounds(2, 0, 2),
        ]);
    }
    all
}

/// Configurations that show the lack of a rule of orphans, and the property that breaks there. `None`: none breaks,
/// because the rule is a choice.
#[must_use]
pub fn without_orphan_rule(missing: orphans::Missing) -> Vec<(Orphans, Option<&'static str>)> {
    use orphans::{FORGET, FREE, GOES, HISTORY, LIVE, Missing, RESOLVED, SAME, UNIFORM};
    let with =
        |members, messages: &[(usize, bool)]| Orphans { missing: Some(missing), ..Orphans::new(2, members, messages) };
    let (bare, uniform) = (with(2, &[]), with(2, &[(0, true)]));
    let joiner = Orphans { incomplete: 0b10, ..bare.clone() };
    let observer = Orphans { observers: 0b10, ..uniform.clone() };
    match missing {
        Missing::EndsWhenDropped | Missing::NameIsFree => vec![(bare, Some(FREE))],
        Missing::StruckWhenBack | Missing::StruckWhenSilent => vec![(bare, Some(FREE))],
        Missing::IncompleteByLastDecree | Missing::HoldersKnownComplete | Missing::CompletesAfterReport => {
            vec![(joiner.bounds(2, 1, 1), Some(FREE))]
        }
        Missing::CompletesWhenOut => vec![(joiner.bounds(2, 1, 1), Some(FREE))],
        Missing::BelievedComplete => vec![(joiner, Some(LIVE))],
        Missing::NeverDeclines => vec![(joiner, Some(RESOLVED))],
        Missing::LongestPrefix | Missing::OlderView => {
            vec![(with(2, &[(1, true)]).bounds(3, 0, 1), Some(UNIFORM))]
        }
        Missing::IncompleteDonor => vec![(with(1, &[(0, true)]).bounds(3, 0, 1), Some(UNIFORM))],
        Missing::HeldIsDropped => {
            vec![(uniform.clone(), Some(UNIFORM)), (uniform.bounds(3, 0, 2), Some(FORGET))]
        }
        Missing::DeliversBeforeDecree => vec![(uniform.bounds(2, 0, 2), Some(UNIFORM))],
        Missing::PastTheCut => vec![(with(2, &[(1, false)]).bounds(3, 0, 1), Some(HISTORY))],
        Missing::CutNotKept => vec![(uniform.bounds(3, 0, 1), Some(UNIFORM))],
        Missing::SkipsOrphanedView => vec![(bare.bounds(3, 0, 2), Some(FREE))],
        Missing::OnlyInstalled => vec![(bare.bounds(3, 0, 1), Some(FREE))],
        Missing::FrozenAcknowledges => vec![(uniform, Some(UNIFORM))],
        Missing::FreezesAsDonor => vec![(with(2, &[(0, true), (1, false)]).bounds(3, 1, 2), None)],
        Missing::ManyDonors => vec![(with(2, &[(0, false)]).bounds(2, 0, 2), Some(SAME))],
        Missing::ObserverCarriesOn => vec![(observer.bounds(2, 0, 1), Some(LIVE))],
        Missing::ObserverGives => {
            let third = Orphans { missing: Some(missing), ..Orphans::new(3, 2, &[(0, true)]) };
            vec![(Orphans { observers: 0b10, ..third.bounds(3, 0, 1) }, Some(SAME))]
        }
        Missing::ObserverFounds => vec![(Orphans { leaves: 1, ..observer.bounds(2, 1, 1) }, Some(LIVE))],
        Missing::LeaveWaitsForObserver => vec![(Orphans { leaves: 1, ..observer.bounds(2, 0, 1) }, Some(GOES))],
        Missing::ListsOneIncarnation => vec![(bare.bounds(2, 0, 2), Some(FREE))],
    }
}

/// The configurations of the model of ends: a few, and those of the long run.
#[must_use]
pub fn ending(long: bool) -> Vec<Ending> {
    let with = Ending::new;
    let mut all = vec![
        with(2, 2, 0b10).bounds(2, 4).faults(1, 3).beyond(1, 0),
        with(3, 2, 0b100).bounds(2, 3).faults(0, 2),
        // Two ends, one after the other, while the same holder is cut off.
        Ending { cut: 0b100, ..with(3, 2, 0b100).bounds(3, 2).faults(0, 4) },
        // After an end, the next instance dies. After a death, a survivor goes on, and then its instance dies.
        Ending { cut: 0b1000, last: 0b001, ..with(4, 3, 0b1000).bounds(3, 1).faults(3, 2).beyond(0, 1) },
        Ending { cut: 0b1000, off: 0b101, ..with(4, 3, 0b1000).bounds(3, 2).faults(1, 2).beyond(0, 2) },
    ];
    if long {
        all.extend([
            with(3, 2, 0b111).bounds(2, 3).faults(1, 2).beyond(1, 0),
            Ending { cut: 0b100, ..with(3, 2, 0b110).bounds(2, 3).faults(0, 3).beyond(1, 0) },
            Ending { cut: 0b100, ..with(3, 2, 0b100).bounds(3, 2).faults(2, 4).beyond(0, 1) },
            Ending { cut: 0b100, last: 0b011, ..with(3, 2, 0b100).bounds(3, 4).faults(1, 2) },
            Ending { cut: 0b1100, last: 0b001, ..with(4, 2, 0b1100).bounds(3, 2).faults(3, 2).beyond(0, 1) },
        ]);
    }
    all
}

/// A configuration that shows the lack of a rule of ends, and the property that breaks there. `None`: none breaks,
/// because the rule is a choice.
#[must_use]
pub fn without_ending_rule(missing: ending::Missing) -> (Ending, Option<&'static str>) {
    use ending::{CAN_END, FREE, Missing, ONE_NUMBER, RESOLVED, TOLD};
    let with = |processes, group| Ending { missing: Some(missing), ..Ending::new(processes, 2, group) };
    // The last process is cut off, and the group waits for it.
    let waits = |processes, founders| {
        let cut = 1_u8 << (processes - 1);
        Ending { founders, cut, ..with(processes, cut) }
    };
    match missing {
        Missing::ListNotRecorded | Missing::ListNotPassedOn | Missing::NameIsFree => {
            (waits(3, 2).bounds(2, 1).faults(0, 2), Some(FREE))
        }
        Missing::FirstRecord => (Ending { last: 0b11, ..waits(3, 2).bounds(3, 5).faults(0, 1) }, Some(FREE)),
        Missing::CommandForgets | Missing::CommandTakesLastEnd => {
            (Ending { last: 0b1, ..waits(4, 3).bounds(3, 0).faults(3, 2).beyond(0, 1) }, Some(FREE))
        }
        Missing::JoinsWithoutList | Missing::ReformsWithoutList => {
            (Ending { off: 0b101, ..waits(4, 3).bounds(3, 2).faults(1, 2).beyond(0, 2) }, Some(FREE))
        }
        Missing::CommandDespiteHolder => (waits(3, 2).bounds(2, 0).faults(2, 2).beyond(0, 1), Some(FREE)),
        Missing::OneStep => {
            let two = Ending { cut: 0b1100, last: 0b1, ..with(4, 0b1100) };
            (two.bounds(3, 2).faults(2, 1).beyond(0, 1), Some(ONE_NUMBER))
        }
        Missing::FounderNotStruck => (waits(2, 2).bounds(2, 1).faults(1, 3), Some(RESOLVED)),
        Missing::LastNotTold => (with(2, 0b10).bounds(2, 2), Some(TOLD)),
        Missing::OnlyWaitingDoubted | Missing::OnlyLostDoubted => (with(2, 0b11).bounds(2, 2), Some(TOLD)),
        Missing::OverdueNotTold => (with(3, 0b111).bounds(2, 2).beyond(1, 0), Some(TOLD)),
        Missing::ExcludedNotTold => (with(3, 0b111).bounds(2, 2), Some(TOLD)),
        Missing::WaitsForEver => (waits(2, 2).bounds(2, 2), Some(CAN_END)),
        Missing::DoesNotWait => (waits(3, 2).bounds(3, 2).faults(0, 4), None),
    }
}
