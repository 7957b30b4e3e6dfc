package io.tailbound.examples.kafka;

import java.util.Map;
import java.util.TreeMap;

/** What a trial measured. */
final class Outcome {
    private final Map<String, Long> measuresNs = new TreeMap<>();
    private final Map<String, Long> counts = new TreeMap<>();

    /** Notes a time in nanoseconds. */
    Outcome measure(String name, long ns) {
        measuresNs.put(name, ns);
        return this;
    }

    /** Notes a number. */
    Outcome count(String name, long number) {
        counts.put(name, number);
        return this;
    }

    /** As the result of a trial. */
    Trial of(Setting setting, Situation situation, int number) {
        return new Trial(setting, situation, number, measuresNs, counts, null);
    }
}
