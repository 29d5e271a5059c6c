package harness;

/** Counts of nanosecond latencies: exact below 1024 ns, then buckets of at most 0.2 % of their value. */
public final class Latencies {
    private static final int EXACT_BITS = 10;
    private static final int HALF = 1 << (EXACT_BITS - 1);

    private final long[] counts = new long[HALF * (64 - EXACT_BITS + 2)];
    private long count;

    public void record(long nanos) {
        counts[bucket(nanos)]++;
        count++;
    }

    public long count() {
        return count;
    }

    /** The smallest recorded latency (as its bucket begins) that at least `part` of all do not exceed. */
    public long quantile(double part) {
        long rank = (long) Math.ceil(part * count);
        long seen = 0;
        for (int bucket = 0; bucket < counts.length; bucket++) {
            seen += counts[bucket];
            if (seen >= rank && counts[bucket] > 0) {
                return start(bucket);
            }
        }
        return 0;
    }

    /** A latency is written as its highest bits (half of `EXACT_BITS` worth of steps) and how far they are shifted. */
    private static int bucket(long nanos) {
        int shift = Math.max(0, 64 - EXACT_BITS - Long.numberOfLeadingZeros(nanos));
        return shift * HALF + (int) (nanos >> shift);
    }

    private static long start(int bucket) {
        int shift = Math.max(0, bucket / HALF - 1);
        return (long) (bucket - shift * HALF) << shift;
    }
}
