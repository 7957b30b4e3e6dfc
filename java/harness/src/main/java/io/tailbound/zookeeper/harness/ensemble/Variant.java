package io.tailbound.zookeeper.harness.ensemble;

import java.util.List;

/**
 * One configuration that is compared with others.
 *
 * @param name how tables call it
 * @param launcher what starts it: {@code stock}, {@code tailbound} or {@code etcd}
 * @param config lines that are added to every zoo.cfg; for etcd, arguments of its command
 * @param jvm options of the JVM; empty for etcd
 * @param options options of {@code tailbound-zookeeper}, where {@code {cpu}} stands for a CPU that the
 *     servers get in turns; empty for the others, and where a table has none
 */
public record Variant(
        String name,
        Launcher launcher,
        List<String> config,
        List<String> jvm,
        List<String> options) {
    /** A table without options of the launcher has none of them. */
    public Variant {
        options = options == null ? List.of() : options;
        if (!options.isEmpty() && launcher != Launcher.TAILBOUND) {
            throw new IllegalArgumentException(
                    "variant '" + name + "' has options " + options
                            + "; only the launcher tailbound takes options");
        }
    }

    /** A configuration without options of its launcher. */
    public Variant(String name, Launcher launcher, List<String> config, List<String> jvm) {
        this(name, launcher, config, jvm, List.of());
    }

    /** What starts a server. */
    public enum Launcher {
        /** ZooKeeper's own main class with the artifacts that the harness depends on. */
        STOCK,
        /** {@code java/bin/tailbound-zookeeper OPTIONS CONF}. */
        TAILBOUND,
        /** The program etcd. */
        ETCD
    }

    /** The same configuration under another name, for a baseline against itself. */
    public Variant named(String other) {
        return new Variant(other, launcher, config, jvm, options);
    }

    /** The options of the launcher for server {@code id} on a machine with so many CPUs. */
    List<String> options(int id, int cpus) {
        String cpu = Integer.toString((id - 1) % cpus);
        return options.stream().map(option -> option.replace("{cpu}", cpu)).toList();
    }
}
