package io.tailbound.zookeeper.harness.probe;

import io.tailbound.zookeeper.harness.client.SessionExpired;
import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.zookeeper.KeeperException;

/**
 * One live session on one connection, which its server closes when it has no leader. From then on the
 * session is taken to the next server every 3 ms until one serves it.
 */
final class ZooKeeperProbe extends WriteProbe {
    private static final String PATH = "/tailbound-probe";
    private static final int SESSION_MS = 40_000;
    /** For the first connection, which nothing is measured of. */
    private static final int START_MS = 10_000;

    private static final int HANDSHAKE_MS = 250;
    /** A reply that has not come by now will not: the connection is given up. */
    private static final int REPLY_MS = 1000;

    private final Thread writer;
    private ZooKeeperConnection connection;
    private SessionIdentity identity = SessionIdentity.fresh(SESSION_MS);
    private int attempts;

    ZooKeeperProbe(List<InetSocketAddress> targets, long periodNs) throws IOException {
        super(targets, periodNs);
        connection = connect(START_MS);
        connection.setReplyTimeout(START_MS);
        createPath();
        connection.setReplyTimeout(REPLY_MS);
        writer = new Thread(this::write, "zookeeper-probe");
        writer.setDaemon(true);
        writer.start();
    }

    private ZooKeeperConnection connect(int limitMs) throws IOException {
        var opened = ZooKeeperConnection.open(target(attempts++), identity, limitMs);
        opened.setReplyTimeout(REPLY_MS);
        identity = opened.identity();
        return opened;
    }

    private void createPath() throws IOException {
        try {
            connection.create(PATH, new byte[0]);
        } catch (KeeperException.NodeExistsException fromAnEarlierProbe) {
            // As wanted.
        } catch (KeeperException refused) {
            throw new IOException("cannot create " + PATH, refused);
        }
    }

    private void write() {
        long index = 0;
        while (!isStopped()) {
            long intended = intendedNs(index);
            sleepUntil(intended);
            if (connection == null && !reconnect()) {
                continue;
            }
            long sent = System.nanoTime();
            try {
                connection.setData(PATH, Long.toString(index).getBytes(StandardCharsets.US_ASCII));
                log().add(new WriteLog.Write(intended, sent, System.nanoTime()));
                index++;
            } catch (IOException | KeeperException lost) {
                disconnect();
            }
        }
    }

    private boolean reconnect() {
        long begun = System.nanoTime();
        try {
            connection = connect(HANDSHAKE_MS);
            return true;
        } catch (SessionExpired expired) {
            identity = SessionIdentity.fresh(SESSION_MS);
        } catch (IOException down) {
            sleepUntil(begun + RETRY_NS);
        }
        return false;
    }

    private void disconnect() {
        try {
            connection.close();
        } catch (IOException closed) {
            // It is given up either way.
        }
        connection = null;
    }

    @Override
    public void close() {
        stop();
        try {
            writer.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        if (connection != null) {
            disconnect();
        }
    }
}
