package io.tailbound.zookeeper.harness.ensemble;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/** The variants of a comparison that can run here, and why the others cannot. */
public final class Selection {
    private final List<Variant> runnable = new ArrayList<>();
    private final Map<String, String> skipped = new LinkedHashMap<>();

    /**
     * Sorts the wanted variants, and says on standard error which are left out.
     *
     * @param obstacle why a variant cannot be in this comparison, beside what it lacks to run at all
     */
    public Selection(List<Variant> wanted, Function<Variant, Optional<String>> obstacle) {
        for (Variant variant : wanted) {
            Optional<String> why = obstacle.apply(variant).or(() -> Programs.obstacle(variant));
            if (why.isEmpty()) {
                runnable.add(variant);
            } else {
                skipped.put(variant.name(), why.get());
                System.err.println("SKIP " + variant.name() + ": " + why.get());
            }
        }
    }

    /** An obstacle for what is no ZooKeeper. */
    public static Optional<String> zooKeeperOnly(Variant variant) {
        return variant.launcher() == Variant.Launcher.ETCD
                ? Optional.of("not ZooKeeper")
                : Optional.empty();
    }

    /** What can run, in the wanted order. */
    public List<Variant> runnable() {
        return List.copyOf(runnable);
    }

    /** Says in a result what was left out. */
    public void addSkippedTo(ObjectNode result) {
        ArrayNode absent = result.putArray("skipped");
        skipped.forEach((name, why) -> absent.addObject().put("variant", name).put("reason", why));
    }

    /** Says on standard output what was left out. */
    public void printSkipped() {
        skipped.forEach((variant, why) -> System.out.println("skipped " + variant + ": " + why));
    }
}
