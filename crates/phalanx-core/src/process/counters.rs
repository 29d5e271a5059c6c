//! The counters of a process. `docs/counters.md` describes each.

use crate::order::TokenCounts;
use crate::wire::DropReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters, each from the start of the incarnation.
        #[derive(Clone, Debug, Default)]
        pub(super) struct ProcessCounters {
            $($(#[$doc])* pub(super) $name: u64,)*
            pub(super) drops: [u64; DropReason::ALL.len()],
        }

        impl ProcessCounters {
            /// Every counter by name, in a fixed order.
            pub(super) fn each(&self, f: &mut dyn FnMut(&'static str, u64)) {
                $(f(stringify!($name), self.$name);)*
                for (reason, count) in DropReason::ALL.iter().zip(self.drops) {
                    f(reason.name(), count);
                }
            }
        }
    };
}

counters! {
    /// Datagrams handed in.
    datagrams_received,
    /// Packets handed out sealed, one per destination.
    datagrams_sent,
    /// Packets handed out in clear through shared memory, one per destination.
    packets_shared,
    /// Multicast packets built and sealed.
    multicast_packets,
    /// Packets sent again.
    retransmissions,
    /// Multicasts bound to a view.
    sent,
    /// Messages given to the application.
    delivered,
    /// Bytes of those two.
    sent_bytes,
    /// See `sent_bytes`.
    delivered_bytes,
    /// Messages discarded at the end of a view: a predecessor was outside the cut.
    discarded,
    /// Cell views installed.
    cell_views,
    /// Group views installed.
    group_views,
    /// Decrees installed, views or not.
    decrees,
    /// Ballots started here.
    ballots,
    /// Ballots started here after another process's.
    take_overs,
    /// Proposals taken over from an earlier ballot.
    adopted,
    /// Ballots whose reports named different proposals, each accepted by somebody before.
    rival_proposals,
    /// Proposals refused here, because a later ballot was promised.
    late_proposals,
    /// Acceptances that came here when their ballot was given up, and nothing was decided.
    late_acceptances,
    /// Requests about groups that came here when the decree they were made in was over.
    requests_late,
    /// Requests about groups that were here when the decree they were made in ended.
    requests_overtaken,
    /// Wedges that met this member as the last of its group with anything unstable, and with nothing more to send.
    wedged_idle,
    /// Records of a state's donor that ended at another view than the first here: the transfer started over.
    records_astray,
    /// Cuts that a member had to fill before they could be proposed.
    cut_recoveries,
    /// Ballots given up for a later one.
    superseded,
    /// Ballots of founders that this process led.
    founding_ballots,
    /// Of those, the ones in which nothing could be founded: the whole cell died, or its members cannot be reached.
    foundings_dead,
    /// Times a founder without a mark heard a member of its cell, and wrote that down.
    founders_heard,
    /// Times this process wrote down that its instance ended with it.
    instances_ended,
    /// Former members of an instance that ended which this process heard outside of it.
    ends_excused,
    /// Other instances of the cell that this process met.
    instances_met,
    /// Times a process that heard no quorum gave its instance up for a later one.
    instances_renounced,
    /// Wedges with unstable packets outstanding.
    flushes_with_traffic,
    /// Packets fetched to fill a cut.
    fetched,
    /// Times this process was away too long to judge others.
    absences,
    /// Deaths told by the operating system.
    deaths_reported,
    /// Times a channel came to wait for its window.
    channel_window_full,
    /// Messages to one process refused because too much waits on its channel.
    sends_refused,
    /// Multicasts accepted in one view of a group and taken over into the next.
    carried_over,
    /// Of those, the ones that need several packets.
    carried_over_long,
    /// Of those, the ones of which some packets had gone out, and which begin again.
    carried_over_cut,
    /// Times multicasts came to be refused because a group's outbox was full.
    outbox_full,
    /// Times messages of a group came to wait for its window.
    window_full,
    /// Of those, times a heartbeat found them newly waiting for a member's application.
    held_by_credit,
    /// See `held_by_credit`: for a member's acks.
    held_by_acks,
    /// Times uniform messages of a group came to wait because its view, or the cell's, had fewer members than were agreed on.
    held_for_members,
    /// The same because this process hears no quorum of the cell.
    held_for_quorum,
    /// Times the system came to take no more packets for a while, and messages waited for that.
    congested,
    /// Control messages that this process wanted to send and had no room for.
    control_refused,
    /// Times abcasts came to wait because the window left no room to tell their order.
    orders_held,
    /// Times this process passed the token of a group on.
    token_passes,
    /// Times it kept the token, though another sends most: not all members had the pass that brought it here.
    token_kept,
    /// Times a stream had to wait for the pass that gave its sender the token.
    token_overtaken,
    /// Times the application came to leave deliveries waiting.
    app_full,
    /// Times this process found a path to a member failed: it left probes unanswered, though it was heard.
    paths_suspected,
    /// Members left out of views installed here because a path to them failed.
    removed_without_progress,
    /// Wedges not answered because their coordinator is to go itself.
    wedges_ignored,
    /// Ballots in which those went that are silent to the coordinator, as not all had looked into what is suspected in time.
    suspicions_unsettled,
    /// Links between two members that others heard, judged to be silent: views without one of their ends.
    removed_behind_a_link,
    /// Times that a process which asked to come in was told that it was left out lately, and waits.
    joins_held_back,
    /// Times this process found a member too slow; a suspicion, which may lapse.
    slow_reported,
    /// Members left out of decided views as too slow.
    slow_expelled,
    /// Times no quorum was heard.
    non_primary,
    /// Times the system said that it had dropped packets for this process.
    losses_reported,
    /// Probes sent in search of the cell.
    probes,
    /// Join requests taken.
    joins_taken,
    /// Join requests refused because a setting differs, or the level in force is not known there.
    joins_differing,
    /// Views with a higher level than the one before.
    levels_risen,
    /// Times agreed settings took the place of other ones here.
    settings_adopted,
    /// Welcomes of joiners that this process told in parts.
    welcomes_in_parts,
    /// Parts of welcomes that this process did not take: of an earlier decree, or another member told it already.
    welcome_parts_dropped,
    /// State transfers given and taken.
    transfers_given,
    /// See `transfers_given`.
    transfers_taken,
    /// State transfers that this process gave up because the joiner came no farther.
    transfers_stalled,
    /// The same because the group delivered more meanwhile than is kept for a joiner.
    transfers_outrun,
    /// Donors of a state that this process gave up because they did not answer, or sent no more although they owed it.
    donors_silent,
    /// Times a packet of a member's stream made no sense here: the stream is read no further.
    nonsense_streams,
    /// Times a message on a channel made no sense here: nothing more is read from that process.
    nonsense_channels,
    /// Groups judged by this process as coordinator because a packet made no sense to one member, to more but fewer than
    /// half of those that took part, to half, and to more.
    nonsense_to_one,
    /// See `nonsense_to_one`.
    nonsense_to_fewer,
    /// See `nonsense_to_one`.
    nonsense_to_half,
    /// See `nonsense_to_one`.
    nonsense_to_more,
    /// Times this process lost a group's state and came back to take it anew.
    state_anew,
    /// Times this process left a group because its own stream made no sense to most.
    outcast,
    /// Groups of this process that stopped because nobody could say who was at fault.
    groups_stopped,
    /// Times this process as coordinator did not let a leaver go yet: those that stay would be no quorum of the others, or a
    /// group would be left to members without its state.
    leavers_held,
    /// Ballots that this process did not begin because the numbers of views of groups are used up.
    numbers_used_up,
    /// Groups that this process goes on with from the state that it kept through an exclusion.
    groups_revived,
    /// Ballots of this process to bring a group back before all members that may have its state had answered.
    revivals_by_some,
    /// Times this process stopped by itself because it could read no further and nobody would judge.
    stopped_alone,
}

impl ProcessCounters {
    /// The streams of a view count what becomes of their token themselves, until their view ends.
    pub(super) fn add_token(&mut self, counts: TokenCounts) {
        self.token_passes += counts.passed;
        self.token_kept += counts.kept;
        self.token_overtaken += counts.overtaken;
    }

    /// A group was judged: a packet made no sense to so many of those that took part.
    pub(super) fn count_nonsense_verdict(&mut self, against: usize, of: usize) {
        *match against {
            1 if of > 2 => &mut self.nonsense_to_one,
            n if 2 * n == of => &mut self.nonsense_to_half,
            n if 2 * n < of => &mut self.nonsense_to_fewer,
            _ => &mut self.nonsense_to_more,
        } += 1;
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        self.drops[reason.index()] += 1;
    }
}
