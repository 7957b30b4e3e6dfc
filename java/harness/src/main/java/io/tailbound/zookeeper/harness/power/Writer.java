package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.KeeperException;

/** Creates znodes below one parent on drawn servers until it is closed, and keeps what was acknowledged. */
final class Writer implements AutoCloseable {
    private static final int SESSION_MS = 6000;
    private static final int HANDSHAKE_MS = 700;
    private static final int REPLY_MS = 1500;
    private static final int PAUSE_MS = 8;
    private static final int WRITES_PER_CONNECTION = 60;

    private final Ensemble ensemble;
    private final String parent;
    private final SplittableRandom random;
    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Thread thread;
    private volatile boolean ends;
    private int number;

    Writer(Ensemble ensemble, String parent, SplittableRandom random) {
        this.ensemble = ensemble;
        this.parent = parent;
        this.random = random;
        this.thread = new Thread(this::work, "writer");
        thread.setDaemon(true);
        thread.start();
    }

    private void work() {
        while (!ends) {
            int server = 1 + random.nextInt(ensemble.size());
            try (ZooKeeperConnection connection =
                    ZooKeeperConnection.open(
                            ensemble.clientAddress(server),
                            SessionIdentity.fresh(SESSION_MS),
                            HANDSHAKE_MS)) {
                connection.setReplyTimeout(REPLY_MS);
                for (int i = 0; i < WRITES_PER_CONNECTION && !ends; i++) {
                    write(connection);
                    Thread.sleep(random.nextInt(PAUSE_MS));
                }
            } catch (IOException | KeeperException down) {
                // Another server, and another name: this write may have happened or not.
                pause();
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private void write(ZooKeeperConnection connection) throws IOException, KeeperException {
        String name = "n" + ++number;
        connection.create(parent + "/" + name, new byte[0]);
        acknowledged.add(name);
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The names of what was created for sure. */
    Set<String> acknowledged() {
        return Set.copyOf(acknowledged);
    }

    @Override
    public void close() throws InterruptedException {
        ends = true;
        thread.join();
    }
}
