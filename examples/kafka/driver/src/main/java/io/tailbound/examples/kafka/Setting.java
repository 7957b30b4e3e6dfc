package io.tailbound.examples.kafka;

import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.util.Locale;

/**
 * What a cluster is made of, as far as it is compared.
 *
 * @param variant what the ZooKeeper servers are
 * @param client how the brokers reconnect to them
 */
record Setting(Variant variant, Client client) {
    /** The ZooKeeper client inside the brokers. */
    enum Client {
        /** As Kafka ships it. */
        ORIGINAL,
        /** The same, with {@code -javaagent:tailbound-zookeeper-client.jar}. */
        AGENT;

        /** The client of a name as it is written in options and results. */
        static Client named(String name) {
            for (Client client : values()) {
                if (client.text().equals(name)) {
                    return client;
                }
            }
            throw new IllegalArgumentException("no client '" + name + "'; there are original and agent");
        }

        /** Its name in options and results. */
        String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    @Override
    public String toString() {
        return variant.name() + ", " + client.text() + " client";
    }
}
