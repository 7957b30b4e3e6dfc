package io.tailbound.zookeeper.client.pace;

import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * How promptly a client reconnects. Immutable; all times are nanoseconds.
 *
 * <p>Written as {@code retry=50ms,jitter=0.5,spread=0ms,persist=10s,max=1s}, in any order, each
 * option at most once; what is not named keeps its default. The same text is the argument of the
 * agent and the value of the system property {@value #PROPERTY}.
 *
 * <p>Source of the defaults: Li, dissertation 2021, section 5.5.1, "aggressive re-connection
 * strategy" (retry every 50 ms, at once to another server); jitter, persistence and the slower pace
 * after it are ours, see {@link ReconnectSchedule}.
 */
public final class ReconnectOptions {
    /** The system property that holds the options where no agent argument and no object does. */
    public static final String PROPERTY = "tailbound.reconnect";

    /** The options of the thesis's strategy, with jitter. */
    public static final ReconnectOptions DEFAULT = new ReconnectOptions(
            TimeUnit.MILLISECONDS.toNanos(50), 0.5, 0, TimeUnit.SECONDS.toNanos(10), TimeUnit.SECONDS.toNanos(1));

    private static final String KNOWN = "retry, jitter, spread, persist, max";
    private static final long SHORTEST_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_NS = TimeUnit.HOURS.toNanos(1);

    private final long retryNs;
    private final double jitter;
    private final long spreadNs;
    private final long persistNs;
    private final long maxNs;

    private ReconnectOptions(long retryNs, double jitter, long spreadNs, long persistNs, long maxNs) {
        this.retryNs = retryNs;
        this.jitter = jitter;
        this.spreadNs = spreadNs;
        this.persistNs = persistNs;
        this.maxNs = maxNs;
    }

    /** The mean pause between two attempts while the service is expected back; 1 ms to 1 h. */
    public long retryNs() {
        return retryNs;
    }

    /** The part of {@link #retryNs} by which a pause may be shorter or longer; 0 up to, not including, 1. */
    public double jitter() {
        return jitter;
    }

    /** The first attempt after a loss waits a uniformly random time up to this; 0 is at once. */
    public long spreadNs() {
        return spreadNs;
    }

    /** How long after a loss the pace is kept; later, pauses grow up to {@link #maxNs}. */
    public long persistNs() {
        return persistNs;
    }

    /** The longest pause, once {@link #persistNs} is over. */
    public long maxNs() {
        return maxNs;
    }

    /** The shortest pause that separates two attempts which are not made at once. */
    public long shortestPauseNs() {
        return (long) (retryNs * (1 - jitter));
    }

    /**
     * The options in the system property {@value #PROPERTY}, or the defaults if it is not set.
     *
     * @throws IllegalArgumentException if the property's text is none; names the property
     */
    public static ReconnectOptions fromSystemProperty() {
        String text = System.getProperty(PROPERTY);
        if (text == null) {
            return DEFAULT;
        }
        try {
            return parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("system property " + PROPERTY + ": " + e.getMessage(), e);
        }
    }

    /**
     * Reads options.
     *
     * @param text such as {@code retry=20ms,max=500ms}; empty for the defaults
     * @throws IllegalArgumentException if an option is unknown, given twice or out of range; says what would be right
     */
    public static ReconnectOptions parse(String text) {
        long retry = DEFAULT.retryNs;
        double jitter = DEFAULT.jitter;
        long spread = DEFAULT.spreadNs;
        long persist = DEFAULT.persistNs;
        long max = -1;
        StringBuilder seen = new StringBuilder(",");
        for (String part : text.trim().isEmpty() ? new String[0] : text.split(",", -1)) {
            int equals = part.indexOf('=');
            String name = (equals < 0 ? part : part.substring(0, equals)).trim();
            String value = equals < 0 ? "" : part.substring(equals + 1).trim();
            if (seen.indexOf("," + name + ",") >= 0) {
                throw new IllegalArgumentException("option `" + name + "` is given twice");
            }
            seen.append(name).append(',');
            switch (name) {
                case "retry": retry = duration(name, value, SHORTEST_NS); break;
                case "jitter": jitter = fraction(name, value); break;
                case "spread": spread = duration(name, value, 0); break;
                case "persist": persist = duration(name, value, 0); break;
                case "max": max = duration(name, value, SHORTEST_NS); break;
                default: throw new IllegalArgumentException(
                        "unknown option `" + name + "`; the options are " + KNOWN);
            }
        }
        if (max < 0) {
            max = Math.max(DEFAULT.maxNs, retry);
        } else if (max < retry) {
            throw new IllegalArgumentException("option `max` is shorter than `retry`; it must be at least as long");
        }
        return new ReconnectOptions(retry, jitter, spread, persist, max);
    }

    private static long duration(String name, String value, long leastNs) {
        String text = value.toLowerCase(Locale.ROOT);
        int digits = 0;
        while (digits < text.length() && Character.isDigit(text.charAt(digits))) {
            digits++;
        }
        long unitNs = unitNs(text.substring(digits));
        if (digits == 0 || digits > 9 || unitNs == 0) {
            throw new IllegalArgumentException("option `" + name + "`: `" + value
                    + "` is no duration; write a whole number with us, ms or s, such as 50ms");
        }
        long ns = Long.parseLong(text.substring(0, digits)) * unitNs;
        if (ns < leastNs || ns > LONGEST_NS) {
            throw new IllegalArgumentException("option `" + name + "`: " + value + " is out of range; it must be "
                    + (leastNs == 0 ? "0ms" : "1ms") + " to 3600s");
        }
        return ns;
    }

    private static long unitNs(String unit) {
        switch (unit) {
            case "us": return 1_000;
            case "ms": return 1_000_000;
            case "s": return 1_000_000_000;
            default: return 0;
        }
    }

    private static double fraction(String name, String value) {
        double fraction;
        try {
            fraction = Double.parseDouble(value);
        } catch (NumberFormatException e) {
            fraction = Double.NaN;
        }
        if (!(fraction >= 0 && fraction < 1)) {
            throw new IllegalArgumentException("option `" + name + "`: `" + value
                    + "` is no fraction; write a number from 0 up to, not including, 1");
        }
        return fraction;
    }

    /** The options in the form that {@link #parse} reads. */
    @Override
    public String toString() {
        return "retry=" + written(retryNs) + ",jitter=" + jitter + ",spread=" + written(spreadNs)
                + ",persist=" + written(persistNs) + ",max=" + written(maxNs);
    }

    private static String written(long ns) {
        if (ns % 1_000_000 != 0) {
            return ns / 1_000 + "us";
        }
        return ns >= 1_000_000_000 && ns % 1_000_000_000 == 0 ? ns / 1_000_000_000 + "s" : ns / 1_000_000 + "ms";
    }
}
