package io.tailbound.examples.kafka;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.TopicExistsException;

/** The topics of a cluster, by Kafka's administration client. */
final class Topics implements AutoCloseable {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final int QUESTION_LIMIT_MS = 5_000;
    private static final long POLL_MS = 20;
    private static final short COPIES = 2;

    private final String brokers;
    private final Admin admin;

    /** The topics of the cluster with the given brokers, as {@code bootstrap.servers} names them. */
    Topics(String brokers) {
        this.brokers = brokers;
        Properties properties = client();
        properties.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) LIMIT.toMillis());
        this.admin = Admin.create(properties);
    }

    /**
     * What all clients of Kafka are given here: retries that do not add much to what is measured. The
     * defaults are 50 ms to 1 s.
     */
    Properties client() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", brokers);
        properties.put("retry.backoff.ms", 20);
        properties.put("retry.backoff.max.ms", 100);
        properties.put("reconnect.backoff.ms", 20);
        properties.put("reconnect.backoff.max.ms", 100);
        return properties;
    }

    /** How many brokers there are; 0 while none answers. */
    int nodes() throws InterruptedException {
        try {
            return answer(admin.describeCluster().nodes()).size();
        } catch (ExecutionException | TimeoutException none) {
            return 0;
        }
    }

    /** The broker that controls the cluster, or null. */
    Node controller() {
        try {
            Node node = answer(admin.describeCluster().controller());
            return node == null || node.isEmpty() ? null : node;
        } catch (ExecutionException | TimeoutException none) {
            return null;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    private static <T> T answer(KafkaFuture<T> question)
            throws InterruptedException, ExecutionException, TimeoutException {
        return question.get(QUESTION_LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    /**
     * Creates a topic with one partition on both brokers, as Kafka places them; asks again when refused.
     *
     * @return how often it was refused
     */
    long create(String name) throws InterruptedException, TimeoutException {
        return create(new NewTopic(name, 1, COPIES));
    }

    /** Creates a topic with one partition whose first broker leads, and waits until both have it. */
    void create(String name, List<Integer> placement) throws InterruptedException, TimeoutException {
        create(new NewTopic(name, Map.of(0, placement)));
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!isPlaced(name, placement)) {
            if (System.nanoTime() > end) {
                throw new TimeoutException("topic " + name + " is not on both brokers");
            }
            Thread.sleep(POLL_MS);
        }
    }

    private boolean isPlaced(String name, List<Integer> placement) throws InterruptedException {
        try {
            TopicPartitionInfo partition =
                    answer(admin.describeTopics(List.of(name)).allTopicNames())
                            .get(name)
                            .partitions()
                            .get(0);
            return partition.leader() != null
                    && partition.leader().id() == placement.get(0)
                    && partition.isr().size() == placement.size();
        } catch (ExecutionException | TimeoutException notYet) {
            return false;
        }
    }

    private long create(NewTopic topic) throws InterruptedException, TimeoutException {
        long end = System.nanoTime() + LIMIT.toNanos();
        long refusals = 0;
        while (true) {
            try {
                CreateTopicsOptions options = new CreateTopicsOptions().timeoutMs((int) LIMIT.toMillis());
                admin.createTopics(List.of(topic), options).all().get(LIMIT.toMillis(), TimeUnit.MILLISECONDS);
                return refusals;
            } catch (ExecutionException failed) {
                if (failed.getCause() instanceof TopicExistsException) {
                    // An earlier request was carried out and its answer lost: nobody else uses this name.
                    return refusals;
                }
                if (System.nanoTime() > end) {
                    throw new TimeoutException("topic " + topic.name() + " is refused: " + failed.getCause());
                }
                refusals++;
                Thread.sleep(POLL_MS);
            }
        }
    }

    @Override
    public void close() {
        admin.close(Duration.ofSeconds(2));
    }
}
