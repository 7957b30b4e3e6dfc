package io.tailbound.zookeeper.harness.probe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;

/** The successful writes of a probe, in CLOCK_MONOTONIC nanoseconds ({@link System#nanoTime}). */
public final class WriteLog {
    private final List<Write> writes = new ArrayList<>();

    /**
     * One successful write.
     *
     * @param intendedNs when it should have been sent, by the schedule
     * @param sentNs when it was sent, for the last time if it had to be repeated
     * @param doneNs when its success was known
     */
    public record Write(long intendedNs, long sentNs, long doneNs) {}

    /** Adds a write. */
    public synchronized void add(Write write) {
        writes.add(write);
    }

    private synchronized List<Write> inOrderOfSuccess() {
        List<Write> copy = new ArrayList<>(writes);
        copy.sort(Comparator.comparingLong(Write::doneNs));
        return copy;
    }

    /** When the first write succeeded that was sent at or after {@code ns}. */
    public synchronized OptionalLong firstSuccessSentAfter(long ns) {
        return writes.stream()
                .filter(write -> write.sentNs() >= ns)
                .mapToLong(Write::doneNs)
                .min();
    }

    /** The longest time without a successful write that ended after {@code ns}; 0 if there is none. */
    public long longestGapEndingAfter(long ns) {
        long longest = 0;
        List<Write> ordered = inOrderOfSuccess();
        for (int i = 1; i < ordered.size(); i++) {
            if (ordered.get(i).doneNs() > ns) {
                longest = Math.max(longest, ordered.get(i).doneNs() - ordered.get(i - 1).doneNs());
            }
        }
        return longest;
    }

    /** The longest time from intended sending to success among writes that ended after {@code ns}. */
    public synchronized long worstLatencyEndingAfter(long ns) {
        return writes.stream()
                .filter(write -> write.doneNs() > ns)
                .mapToLong(write -> write.doneNs() - write.intendedNs())
                .max()
                .orElse(0);
    }
}
