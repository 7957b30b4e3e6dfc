package io.tailbound.zookeeper.harness.ensemble;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.tailbound.zookeeper.harness.probe.WriteProbe;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Real servers: they start, lose their leader, serve writes again, and are whole again. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
class EnsembleTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final long PERIOD_NS = TimeUnit.MILLISECONDS.toNanos(5);

    @TempDir Path folder;

    private static List<InetSocketAddress> others(Ensemble ensemble, int leader) {
        return IntStream.rangeClosed(1, ensemble.size())
                .filter(id -> id != leader)
                .mapToObj(ensemble::clientAddress)
                .toList();
    }

    private static void awaitWriteSentAfter(WriteProbe probe, long ns) throws InterruptedException {
        while (probe.log().firstSuccessSentAfter(ns).isEmpty()) {
            Thread.sleep(5);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"vanilla", "tailbound", "etcd-tuned"})
    void aKilledLeaderIsReplacedAndComesBack(String name) throws Exception {
        Variant variant = Variants.read(null).select(List.of(name)).get(0);
        var obstacle = Programs.obstacle(variant);
        assumeTrue(obstacle.isEmpty(), () -> name + ": " + obstacle.orElse(""));
        try (Ensemble ensemble = Ensemble.of(Ensemble.Setup.plain(variant, 3, folder))) {
            ensemble.start();
            int leader = ensemble.awaitHealthy(LIMIT);
            try (WriteProbe probe =
                    WriteProbe.start(ensemble, others(ensemble, leader), PERIOD_NS)) {
                awaitWriteSentAfter(probe, System.nanoTime());
                ensemble.kill(leader);
                assertFalse(ensemble.isAlive(leader));
                awaitWriteSentAfter(probe, System.nanoTime());
            }
            assertNotEquals(leader, ensemble.leader());
            ensemble.start(leader);
            assertTrue(ensemble.awaitHealthy(LIMIT) != Ensemble.NOBODY);
        }
    }
}
