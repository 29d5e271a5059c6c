package peer;

import java.util.ArrayList;
import java.util.List;

import harness.Child;
import harness.Options;
import harness.Peer;
import harness.Processes;
import harness.Refused;
import harness.Variant;
import org.jgroups.Version;

/** JGroups: one process for each member, all on 127.0.0.1, multicast on the loopback interface. */
public final class JGroups implements Peer {
    private static final List<String> FLAGS = List.of("-Djava.net.preferIPv4Stack=true");
    private static final List<String> STREAM = List.of(Variant.STREAM);
    private static final List<String> PINGPONG = List.of(Variant.PINGPONG);

    public static void main(String[] args) {
        Peer.main(new JGroups(), args);
    }

    @Override
    public String name() {
        return "jgroups";
    }

    @Override
    public String version() {
        return Version.class.getPackage().getImplementationVersion();
    }

    @Override
    public List<Variant> variants() {
        var variants = new ArrayList<>(List.of(
            new Variant("sequencer", STREAM, "total order: udp.xml with SEQUENCER below FRAG2"),
            new Variant("sequencer-tq", STREAM, "as sequencer, with the transfer-queue bundler and room for 65536 messages in it"),
            new Variant("sequencer-new", STREAM, "total order: udp-new.xml (windows counted in messages) with SEQUENCER below FRAG2"),
            new Variant("sequencer2", STREAM, "total order: udp.xml with SEQUENCER2 below FRAG2"),
            new Variant("udp", STREAM, "FIFO: udp.xml as it comes (credit counted in bytes)"),
            new Variant("udp-new", STREAM, "FIFO: udp-new.xml as it comes (window counted in messages)")));
        for (RpcVariant variant : RpcVariant.values()) {
            variants.add(new Variant(variant.title(), PINGPONG, variant.what()));
        }
        return variants;
    }

    @Override
    public String guarantee(Variant variant) {
        if (variant.modes().contains(Variant.PINGPONG)) {
            return RpcVariant.of(variant.name()).guarantee();
        }
        return Stack.of(variant.name()).totalOrder() ? "total order, reliable" : "FIFO for each sender, reliable";
    }

    @Override
    public Started startStream(Options options, Processes processes) {
        int members = options.receivers + 1;
        String port = Integer.toString(Processes.freePorts(1)[0]);
        var all = new ArrayList<Child>();
        for (int member = 1; member <= members; member++) {
            boolean last = member == members;
            boolean sends = options.allSend || last;
            boolean receives = options.allSend || !last;
            all.add(start(processes, member, null, StreamMember.class, List.of(options.variant.name(), port, Integer.toString(member),
                Integer.toString(members), Boolean.toString(sends), Boolean.toString(receives),
                Integer.toString(options.size))));
        }
        assemble(all);
        String notes = options.variant.what() + "; not paced; multicast on lo";
        if (options.allSend) {
            return new Started(all, all, notes);
        }
        return new Started(List.of(all.remove(members - 1)), all, notes + "; the sender is not the coordinator");
    }

    @Override
    public Started startPingPong(Options options, Processes processes) {
        if (options.spin) {
            throw new Refused(Refused.BAD_ARGUMENTS, "JGroups has no way to spin while it waits: use --wait block");
        }
        int members = options.servers + 1;
        String port = Integer.toString(Processes.freePorts(1)[0]);
        var all = new ArrayList<Child>();
        for (int member = 1; member <= members; member++) {
            boolean calls = member == members;
            String cpus = options.twoCores && !calls ? "1" : "0";
            all.add(start(processes, member, cpus, RpcMember.class, List.of(options.variant.name(), port, Integer.toString(member),
                Integer.toString(members), Boolean.toString(calls), Integer.toString(options.size))));
        }
        assemble(all);
        Child client = all.remove(members - 1);
        return new Started(List.of(client), all, options.variant.what() + "; argument and result of the given size");
    }

    private static Child start(Processes processes, int member, String cpus, Class<?> main, List<String> args) {
        return processes.start("member " + member, cpus, FLAGS, main, args);
    }

    /** Members enter one after the other: founders at the same moment would found groups that have to merge. */
    private static void assemble(List<Child> members) {
        for (Child member : members) {
            member.tell("join");
            member.await("joined");
        }
        members.forEach(member -> member.await("ready"));
    }
}
