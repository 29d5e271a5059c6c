package harness;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * The processes and directories of one run. All of them go when this JVM exits, however it does: a shutdown hook
 * runs at its end and on SIGINT and SIGTERM, and should it be killed, the children see their input end.
 */
public final class Processes {
    private final List<Child> children = new ArrayList<>();
    private final List<Path> directories = new ArrayList<>();
    private boolean closed;

    Processes() {
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
    }

    /** Starts `main` in a JVM of its own, on the processors `cpus` (as taskset writes them) or on any if null. */
    public synchronized Child start(String name, String cpus, List<String> flags, Class<?> main, List<String> args) {
        if (closed) {
            throw new Refused(Refused.FAILED, "interrupted");
        }
        var command = new ArrayList<String>();
        if (cpus != null) {
            command.addAll(List.of("taskset", "-c", cpus));
        }
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-Xms256m", "-Xmx1g", "-XX:-UsePerfData"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(args);
        try {
            var builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
            Child child = new Child(name, builder.start());
            children.add(child);
            return child;
        } catch (IOException cannot) {
            throw new Refused(Refused.FAILED, "cannot start " + command.get(0) + ": " + cannot.getMessage());
        }
    }

    /** A path in shared memory that belongs to this run and is removed with it; nothing is there yet. */
    public synchronized Path sharedMemory(String name) {
        Path path = Path.of("/dev/shm", name + "-" + ProcessHandle.current().pid() + "-" + directories.size());
        directories.add(path);
        return path;
    }

    /** So many different UDP ports of 127.0.0.1 that are free now. */
    public static int[] freePorts(int count) {
        var sockets = new ArrayList<DatagramSocket>();
        int[] ports = new int[count];
        try {
            for (int at = 0; at < count; at++) {
                sockets.add(new DatagramSocket(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0)));
                ports[at] = sockets.get(at).getLocalPort();
            }
        } catch (IOException none) {
            throw new Refused(Refused.FAILED, "no free UDP port on 127.0.0.1: " + none.getMessage());
        } finally {
            sockets.forEach(DatagramSocket::close);
        }
        return ports;
    }

    private synchronized void close() {
        closed = true;
        children.forEach(child -> child.process.destroyForcibly());
        for (Child child : children) {
            try {
                child.process.waitFor();
            } catch (InterruptedException interrupted) {
                break;
            }
        }
        directories.forEach(Processes::remove);
    }

    private static void remove(Path directory) {
        if (!Files.exists(directory)) {
            return;
        }
        try (var paths = Files.walk(directory)) {
            var deepestFirst = new ArrayList<>(paths.toList());
            Collections.reverse(deepestFirst);
            for (Path path : deepestFirst) {
                Files.delete(path);
            }
        } catch (IOException kept) {
            System.err.println("cannot remove " + directory + ": " + kept);
        }
    }
}
