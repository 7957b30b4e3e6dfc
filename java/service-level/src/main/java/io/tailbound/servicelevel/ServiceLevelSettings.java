package io.tailbound.servicelevel;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The settings of a controller.
 *
 * @param deadline the latency at which the controller keeps the slowest request of the window
 * @param interval the time between two updates of the level
 * @param window the time over which the longest latency is taken, a multiple of the interval
 * @param pole the share of an error that one update leaves; closer to 1 is slower and smoother
 * @param rise the share of an update that is carried out where it raises the level
 * @param initialLevel the level at the start
 */
public record ServiceLevelSettings(
        Duration deadline, Duration interval, Duration window, double pole, double rise, double initialLevel) {
    /** The most intervals in a window, which bounds the memory of a controller. */
    private static final long INTERVALS_MOST = 3600;

    private static final Pattern TIME = Pattern.compile("(\\d+(?:\\.\\d+)?)\\s*(ns|us|ms|s|min)");
    private static final Map<String, Long> UNITS_NS =
            Map.of("ns", 1L, "us", 1_000L, "ms", 1_000_000L, "s", 1_000_000_000L, "min", 60_000_000_000L);

    /** Refuses settings that make no sense. */
    public ServiceLevelSettings {
        checkTime(deadline, "deadline");
        checkTime(interval, "interval");
        checkTime(window, "window");
        checkShare(pole >= 0 && pole < 1, pole, "pole", "from 0 to below 1");
        checkShare(rise > 0 && rise <= 1, rise, "rise", "from above 0 to 1");
        checkShare(initialLevel >= 0 && initialLevel <= 1, initialLevel, "initialLevel", "from 0 to 1");
        if (window.toNanos() % interval.toNanos() != 0) {
            throw new IllegalArgumentException("window is " + window + ", no multiple of the interval of " + interval
                    + "; give a whole number of intervals");
        }
        if (window.toNanos() / interval.toNanos() > INTERVALS_MOST) {
            throw new IllegalArgumentException("window is " + window + ", which has "
                    + window.toNanos() / interval.toNanos() + " intervals of " + interval + "; at most "
                    + INTERVALS_MOST + " fit: give a shorter window or a longer interval");
        }
    }

    /** The settings of the published rule, with this deadline. */
    public static ServiceLevelSettings of(Duration deadline) {
        return new ServiceLevelSettings(deadline, Duration.ofSeconds(1), Duration.ofSeconds(5), 0.9, 0.1, 1.0);
    }

    /** Reads a time with a unit, such as {@code 500ms}. */
    static Duration parseTime(String text, String name) {
        Matcher matcher = TIME.matcher(text.trim());
        if (!matcher.matches()) {
            throw new IllegalArgumentException(name + " is \"" + text + "\"; write a number with a unit, such as "
                    + "500ms, with one of ns, us, ms, s, min");
        }
        BigDecimal unitNs = BigDecimal.valueOf(UNITS_NS.get(matcher.group(2)));
        try {
            return Duration.ofNanos(new BigDecimal(matcher.group(1)).multiply(unitNs).longValueExact());
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException(
                    name + " is \"" + text + "\"; give a whole number of nanoseconds, at most 292 years", e);
        }
    }

    int intervals() {
        return (int) (window.toNanos() / interval.toNanos());
    }

    private static void checkTime(Duration time, String name) {
        try {
            if (time != null && time.toNanos() > 0) {
                return;
            }
        } catch (ArithmeticException e) {
            // Longer than 292 years: refused below.
        }
        throw new IllegalArgumentException(name + " is " + time + "; give a time above zero, at most 292 years");
    }

    private static void checkShare(boolean fits, double value, String name, String range) {
        if (!fits) {
            throw new IllegalArgumentException(name + " is " + value + "; give a number " + range);
        }
    }
}
