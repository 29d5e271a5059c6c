package peer;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import harness.Child;
import harness.Options;
import harness.Peer;
import harness.Processes;
import harness.Refused;
import harness.Variant;
import io.aeron.AeronVersion;

/** Aeron: a media driver, publishers and subscribers, each a process, on 127.0.0.1 or in shared memory. */
public final class AeronPeer implements Peer {
    private static final List<String> FLAGS = List.of(
        "--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED",
        "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-opens", "java.base/java.util.zip=ALL-UNNAMED",
        "-XX:+UnlockDiagnosticVMOptions", "-XX:GuaranteedSafepointInterval=300000",
        "-Djava.net.preferIPv4Stack=true",
        "-Daeron.pre.touch.mapped.memory=true", "-Dagrona.disable.bounds.checks=true");
    private static final int MTU_MAX = 65504;
    /** Messages shorter than this are short, see {@link Driver#WINDOW_OF_SHORT}. */
    private static final int SHORT_BYTES = 4096;
    private static final int MTU_DEFAULT = 1408;
    /** A log has three terms of the driver's default length. */
    private static final long UDP_LOG_BYTES = 3L * (16 << 20);
    private static final long IPC_LOG_BYTES = 3L * (64 << 20);
    private static final String NO_DRIVER = "0";
    private static final String IPC = "aeron:ipc";

    public static void main(String[] args) {
        Peer.main(new AeronPeer(), args);
    }

    @Override
    public String name() {
        return "aeron";
    }

    @Override
    public String version() {
        return AeronVersion.VERSION;
    }

    @Override
    public List<Variant> variants() {
        var both = List.of(Variant.STREAM, Variant.PINGPONG);
        return List.of(
            new Variant("udp", both, "UDP, MTU 65504; stream: dynamic multi-destination-cast, flow control by the slowest"),
            new Variant("udp-default-mtu", List.of(Variant.STREAM), "as udp with the default MTU of 1408"),
            new Variant("udp-invoker", List.of(Variant.PINGPONG), "as udp, but each process drives its own driver from its only busy thread"),
            new Variant("ipc", both, "shared memory: one log that all subscribers read"));
    }

    @Override
    public String guarantee(Variant variant) {
        return "FIFO for each publisher, reliable while no subscriber times out";
    }

    @Override
    public Started startStream(Options options, Processes processes) {
        boolean ipc = options.variant.name().equals("ipc");
        int senders = options.allSend ? options.receivers + 1 : 1;
        int receivers = options.allSend ? options.receivers + 1 : options.receivers;
        reserve(ipc ? senders * IPC_LOG_BYTES : senders * (1 + receivers) * UDP_LOG_BYTES);
        int mtu = options.variant.name().equals("udp-default-mtu") ? MTU_DEFAULT : MTU_MAX;
        String directory = startDriver(processes, null, mtu, Idle.BACKOFF, window(options));

        int[] ports = Processes.freePorts(senders * (1 + receivers));
        var publish = new ArrayList<String>();
        var subscribe = new ArrayList<List<String>>();
        for (int receiver = 0; receiver < receivers; receiver++) {
            subscribe.add(new ArrayList<>(ipc ? List.of(IPC) : List.of()));
        }
        for (int sender = 0; sender < senders; sender++) {
            String control = "control=127.0.0.1:" + ports[sender] + "|control-mode=dynamic";
            publish.add(ipc ? IPC : "aeron:udp?" + control + "|fc=min,g:/" + receivers);
            for (int receiver = 0; receiver < receivers && !ipc; receiver++) {
                int port = ports[senders + sender * receivers + receiver];
                subscribe.get(receiver).add("aeron:udp?endpoint=127.0.0.1:" + port + "|" + control);
            }
        }

        var started = options.allSend ? startMembers(options, processes, directory, publish, subscribe)
            : startMembers(options, processes, directory, publish.get(0), subscribe);
        started.senders().forEach(child -> child.await("ready"));
        if (!options.allSend) {
            started.receivers().forEach(child -> child.await("ready"));
        }
        return started;
    }

    private static Started startMembers(Options options, Processes processes, String directory, List<String> publish,
        List<List<String>> subscribe) {
        var all = new ArrayList<Child>();
        for (int member = 0; member < publish.size(); member++) {
            all.add(startMember(options, processes, "member " + (member + 1), directory, publish.size(),
                publish.get(member), subscribe.get(member)));
        }
        return new Started(all, all, notes(options));
    }

    private static Started startMembers(Options options, Processes processes, String directory, String publish,
        List<List<String>> subscribe) {
        var receivers = new ArrayList<Child>();
        for (List<String> channels : subscribe) {
            receivers.add(startMember(options, processes, "subscriber " + (receivers.size() + 1), directory, 1,
                StreamMember.NONE, channels));
        }
        Child sender = startMember(options, processes, "publisher", directory, 0, publish, List.of());
        return new Started(List.of(sender), receivers, notes(options));
    }

