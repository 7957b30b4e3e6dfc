package io.tailbound.examples.elearning;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * The response times of an interval.
 *
 * @param sinceUs the begin of the interval, in microseconds since 1970
 * @param untilUs its end
 * @param complete whether the report rests on all responses of the interval
 * @param statistics the statistics of each kind of request
 * @param totals the sums since the start of the application
 */
record ResponseReport(
        long sinceUs,
        long untilUs,
        boolean complete,
        Map<RequestKind, Statistics> statistics,
        Map<RequestKind, ResponseLog.Totals> totals) {
    /** The percentiles of a report. */
    static final List<Integer> PERCENTILES = List.of(50, 90, 95, 99);

    /** Statistics of the responses without an error; times in nanoseconds. */
    static final class Statistics {
        private final long[] sorted;
        private final long errors;

        Statistics(long[] durationsNs, long errors) {
            this.sorted = durationsNs.clone();
            Arrays.sort(sorted);
            this.errors = errors;
        }

        long count() {
            return sorted.length;
        }

        long errors() {
            return errors;
        }

        long meanNs() {
            return Math.round(Arrays.stream(sorted).average().orElse(0));
        }

        /** The standard deviation of the sample; 0 of fewer than two. */
        long deviationNs() {
            if (sorted.length < 2) {
                return 0;
            }
            double mean = Arrays.stream(sorted).average().orElse(0);
            double squares = Arrays.stream(sorted).mapToDouble(one -> (one - mean) * (one - mean)).sum();
            return Math.round(Math.sqrt(squares / (sorted.length - 1)));
        }

        long minNs() {
            return sorted.length == 0 ? 0 : sorted[0];
        }

        long maxNs() {
            return sorted.length == 0 ? 0 : sorted[sorted.length - 1];
        }

        /** The least time within which at least so many percent stay. */
        long percentileNs(int percentile) {
            if (sorted.length == 0) {
                return 0;
            }
            int rank = Math.toIntExact((sorted.length * (long) percentile + 99) / 100);
            return sorted[rank - 1];
        }
    }

    static ResponseReport of(
            long sinceUs,
            long untilUs,
            boolean complete,
            List<Response> responses,
            Map<RequestKind, ResponseLog.Totals> totals) {
        Map<RequestKind, Statistics> statistics = new EnumMap<>(RequestKind.class);
        for (RequestKind kind : RequestKind.values()) {
            List<Response> own = responses.stream().filter(one -> one.request() == kind).toList();
            long[] durationsNs =
                    own.stream().filter(one -> !one.isError()).mapToLong(Response::durationNs).toArray();
            statistics.put(kind, new Statistics(durationsNs, own.size() - durationsNs.length));
        }
        return new ResponseReport(sinceUs, untilUs, complete, statistics, totals);
    }
}
