package io.tailbound.examples.kafka;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Messages through one partition, and when they arrive. Open loop: every message has an intended time
 * of sending, which does not wait for the messages before it and from which its latency counts.
 */
final class MessageStream implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int DELIVERY_LIMIT_MS = 120_000;

    /**
     * A message that arrived.
     *
     * @param intendedNs when it should have been sent, by {@code System.nanoTime}
     * @param latencyNs from then until the consumer had it
     */
    record Arrival(long intendedNs, long latencyNs) {
        /** When the consumer had it, by {@code System.nanoTime}. */
        long atNs() {
            return intendedNs + latencyNs;
        }
    }

    private final TopicPartition partition;
    private final long periodNs;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<Arrival> arrivals = new ArrayList<>();
    private final AtomicLong refused = new AtomicLong();
    private final Thread sending;
    private final Thread receiving;
    private volatile boolean stopped;
    private volatile long sent;
    private volatile long firstNs;

    /**
     * Starts the stream.
     *
     * @param topics the cluster
     * @param topic a topic with one partition, for this stream alone
     * @param periodNs from one intended time of sending to the next, in nanoseconds
     */
    MessageStream(Topics topics, String topic, long periodNs) {
        this.partition = new TopicPartition(topic, 0);
        this.periodNs = periodNs;
        Properties sender = topics.client();
        sender.put("acks", "all");
        sender.put("linger.ms", 0);
        sender.put("delivery.timeout.ms", DELIVERY_LIMIT_MS);
        sender.put("max.block.ms", DELIVERY_LIMIT_MS);
        this.producer = new KafkaProducer<>(sender, new ByteArraySerializer(), new ByteArraySerializer());
        Properties receiver = topics.client();
        // No group: its coordinator could be the broker that is killed.
        receiver.put("auto.offset.reset", "earliest");
        receiver.put("enable.auto.commit", false);
        this.consumer = new KafkaConsumer<>(receiver, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.sending = new Thread(this::send, "producer");
        this.receiving = new Thread(this::receive, "consumer");
        // The first metadata is no part of any latency.
        producer.partitionsFor(topic);
        receiving.start();
        sending.start();
    }

    private void send() {
        firstNs = System.nanoTime();
        try {
            while (!stopped) {
                long intended = firstNs + sent * periodNs;
                long wait = intended - System.nanoTime();
                if (wait > 0) {
                    LockSupport.parkNanos(wait);
                    continue;
                }
                byte[] value = ByteBuffer.allocate(Long.BYTES).putLong(intended).array();
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, value), (metadata, failure) -> {
                    if (failure != null) {
                        refused.incrementAndGet();
                    }
                });
                sent = sent + 1;
            }
        } catch (InterruptException ended) {
            // The trial is over.
            stopped = true;
        }
    }

    private void receive() {
        try {
            consumer.assign(List.of(partition));
            while (true) {
                var records = consumer.poll(POLL);
                long now = System.nanoTime();
                synchronized (arrivals) {
                    records.forEach(record -> {
                        long intended = ByteBuffer.wrap(record.value()).getLong();
                        arrivals.add(new Arrival(intended, now - intended));
                    });
                }
            }
        } catch (WakeupException | InterruptException ended) {
            // The trial is over.
            stopped = true;
        }
    }

    /** No more messages; those that are under way may still arrive. */
    void stopSending() throws InterruptedException {
        stopped = true;
        LockSupport.unpark(sending);
        sending.join(TimeUnit.SECONDS.toMillis(1));
    }

    /** How many messages were given to the producer. */
    long sent() {
        return sent;
    }

    /** How many messages the producer gave up. */
    long refused() {
        return refused.get();
    }

    /** The messages that have arrived so far, in the order of their arrival. */
    List<Arrival> arrivals() {
        synchronized (arrivals) {
            return List.copyOf(arrivals);
        }
    }

    /** Ends the stream at once. */
    @Override
    public void close() throws InterruptedException {
        stopped = true;
        sending.interrupt();
        consumer.wakeup();
        sending.join();
        receiving.join();
        producer.close(Duration.ZERO);
        consumer.close(Duration.ZERO);
    }
}
