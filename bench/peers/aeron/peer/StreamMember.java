package peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

import harness.Member;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Subscription;
import io.aeron.logbuffer.FragmentHandler;
import org.agrona.concurrent.UnsafeBuffer;

/** A process that publishes as fast as flow control lets it, or counts messages, or both, in one thread. */
public final class StreamMember implements Member.Streamer {
    static final int STREAM = 1001;
    static final String NONE = "-";
    /** How many messages a thread sends, or fragments it takes, before it looks at its other work. */
    private static final int BURST = 64;

    private final Client client;
    private final ExclusivePublication publication;
    private final List<Subscription> subscriptions = new ArrayList<>();
    private final UnsafeBuffer message;
    private final AtomicLong sent = new AtomicLong();
    private final AtomicLong delivered = new AtomicLong();
    private volatile boolean sending;
    /** Whether the thread has seen that it is not to send. */
    private volatile boolean quiet = true;

    /** Arguments: directory, size, images to expect, channel to publish on or "-", channels to subscribe to. */
    public static void main(String[] args) throws Exception {
        Member.open();
        var member = new StreamMember(args[0], Integer.parseInt(args[1]), args[3], Arrays.asList(args).subList(4, args.length));
        member.awaitOthers(Integer.parseInt(args[2]));
        var thread = new Thread(member::run);
        thread.setDaemon(true);
        thread.start();
        Member.say("ready");
        Member.stream(member);
    }

    private StreamMember(String directory, int size, String publish, List<String> subscribe) {
        client = new Client(directory, 0, Idle.BACKOFF);
        message = Client.message(size);
        publication = publish.equals(NONE) ? null : client.aeron.addExclusivePublication(publish, STREAM);
        for (String channel : subscribe) {
            subscriptions.add(client.aeron.addSubscription(channel, STREAM));
        }
    }

    private void awaitOthers(int images) {
        client.await(() -> subscriptions.stream().mapToInt(Subscription::imageCount).sum() == images, images + " images");
        client.await(() -> publication == null || publication.isConnected(), "subscribers");
    }

    private void run() {
        long[] counted = {0};
        FragmentHandler count = new FragmentAssembler((buffer, offset, length, header) -> counted[0]++);
        while (true) {
            boolean sends = sending && publication != null;
            quiet = !sends;
            int work = sends ? send() : 0;
            for (int at = 0; at < subscriptions.size(); at++) {
                work += subscriptions.get(at).poll(count, BURST);
            }
            delivered.lazySet(counted[0]);
            client.idle(work);
        }
    }

    private int send() {
        int taken = 0;
        while (taken < BURST && Client.taken(publication.offer(message))) {
            taken++;
        }
        sent.lazySet(sent.get() + taken);
        return taken;
    }

    @Override
    public void start() {
        sending = true;
    }

    @Override
    public void stop() {
        sending = false;
        while (!quiet) {
            Thread.onSpinWait();
        }
    }

    @Override
    public long sent() {
        return sent.get();
    }

    @Override
    public long delivered() {
        return delivered.get();
    }
}
