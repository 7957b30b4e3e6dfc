package io.tailbound.examples.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SummaryTest {
    private static final Setting STOCK = setting("stock");
    private static final Setting OURS = setting("ours");

    private static Setting setting(String name) {
        return new Setting(
                new Variant(name, Variant.Launcher.STOCK, List.of(), List.of()), Setting.Client.ORIGINAL);
    }

    private static Trial trial(Setting setting, int number, long ns) {
        return new Trial(setting, Situation.RECONNECTION, number, Map.of("lost", ns), Map.of(), null);
    }

    @Test
    void ratiosAreWithinARoundAndFailuresAreCounted() {
        Trial failed = new Trial(OURS, Situation.RECONNECTION, 3, Map.of(), Map.of(), "no reason");
        List<Trial> trials = List.of(
                trial(STOCK, 0, 100), trial(STOCK, 1, 400), trial(STOCK, 2, 1000), trial(STOCK, 3, 1),
                trial(OURS, 2, 100), trial(OURS, 1, 200), trial(OURS, 0, 80), failed);
        ObjectNode result = new ObjectMapper().createObjectNode();
        new Summary(List.of(Situation.RECONNECTION), List.of(STOCK, OURS), trials).addTo(result);
        JsonNode ours = result.get("cells").get(1);
        assertEquals("ours", ours.get("variant").asText());
        assertEquals(1, ours.get("failures").asInt());
        assertEquals(3, ours.get("times").get("count").asInt());
        assertEquals(100, ours.get("times").get("median_ns").asLong());
        assertEquals(0.5, ours.get("ratio_to_first").get("median").asDouble());
        assertEquals(0.1, ours.get("ratio_to_first").get("min").asDouble());
        assertEquals(0.8, ours.get("ratio_to_first").get("max").asDouble());
        assertEquals(8, result.get("trials").size());
    }
}
