package io.tailbound.zookeeper.harness.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class BreakdownTest {
    private static final Cell CELL =
            new Cell(
                    new Variant("ours", Variant.Launcher.TAILBOUND, List.of(), List.of()),
                    3,
                    Cell.Fault.KILL);

    private static Trial trial(Map<String, Long> phases) {
        return new Trial(CELL, 0, 100, 100, 100, 10, phases, null);
    }

    @Test
    void phasesAddUpToTheTotal() {
        Map<String, Long> phases =
                new HashMap<>(
                        Map.of(
                                "detection_ns", 1L, "election_ns", 2L, "connection_ns", 4L,
                                "synchronisation_ns", 8L, "start_ns", 16L, "total_ns", 99L));
        var without = Breakdown.of(List.of(trial(phases))).get("recoveries").get(0);
        assertEquals(31, without.get("total_ns").longValue());
        assertTrue(without.get("first_write_ns").isNull());
        assertEquals("closed", without.get("cause").textValue());
        phases.put("first_write_ns", 32L);
        var with = Breakdown.of(List.of(trial(phases))).get("recoveries").get(0);
        assertEquals(63, with.get("total_ns").longValue());
        assertEquals("ours", with.get("variant").textValue());
    }

    @Test
    void whatTellsNoPhasesIsLeftOut() {
        Trial stock = trial(Map.of("election_ns", 2L));
        Trial failed = Trial.failed(CELL, 0, "no write");
        var recoveries = Breakdown.of(List.of(stock, failed)).get("recoveries");
        assertEquals(0, recoveries.size());
    }
}
