package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.util.EnumMap;
import java.util.Map;
import java.util.SplittableRandom;

/** Kills processes, cuts power and delays syncs, one at a time or all together, as drawn. */
final class Faults {
    private static final int LONGEST_PAUSE_MS = 1200;
    private static final int LONGEST_DELAY_MS = 6000;

    /** What may happen. */
    enum Kind {
        /** The process ends; its page cache stays. */
        KILL,
        /** The leader's process ends. */
        KILL_LEADER,
        /** A host loses power. */
        POWER,
        /** All hosts lose power at once. */
        BLACKOUT,
        /** The syncs of a log take longer from now on. */
        DELAY,
        /** They take no longer. */
        NO_DELAY
    }

    private final Ensemble ensemble;
    private final Hosts hosts;
    private final SplittableRandom random;
    private final Map<Kind, Integer> done = new EnumMap<>(Kind.class);

    Faults(Ensemble ensemble, Hosts hosts, SplittableRandom random) {
        this.ensemble = ensemble;
        this.hosts = hosts;
        this.random = random;
    }

    Map<Kind, Integer> done() {
        return done;
    }

    /** Some faults with pauses between them; servers that ended may be started again in between. */
    String some() throws IOException, InterruptedException {
        StringBuilder story = new StringBuilder();
        int count = 3 + random.nextInt(5);
        for (int i = 0; i < count; i++) {
            story.append(one()).append(' ');
            Thread.sleep(random.nextInt(LONGEST_PAUSE_MS));
            int server = draw();
            if (!ensemble.isAlive(server)) {
                ensemble.start(server);
                story.append("start").append(server).append(' ');
                Thread.sleep(random.nextInt(2 * LONGEST_PAUSE_MS));
            }
        }
        return story.toString().strip();
    }

    private int draw() {
        return 1 + random.nextInt(ensemble.size());
    }

    private String one() throws IOException, InterruptedException {
        int dice = random.nextInt(20);
        int server = draw();
        if (dice < 6) {
            long ms = random.nextInt(LONGEST_DELAY_MS);
            hosts.delaySyncs(server, ms);
            return did(Kind.DELAY) + server + "=" + ms;
        } else if (dice < 8) {
            hosts.delaySyncs(server, 0);
            return did(Kind.NO_DELAY) + server;
        } else if (dice < 11) {
            kill(server);
            return did(Kind.KILL) + server;
        } else if (dice < 14) {
            int leader = ensemble.leader();
            kill(leader == Ensemble.NOBODY ? server : leader);
            return did(Kind.KILL_LEADER) + leader;
        } else if (dice < 19) {
            cutPower(server);
            return did(Kind.POWER) + server;
        }
        for (int id = 1; id <= ensemble.size(); id++) {
            stop(id);
        }
        for (int id = 1; id <= ensemble.size(); id++) {
            cutPower(id);
        }
        return did(Kind.BLACKOUT);
    }

    private String did(Kind kind) {
        done.merge(kind, 1, Integer::sum);
        return kind.name().toLowerCase();
    }

    void kill(int server) {
        if (ensemble.isAlive(server)) {
            ensemble.kill(server);
        }
    }

    private void stop(int server) throws IOException {
        if (ensemble.isAlive(server)) {
            ensemble.signal(server, "STOP");
        }
    }

    /** The server stops, its disk stops, its process is gone, and the host boots. */
    void cutPower(int server) throws IOException {
        stop(server);
        hosts.cutPower(server);
        kill(server);
        hosts.restorePower(server);
        hosts.delaySyncs(server, 0);
    }

    /** Ends all trouble: no delays, every process runs. */
    void end() throws IOException {
        for (int id = 1; id <= ensemble.size(); id++) {
            hosts.delaySyncs(id, 0);
            if (!ensemble.isAlive(id)) {
                ensemble.start(id);
            }
        }
    }
}
