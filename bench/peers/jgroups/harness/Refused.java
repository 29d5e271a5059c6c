package harness;

/** A run that cannot go on; the code is what the process exits with. */
public final class Refused extends RuntimeException {
    public static final int FAILED = 1;
    public static final int BAD_ARGUMENTS = 2;
    public static final int CANNOT_BE_HAD = 3;

    public final int code;

    public Refused(int code, String message) {
        super(message);
        this.code = code;
    }
}
