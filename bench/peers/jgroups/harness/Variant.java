package harness;

import java.util.List;

/** One configuration of a peer, as `run variants` lists it. */
public record Variant(String name, List<String> modes, String what) {
    public static final String STREAM = "stream";
    public static final String PINGPONG = "pingpong";
}
