package peer;

import java.util.Map;
import java.util.TreeMap;

import org.jgroups.JChannel;
import org.jgroups.conf.ConfiguratorFactory;
import org.jgroups.conf.ProtocolConfiguration;
import org.jgroups.conf.ProtocolStackConfigurator;

/** A stack that comes with JGroups, changed only where a variant says so and where loopback wants it. */
enum Stack {
    SEQUENCER("udp.xml", "SEQUENCER", Map.of()),
    SEQUENCER_TQ("udp.xml", "SEQUENCER", Map.of("bundler_type", "transfer-queue", "bundler.capacity", "65536")),
    SEQUENCER_NEW("udp-new.xml", "SEQUENCER", Map.of()),
    SEQUENCER2("udp.xml", "SEQUENCER2", Map.of()),
    UDP("udp.xml", null, Map.of()),
    UDP_NEW("udp-new.xml", null, Map.of());

    private final String file;
    private final String ordering;
    private final Map<String, String> transport;

    Stack(String file, String ordering, Map<String, String> transport) {
        this.file = file;
        this.ordering = ordering;
        this.transport = transport;
    }

    /** The stack of a variant, whose name is the same in small letters. */
    static Stack of(String variant) {
        return valueOf(variant.toUpperCase().replace('-', '_'));
    }

    boolean totalOrder() {
        return ordering != null;
    }

    /** A channel on 127.0.0.1 that never leaves this host and meets no group on another port. */
    JChannel open(int multicastPort) throws Exception {
        ProtocolStackConfigurator stack = ConfiguratorFactory.getStackConfigurator(file);
        var udp = find(stack, "UDP").getProperties();
        udp.put("bind_addr", "127.0.0.1");
        udp.put("ip_ttl", "0");
        udp.put("mcast_port", Integer.toString(multicastPort));
        udp.put("diag.enabled", "false");
        udp.putAll(transport);
        find(stack, "FD_SOCK2").getProperties().put("bind_addr", "127.0.0.1");
        find(stack, "pbcast.GMS").getProperties().put("print_local_addr", "false");
        if (ordering != null) {
            var protocols = stack.getProtocolStack();
            protocols.add(protocols.indexOf(find(stack, "FRAG2")), new ProtocolConfiguration(ordering, new TreeMap<>()));
        }
        return new JChannel(stack);
    }

    private static ProtocolConfiguration find(ProtocolStackConfigurator stack, String name) {
        return stack.getProtocolStack().stream()
            .filter(protocol -> protocol.getProtocolName().equals(name))
            .findFirst().orElseThrow();
    }
}
