package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.KeeperException;

/**
 * The order of events by which a trusted page cache loses a write: the leader's log lags behind its sync,
 * the leader's <em>process</em> is killed and starts again, believes what it reads, and logs further writes
 * in a file that is synced; then its <em>host</em> loses power, which takes the older, unsynced tail. What
 * is left has a hole. The other servers are killed after that, so that it may be elected.
 */
final class KnownOrder {
    private static final Duration LIMIT = Duration.ofSeconds(90);
    private static final long NEVER_MS = 600_000;
    private static final int SETTLE_MS = 1000;
    private static final int SESSION_MS = 10_000;
    private static final String PARENT = "/w";

    private final Ensemble ensemble;
    private final Hosts hosts;
    private final Faults faults;
    private final List<String> wrong;

    KnownOrder(Ensemble ensemble, Hosts hosts, Faults faults, List<String> wrong) {
        this.ensemble = ensemble;
        this.hosts = hosts;
        this.faults = faults;
        this.wrong = wrong;
    }

    /** Plays it; false if the ensemble did not come back. */
    boolean run() throws IOException, InterruptedException, KeeperException {
        try {
            int victim = ensemble.awaitHealthy(LIMIT);
            PowerRun.create(ensemble, PARENT);
            hosts.delaySyncs(victim, NEVER_MS);
            int other = victim == 1 ? 2 : 1;
            write(other, "before");
            write(other, "T1");
            write(other, "T2");
            Thread.sleep(SETTLE_MS);
            faults.kill(victim);
            hosts.delaySyncs(victim, 0);
            ensemble.start(victim);
            ensemble.awaitHealthy(LIMIT);
            write(other, "after1");
            write(other, "after2");
            ensemble.awaitHealthy(LIMIT);
            faults.cutPower(victim);
            ensemble.start(victim);
            ensemble.awaitHealthy(LIMIT);
            // An election in which the victim takes part with what it has.
            int leader = ensemble.awaitHealthy(LIMIT);
            faults.kill(leader == victim ? other : leader);
            faults.end();
            ensemble.awaitHealthy(LIMIT);
        } catch (TimeoutException down) {
            report("does not come back: " + down.getMessage());
            return false;
        }
        Set<String> written = Set.of("before", "T1", "T2", "after1", "after2");
        new Verdict(ensemble).wrong(Map.of(PARENT, written)).forEach(this::report);
        return true;
    }

    private void report(String what) {
        wrong.add("known order: " + what);
        System.out.println("known order: " + what);
    }

    private void write(int server, String name) throws IOException, InterruptedException, KeeperException {
        IOException last = null;
        for (int attempt = 0; attempt < 30; attempt++) {
            try (ZooKeeperConnection connection =
                    ZooKeeperConnection.open(
                            ensemble.clientAddress(server), SessionIdentity.fresh(SESSION_MS), SESSION_MS)) {
                connection.create(PARENT + "/" + name, new byte[0]);
                return;
            } catch (KeeperException.NodeExistsException done) {
                return;
            } catch (IOException down) {
                last = down;
                Thread.sleep(SETTLE_MS);
            }
        }
        throw new IOException("cannot write " + name, last);
    }
}
