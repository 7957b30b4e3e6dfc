package io.tailbound.servicelevel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The scenarios that every implementation passes. */
final class ScenarioTest {
    private static final Path VECTORS = Path.of("..", "..", "docs", "reference", "service-level-scenarios.json");
    private static final double EXACT = 1e-9;

    private static JsonNode vectors() throws IOException {
        return new ObjectMapper().readTree(VECTORS.toFile());
    }

    private static Stream<JsonNode> all(JsonNode array) {
        assertFalse(array.isEmpty());
        return StreamSupport.stream(array.spliterator(), false);
    }

    @TestFactory
    Stream<DynamicTest> theControllerPassesTheScenario() throws IOException {
        return all(vectors().get("scenarios")).map(scenario ->
                DynamicTest.dynamicTest(scenario.get("name").asText(), () -> play(scenario)));
    }

    private static void play(JsonNode scenario) {
        JsonNode given = scenario.get("settings");
        ServiceLevelSettings settings = new ServiceLevelSettings(
                Duration.ofNanos(given.get("deadline_ns").asLong()),
                Duration.ofNanos(given.get("interval_ns").asLong()),
                Duration.ofNanos(given.get("window_ns").asLong()),
                given.get("pole").asDouble(),
                given.get("rise").asDouble(),
                given.get("initial_level").asDouble());
        ServiceLevelController controller =
                new ServiceLevelController(settings, scenario.get("start_ns").asLong());
        Map<String, Long> tokens = new HashMap<>();
        for (JsonNode step : scenario.get("steps")) {
            long atNs = step.get("at_ns").asLong();
            if (step.has("observe_ns")) {
                controller.observe(step.get("observe_ns").asLong(), atNs);
            } else if (step.has("begin")) {
                long waitedNs = step.path("waited_ns").asLong(0);
                tokens.put(step.get("begin").asText(), controller.begin(atNs, waitedNs));
            } else if (step.has("end")) {
                controller.end(tokens.get(step.get("end").asText()), atNs);
            } else {
                check(controller, atNs, step.get("expect"));
            }
        }
    }

    private static void check(ServiceLevelController controller, long atNs, JsonNode expected) {
        ServiceLevelReport report = controller.report(atNs);
        String place = "at " + atNs + " ns";
        assertEquals(expected.get("service_level").asDouble(), report.serviceLevel(), EXACT, place);
        assertEquals(time(expected.get("latency_ns")), report.latencyNs(), place);
        assertEquals(expected.get("requests").asLong(), report.requests(), place);
        assertEquals(time(expected.get("age_ns")), report.ageNs(), place);
        JsonNode matching = expected.get("matching_value");
        assertEquals(matching.isNull(), report.matchingValue().isEmpty(), place);
        assertEquals(matching.asDouble(), report.matchingValue().orElse(0), EXACT, place);
        assertEquals(report.serviceLevel(), controller.level(atNs), place);
    }

    private static OptionalLong time(JsonNode value) {
        return value.isNull() ? OptionalLong.empty() : OptionalLong.of(value.asLong());
    }

    @TestFactory
    Stream<DynamicTest> theReportComesInTheFormatThatIsAskedFor() throws IOException {
        ServiceLevelReport report =
                new ServiceLevelReport(1.0, OptionalLong.empty(), 1_000_000_000L, 0, OptionalLong.empty());
        Map<String, String> types =
                Map.of("json", ReportAnswer.JSON_TYPE, "prometheus", ReportAnswer.PROMETHEUS_TYPE);
        return all(vectors().get("formats")).map(vector -> DynamicTest.dynamicTest(vector.toString(), () -> {
            ReportAnswer answer = ReportAnswer.to(
                    vector.get("method").asText(), vector.get("query").asText(), vector.get("accept").asText(), report);
            assertEquals(vector.get("status").asInt(), answer.status());
            if (!vector.get("format").isNull()) {
                assertEquals(types.get(vector.get("format").asText()), answer.contentType());
            }
            assertFalse(answer.body().contains("script"));
        }));
    }

    @TestFactory
    Stream<DynamicTest> aStartHeaderGivesTheWait() throws IOException {
        return all(vectors().get("start_headers")).map(vector -> DynamicTest.dynamicTest(vector.toString(), () ->
                assertEquals(
                        vector.get("waited_ns").asLong(),
                        StartHeader.waitedNs(vector.get("header").asText(), vector.get("now_ns").asLong()),
                        1_000)));
    }

    @Test
    void theReportIsTheDocumentedOne() throws IOException {
        ServiceLevelReport report = new ServiceLevelReport(
                0.62, OptionalLong.of(1_310_000_000L), 1_000_000_000L, 4711, OptionalLong.of(400_000_000L));
        JsonNode json = new ObjectMapper().readTree(report.json());
        assertEquals(-0.31, json.get("matching_value").asDouble(), EXACT);
        assertEquals(0.62, json.get("service_level").asDouble());
        assertEquals(1.31, json.get("latency_seconds").asDouble());
        assertEquals(1.0, json.get("deadline_seconds").asDouble());
        assertEquals(4711, json.get("requests").asLong());
        assertEquals(0.4, json.get("age_seconds").asDouble());
        assertTrue(report.prometheus().contains("# TYPE tailbound_service_level gauge\ntailbound_service_level 0.62\n"));
        assertTrue(report.prometheus().contains("\ntailbound_service_level_requests_total 4711\n"));

        ServiceLevelReport empty = new ServiceLevelReport(1, OptionalLong.empty(), 1, 0, OptionalLong.empty());
        assertEquals(OptionalDouble.empty(), empty.matchingValue());
        JsonNode without = new ObjectMapper().readTree(empty.json());
        assertTrue(without.get("matching_value").isNull() && without.get("latency_seconds").isNull());
        assertFalse(empty.prometheus().contains("latency_seconds"));
        assertEquals(0, StartHeader.waitedNs(null, 1));
    }
}
