package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The ZooKeeper leader is killed: how long the brokers are without ZooKeeper. Both lose it, since the
 * other servers close their connections as well. {@code lost_to_connected} is the thesis's measure
 * (section 5.5.1), of the slower broker; {@code fault_to_connected} includes that the loss is noticed.
 */
final class Reconnection implements Experiment {
    private static final long POLL_MS = 20;

    @Override
    public Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException {
        int leader = cluster.awaitHealthy();
        Experiment.pause(random);
        Observed observed = new Observed(cluster);
        cluster.strikeServer(leader);
        return observed.await();
    }

    /** The brokers' logs from the fault on. */
    private static final class Observed {
        private final List<Broker> brokers;
        private final List<Long> logEnds = new ArrayList<>();
        private final long faultAtMs;

        Observed(KafkaCluster cluster) throws IOException {
            brokers = cluster.brokers();
            for (Broker broker : brokers) {
                logEnds.add(broker.logEnd());
            }
            faultAtMs = System.currentTimeMillis();
        }

        Outcome await() throws IOException, InterruptedException, TimeoutException {
            long end = System.nanoTime() + LIMIT_NS;
            long worstFromLoss = 0;
            long worstFromFault = 0;
            long expirations = 0;
            for (int i = 0; i < brokers.size(); i++) {
                SessionEvents events = awaitBack(i, end);
                long back = events.backAtMs().orElseThrow();
                worstFromLoss = Math.max(worstFromLoss, back - events.lostAtMs().orElseThrow());
                worstFromFault = Math.max(worstFromFault, back - faultAtMs);
                expirations += events.expirations();
            }
            return new Outcome()
                    .measure("lost_to_connected", TimeUnit.MILLISECONDS.toNanos(worstFromLoss))
                    .measure("fault_to_connected", TimeUnit.MILLISECONDS.toNanos(worstFromFault))
                    .count("expired_sessions", expirations);
        }

        private SessionEvents awaitBack(int i, long end)
                throws IOException, InterruptedException, TimeoutException {
            SessionEvents events = SessionEvents.read(brokers.get(i).log(), logEnds.get(i));
            while (events.backAtMs().isEmpty()) {
                if (System.nanoTime() > end) {
                    throw new TimeoutException(
                            "broker " + brokers.get(i).id() + " does not reconnect to ZooKeeper; lost: "
                                    + events.lostAtMs().isPresent());
                }
                Thread.sleep(POLL_MS);
                events = SessionEvents.read(brokers.get(i).log(), logEnds.get(i));
            }
            return events;
        }
    }
}
