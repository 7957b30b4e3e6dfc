package io.tailbound.servicelevel;

import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * The state of a service level at a moment.
 *
 * @param serviceLevel the probability that optional content is served
 * @param latencyNs the longest latency of the window; none without a request in it
 * @param deadlineNs the latency that the controller aims at
 * @param requests the number of requests that have ended
 * @param ageNs the time since a request ended last; none before the first
 */
public record ServiceLevelReport(
        double serviceLevel, OptionalLong latencyNs, long deadlineNs, long requests, OptionalLong ageNs) {
    private static final String METRIC = "tailbound_service_level";

    /** 1 - latency / deadline, from -1 to 1; none without a request in the window. */
    public OptionalDouble matchingValue() {
        return latencyNs.isEmpty()
                ? OptionalDouble.empty()
                : OptionalDouble.of(Math.max(-1.0, 1.0 - (double) latencyNs.getAsLong() / deadlineNs));
    }

    /** The report as a JSON object. */
    public String json() {
        return "{\"matching_value\": " + text(matchingValue())
                + ", \"service_level\": " + serviceLevel
                + ", \"latency_seconds\": " + text(seconds(latencyNs))
                + ", \"deadline_seconds\": " + deadlineNs / 1e9
                + ", \"requests\": " + requests
                + ", \"age_seconds\": " + text(seconds(ageNs)) + "}";
    }

    /** The report in Prometheus' text format. A value that there is none of is left out. */
    public String prometheus() {
        StringBuilder text = new StringBuilder();
        gauge(text, "", OptionalDouble.of(serviceLevel), "Probability that optional content is served.");
        gauge(text, "_matching_value", matchingValue(), "1 - latency / deadline, from -1 to 1.");
        gauge(text, "_latency_seconds", seconds(latencyNs), "Longest latency of the window.");
        gauge(text, "_deadline_seconds", seconds(OptionalLong.of(deadlineNs)), "Latency that the controller aims at.");
        metric(text, "_requests_total", "counter", Long.toString(requests), "Requests that have ended.");
        gauge(text, "_age_seconds", seconds(ageNs), "Time since a request ended last.");
        return text.toString();
    }

    private static void gauge(StringBuilder text, String suffix, OptionalDouble value, String meaning) {
        if (value.isPresent()) {
            metric(text, suffix, "gauge", Double.toString(value.getAsDouble()), meaning);
        }
    }

    private static void metric(StringBuilder text, String suffix, String kind, String value, String meaning) {
        String name = METRIC + suffix;
        text.append("# HELP ").append(name).append(' ').append(meaning).append('\n');
        text.append("# TYPE ").append(name).append(' ').append(kind).append('\n');
        text.append(name).append(' ').append(value).append('\n');
    }

    private static OptionalDouble seconds(OptionalLong timeNs) {
        return timeNs.isEmpty() ? OptionalDouble.empty() : OptionalDouble.of(timeNs.getAsLong() / 1e9);
    }

    private static String text(OptionalDouble value) {
        return value.isEmpty() ? "null" : Double.toString(value.getAsDouble());
    }
}
