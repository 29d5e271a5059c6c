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
    /// Packets retransmitted.
    retransmissions,
    /// Multicasts bound to a view.
    sent,
    /// Messages given to the application.
    delivered,
    /// Payload bytes of `sent`.
    sent_bytes,
    /// Payload bytes of `delivered`.
    delivered_bytes,
    /// Messages discarded at the end of a view: a predecessor was outside the cut.
    discarded,
    /// Messages that name a domain which their group does not list, or that may name none: nobody gets them.
    messages_astray,
    /// Cell views installed.
    cell_views,
    /// Group views installed.
    group_views,
    /// Decrees installed, views or not.
    decrees,
    /// Ballots started here.
    ballots,
    /// Ballots started here after another process's ballot.
    take_overs,
    /// Proposals adopted from an earlier ballot.
    adopted,
    /// Ballots whose reports named different proposals, each accepted by some member before.
    rival_proposals,
    /// Proposals refused here, because a later ballot was promised.
    late_proposals,
    /// Acceptances that arrived after their ballot was given up here, with nothing decided.
    late_acceptances,
    /// Requests about groups that arrived after the decree they were made in.
    requests_late,
    /// Requests and statements about groups that a list had no room for: in a list of this process, or in a longer one
    /// that came. The oldest groups go first, and the others follow.
    requests_cut,
    /// Requests about groups that were pending here when the decree they were made in ended.
    requests_overtaken,
    /// Wedges that reached this member when it alone of its group held unstable packets and had nothing more to send.
    wedged_idle,
    /// State records of a donor that ended at another view than the first one here, or in which a view was missing: the
    /// transfer started over.
    records_astray,
    /// Cuts that some member had to fetch packets for before they could be proposed.
    cut_recoveries,
    /// Ballots given up because of a later one.
    superseded,
    /// Ballots of founders that this process led.
    founding_ballots,
    /// Founding ballots among `founding_ballots` that could found nothing: the whole cell died, or its members cannot
    /// be reached.
    foundings_dead,
    /// Acceptances of founders that arrived after their ballot was given up here.
    founding_acceptances_late,
    /// Decisions of founders refused here, because a later ballot was promised.
    founding_decisions_late,
    /// Times what this process must not forget could not be written to its state directory.
    records_refused,
    /// Times a founder without a bootstrap marker heard a member of its cell and recorded that.
    founders_heard,
    /// Times this process recorded that its instance ended with it.
    instances_ended,
    /// Times among `instances_ended` in which others left with it.
    instances_ended_together,
    /// Former members of an ended instance that this process heard outside of it.
    ends_excused,
    /// Other instances of the cell that this process met.
    instances_met,
    /// Times a process that heard no quorum was answered by a member of an instance that is not later, and stayed.
    instances_not_yielded_to,
    /// Times a process that heard no quorum renounced its instance for a later one.
    instances_renounced,
    /// Wedges with unstable packets outstanding.
    flushes_with_traffic,
    /// Packets fetched to complete a cut.
    fetched,
    /// Polls of this process that came too late for it to suspect others.
    absences,
    /// Deaths reported by the operating system.
    deaths_reported,
    /// Reported deaths that concerned a member or a holder of a group only after a later view was installed.
    deaths_applied_later,
    /// Times a channel started to wait for its window.
    channel_window_full,
    /// Messages to one process refused because too much waits on its channel.
    sends_refused,
    /// Messages to one member of a group that were sent here.
    to_one_sent,
    /// Messages to one member of a group refused here: its window has no room, multicasts wait before it, or no quorum is
    /// heard.
    to_one_refused,
    /// Messages to this member of a group, given to the application.
    to_one_delivered,
    /// Messages to this member of a group that waited for multicasts that are their past.
    to_one_waited,
    /// Messages to this member of a group that came before the view that brings it together with their sender.
    to_one_early,
    /// Messages to this member of a group that were delivered when their view ended.
    to_one_at_end,
    /// Messages to this member of a group that waited when it and their sender were together in it no more.
    to_one_dropped,
    /// Messages to this member of a group that came after that.
    to_one_late,
    /// Multicasts accepted in one view of a group and carried into the next.
    carried_over,
    /// Multicasts among `carried_over` that need several packets.
    carried_over_long,
    /// Multicasts among `carried_over` of which some packets had gone out. They begin again.
    carried_over_cut,
    /// Times a group's outbox became full, so that multicasts were refused.
    outbox_full,
    /// Times messages of a group started to wait for its window.
    window_full,
    /// Times a heartbeat found messages newly waiting for a member's application, among `window_full`.
    held_by_credit,
    /// Times a heartbeat found messages newly waiting for a member's acks, among `window_full`.
    held_by_acks,
    /// Times uniform messages of a group started to wait because its view, or the cell's, had fewer members than
    /// agreed.
    held_for_members,
    /// Times uniform messages of a group started to wait because this process hears no quorum of the cell.
    held_for_quorum,
    /// Times the system started to accept no more packets for a while, so that messages waited.
    congested,
    /// Control messages that were not sent for lack of room in a channel.
    control_refused,
    /// Times abcasts started to wait because the window left no room to announce their order.
    orders_held,
    /// Times this process passed a group's token on.
    token_passes,
    /// Times it kept the token though another member sends most, because not all members had the pass that brought it
    /// here.
    token_kept,
    /// Times a stream waited for the pass that gave its sender the token.
    token_overtaken,
    /// Times the application started to leave deliveries waiting.
    app_full,
    /// Times this process found that a path to a member failed: the member was heard, and left probes unanswered.
    paths_suspected,
    /// Members left out of views installed here because a path to them failed.
    removed_without_progress,
    /// Wedges not answered because their coordinator is itself to be removed.
    wedges_ignored,
    /// Ballots that excluded members silent to the coordinator, because not all members had looked into the suspicions
    /// in time.
    suspicions_unsettled,
    /// Links between two members that others heard and that were found silent: views without one of their ends.
    removed_behind_a_link,
    /// Members in proposals of this process as coordinator that are removed again within the window of the budget.
    removed_again,
    /// Members among `removed_again` that nobody hears, and that count because a removal before counted.
    removed_again_unheard,
    /// Join requests answered with the notice that the process was left out recently and has to wait.
    joins_held_back,
    /// Times this process suspected a member of being too slow. The suspicion may lapse.
    slow_reported,
    /// Members left out of decided views as too slow.
    slow_expelled,
    /// Times this process stopped hearing a quorum.
    non_primary,
    /// Times the system reported that it had dropped packets for this process.
    losses_reported,
    /// Probes sent in search of the cell.
    probes,
    /// Join requests accepted.
    joins_taken,
    /// Join requests refused because a setting differs or the joiner does not know the level in force.
    joins_differing,
    /// Joiners left out of a proposal of this process as coordinator, because its level rises beyond theirs.
    joiners_unfit,
    /// Views with a higher level than the one before.
    levels_risen,
    /// Times agreed settings replaced other ones here.
    settings_adopted,
    /// Welcomes that this process sent in parts.
    welcomes_in_parts,
    /// Parts of welcomes that this process did not take: of an earlier decree, or another member sends it the welcome
    /// already.
    welcome_parts_dropped,
    /// Times a group that this process asked for as a new one was founded with others.
    founded_by_others,
    /// State transfers given.
    transfers_given,
    /// State transfers taken.
    transfers_taken,
    /// Views that came to this process within a state.
    views_replayed,
    /// State transfers that this process gave up because the joiner made no progress.
    transfers_stalled,
    /// State transfers that this process gave up because the group delivered more meanwhile than is kept for a joiner.
    transfers_outrun,
    /// Donors that this process gave up because they did not answer, or owed more state and sent none.
    donors_silent,
    /// Times a packet of a member's stream made no sense here. The stream is read no further.
    nonsense_streams,
    /// Times a message on a channel made no sense here. Nothing more is read from that process.
    nonsense_channels,
    /// Members that could not be read on a channel and were members of the next view as well.
    nonsense_channels_kept,
    /// Verdicts of this process as coordinator on a group with a member that lacked its state.
    nonsense_beside_incomplete,
    /// Verdicts of this process as coordinator on a group in which a packet made no sense to one member.
    nonsense_to_one,
    /// Verdicts where it made no sense to more than one, and to fewer than half of those that took part.
    nonsense_to_fewer,
    /// Verdicts where it made no sense to half of those that took part.
    nonsense_to_half,
    /// Verdicts where it made no sense to more than half of those that took part.
    nonsense_to_more,
    /// Times this process lost a group's state and came back to take it anew.
    state_anew,
    /// Times this process left a group because its own stream made no sense to most.
    outcast,
    /// Groups of this process that stopped because nobody could decide who was at fault.
    groups_stopped,
    /// Leavers that this process as coordinator did not let go yet: the others would be no quorum of the old view
    /// without them, or a group would be left to members without its state.
    leavers_held,
    /// Times this process left as one of the last, with groups waiting or members missed.
    ends_in_doubt,
    /// Ballots that this process did not begin because the numbers of views of groups are used up.
    numbers_used_up,
    /// Groups that this process continues from the state that it kept through an exclusion.
    groups_revived,
    /// Ballots of this process to revive a group before all members that may have its state had answered.
    revivals_by_some,
    /// Times this process stopped by itself because it could read no further and no verdict came.
    stopped_alone,
}

impl ProcessCounters {
    /// Counts a multicast that is bound to a view. `bytes` is the length of its payload.
    pub(super) fn count_sent(&mut self, bytes: usize) {
        self.sent += 1;
        self.sent_bytes += bytes as u64;
    }

    /// Adds the token counts of a view that ended. Until then its streams count for themselves.
    pub(super) fn add_token(&mut self, counts: TokenCounts) {
        self.token_passes += counts.passed;
        self.token_kept += counts.kept;
        self.token_overtaken += counts.overtaken;
    }

    /// Counts a verdict on a group: a packet made no sense to `against` of the `of` members that took part.
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
