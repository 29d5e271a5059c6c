package peer;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

import harness.Member;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.blocks.MethodCall;
import org.jgroups.blocks.RequestOptions;
import org.jgroups.blocks.RpcDispatcher;
import org.jgroups.blocks.RspFilter;
import org.jgroups.util.RspList;

/** A member that answers group calls, or makes them: a closed loop with one call outstanding. */
public final class RpcMember {
    private static final short ECHO = 0;
    private static final long CALL_MAX_MS = 5000;

    /** What is called at the servers. */
    public static final class Echo {
        public byte[] echo(byte[] argument) {
            return argument;
        }
    }

    private final RpcVariant variant;
    private final RpcDispatcher dispatcher;
    private final MethodCall echo;
    private final List<Address> servers;
    /** How many have to answer. */
    private final int needed;
    private final RequestOptions options = RequestOptions.SYNC().timeout(CALL_MAX_MS);

    /** Arguments: variant, multicast port, number, members, calls, size. */
    public static void main(String[] args) throws Exception {
        Member.open();
        Group.quieten();
        var channel = Stack.UDP.open(Integer.parseInt(args[1]));
        Method method = Echo.class.getMethod("echo", byte[].class);
        var dispatcher = new RpcDispatcher(channel, new Echo()).setMethodLookup(id -> method);
        Group.join(channel, args[2].equals("1"));
        Group.awaitWhole(channel, Integer.parseInt(args[3]));
        if (Boolean.parseBoolean(args[4])) {
            var variant = RpcVariant.of(args[0]);
            var client = new RpcMember(variant, channel, dispatcher, new byte[Integer.parseInt(args[5])]);
            Member.pingPong(variant == RpcVariant.RPC_EACH ? client::callEach : client::callGroup);
        } else {
            Member.serve();
        }
    }

    private RpcMember(RpcVariant variant, JChannel channel, RpcDispatcher dispatcher, byte[] argument) {
        this.variant = variant;
        this.dispatcher = dispatcher;
        echo = new MethodCall(ECHO, argument);
        servers = new ArrayList<>(channel.getView().getMembers());
        servers.remove(channel.getAddress());
        needed = variant.needed(servers.size() + (variant.withSelf ? 1 : 0));
        options.flags(variant.flags()).mode(variant.mode());
        if (!variant.withSelf) {
            options.exclusionList(channel.getAddress());
        }
    }

    /** One multicast to all that are to answer; waits for as many of them as are wanted. */
    private void callGroup() throws Exception {
        if (variant.counts) {
            options.rspFilter(new Enough(needed));
        }
        RspList<byte[]> answers = dispatcher.callRemoteMethods(null, echo, options);
        if (answers.numReceived() < needed) {
            throw new IllegalStateException("answers are missing: " + answers);
        }
    }

    private void callEach() throws Exception {
        for (Address server : servers) {
            dispatcher.<byte[]>callRemoteMethod(server, echo, options);
        }
    }

    /** Ends a call when so many have answered: JGroups 5 has no mode for a majority. */
    private static final class Enough implements RspFilter {
        private int missing;

        Enough(int needed) {
            missing = needed;
        }

        @Override
        public synchronized boolean isAcceptable(Object answer, Address sender) {
            missing--;
            return true;
        }

        @Override
        public synchronized boolean needMoreResponses() {
            return missing > 0;
        }
    }
}
