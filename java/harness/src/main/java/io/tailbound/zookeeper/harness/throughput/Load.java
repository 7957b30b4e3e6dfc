package io.tailbound.zookeeper.harness.throughput;

import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.apache.zookeeper.KeeperException;

/** Sessions on one ensemble that read or write in windows of time; idle in between. */
final class Load implements AutoCloseable {
    private static final int SESSION_MS = 40_000;
    private static final int TIMEOUT_MS = 10_000;
    private static final int DATA_BYTES = 100;
    private static final String PARENT = "/load";

    private final List<ZooKeeperConnection> sessions = new ArrayList<>();
    private final ExecutorService threads;

    /** What the sessions do. */
    enum Operation {
        /** getData from the server that the session is on. */
        READ,
        /** setData. */
        WRITE
    }

    /**
     * What one window gave.
     *
     * @param latenciesNs from the intended sending of every operation to its end
     * @param lengthNs from the begin of the window to the last end
     */
    record Window(List<Long> latenciesNs, long lengthNs) {
        /** Operations per second. */
        double rate() {
            return latenciesNs.size() * 1e9 / lengthNs;
        }
    }

    /** Opens sessions, spread over the servers, each with a znode of its own. */
    Load(Ensemble ensemble, int count) throws IOException, KeeperException {
        threads = Executors.newFixedThreadPool(count);
        for (int session = 0; session < count; session++) {
            var address = ensemble.clientAddress(1 + session % ensemble.size());
            var identity = SessionIdentity.fresh(SESSION_MS);
            var connection = ZooKeeperConnection.open(address, identity, TIMEOUT_MS);
            sessions.add(connection);
            if (session == 0) {
                connection.create(PARENT, new byte[0]);
            }
            connection.create(path(session), new byte[DATA_BYTES]);
        }
    }

    private static String path(int session) {
        return PARENT + "/s" + session;
    }

    /**
     * Lets all sessions work for a while.
     *
     * @param periodNs time between a session's intended operations (open loop), or 0 to send the next
     *     one when the last has ended (closed loop)
     * @throws IOException if any operation fails
     */
    Window run(Operation operation, long lengthNs, long periodNs)
            throws IOException, InterruptedException {
        long begin = System.nanoTime();
        List<Future<List<Long>>> results = new ArrayList<>();
        for (int session = 0; session < sessions.size(); session++) {
            int own = session;
            results.add(threads.submit(() -> work(own, operation, begin, lengthNs, periodNs)));
        }
        List<Long> all = new ArrayList<>();
        for (Future<List<Long>> result : results) {
            try {
                all.addAll(result.get());
            } catch (ExecutionException failed) {
                throw new IOException("an operation failed: " + failed.getCause(), failed);
            }
        }
        return new Window(Collections.unmodifiableList(all), System.nanoTime() - begin);
    }

    private List<Long> work(
            int session, Operation operation, long begin, long lengthNs, long periodNs)
            throws IOException, KeeperException {
        ZooKeeperConnection connection = sessions.get(session);
        byte[] data = new byte[DATA_BYTES];
        List<Long> latencies = new ArrayList<>();
        // Sessions take turns within a period.
        long offset = periodNs * session / sessions.size();
        for (long index = 0; ; index++) {
            long now = System.nanoTime();
            long intended = periodNs == 0 ? now : begin + offset + index * periodNs;
            if (intended - begin >= lengthNs) {
                return latencies;
            }
            while (intended > now) {
                LockSupport.parkNanos(intended - now);
                now = System.nanoTime();
            }
            if (operation == Operation.READ) {
                connection.getData(path(session));
            } else {
                connection.setData(path(session), data);
            }
            latencies.add(System.nanoTime() - intended);
        }
    }

    @Override
    public void close() throws IOException {
        threads.shutdownNow();
        for (ZooKeeperConnection session : sessions) {
            session.close();
        }
    }
}
