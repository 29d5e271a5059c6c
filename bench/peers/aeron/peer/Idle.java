package peer;

import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;

/** What a thread does when there is nothing to do. */
enum Idle {
    /** Aeron's default: spins, yields, then parks for up to a millisecond. */
    BACKOFF,
    /** For threads that spin and share a processor. */
    YIELD,
    /** For a thread that has a processor to itself. */
    SPIN;

    IdleStrategy strategy() {
        return switch (this) {
            case BACKOFF -> new BackoffIdleStrategy();
            case YIELD -> new YieldingIdleStrategy();
            case SPIN -> new BusySpinIdleStrategy();
        };
    }
}
