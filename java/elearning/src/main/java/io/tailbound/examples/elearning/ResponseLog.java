package io.tailbound.examples.elearning;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** The latest responses, in memory of a fixed size, and sums over all since the start. */
final class ResponseLog {
    /**
     * Sums over responses.
     *
     * @param answers the number of responses without an error
     * @param errors the number of the others
     * @param durationNs the sum of the response times without an error
     */
    record Totals(long answers, long errors, long durationNs) {
        private static final Totals NONE = new Totals(0, 0, 0);

        private Totals with(Response response) {
            return response.isError()
                    ? new Totals(answers, errors + 1, durationNs)
                    : new Totals(answers + 1, errors, durationNs + response.durationNs());
        }
    }

    private final Response[] ring;
    private final Map<RequestKind, Totals> totals = new EnumMap<>(RequestKind.class);
    private long count;
    /** The latest end of a response that was given up for a newer one. */
    private long forgottenUs = Long.MIN_VALUE;

    /** A log of at most so many responses. */
    ResponseLog(int capacity) {
        this.ring = new Response[capacity];
        for (RequestKind kind : RequestKind.values()) {
            totals.put(kind, Totals.NONE);
        }
    }

    synchronized void add(Response response) {
        int place = (int) (count % ring.length);
        if (ring[place] != null) {
            forgottenUs = Math.max(forgottenUs, ring[place].endUs());
        }
        ring[place] = response;
        count++;
        totals.merge(response.request(), Totals.NONE, (before, none) -> before.with(response));
    }

    /** The report of the responses that ended at an instant or later, in microseconds since 1970. */
    ResponseReport report(long sinceUs, long untilUs) {
        List<Response> responses = new ArrayList<>();
        boolean complete;
        Map<RequestKind, Totals> sums;
        synchronized (this) {
            for (Response response : ring) {
                if (response != null && response.endUs() >= sinceUs) {
                    responses.add(response);
                }
            }
            complete = forgottenUs < sinceUs;
            sums = new EnumMap<>(totals);
        }
        return ResponseReport.of(sinceUs, untilUs, complete, responses, sums);
    }
}
