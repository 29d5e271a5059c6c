package peer;

import java.time.Duration;
import java.util.logging.Level;
import java.util.logging.Logger;

import harness.Member;
import org.jgroups.JChannel;

/** Entering the group of a run. */
final class Group {
    private static final String NAME = "peers";
    private static final Duration WHOLE_MAX = Duration.ofSeconds(30);
    private static final long LOOK_AGAIN_MS = 10;

    /** A logger that nobody holds forgets its level. */
    private static final Logger LOGGER = Logger.getLogger("org.jgroups");
    /** Warns at every start that udp.xml asks for larger socket buffers than Linux gives by default. */
    private static final Logger UDP_LOGGER = Logger.getLogger("org.jgroups.protocols.UDP");
    /** Warns at every start that NAKACK4 and UNICAST4 are previews. */
    private static final Logger CONFIGURATOR_LOGGER = Logger.getLogger("org.jgroups.stack.Configurator");

    private Group() {}

    /** To be called before a channel is made: leaves of the log what is out of the ordinary. */
    static void quieten() {
        LOGGER.setLevel(Level.WARNING);
        UDP_LOGGER.setLevel(Level.SEVERE);
        CONFIGURATOR_LOGGER.setLevel(Level.SEVERE);
    }

    /**
     * Enters the group, or founds it. A busy coordinator may not answer within the second that the stacks wait, and then
     * a joiner is alone in a group of its own; asking again takes less time than the merge that would come.
     */
    static void join(JChannel channel, boolean founder) throws Exception {
        Member.await("join");
        channel.connect(NAME);
        while (!founder && channel.getView().size() == 1) {
            channel.disconnect();
            channel.connect(NAME);
        }
        Member.say("joined");
    }

    /** Waits until the view holds all `members`. */
    static void awaitWhole(JChannel channel, int members) throws InterruptedException {
        long end = System.nanoTime() + WHOLE_MAX.toNanos();
        while (channel.getView().size() != members) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("the view is not whole: " + channel.getView());
            }
            Thread.sleep(LOOK_AGAIN_MS);
        }
        Member.say("ready");
    }
}
