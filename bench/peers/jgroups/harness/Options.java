package harness;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The arguments of `run`, checked. */
public final class Options {
    /** Bounds that keep a slip of the keyboard from filling the machine with processes. */
    private static final int SIZE_MAX = 1 << 20;
    private static final int PROCESSES_MAX = 16;
    private static final int SECONDS_MAX = 600;
    /** A JVM delivers at its own pace only once its loops are compiled. */
    private static final double WARM_UP_MIN_S = 3;

    public final Variant variant;
    public final boolean stream;
    public final int size;
    public final int seconds;
    /** Of a stream only. */
    public int receivers;
    public boolean allSend;
    /** Of a ping-pong only. */
    public boolean spin;
    public boolean twoCores;
    public int servers;

    public static Options parse(List<Variant> variants, String[] args) {
        if (args.length == 0) {
            throw bad("what to run is missing");
        }
        return new Options(variants, args);
    }

    public static String usage(String peer) {
        return """
            usage: run stream --size BYTES --receivers R --senders one|all --seconds S [--variant NAME]
                   run pingpong --size BYTES --seconds S --wait block|spin --cores one|two [--servers N] [--variant NAME]
                   run variants
            Measures %s and prints one JSON object. Sizes 1 to %d, at most %d receivers or servers, at most %d seconds.
            """.formatted(peer, SIZE_MAX, PROCESSES_MAX, SECONDS_MAX);
    }

    private Options(List<Variant> variants, String[] args) {
        String mode = args[0];
        stream = mode.equals(Variant.STREAM);
        if (!stream && !mode.equals(Variant.PINGPONG)) {
            throw bad("no mode is called " + mode);
        }
        var known = stream
            ? Set.of("--size", "--seconds", "--variant", "--receivers", "--senders")
            : Set.of("--size", "--seconds", "--variant", "--wait", "--cores", "--servers");
        var given = new HashMap<String, String>();
        for (int at = 1; at < args.length; at += 2) {
            if (!known.contains(args[at])) {
                throw bad(mode + " has no option " + args[at]);
            }
            if (at + 1 == args.length) {
                throw bad(args[at] + " wants a value");
            }
            given.put(args[at], args[at + 1]);
        }
        size = number(given, "--size", SIZE_MAX);
        seconds = number(given, "--seconds", SECONDS_MAX);
        if (stream) {
            receivers = number(given, "--receivers", PROCESSES_MAX);
            allSend = oneOf(given, "--senders", "one", "all");
        } else {
            spin = oneOf(given, "--wait", "block", "spin");
            twoCores = oneOf(given, "--cores", "one", "two");
            given.putIfAbsent("--servers", "1");
            servers = number(given, "--servers", PROCESSES_MAX);
        }
        variant = choose(variants, mode, given.get("--variant"));
    }

    public double warmUpSeconds() {
        return Math.max(WARM_UP_MIN_S, seconds / 4.0);
    }

    /** The variant of this name, or the first one that does `mode`. */
    private static Variant choose(List<Variant> variants, String mode, String name) {
        for (Variant variant : variants) {
            if (variant.modes().contains(mode) && (name == null || variant.name().equals(name))) {
                return variant;
            }
        }
        throw bad("no variant for " + mode + " is called " + name + "; see: run variants");
    }

    private static int number(Map<String, String> given, String option, int max) {
        String text = value(given, option);
        try {
            int number = Integer.parseInt(text);
            if (number >= 1 && number <= max) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // Said below, together with the bounds.
        }
        throw bad(option + " is a whole number from 1 to " + max + ", not " + text);
    }

    /** Whether the second of two words was given. */
    private static boolean oneOf(Map<String, String> given, String option, String first, String second) {
        String word = value(given, option);
        if (!word.equals(first) && !word.equals(second)) {
            throw bad(option + " is " + first + " or " + second + ", not " + word);
        }
        return word.equals(second);
    }

    private static String value(Map<String, String> given, String option) {
        String value = given.get(option);
        if (value == null) {
            throw bad(option + " is missing");
        }
        return value;
    }

    private static Refused bad(String message) {
        return new Refused(Refused.BAD_ARGUMENTS, message);
    }
}
