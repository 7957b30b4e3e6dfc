package io.tailbound.zookeeper.harness.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

class RecoveryLinesTest {
    @Test
    void readsAStockServersElection() {
        String log =
                """
                10:00:00.1 INFO [x] QuorumPeer - LEADING - LEADER ELECTION TOOK - 11 MS
                10:00:09.1 INFO [x] QuorumPeer - LEADING - LEADER ELECTION TOOK - 213 MS
                """;
        assertEquals(Map.of("election_ns", 213_000_000L), RecoveryLines.parse(log));
    }

    @Test
    void readsEveryPhaseOfOursWhateverItIsCalled() {
        String log =
                """
                INFO - recovery {"role":"leading","detection_ns":5,"phases":{"start_ns":6,"votes":9}}
                INFO - recovery is under way {
                INFO - recovery {broken}
                """;
        assertEquals(Map.of("detection_ns", 5L, "start_ns", 6L), RecoveryLines.parse(log));
    }

    @Test
    void anEmptyLogTellsNothing() {
        assertEquals(Map.of(), RecoveryLines.parse(""));
    }
}
