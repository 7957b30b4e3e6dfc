package io.tailbound.zookeeper.harness.result;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Collection;

/** Minimum, median, p90, p99 and maximum of samples; nearest rank, so every value is one that was seen. */
public final class Quantiles {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final long[] sorted;

    private Quantiles(long[] sorted) {
        this.sorted = sorted;
    }

    /**
     * The quantiles of some samples.
     *
     * @throws IllegalArgumentException if there are none
     */
    public static Quantiles of(Collection<Long> samples) {
        if (samples.isEmpty()) {
            throw new IllegalArgumentException("quantiles of no samples");
        }
        long[] sorted = samples.stream().mapToLong(Long::longValue).sorted().toArray();
        return new Quantiles(sorted);
    }

    /** The smallest sample with at least {@code percent} of all samples at or below it. */
    public long at(int percent) {
        int rank = (sorted.length * percent + 99) / 100;
        return sorted[Math.max(rank, 1) - 1];
    }

    /** The smallest sample. */
    public long min() {
        return sorted[0];
    }

    /** The largest sample. */
    public long max() {
        return sorted[sorted.length - 1];
    }

    /** As JSON; the samples are nanoseconds. */
    public ObjectNode toJson() {
        return JSON.createObjectNode()
                .put("count", sorted.length)
                .put("min_ns", min())
                .put("median_ns", at(50))
                .put("p90_ns", at(90))
                .put("p99_ns", at(99))
                .put("max_ns", max());
    }

    @Override
    public String toString() {
        return Arrays.toString(sorted);
    }
}
