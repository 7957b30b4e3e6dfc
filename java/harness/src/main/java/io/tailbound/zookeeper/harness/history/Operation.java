package io.tailbound.zookeeper.harness.history;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * One operation of a recorded history, as the checker reads it ({@code java/harness/checker}).
 *
 * @param client who did it
 * @param key the znode
 * @param kind what was asked
 * @param value what a write wrote or a read saw
 * @param expected the version that a conditional write wanted
 * @param version the version that the answer told
 * @param outcome what the answer said
 * @param callNs when it was called, CLOCK_MONOTONIC
 * @param returnNs when the answer was there
 */
record Operation(
        int client,
        String key,
        Kind kind,
        String value,
        int expected,
        int version,
        Outcome outcome,
        long callNs,
        long returnNs) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What is asked of a znode. */
    enum Kind {
        /** setData whatever the version. */
        SET,
        /** setData at one version only. */
        CAS,
        /** getData, made linearizable; see {@link HistoryClient}. */
        READ
    }

    /** What became of it. */
    enum Outcome {
        /** Done. */
        OK,
        /** A conditional write that was refused for its version. */
        MISMATCH,
        /** The znode was not there, though it was made before the run. */
        MISSING,
        /** No answer: it may or may not have happened, or may yet. */
        UNKNOWN
    }

    String toJson() {
        ObjectNode json = JSON.createObjectNode();
        json.put("client", client);
        json.put("key", key);
        json.put("op", kind.name().toLowerCase());
        json.put("value", value);
        json.put("expected", expected);
        json.put("version", version);
        json.put("outcome", outcome.name().toLowerCase());
        json.put("call_ns", callNs);
        json.put("return_ns", returnNs);
        return json.toString();
    }
}
