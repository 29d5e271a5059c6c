//! The actions of the model of a view change.

use super::config::Config;
use super::state::{Phase, State};

/// One atomic step. Each names the code that performs it in `crates/phalanx-core/src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A member multicasts its next message. (`ViewStreams::multicast`, `ViewStreams::close_packet`)
    Send {
        /// The stream.
        stream: usize,
    },
    /// A packet reaches a member, from the network or from another holder. (`ViewStreams::handle_packet`,
    /// `Process::handle_fetch`, `ViewStreams::handle_recovered`)
    Arrive {
        /// The receiver.
        at: usize,
        /// The stream.
        stream: usize,
        /// The packet, from 1.
        packet: u8,
    },
    /// A member acknowledges what it holds of a stream. (`ViewStreams::send_acks`, `ViewStreams::handle_ack`)
    Acknowledge {
        /// The receiver of the stream.
        at: usize,
        /// The stream.
        stream: usize,
    },
    /// A sender announces to a member how far its stream is stable. (`ViewStreams::announce_stability`,
    /// `ViewStreams::handle_status`)
    TellStable {
        /// The receiver of the stream.
        at: usize,
        /// The stream.
        stream: usize,
    },
    /// A member begins a ballot. (`Process::start_ballot`, also from `Process::drive_ballot`)
    Start {
        /// The coordinator.
        by: usize,
        /// The members it asks; all others are candidates for leaving.
        asked: u8,
    },
    /// A member promises, stops and reports. (`Process::handle_wedge`)
    Report {
        /// The ballot.
        ballot: u8,
        /// The member.
        at: usize,
    },
    /// A member that lacked a part of the cut now holds it, or finds that it cannot read it, and reports again.
    /// (`Process::handle_wedge`, with cuts)
    ReportFilled {
        /// The ballot.
        ballot: u8,
        /// The member.
        at: usize,
    },
    /// A coordinator with all reports fixes the proposal. It proposes it, or has its cut recovered first.
    /// (`Process::handle_report`, `Coordinator::proposal`, `build_proposal`, `Process::propose`)
    Fix {
        /// The ballot.
        ballot: u8,
    },
    /// All reporters hold the cut, and the coordinator proposes. (`Process::handle_report`, `Process::propose`)
    Propose {
        /// The ballot.
        ballot: u8,
    },
    /// A member accepts. (`Process::handle_propose`)
    Accept {
        /// The ballot.
        ballot: u8,
        /// The member.
        at: usize,
    },
    /// A coordinator learns that a later ballot was promised, and gives up. (`Process::handle_refuse`)
    Refuse {
        /// The ballot.
        ballot: u8,
        /// The member that refuses.
        at: usize,
    },
    /// A coordinator counts a quorum of acceptances. (`Process::handle_accepted`)
    Decide {
        /// The ballot.
        ballot: u8,
    },
    /// A member learns a decision, and installs it when it holds the cut. (`Process::handle_decide`,
    /// `Process::send_decision`, `Process::try_install`)
    Learn {
        /// The ballot.
        ballot: u8,
        /// The member.
        at: usize,
    },
    /// A process stops for good.
    Crash {
        /// The process.
        at: usize,
    },
}

/// Lists all actions that may be possible in a state; [`super::step::next`] decides which are.
pub(super) fn list(config: &Config, state: &State, actions: &mut Vec<Action>) {
    let living = || (0..config.processes).filter(|&r| state.members[r].lives);
    for stream in 0..config.senders.len() {
        if usize::from(state.sent[stream]) < config.uniform[stream].len() {
            actions.push(Action::Send { stream });
        }
        for at in living().filter(|&r| config.is_member(r) && r != config.senders[stream]) {
            for packet in 1..=state.sent[stream] {
                actions.push(Action::Arrive { at, stream, packet });
            }
            actions.push(Action::Acknowledge { at, stream });
            actions.push(Action::TellStable { at, stream });
        }
    }
    for by in living().filter(|&r| !state.members[r].installed) {
        actions.extend(
            (1..1_u8 << config.processes).filter(|a| a & 1 << by != 0).map(|asked| Action::Start { by, asked }),
        );
    }
    for (index, ballot) in state.ballots.iter().enumerate().filter(|(_, b)| b.phase != Phase::None) {
        let number = index as u8 + 1;
        match ballot.phase {
            Phase::Gathering => actions.push(Action::Fix { ballot: number }),
            Phase::Filling => actions.push(Action::Propose { ballot: number }),
            Phase::Proposing => actions.push(Action::Decide { ballot: number }),
            Phase::None | Phase::GivenUp | Phase::Decided => {}
        }
        for at in living().filter(|&r| ballot.asked & 1 << r != 0 || ballot.phase == Phase::Decided) {
            actions.push(match ballot.phase {
                Phase::Decided => Action::Learn { ballot: number, at },
                Phase::Filling => Action::ReportFilled { ballot: number, at },
                _ => Action::Report { ballot: number, at },
            });
            if ballot.asked & 1 << at != 0 && ballot.phase >= Phase::Proposing {
                actions.push(Action::Accept { ballot: number, at });
            }
            actions.push(Action::Refuse { ballot: number, at });
        }
    }
    if state.crashes < config.crashes {
        actions.extend(living().map(|at| Action::Crash { at }));
    }
}
