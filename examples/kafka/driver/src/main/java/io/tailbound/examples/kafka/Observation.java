package io.tailbound.examples.kafka;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeoutException;

/** What the brokers' ZooKeeper clients go through from one moment on. */
final class Observation {
    private static final long POLL_MS = 20;

    private final List<Broker> brokers;
    private final List<Long> logEnds = new ArrayList<>();
    private final long beginMs;

    /** Begins now. */
    Observation(KafkaCluster cluster) throws IOException {
        brokers = cluster.brokers();
        for (Broker broker : brokers) {
            logEnds.add(broker.logEnd());
        }
        beginMs = System.currentTimeMillis();
    }

    /** When it began, in milliseconds of the wall clock. */
    long beginMs() {
        return beginMs;
    }

    private SessionEvents events(int i) throws IOException {
        return SessionEvents.read(brokers.get(i).log(), logEnds.get(i));
    }

    /** How many sessions have ended so far, of all brokers. */
    long expirations() throws IOException {
        long expirations = 0;
        for (int i = 0; i < brokers.size(); i++) {
            expirations += events(i).expirations();
        }
        return expirations;
    }

    /** Waits until every broker has lost its connection to ZooKeeper and has one again. */
    List<SessionEvents> awaitReconnection(long limitNs)
            throws IOException, InterruptedException, TimeoutException {
        long end = System.nanoTime() + limitNs;
        List<SessionEvents> all = new ArrayList<>();
        for (int i = 0; i < brokers.size(); i++) {
            SessionEvents events = events(i);
            while (events.backAtMs().isEmpty()) {
                if (System.nanoTime() > end) {
                    String state = events.lostAtMs().isPresent() ? "does not reconnect to" : "has not lost";
                    throw new TimeoutException("broker " + brokers.get(i).id() + " " + state + " ZooKeeper");
                }
                Thread.sleep(POLL_MS);
                events = events(i);
            }
            all.add(events);
        }
        return all;
    }
}
