package io.tailbound.servicelevel;

/** The header in which a proxy writes when it got a request. */
final class StartHeader {
    /** A request that claims to have waited for longer has a clock, or a header, of its own. */
    private static final double LONGEST_WAIT_NS = 3_600e9;

    private StartHeader() {}

    /** The time since the moment in a header; zero where the header is missing or makes no sense. */
    static long waitedNs(String header, long wallClockNs) {
        if (header == null) {
            return 0;
        }
        String first = header.split(",", 2)[0].trim();
        double number;
        try {
            number = Double.parseDouble(first.startsWith("t=") ? first.substring(2) : first);
        } catch (NumberFormatException e) {
            return 0;
        }
        // Proxies write seconds, milliseconds or microseconds since 1970; in this century they differ in size.
        double scale = number > 1e14 ? 1e3 : number > 1e11 ? 1e6 : 1e9;
        double waitedNs = wallClockNs - number * scale;
        return waitedNs >= 0 && waitedNs <= LONGEST_WAIT_NS ? (long) waitedNs : 0;
    }
}
