package io.tailbound.examples.kafka;

import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.LoopbackBlock;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.Node;

/** Three ZooKeeper servers and two brokers, on addresses of one loopback block. */
final class KafkaCluster implements AutoCloseable {
    private static final int SERVERS = 3;
    private static final int BROKERS = 2;
    private static final int FIRST_BROKER_ADDRESS = 11;
    private static final String SERVER_HEAP = "-Xmx256m";
    private static final Duration START_LIMIT = Duration.ofSeconds(90);
    private static final long POLL_MS = 50;

    private final Setting setting;
    private final Ensemble ensemble;
    private final List<Broker> brokers = new ArrayList<>();
    private Topics topics;

    /**
     * A cluster, not started.
     *
     * @param setting what it is made of
     * @param tickMs ZooKeeper's tickTime, in milliseconds
     * @param sessionMs time-out of the brokers' sessions, in milliseconds; two ticks at least
     * @param folder where data and logs go; created
     */
    KafkaCluster(Setting setting, long tickMs, long sessionMs, Path folder) throws IOException {
        this.setting = setting;
        LoopbackBlock block = LoopbackBlock.claim();
        // In ticks, a server on a busy machine would not have long to start: 60 s and 30 s at 300 ms.
        List<String> config = List.of("tickTime=" + tickMs, "initLimit=200", "syncLimit=100");
        this.ensemble = Ensemble.of(
                new Ensemble.Setup(small(setting.variant()), SERVERS, block, folder, config, Map.of()));
        for (int id = 0; id < BROKERS; id++) {
            String host = block.site(FIRST_BROKER_ADDRESS + id).host();
            boolean agent = setting.client() == Setting.Client.AGENT;
            brokers.add(new Broker(id, host, folder.resolve("broker-" + id), agent));
        }
        for (Broker broker : brokers) {
            broker.prepare(zooKeeper(), sessionMs);
        }
    }

    /** The variant with a heap that leaves room for the brokers. */
    private static Variant small(Variant variant) {
        List<String> jvm = new ArrayList<>(variant.jvm());
        jvm.add(SERVER_HEAP);
        return new Variant(variant.name(), variant.launcher(), variant.config(), List.copyOf(jvm));
    }

    private String zooKeeper() {
        return IntStream.rangeClosed(1, SERVERS)
                .mapToObj(ensemble::clientAddress)
                .map(KafkaCluster::text)
                .collect(Collectors.joining(","));
    }

    private static String text(InetSocketAddress address) {
        return address.getHostString() + ":" + address.getPort();
    }

    /** What it is made of. */
    Setting setting() {
        return setting;
    }

    /** Starts everything and waits until all of it serves. */
    void start() throws IOException, InterruptedException, TimeoutException {
        ensemble.start();
        ensemble.awaitHealthy(START_LIMIT);
        startEndedBrokers();
        topics = new Topics(brokers.stream().map(Broker::address).collect(Collectors.joining(",")));
        awaitHealthy();
        for (Broker broker : brokers) {
            broker.checkAgent();
        }
    }

    /**
     * Waits until every server and every broker serves, and returns who leads the ensemble. A broker that
     * has ended is started again, as a service manager would: on a busy machine it can lose its short
     * session while it starts, and then gives up.
     */
    int awaitHealthy() throws IOException, InterruptedException, TimeoutException {
        int leader = ensemble.awaitHealthy(START_LIMIT);
        long end = System.nanoTime() + START_LIMIT.toNanos();
        while (topics.nodes() < BROKERS || topics.controller() == null) {
            if (System.nanoTime() > end) {
                throw new TimeoutException(setting + ": the brokers do not serve");
            }
            startEndedBrokers();
            Thread.sleep(POLL_MS);
        }
        return leader;
    }

    private void startEndedBrokers() throws IOException {
        for (Broker broker : brokers) {
            if (!broker.isAlive()) {
                broker.close();
                broker.start();
            }
        }
    }

    /** The brokers. */
    List<Broker> brokers() {
        return brokers;
    }

    /** Its topics. */
    Topics topics() {
        return topics;
    }

    /** The broker that controls the cluster. */
    Broker controller() throws TimeoutException {
        Node node = topics.controller();
        if (node == null) {
            throw new TimeoutException(setting + ": no broker controls the cluster");
        }
        return brokers.get(node.id());
    }

    /** The broker that is not {@code broker}. */
    Broker other(Broker broker) {
        return brokers.get(BROKERS - 1 - broker.id());
    }

    /** Sends SIGKILL to a ZooKeeper server, and does not wait. */
    void strikeServer(int id) throws IOException {
        ensemble.signal(id, "KILL");
    }

    /** Starts whatever has been killed, and waits until all of it serves. */
    void repair() throws IOException, InterruptedException, TimeoutException {
        for (int id = 1; id <= SERVERS; id++) {
            // After a signal that it has not acted on yet, it must not count as alive.
            Thread.sleep(POLL_MS);
            if (!ensemble.isAlive(id)) {
                ensemble.kill(id);
                ensemble.start(id);
            }
        }
        startEndedBrokers();
        awaitHealthy();
    }

    /** Kills everything; data and logs stay. */
    @Override
    public void close() {
        if (topics != null) {
            topics.close();
        }
        brokers.forEach(Broker::close);
        ensemble.close();
    }
}
