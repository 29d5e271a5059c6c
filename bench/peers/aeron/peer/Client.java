package peer;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.function.BooleanSupplier;

import io.aeron.Aeron;
import io.aeron.Publication;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.exceptions.AeronException;
import org.agrona.BufferUtil;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/** A client of a driver: of one in another process, or of its own, which its thread then drives. */
final class Client {
    private static final Duration CONNECT_MAX = Duration.ofSeconds(20);
    private static final int CACHE_LINE = 64;

    final Aeron aeron;
    private final IdleStrategy idle;
    private final MediaDriver own;

    /** `ownMtu` is the MTU of an own driver in `directory`, or 0 if the driver there is another process. */
    Client(String directory, int ownMtu, Idle idle) {
        this.idle = idle.strategy();
        var context = new Aeron.Context().aeronDirectoryName(directory);
        if (ownMtu == 0) {
            own = null;
        } else {
            own = MediaDriver.launch(Driver.context(directory, ownMtu, idle).threadingMode(ThreadingMode.INVOKER));
            context.useConductorAgentInvoker(true).driverAgentInvoker(own.sharedAgentInvoker());
        }
        aeron = Aeron.connect(context);
    }

    /** What the thread does after each round of its own work, of which there was so much. */
    void idle(int work) {
        int all = work;
        if (own != null) {
            all += own.sharedAgentInvoker().invoke() + aeron.conductorAgentInvoker().invoke();
        }
        idle.idle(all);
    }

    void await(BooleanSupplier condition, String what) {
        long end = System.nanoTime() + CONNECT_MAX.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AeronException("still not there: " + what);
            }
            idle(0);
        }
    }

    static UnsafeBuffer message(int size) {
        ByteBuffer memory = BufferUtil.allocateDirectAligned(size, CACHE_LINE);
        return new UnsafeBuffer(memory);
    }

    /** Whether an offer was taken; it may be refused for now, but not for good. */
    static boolean taken(long position) {
        if (position < 0 && position != Publication.BACK_PRESSURED && position != Publication.ADMIN_ACTION) {
            throw new AeronException("the stream is broken: " + Publication.errorString(position));
        }
        return position > 0;
    }
}
