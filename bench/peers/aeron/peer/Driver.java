package peer;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

import harness.Member;
import harness.Refused;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import org.agrona.IoUtil;

/** A media driver in a process of its own, with one thread for all it does. */
public final class Driver {
    /** As much as Linux grants without asking root on the machines of the reference measurements. */
    private static final int BUFFER_MAX = 4 << 20;

    /** The window for streams of short messages: they may travel in datagrams as short, which the kernel charges a receive
     * buffer several times over. With a window as large as the buffer it overflows, and a stream comes to a stand. */
    static final int WINDOW_OF_SHORT = 256 << 10;

    /** Arguments: directory, MTU, idle strategy, the greatest window. */
    public static void main(String[] args) throws InterruptedException {
        Member.open();
        var context = context(args[0], Integer.parseInt(args[1]), Idle.valueOf(args[2]))
            .initialWindowLength(Math.min(buffer(), Integer.parseInt(args[3])))
            .threadingMode(ThreadingMode.SHARED);
        MediaDriver.launch(context);
        Member.say("up");
        Member.serve();
    }

    /** Windows as large as the socket buffers, if nothing else is said; both directions of a loopback have the same limits. */
    static MediaDriver.Context context(String directory, int mtu, Idle idle) {
        // Threads may still use the files at the end; unlike unmapping, unlinking does them no harm.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> IoUtil.delete(new File(directory), true)));
        int buffer = buffer();
        var context = new MediaDriver.Context()
            .aeronDirectoryName(directory)
            .mtuLength(mtu)
            .ipcMtuLength(mtu)
            .socketSndbufLength(buffer)
            .socketRcvbufLength(buffer)
            .initialWindowLength(buffer);
        // A driver that backs off has its own measure of it.
        return idle == Idle.BACKOFF ? context : context.sharedIdleStrategy(idle.strategy());
    }

    /** The size of windows and socket buffers that the kernel allows here. */
    static int buffer() {
        return Math.min(BUFFER_MAX, Math.min(kernel("rmem_max"), kernel("wmem_max")));
    }

    private static int kernel(String limit) {
        // To be read in one go: a second read of such a file finds its end, and it claims to have no length.
        try (var reader = Files.newBufferedReader(Path.of("/proc/sys/net/core", limit))) {
            return Integer.parseInt(reader.readLine());
        } catch (IOException unreadable) {
            throw new Refused(Refused.CANNOT_BE_HAD, "cannot read the kernel's limit of socket buffers: " + unreadable);
        }
    }

    private Driver() {}
}
