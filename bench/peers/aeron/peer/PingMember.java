package peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import harness.Member;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Subscription;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.UnsafeBuffer;

/** The client of a ping-pong, or a server, which sends back what it gets. */
public final class PingMember {
    private static final int FRAGMENTS = 16;

    private final Client client;

    /** One server, as the client sees it; or the client, as a server sees it. */
    private record Partner(ExclusivePublication out, Subscription in) {}

    /** A direction of a conversation: where it is published, where subscribed to, and the number of its stream. */
    record Way(String channel, int stream) {
        static Way parse(String text) {
            String[] parts = text.split(" ");
            return new Way(parts[0], Integer.parseInt(parts[1]));
        }

        @Override
        public String toString() {
            return channel + " " + stream;
        }
    }

    /** Arguments: client or server, directory, MTU of an own driver or 0, idle strategy, size, ways out and in of each partner. */
    public static void main(String[] args) throws Exception {
        Member.open();
        var member = new PingMember(new Client(args[1], Integer.parseInt(args[2]), Idle.valueOf(args[3])));
        var message = Client.message(Integer.parseInt(args[4]));
        var ways = Arrays.stream(args).skip(5).map(Way::parse).toList();
        if (args[0].equals("client")) {
            member.ask(ways, message);
        } else {
            var thread = new Thread(() -> member.answer(ways, message));
            thread.setDaemon(true);
            thread.start();
            Member.serve();
        }
    }

    private PingMember(Client client) {
        this.client = client;
    }

    private Partner connect(Way out, Way in) {
        return new Partner(client.aeron.addExclusivePublication(out.channel, out.stream),
            client.aeron.addSubscription(in.channel, in.stream));
    }

    private void awaitConnected(Partner partner) {
        client.await(() -> partner.out.isConnected() && partner.in.isConnected(), "the other side");
    }

    private void ask(List<Way> ways, UnsafeBuffer message) throws Exception {
        var servers = new ArrayList<Partner>();
        for (int at = 0; at < ways.size(); at += 2) {
            servers.add(connect(ways.get(at), ways.get(at + 1)));
        }
        servers.forEach(this::awaitConnected);
        Member.say("ready");
        int[] answers = {0};
        FragmentHandler count = new FragmentAssembler((buffer, offset, length, header) -> answers[0]++);
        Member.pingPong(() -> {
            for (Partner server : servers) {
                send(server, message);
                answers[0] = 0;
                while (answers[0] == 0) {
                    client.idle(server.in.poll(count, FRAGMENTS));
                }
            }
        });
    }

    private void answer(List<Way> ways, UnsafeBuffer message) {
        Partner asker = connect(ways.get(0), ways.get(1));
        awaitConnected(asker);
        FragmentHandler back = new FragmentAssembler((buffer, offset, length, header) -> send(asker, message));
        while (true) {
            client.idle(asker.in.poll(back, FRAGMENTS));
        }
    }

    private void send(Partner partner, UnsafeBuffer message) {
        while (!Client.taken(partner.out.offer(message))) {
            client.idle(0);
        }
    }
}
