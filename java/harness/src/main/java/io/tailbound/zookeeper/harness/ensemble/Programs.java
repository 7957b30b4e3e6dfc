package io.tailbound.zookeeper.harness.ensemble;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Where the programs are that servers run from, and what is missing. */
public final class Programs {
    private Programs() {}

    /** The java command of this JVM. */
    static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /** {@code java/bin/tailbound-zookeeper} of the repository, which the system property names. */
    static Path tailboundLauncher() {
        String launcher = System.getProperty("tailbound.launcher", "bin/tailbound-zookeeper");
        return Path.of(launcher).toAbsolutePath();
    }

    /** The program on the PATH, if there is one. */
    static Optional<Path> find(String program) {
        for (String folder : System.getenv().getOrDefault("PATH", "").split(":")) {
            Path candidate = Path.of(folder, program);
            if (Files.isExecutable(candidate)) {
                return Optional.of(candidate);
            }
        }
        return Optional.empty();
    }

    /** Why a variant cannot run here; empty if it can. */
    public static Optional<String> obstacle(Variant variant) {
        return switch (variant.launcher()) {
            case STOCK -> Optional.empty();
            case TAILBOUND ->
                    Files.isExecutable(tailboundLauncher())
                            ? Optional.empty()
                            : Optional.of("no " + tailboundLauncher() + "; run make zookeeper");
            case ETCD ->
                    find("etcd").isPresent()
                            ? Optional.empty()
                            : Optional.of("no etcd; on Debian: apt-get install etcd-server");
        };
    }
}
