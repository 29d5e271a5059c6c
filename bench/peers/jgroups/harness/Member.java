package harness;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The side of a child process: hears orders, keeps the timetable, answers with what it counted. */
public final class Member {
    private static final PrintStream ANSWERS = System.out;
    private static final BlockingQueue<String> ORDERS = new LinkedBlockingQueue<>();

    private Member() {}

    /** What a stream moves. The counters are read by another thread than the one that counts. */
    public interface Streamer {
        /** Begins to send, if this process is a sender. */
        void start();

        /** Ends sending; what was sent before may still arrive. */
        void stop();

        long sent();

        long delivered();
    }

    /** One call of a ping-pong, or one to each server. */
    public interface Call {
        void call() throws Exception;
    }

    /**
     * To be called first: keeps what libraries print out of the answers, ends the process on any failure, and also
     * when its input ends, whatever it does then: the conductor is gone.
     */
    public static void open() {
        System.setOut(System.err);
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(Refused.FAILED);
        });
        var reader = new Thread(Member::read);
        reader.setDaemon(true);
        reader.start();
    }

    public static void say(String answer) {
        ANSWERS.println(answer);
        ANSWERS.flush();
    }

    private static void read() {
        try (var orders = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = orders.readLine(); line != null; line = orders.readLine()) {
                ORDERS.add(line);
            }
        } catch (IOException closed) {
            // The same as an end.
        }
        System.exit(0);
    }

    /** The next order, in words. */
    private static String[] hear() throws InterruptedException {
        return ORDERS.take().split(" ");
    }

    /** Waits for leave to do what others are not to do at the same moment. */
    public static void await(String order) throws InterruptedException {
        String heard = String.join(" ", hear());
        if (!heard.equals(order)) {
            throw new IllegalStateException("ordered to " + heard + " where " + order + " was due");
        }
    }

    /** Serves until the run ends; a server has no orders. */
    public static void serve() throws InterruptedException {
        Thread.currentThread().join();
    }

    /** Follows the orders of a stream until the run ends. */
    public static void stream(Streamer streamer) throws InterruptedException {
        while (true) {
            String[] order = hear();
            if (order[0].equals("run")) {
                window(streamer, Long.parseLong(order[1]), Long.parseLong(order[2]));
            } else {
                say("count " + streamer.sent() + " " + streamer.delivered());
            }
        }
    }

    /** Counts are divided by the time that really passed between their readings: a busy machine wakes us late. */
    private static void window(Streamer streamer, long from, long until) throws InterruptedException {
        streamer.start();
        sleepUntil(from);
        long began = System.nanoTime();
        long sent = streamer.sent();
        long delivered = streamer.delivered();
        sleepUntil(until);
        double seconds = (System.nanoTime() - began) / 1e9;
        sent = streamer.sent() - sent;
        delivered = streamer.delivered() - delivered;
        streamer.stop();
        say("window " + sent / seconds + " " + delivered / seconds);
    }

    /** Makes calls as ordered, then waits for the run to end. */
    public static void pingPong(Call call) throws Exception {
        String[] order = hear();
        long from = Long.parseLong(order[1]);
        long until = Long.parseLong(order[2]);
        while (System.nanoTime() < from) {
            call.call();
        }
        var latencies = new Latencies();
        for (long began = System.nanoTime(); began < until;) {
            call.call();
            long ended = System.nanoTime();
            latencies.record(ended - began);
            began = ended;
        }
        say("latencies " + latencies.quantile(0.5) + " " + latencies.quantile(0.99) + " " + latencies.quantile(0.999)
            + " " + latencies.count());
        serve();
    }

    private static void sleepUntil(long nanoTime) throws InterruptedException {
        for (long left = nanoTime - System.nanoTime(); left > 0; left = nanoTime - System.nanoTime()) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }
}
