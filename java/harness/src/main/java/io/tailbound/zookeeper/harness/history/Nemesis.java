package io.tailbound.zookeeper.harness.history;

import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeoutException;

/** Lets servers and links fail and brings them back, again and again, mostly the leader's. */
final class Nemesis {
    private static final Duration RETURN_LIMIT = Duration.ofSeconds(30);

    private final Ensemble ensemble;
    private final Links links;
    private final SplittableRandom random;
    private final Map<Fault, Integer> done = new LinkedHashMap<>();

    /** What fails. */
    enum Fault {
        /** SIGKILL of one server. */
        KILL,
        /** SIGKILL of all servers within milliseconds. */
        KILL_ALL,
        /** SIGSTOP of one server. */
        STOP,
        /** One server cut from all others, but not from clients. */
        ISOLATE,
        /** One link between two servers cut. */
        CUT
    }

    /** With no {@code links}, only processes fail. */
    Nemesis(Ensemble ensemble, Links links, SplittableRandom random) {
        this.ensemble = ensemble;
        this.links = links;
        this.random = random;
    }

    /** How often each fault was made. */
    Map<Fault, Integer> done() {
        return done;
    }

    /**
     * Works until {@code endNs}, then leaves the ensemble whole.
     *
     * @throws TimeoutException if the ensemble does not come back after a fault
     */
    void work(long endNs) throws IOException, InterruptedException, TimeoutException {
        List<Fault> all = new ArrayList<>(List.of(Fault.values()));
        if (links == null) {
            all.removeAll(List.of(Fault.ISOLATE, Fault.CUT));
        }
        // Every kind once, in random order, before any is drawn again at random.
        List<Fault> due = new ArrayList<>(all);
        while (System.nanoTime() < endNs) {
            Thread.sleep(200 + random.nextInt(800));
            Fault fault =
                    due.isEmpty()
                            ? all.get(random.nextInt(all.size()))
                            : due.remove(random.nextInt(due.size()));
            make(fault);
            done.merge(fault, 1, Integer::sum);
            ensemble.awaitHealthy(RETURN_LIMIT);
        }
    }

    private int victim() {
        int leader = ensemble.leader();
        boolean any = random.nextInt(3) == 0 || leader == Ensemble.NOBODY;
        return any ? 1 + random.nextInt(ensemble.size()) : leader;
    }

    private void make(Fault fault) throws IOException, InterruptedException {
        int victim = victim();
        System.err.println("history: " + fault + " server " + victim);
        switch (fault) {
            case KILL -> {
                ensemble.kill(victim);
                linger();
                ensemble.start(victim);
            }
            case KILL_ALL -> {
                for (int id = 1; id <= ensemble.size(); id++) {
                    ensemble.signal(id, "KILL");
                }
                for (int id = 1; id <= ensemble.size(); id++) {
                    ensemble.kill(id);
                    ensemble.start(id);
                }
            }
            case STOP -> {
                ensemble.signal(victim, "STOP");
                linger();
                ensemble.signal(victim, "CONT");
            }
            case ISOLATE -> {
                links.isolate(victim);
                linger();
                links.heal();
            }
            case CUT -> {
                links.cut(victim, victim % ensemble.size() + 1);
                linger();
                links.heal();
            }
            default -> throw new IllegalStateException("fault " + fault);
        }
    }

    private void linger() throws InterruptedException {
        Thread.sleep(300 + random.nextInt(2500));
    }
}
