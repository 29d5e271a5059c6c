package peer;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

import harness.Member;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.blocks.MethodCall;
import org.jgroups.blocks.RequestOptions;
import org.jgroups.blocks.RpcDispatcher;

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

    private final RpcDispatcher dispatcher;
    private final MethodCall echo;
    private final List<Address> servers;
    private final RequestOptions options = RequestOptions.SYNC().timeout(CALL_MAX_MS).flags(Message.Flag.OOB);

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
            var client = new RpcMember(channel, dispatcher, new byte[Integer.parseInt(args[5])]);
            Member.pingPong(args[0].equals("rpc") ? client::callGroup : client::callEach);
        } else {
            Member.serve();
        }
    }

    private RpcMember(JChannel channel, RpcDispatcher dispatcher, byte[] argument) {
        this.dispatcher = dispatcher;
        echo = new MethodCall(ECHO, argument);
        servers = new ArrayList<>(channel.getView().getMembers());
        servers.remove(channel.getAddress());
        options.exclusionList(channel.getAddress());
    }

    /** One multicast to all servers; waits for the answer of each. */
    private void callGroup() throws Exception {
        var answers = dispatcher.<byte[]>callRemoteMethods(null, echo, options);
        if (answers.numReceived() != servers.size()) {
            throw new IllegalStateException("answers are missing: " + answers);
        }
    }

    private void callEach() throws Exception {
        for (Address server : servers) {
            dispatcher.<byte[]>callRemoteMethod(server, echo, options);
        }
    }
}
