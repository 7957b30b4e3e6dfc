package io.tailbound.servicelevel;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;

/**
 * A service level that follows latencies: pure, with every time an argument in nanoseconds of one clock.
 *
 * <p>Every interval the level s moves by (s / t) (1 - pole) (d - t), with the deadline d and the longest latency t
 * of the window; of a move upwards a part is carried out. s / t stands for the inverse of the gain from level to
 * latency. A clock that is set back by more than an interval goes on from where it was. After a gap without calls
 * at most one window of updates is made up for. Not for several threads: {@link ServiceLevel} is.
 */
public final class ServiceLevelController {
    /** A lower level moves in steps as at this level: a level of zero could not be left otherwise. */
    private static final double LEAST_GAIN_LEVEL = 0.05;
    /** In the gain, a latency counts as at least this share of the deadline: one near zero gives no jump. */
    private static final double LEAST_GAIN_LATENCY = 0.1;
    /** The place of an interval without a request. */
    private static final long NONE = -1;

    private final ServiceLevelSettings settings;
    private final long deadlineNs;
    private final long intervalNs;
    private final long startNs;
    /** The longest latency of each interval of the window, and of the one under way. */
    private final long[] longestNs;
    /** The beginnings of unfinished requests, by token, in the order of their calls. */
    private final Map<Long, Long> open = new LinkedHashMap<>();

    private double level;
    private long nowNs;
    /** What is added to the clock, so that time never goes back. */
    private long offsetNs;
    /** The number of the interval that is under way. */
    private long interval;
    private long tokens;
    private long requests;
    private OptionalLong endedNs = OptionalLong.empty();
    private long ignored;

    /** Begins at a moment of the clock. */
    public ServiceLevelController(ServiceLevelSettings settings, long startNs) {
        this.settings = settings;
        this.deadlineNs = settings.deadline().toNanos();
        this.intervalNs = settings.interval().toNanos();
        this.startNs = startNs;
        this.nowNs = startNs;
        this.level = settings.initialLevel();
        this.longestNs = new long[settings.intervals() + 1];
        Arrays.fill(longestNs, NONE);
    }

    /** The level after one update. */
    static double nextLevel(double level, long latencyNs, ServiceLevelSettings settings) {
        double deadline = settings.deadline().toNanos();
        double inverseGain = Math.max(level, LEAST_GAIN_LEVEL) / Math.max(latencyNs, LEAST_GAIN_LATENCY * deadline);
        double move = inverseGain * (1.0 - settings.pole()) * (deadline - latencyNs);
        if (move > 0.0) {
            move *= settings.rise();
        }
        // The level is the integral of the rule, and is cut itself: nothing winds up at the ends.
        return Math.min(1.0, Math.max(0.0, level + move));
    }

    /**
     * Begins a request.
     *
     * @param waitedNs how long the request has waited already
     * @return its token
     */
    public long begin(long atNs, long waitedNs) {
        advance(atNs);
        tokens++;
        open.put(tokens, nowNs - waitedNs);
        return tokens;
    }

    /** Ends a request; does nothing where it has ended. */
    public void end(long token, long atNs) {
        advance(atNs);
        Long beginNs = open.remove(token);
        if (beginNs != null) {
            record(nowNs - beginNs);
        }
    }

    /** Takes the latency of a request that has ended now. A negative one is ignored, and counted. */
    public void observe(long latencyNs, long atNs) {
        advance(atNs);
        if (latencyNs < 0) {
            ignored++;
        } else {
            record(latencyNs);
        }
    }

    /** The probability that optional content is served, from 0 to 1. */
    public double level(long atNs) {
        advance(atNs);
        return level;
    }

    /** The state at a moment. */
    public ServiceLevelReport report(long atNs) {
        advance(atNs);
        OptionalLong age = endedNs.isEmpty() ? endedNs : OptionalLong.of(nowNs - endedNs.getAsLong());
        return new ServiceLevelReport(level, latencyNs(nowNs), deadlineNs, requests, age);
    }

    /** The number of negative latencies. */
    public long ignored() {
        return ignored;
    }

    /** The number of unfinished requests. */
    int unfinished() {
        return open.size();
    }

    private void record(long latencyNs) {
        int place = place(interval);
        longestNs[place] = Math.max(longestNs[place], latencyNs);
        requests++;
        endedNs = OptionalLong.of(nowNs);
    }

    /** The longest latency of the window; an unfinished request counts with its age after the deadline. */
    private OptionalLong latencyNs(long atNs) {
        long longest = Arrays.stream(longestNs).max().orElse(NONE);
        if (!open.isEmpty()) {
            long ageNs = atNs - open.values().iterator().next();
            longest = ageNs > deadlineNs ? Math.max(longest, ageNs) : longest;
        }
        return longest == NONE ? OptionalLong.empty() : OptionalLong.of(longest);
    }

    /** Carries out the updates that are due. */
    private void advance(long atNs) {
        long clockNs = atNs + offsetNs;
        if (clockNs - nowNs < -intervalNs) {
            offsetNs += nowNs - clockNs;
        }
        // Threads that read the clock one after the other may come in the other order.
        if (clockNs - nowNs > 0) {
            nowNs = clockNs;
        }
        long due = (nowNs - startNs) / intervalNs - interval;
        for (long number = Math.min(due, settings.intervals()); number > 0; number--) {
            update();
        }
        if (due > settings.intervals()) {
            interval += due - settings.intervals();
            Arrays.fill(longestNs, NONE);
        }
    }

    private void update() {
        interval++;
        longestNs[place(interval)] = NONE;
        OptionalLong latency = latencyNs(startNs + interval * intervalNs);
        if (latency.isPresent()) {
            level = nextLevel(level, latency.getAsLong(), settings);
        }
    }

    private int place(long number) {
        return (int) (number % longestNs.length);
    }
}
