package io.tailbound.examples.kafka;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** What happens to a cluster in a trial. */
enum Situation {
    /** The ZooKeeper leader is killed: until the brokers are connected again (thesis, 5.5.1). */
    RECONNECTION,
    /** The ZooKeeper leader is killed as a topic is created (5.5.2). */
    TOPIC_CREATION,
    /** Messages, the ZooKeeper leader killed (5.5.3). */
    MESSAGES_ZOOKEEPER,
    /** Messages, the broker killed that leads the partition and the cluster (5.5.3). */
    MESSAGES_KAFKA,
    /** Messages, both killed at once (5.5.3). */
    MESSAGES_BOTH;

    /** Its name in options and results. */
    String text() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /**
     * The situations of the given names.
     *
     * @throws IllegalArgumentException if one is unknown
     */
    static List<Situation> named(List<String> names) {
        return names.stream().map(Situation::named).toList();
    }

    private static Situation named(String name) {
        String known = Arrays.stream(values()).map(Situation::text).collect(Collectors.joining(", "));
        return Arrays.stream(values())
                .filter(situation -> situation.text().equals(name))
                .findFirst()
                .orElseThrow(
                        () -> new IllegalArgumentException("no situation '" + name + "'; known: " + known));
    }
}
