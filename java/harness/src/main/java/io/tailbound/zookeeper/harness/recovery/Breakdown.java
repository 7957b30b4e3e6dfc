package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;

/**
 * The recoveries of a run in the format of {@code tailbound predict recovery}
 * (docs/concepts/recovery.md), as the new leaders told them. A server that tells no phases has none in
 * it.
 */
final class Breakdown {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> PHASES =
            List.of(
                    "detection_ns",
                    "election_ns",
                    "connection_ns",
                    "synchronisation_ns",
                    "start_ns");

    private Breakdown() {}

    static ObjectNode of(List<Trial> trials) {
        ObjectNode result = JSON.createObjectNode().put("schema_version", 1);
        ArrayNode recoveries = result.putArray("recoveries");
        for (Trial trial : trials) {
            if (trial.phasesNs().keySet().containsAll(PHASES)) {
                recoveries.add(recovery(trial, recoveries.size() + 1));
            }
        }
        return result;
    }

    private static ObjectNode recovery(Trial trial, int number) {
        Map<String, Long> phases = trial.phasesNs();
        ObjectNode json = JSON.createObjectNode();
        json.put("number", number);
        json.put("servers", trial.cell().size());
        json.put("variant", trial.cell().variant().name());
        json.put("cause", trial.cell().fault() == Cell.Fault.KILL ? "closed" : "silent");
        PHASES.forEach(phase -> json.put(phase, phases.get(phase)));
        Long write = phases.get("first_write_ns");
        json.put("first_write_ns", write);
        long total = PHASES.stream().mapToLong(phases::get).sum();
        return json.put("total_ns", total + (write == null ? 0 : write));
    }
}
