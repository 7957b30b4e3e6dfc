package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The ZooKeeper leader is killed: how long the brokers are without ZooKeeper. Both lose it, since the
 * other servers close their connections as well. {@code lost_to_connected} is the thesis's measure
 * (section 5.5.1), of the slower broker; {@code fault_to_connected} includes that the loss is noticed.
 */
final class Reconnection implements Experiment {
    @Override
    public Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException {
        int leader = cluster.awaitHealthy();
        Experiment.pause(random);
        Observation observation = new Observation(cluster);
        cluster.strikeServer(leader);
        long fromLossMs = 0;
        long fromFaultMs = 0;
        for (SessionEvents events : observation.awaitReconnection(LIMIT_NS)) {
            long backMs = events.backAtMs().orElseThrow();
            fromLossMs = Math.max(fromLossMs, backMs - events.lostAtMs().orElseThrow());
            fromFaultMs = Math.max(fromFaultMs, backMs - observation.beginMs());
        }
        return new Outcome()
                .measure("lost_to_connected", TimeUnit.MILLISECONDS.toNanos(fromLossMs))
                .measure("fault_to_connected", TimeUnit.MILLISECONDS.toNanos(fromFaultMs))
                .count("expired_sessions", observation.expirations());
    }
}
