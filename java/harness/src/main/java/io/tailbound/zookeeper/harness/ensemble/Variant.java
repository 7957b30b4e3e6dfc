package io.tailbound.zookeeper.harness.ensemble;

import java.util.List;

/**
 * One configuration that is compared with others.
 *
 * @param name how tables call it
 * @param launcher what starts it: {@code stock}, {@code tailbound} or {@code etcd}
 * @param config lines that are added to every zoo.cfg; for etcd, arguments of its command
 * @param jvm options of the JVM; empty for etcd
 */
public record Variant(String name, Launcher launcher, List<String> config, List<String> jvm) {
    /** What starts a server. */
    public enum Launcher {
        /** ZooKeeper's own main class with the artifacts that the harness depends on. */
        STOCK,
        /** {@code java/bin/tailbound-zookeeper CONF}. */
        TAILBOUND,
        /** The program etcd. */
        ETCD
    }

    /** The same configuration under another name, for a baseline against itself. */
    public Variant named(String other) {
        return new Variant(other, launcher, config, jvm);
    }
}
