package io.tailbound.examples.kafka;

import io.tailbound.examples.kafka.MessageStream.Arrival;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * Messages from producer to consumer while leaders are killed (thesis, section 5.5.3). The broker that
 * leads the partition also controls the cluster, so that its loss costs both elections.
 *
 * <p>{@code worst_latency} is that of the messages that had not arrived before the fault;
 * {@code worst_before} that of the others, without those of the first second.
 */
final class Delivery implements Experiment {
    private static final long WARM_UP_MS = 2_000;
    private static final long FLOW_BEFORE_NS = TimeUnit.MILLISECONDS.toNanos(1_500);
    private static final long LEFT_OUT_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long POLL_MS = 20;

    private final boolean killServer;
    private final boolean killBroker;
    private final long periodNs;
    private final long watchNs;
    private final Path raw;
    private int made;

    /**
     * What is killed, and how it is watched.
     *
     * @param killServer whether the ZooKeeper leader
     * @param killBroker whether the broker that leads
     * @param periodNs from one message to the next, in nanoseconds
     * @param watchNs for how long after the fault messages are sent at least, in nanoseconds
     * @param raw the folder for every message's latency
     */
    Delivery(boolean killServer, boolean killBroker, long periodNs, long watchNs, Path raw) {
        this.killServer = killServer;
        this.killBroker = killBroker;
        this.periodNs = periodNs;
        this.watchNs = watchNs;
        this.raw = raw;
    }

    @Override
    public Outcome run(KafkaCluster cluster, SplittableRandom random)
            throws IOException, InterruptedException, TimeoutException {
        int server = cluster.awaitHealthy();
        Broker broker = cluster.controller();
        String topic = "messages-" + made++ + "-" + Long.toHexString(random.nextLong());
        cluster.topics().create(topic, List.of(broker.id(), cluster.other(broker).id()));
        try (MessageStream stream = new MessageStream(cluster.topics(), topic, periodNs)) {
            awaitFlow(stream);
            Experiment.pause(random);
            Observation observation = new Observation(cluster);
            long faultNs = System.nanoTime();
            if (killServer) {
                cluster.strikeServer(server);
            }
            if (killBroker) {
                broker.strike();
            }
            awaitArrivals(stream, faultNs);
            write(stream.arrivals(), faultNs, topic, cluster.setting());
            return outcome(stream, faultNs).count("expired_sessions", observation.expirations());
        }
    }

    /**
     * Lets messages flow on a topic of its own and kills nothing: the first that a fresh cluster carries
     * are slower than all others.
     */
    static void warmUp(KafkaCluster cluster, long periodNs)
            throws InterruptedException, TimeoutException {
        Broker broker = cluster.controller();
        cluster.topics().create("warm-up", List.of(broker.id(), cluster.other(broker).id()));
        try (MessageStream stream = new MessageStream(cluster.topics(), "warm-up", periodNs)) {
            Thread.sleep(WARM_UP_MS);
            stream.stopSending();
        }
    }

    private void awaitFlow(MessageStream stream) throws InterruptedException, TimeoutException {
        long begin = System.nanoTime();
        while (stream.arrivals().isEmpty() || System.nanoTime() - begin < FLOW_BEFORE_NS || behind(stream)) {
            if (System.nanoTime() - begin > LIMIT_NS) {
                throw new TimeoutException("messages do not flow before the fault");
            }
            Thread.sleep(POLL_MS);
        }
    }

    /** Waits until the stream has been watched long enough and everything has arrived. */
    private void awaitArrivals(MessageStream stream, long faultNs) throws InterruptedException, TimeoutException {
        while (System.nanoTime() - faultNs < watchNs || behind(stream)) {
            if (System.nanoTime() - faultNs > LIMIT_NS) {
                throw new TimeoutException("messages do not arrive: " + stream.arrivals().size()
                        + " of " + stream.sent() + ", refused " + stream.refused());
            }
            Thread.sleep(POLL_MS);
        }
        stream.stopSending();
        long end = System.nanoTime() + LIMIT_NS;
        while (stream.arrivals().size() + stream.refused() < stream.sent() && System.nanoTime() < end) {
            Thread.sleep(POLL_MS);
        }
    }

    /** Whether messages older than a few periods are still missing. */
    private boolean behind(MessageStream stream) {
        long recent = 2 + TimeUnit.MILLISECONDS.toNanos(200) / periodNs;
        return stream.arrivals().size() + stream.refused() + recent < stream.sent();
    }

    private static Outcome outcome(MessageStream stream, long faultNs) {
        List<Arrival> arrivals = stream.arrivals();
        long begin = arrivals.get(0).intendedNs() + LEFT_OUT_NS;
        Stream<Arrival> before =
                arrivals.stream().filter(each -> each.atNs() < faultNs && each.intendedNs() > begin);
        Stream<Arrival> after = arrivals.stream().filter(each -> each.atNs() >= faultNs);
        return new Outcome()
                .measure("worst_before", worst(before))
                .measure("worst_latency", worst(after))
                .count("messages", stream.sent())
                .count("lost_messages", stream.sent() - arrivals.size());
    }

    private static long worst(Stream<Arrival> arrivals) {
        return arrivals.mapToLong(Arrival::latencyNs).max().orElse(0);
    }

    private void write(List<Arrival> arrivals, long faultNs, String topic, Setting setting) throws IOException {
        Files.createDirectories(raw);
        String kind = killServer && killBroker ? "both" : killServer ? "zookeeper" : "kafka";
        String name = kind + "-" + setting.variant().name() + "-" + setting.client().text() + "-" + topic + ".csv";
        StringBuilder text = new StringBuilder("intended_after_fault_ns,latency_ns\n");
        for (Arrival arrival : arrivals) {
            text.append(arrival.intendedNs() - faultNs).append(',').append(arrival.latencyNs()).append('\n');
        }
        Files.writeString(raw.resolve(name), text);
    }
}
