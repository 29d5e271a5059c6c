package harness;

import java.util.List;

/** A system under measurement, as the conductor of its processes sees it. */
public interface Peer {
    String name();

    String version();

    List<Variant> variants();

    /** What the variant promises, for the JSON line. */
    String guarantee(Variant variant);

    /** Starts the processes of a stream. */
    Started startStream(Options options, Processes processes);

    /** Starts the servers and the client of a ping-pong; the client alone is in `senders`. */
    Started startPingPong(Options options, Processes processes);

    /** Processes that are connected with each other; a process may be on both lists. */
    record Started(List<Child> senders, List<Child> receivers, String notes) {}

    /** The whole of `run`: exits the JVM with the code that the contract of the peers gives. */
    static void main(Peer peer, String[] args) {
        try {
            if (args.length == 1 && args[0].equals("variants")) {
                for (Variant variant : peer.variants()) {
                    System.out.printf("%s\t%s\t%s%n", variant.name(), String.join(",", variant.modes()), variant.what());
                }
            } else if (args.length == 1 && List.of("help", "--help", "-h").contains(args[0])) {
                System.out.print(Options.usage(peer.name()));
            } else {
                Options options = Options.parse(peer.variants(), args);
                System.out.println(Conductor.measure(peer, options));
            }
            System.exit(0);
        } catch (Refused refused) {
            System.err.println(peer.name() + ": " + refused.getMessage());
            if (refused.code == Refused.BAD_ARGUMENTS) {
                System.err.print(Options.usage(peer.name()));
            }
            System.exit(refused.code);
        }
    }
}
