package peer;

import org.jgroups.Message;
import org.jgroups.blocks.ResponseMode;

/** How a group is called. */
enum RpcVariant {
    RPC(ResponseMode.GET_ALL, false, false, true, "one group call to all servers at once, GET_ALL"),
    RPC_SELF(ResponseMode.GET_ALL, false, true, true, "the same, and the caller answers, too"),
    RPC_MAJORITY(ResponseMode.GET_ALL, true, false, true, "one group call, until more than half of the servers have answered"),
    RPC_MAJORITY_SELF(ResponseMode.GET_ALL, true, true, true, "the same, and the caller answers, too"),
    RPC_FIRST(ResponseMode.GET_FIRST, false, false, true, "one group call, GET_FIRST"),
    RPC_FIRST_SELF(ResponseMode.GET_FIRST, false, true, true, "the same, and the caller answers, too"),
    RPC_INBAND(ResponseMode.GET_ALL, false, false, false, "one group call to all servers at once, GET_ALL"),
    RPC_INBAND_SELF(ResponseMode.GET_ALL, false, true, false, "the same, and the caller answers, too"),
    RPC_EACH(ResponseMode.GET_ALL, false, false, true, "one call to each server in turn");

    private final ResponseMode mode;
    /** Whether a majority is enough. */
    final boolean counts;
    final boolean withSelf;
    private final boolean outOfBand;
    private final String what;

    RpcVariant(ResponseMode mode, boolean counts, boolean withSelf, boolean outOfBand, String what) {
        this.mode = mode;
        this.counts = counts;
        this.withSelf = withSelf;
        this.outOfBand = outOfBand;
        this.what = what;
    }

    /** The variant of that name. */
    static RpcVariant of(String name) {
        return valueOf(name.toUpperCase().replace('-', '_'));
    }

    String title() {
        return name().toLowerCase().replace('_', '-');
    }

    String what() {
        return "RpcDispatcher over udp.xml, " + (outOfBand ? "out of band: " : "in band: ") + what;
    }

    String guarantee() {
        String wanted = counts ? "a majority of the answers" : mode == ResponseMode.GET_FIRST ? "the first answer" : "every answer";
        return "reliable group call, no total order, " + wanted + " awaited";
    }

    ResponseMode mode() {
        return mode;
    }

    /** How many of those that are to answer have to. */
    int needed(int expected) {
        if (counts) {
            return expected / 2 + 1;
        }
        return mode == ResponseMode.GET_FIRST ? 1 : expected;
    }

    Message.Flag[] flags() {
        return outOfBand ? new Message.Flag[] {Message.Flag.OOB} : new Message.Flag[0];
    }
}
