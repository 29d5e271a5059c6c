package harness;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** Leads one run: starts the processes, gives them one timetable, gathers what they counted. */
final class Conductor {
    /** What a run may take beside warming up and measuring: starting, draining, ending. */
    private static final long OVERHEAD_MAX_S = 55;
    private static final long DRAIN_MAX_MS = 5000;
    private static final long DRAIN_STEP_MS = 100;
    /** Between the order to start and the warm-up, so that every process has read it. */
    private static final double LEAD_S = 0.1;

    private Conductor() {}

    /** The JSON line of a run. */
    static String measure(Peer peer, Options options) {
        if (options.twoCores && Runtime.getRuntime().availableProcessors() < 2) {
            throw new Refused(Refused.CANNOT_BE_HAD, "--cores two wants two processors");
        }
        Thread watch = limit(options);
        var processes = new Processes();
        String line = options.stream ? stream(peer, options, processes) : pingPong(peer, options, processes);
        watch.interrupt();
        return line;
    }

    private static String stream(Peer peer, Options options, Processes processes) {
        Peer.Started started = peer.startStream(options, processes);
        Set<Child> all = new LinkedHashSet<>(started.senders());
        all.addAll(started.receivers());
        String timetable = timetable(options);
        all.forEach(child -> child.tell(timetable));

        double sentPerS = 0;
        double deliveredPerS = 0;
        var perReceiver = new StringBuilder();
        for (Child child : all) {
            double[] rates = child.await("window");
            if (started.senders().contains(child)) {
                sentPerS += rates[0];
            }
            if (started.receivers().contains(child)) {
                deliveredPerS += rates[1];
                perReceiver.append(perReceiver.isEmpty() ? "" : ",").append(number(rates[1]));
            }
        }
        if (deliveredPerS == 0) {
            throw new Refused(Refused.FAILED, "no receiver delivered anything in the window");
        }
        return head(peer, options)
            + ",\"receivers\":" + options.receivers
            + ",\"senders\":\"" + (options.allSend ? "all" : "one") + "\""
            + ",\"msgs_per_s\":" + number(deliveredPerS / started.receivers().size())
            + ",\"per_receiver\":[" + perReceiver + "]"
            + ",\"sent_per_s\":" + number(sentPerS)
            + ",\"lost\":" + drain(started)
            + tail(peer, options, started);
    }

    /** Waits until everything sent is delivered everywhere, at most the time of a drain; the number still missing. */
    private static long drain(Peer.Started started) {
        long end = System.nanoTime() + DRAIN_MAX_MS * 1_000_000;
        while (true) {
            long due = started.receivers().size() * sum(started.senders(), 0);
            long missing = due - sum(started.receivers(), 1);
            if (missing < 0) {
                throw new Refused(Refused.FAILED, -missing + " messages more were delivered than sent");
            }
            if (missing == 0 || System.nanoTime() > end) {
                return missing;
            }
            try {
                Thread.sleep(DRAIN_STEP_MS);
            } catch (InterruptedException interrupted) {
                throw new Refused(Refused.FAILED, "interrupted");
            }
        }
    }

    private static long sum(List<Child> children, int column) {
        children.forEach(child -> child.tell("count"));
        return children.stream().mapToLong(child -> (long) child.await("count")[column]).sum();
    }

    private static String pingPong(Peer peer, Options options, Processes processes) {
        Peer.Started started = peer.startPingPong(options, processes);
        Child client = started.senders().get(0);
        client.tell(timetable(options));
        double[] found = client.await("latencies");
        if (found[3] == 0) {
            throw new Refused(Refused.FAILED, "no call ended in the window");
        }
        return head(peer, options)
            + ",\"wait\":\"" + (options.spin ? "spin" : "block") + "\""
            + ",\"cores\":\"" + (options.twoCores ? "two" : "one") + "\""
            + ",\"servers\":" + options.servers
            + ",\"p50_ns\":" + (long) found[0]
            + ",\"p99_ns\":" + (long) found[1]
            + ",\"p999_ns\":" + (long) found[2]
            + ",\"count\":" + (long) found[3]
            + tail(peer, options, started);
    }

    /** Every process reads the same monotonic clock, so a window needs no message to begin or end. */
    private static String timetable(Options options) {
        long from = System.nanoTime() + (long) ((LEAD_S + options.warmUpSeconds()) * 1e9);
        return "run " + from + " " + (from + options.seconds * 1_000_000_000L);
    }

    private static Thread limit(Options options) {
        long limitMs = (long) (options.warmUpSeconds() * 1000) + (options.seconds + OVERHEAD_MAX_S) * 1000;
        var watch = new Thread(() -> {
            try {
                Thread.sleep(limitMs);
            } catch (InterruptedException ended) {
                return;
            }
            System.err.println("the run did not end within " + limitMs / 1000 + " s; is the machine overloaded?");
            System.exit(Refused.FAILED);
        });
        watch.setDaemon(true);
        watch.start();
        return watch;
    }

    private static String head(Peer peer, Options options) {
        return "{\"peer\":\"" + peer.name() + "\",\"version\":\"" + peer.version() + "\",\"variant\":\""
            + options.variant.name() + "\",\"mode\":\"" + (options.stream ? Variant.STREAM : Variant.PINGPONG)
            + "\",\"size\":" + options.size;
    }

    private static String tail(Peer peer, Options options, Peer.Started started) {
        return ",\"guarantee\":\"" + peer.guarantee(options.variant) + "\",\"notes\":\"" + started.notes() + "\"}";
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.1f", value);
    }
}
