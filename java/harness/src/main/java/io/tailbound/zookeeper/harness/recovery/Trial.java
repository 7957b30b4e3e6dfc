package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;

/**
 * One fault and what came of it.
 *
 * @param cell what was measured
 * @param faultIndex how many faults this ensemble had before: servers grow warm
 * @param recoveryNs from just before the signal was sent to the first success of a write that was sent
 *     after it; -1 if there was none in time
 * @param gapNs the longest time without a successful write around the fault; -1 if unknown
 * @param worstLatencyNs the longest time from a write's intended sending to its success; -1 if unknown
 * @param cpuNs the CPU time that the surviving server which used most of it used from the fault to the
 *     first success; -1 if unknown
 * @param phasesNs the servers' own account, by phase, as far as they give one
 * @param failure why there is no recovery time; null if there is one
 */
record Trial(
        Cell cell,
        int faultIndex,
        long recoveryNs,
        long gapNs,
        long worstLatencyNs,
        long cpuNs,
        Map<String, Long> phasesNs,
        String failure) {
    private static final ObjectMapper JSON = new ObjectMapper();

    static Trial failed(Cell cell, int faultIndex, String why) {
        return new Trial(cell, faultIndex, -1, -1, -1, -1, Map.of(), why);
    }

    ObjectNode toJson() {
        ObjectNode json = JSON.createObjectNode();
        json.put("variant", cell.variant().name());
        json.put("size", cell.size());
        json.put("fault", cell.fault().name().toLowerCase());
        json.put("fault_index", faultIndex);
        if (failure != null) {
            return json.put("failure", failure);
        }
        json.put("recovery_ns", recoveryNs);
        json.put("gap_ns", gapNs);
        json.put("worst_latency_ns", worstLatencyNs);
        json.put("cpu_ns", cpuNs);
        ObjectNode phases = json.putObject("phases");
        phasesNs.forEach(phases::put);
        return json;
    }
}
