package io.tailbound.zookeeper.harness.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CpuLoadTest {
    @Test
    void thereAreSoManyForEachCpuAtOrdinaryPriorityUntilItIsClosed(@TempDir Path folder)
            throws Exception {
        List<Long> pids;
        try (CpuLoad load = CpuLoad.start(2, 1, folder)) {
            pids = load.pids();
            assertEquals(2, pids.size());
            for (long pid : pids) {
                String policy = Tool.run("chrt", "--pid", Long.toString(pid));
                assertTrue(policy.contains("SCHED_OTHER"), policy);
            }
        }
        for (long pid : pids) {
            assertFalse(ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false));
        }
    }

    @Test
    void noneIsNoLoad(@TempDir Path folder) throws Exception {
        try (CpuLoad load = CpuLoad.start(0, 2, folder)) {
            assertEquals(List.of(), load.pids());
        }
    }
}
