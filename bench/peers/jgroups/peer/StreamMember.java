package peer;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

import harness.Member;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;

/** A member that multicasts as fast as the stack lets it, or counts what is delivered, or both. */
public final class StreamMember implements Member.Streamer {
    /** How long a sender that waits for credit may still take to notice the end. */
    private static final long STOP_MAX_MS = 5000;

    private final JChannel channel;
    private final int members;
    private final Thread sender;
    private final AtomicLong sent = new AtomicLong();
    /** Messages of different senders are delivered by different threads in a FIFO stack. */
    private final LongAdder delivered = new LongAdder();
    private volatile boolean sending;

    /** Arguments: variant, multicast port, number, members, sends, receives, size. */
    public static void main(String[] args) throws Exception {
        Member.open();
        Group.quieten();
        var channel = Stack.of(args[0]).open(Integer.parseInt(args[1]));
        int members = Integer.parseInt(args[3]);
        boolean sends = Boolean.parseBoolean(args[4]);
        var member = new StreamMember(channel, sends ? new byte[Integer.parseInt(args[6])] : null, members);
        if (Boolean.parseBoolean(args[5])) {
            channel.setReceiver(new Receiver() {
                @Override
                public void receive(Message message) {
                    member.delivered.increment();
                }
            });
        }
        Group.join(channel, args[2].equals("1"));
        Group.awaitWhole(channel, members);
        Member.stream(member);
    }

    /** Sends nothing if `payload` is null. */
    private StreamMember(JChannel channel, byte[] payload, int members) {
        this.channel = channel;
        this.members = members;
        sender = payload == null ? null : new Thread(() -> send(payload));
    }

    private void send(byte[] payload) {
        try {
            for (long number = 1; sending; number++) {
                channel.send(new BytesMessage(null, payload));
                sent.lazySet(number);
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void start() {
        sending = true;
        if (sender != null) {
            sender.start();
        }
    }

    @Override
    public void stop() {
        sending = false;
        if (channel.getView().size() != members) {
            throw new IllegalStateException("members were lost during the run: " + channel.getView());
        }
        if (sender != null) {
            try {
                sender.join(STOP_MAX_MS);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    @Override
    public long sent() {
        return sent.get();
    }

    @Override
    public long delivered() {
        return delivered.sum();
    }
}