    private static Child startMember(Options options, Processes processes, String name, String directory, int images,
        String publish, List<String> subscribe) {
        var args = new ArrayList<>(List.of(directory, Integer.toString(options.size), Integer.toString(images), publish));
        args.addAll(subscribe);
        return processes.start(name, null, FLAGS, StreamMember.class, args);
    }

    @Override
    public Started startPingPong(Options options, Processes processes) {
        boolean ipc = options.variant.name().equals("ipc");
        boolean invoker = options.variant.name().equals("udp-invoker");
        reserve(options.servers * (ipc ? 2 * IPC_LOG_BYTES : 4 * UDP_LOG_BYTES));
        String clientCpus = "0";
        String serverCpus = options.twoCores ? "1" : "0";
        // A thread that never gives its processor away needs one for itself.
        Idle clientIdle = !options.spin ? Idle.BACKOFF : options.twoCores ? Idle.SPIN : Idle.YIELD;
        boolean serverAlone = options.twoCores && options.servers == 1 && (ipc || invoker);
        Idle serverIdle = !options.spin ? Idle.BACKOFF : serverAlone ? Idle.SPIN : Idle.YIELD;
        // Messages through shared memory pass the driver by.
        Idle driverIdle = options.spin && !ipc ? Idle.YIELD : Idle.BACKOFF;
        String directory = invoker ? null
            : startDriver(processes, options.spin ? serverCpus : options.twoCores ? "0,1" : "0", MTU_MAX, driverIdle, window(options));

        int[] ports = Processes.freePorts(2 * options.servers);
        var servers = new ArrayList<Child>();
        var clientWays = new ArrayList<String>();
        for (int server = 0; server < options.servers; server++) {
            String ping = way(ipc, ports[2 * server], 2 * server);
            String pong = way(ipc, ports[2 * server + 1], 2 * server + 1);
            clientWays.addAll(List.of(ping, pong));
            servers.add(startPartner(options, processes, "server", serverCpus, directory, serverIdle, List.of(pong, ping)));
        }
        Child client = startPartner(options, processes, "client", clientCpus, directory, clientIdle, clientWays);
        client.await("ready");
        String where = invoker ? "" : "; driver " + driverIdle + (options.spin && options.twoCores ? " on the server's processor" : "");
        return new Started(List.of(client), servers, notes(options) + "; idle: client " + clientIdle + ", server " + serverIdle + where);
    }

    private static String way(boolean ipc, int port, int number) {
        return new PingMember.Way(ipc ? IPC : "aeron:udp?endpoint=127.0.0.1:" + port, StreamMember.STREAM + number).toString();
    }

    /** A client or server, with a driver of its own if there is no `directory` of another. */
    private static Child startPartner(Options options, Processes processes, String role, String cpus, String directory,
        Idle idle, List<String> ways) {
        boolean own = directory == null;
        var args = new ArrayList<>(List.of(role, own ? directory(processes) : directory,
            own ? Integer.toString(MTU_MAX) : NO_DRIVER, idle.name(), Integer.toString(options.size)));
        args.addAll(ways);
        return processes.start(role, cpus, FLAGS, PingMember.class, args);
    }

    /** The directory of a new driver. */
    private static String startDriver(Processes processes, String cpus, int mtu, Idle idle, int window) {
        String directory = directory(processes);
        processes.start("the media driver", cpus, FLAGS, Driver.class,
            List.of(directory, Integer.toString(mtu), idle.name(), Integer.toString(window)))
            .await("up");
        return directory;
    }

    private static String directory(Processes processes) {
        return processes.sharedMemory("phalanx-aeron").toString();
    }

    private static void reserve(long logBytes) {
        long free = Path.of("/dev/shm").toFile().getUsableSpace();
        if (free < logBytes) {
            throw new Refused(Refused.CANNOT_BE_HAD, "the logs take " + (logBytes >> 20) + " MiB of /dev/shm, where "
                + (free >> 20) + " are free: fewer processes, or a larger /dev/shm");
        }
    }

    /** As large as the buffers where messages are long, and small where they are short: what is faster of the two. */
    private static int window(Options options) {
        return options.size < SHORT_BYTES ? Math.min(Driver.buffer(), Driver.WINDOW_OF_SHORT) : Driver.buffer();
    }

    private static String notes(Options options) {
        boolean ipc = options.variant.name().equals("ipc");
        return options.variant.what() + (ipc ? "" : "; socket buffers " + (Driver.buffer() >> 10) + " KiB, windows "
            + (window(options) >> 10) + " KiB")
            + (options.variant.name().equals("udp-invoker") ? "" : "; Java media driver, SHARED, a process of its own")
            + (options.stream ? "; not paced; default backoff" : "");
    }
}
