package io.tailbound.examples.kafka;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;

/**
 * One fault, and what came of it.
 *
 * @param setting the cluster
 * @param situation the fault
 * @param number trials with the same number are of the same round, and are compared with each other
 * @param measuresNs times by name, in nanoseconds
 * @param counts what is counted, by name
 * @param failure why there are no measures; null if there are
 */
record Trial(
        Setting setting,
        Situation situation,
        int number,
        Map<String, Long> measuresNs,
        Map<String, Long> counts,
        String failure) {
    private static final ObjectMapper JSON = new ObjectMapper();

    ObjectNode toJson() {
        ObjectNode json = JSON.createObjectNode();
        json.put("situation", situation.text());
        json.put("variant", setting.variant().name());
        json.put("client", setting.client().text());
        json.put("number", number);
        if (failure != null) {
            return json.put("failure", failure);
        }
        measuresNs.forEach((name, ns) -> json.put(name + "_ns", ns));
        counts.forEach(json::put);
        return json;
    }
}
