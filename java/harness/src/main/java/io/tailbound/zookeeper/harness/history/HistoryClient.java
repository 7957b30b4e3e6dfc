package io.tailbound.zookeeper.harness.history;

import io.tailbound.zookeeper.harness.client.SessionExpired;
import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.proto.GetDataResponse;

/**
 * One client: one operation at a time, on any server, also on one that is cut off from the others.
 *
 * <p>ZooKeeper promises linearizable writes. Its reads come from one server's copy and may be old, and
 * {@code sync} does not help for sure: a leader that was deposed without knowing answers it on its own.
 * A read here is therefore a write to a znode of the client's own, whose answer proves that the server
 * has all that was acknowledged before, followed by the read on the same connection ({@link
 * Reads#FENCED}); such reads are linearizable. {@link Reads#SYNCED} uses sync instead.
 */
final class HistoryClient {
    private static final int SESSION_MS = 4000;
    private static final int HANDSHAKE_MS = 500;
    private static final int REPLY_MS = 1500;
    private static final int PAUSE_MS = 3;
    private static final int RETRY_MS = 10;
    /** After so many operations a client goes to another server. */
    private static final int OPERATIONS_PER_CONNECTION = 150;

    /** How a read is made linearizable. */
    enum Reads {
        /** After a write of the client's own. */
        FENCED,
        /** After a sync; not safe against a deposed leader. */
        SYNCED,
        /** No reads. */
        NONE
    }

    private final int id;
    private final List<InetSocketAddress> servers;
    private final Keys keys;
    private final History history;
    private final Reads reads;
    private final SplittableRandom random;
    private SessionIdentity identity = SessionIdentity.fresh(SESSION_MS);
    private ZooKeeperConnection connection;
    private int operationsHere;
    private int lastVersion;
    private long writes;

    HistoryClient(
            int id, List<InetSocketAddress> servers, Keys keys, History history, Reads reads,
            SplittableRandom random) {
        this.id = id;
        this.servers = servers;
        this.keys = keys;
        this.history = history;
        this.reads = reads;
        this.random = random;
    }

    private String fence() {
        return Keys.PARENT + "/fence" + id;
    }

    /** Makes the client's own znode, and, for the first client, all others. */
    void prepare() throws IOException, KeeperException {
        connect();
        if (id == 1) {
            connection.create(Keys.PARENT, new byte[0]);
            for (String key : keys.all()) {
                connection.create(key, new byte[0]);
            }
        }
        connection.create(fence(), new byte[0]);
    }

    private void connect() throws IOException {
        InetSocketAddress server = servers.get(random.nextInt(servers.size()));
        try {
            connection = ZooKeeperConnection.open(server, identity, HANDSHAKE_MS);
        } catch (SessionExpired expired) {
            identity = SessionIdentity.fresh(SESSION_MS);
            throw expired;
        }
        connection.setReplyTimeout(REPLY_MS);
        identity = connection.identity();
        operationsHere = 0;
    }

    /** Works until {@code endNs}. */
    void work(long endNs) throws InterruptedException {
        while (System.nanoTime() < endNs) {
            Thread.sleep(random.nextInt(PAUSE_MS));
            if (!ensureConnected()) {
                Thread.sleep(RETRY_MS);
                continue;
            }
            String key = keys.next(random.nextInt(Integer.MAX_VALUE));
            int dice = random.nextInt(10);
            if (dice < 3 && reads != Reads.NONE) {
                read(key);
            } else if (dice < 6) {
                write(key, Operation.Kind.CAS);
            } else {
                write(key, Operation.Kind.SET);
            }
        }
        disconnect();
    }

    /**
     * Reads every znode, after the run, when the ensemble is whole again: no acknowledged write may be
     * missing.
     *
     * @return how many could not be read
     */
    int readAll() throws InterruptedException {
        int unread = 0;
        for (String key : keys.all()) {
            boolean done = false;
            for (int attempt = 0; attempt < 100 && !done; attempt++) {
                done = ensureConnected() && read(key);
                if (!done) {
                    Thread.sleep(RETRY_MS);
                }
            }
            unread += done ? 0 : 1;
        }
        disconnect();
        return unread;
    }

    private boolean ensureConnected() {
        if (++operationsHere > OPERATIONS_PER_CONNECTION) {
            disconnect();
        }
        if (connection != null) {
            return true;
        }
        try {
            connect();
            return true;
        } catch (IOException down) {
            return false;
        }
    }

    private void disconnect() {
        try {
            if (connection != null) {
                connection.close();
            }
        } catch (IOException closed) {
            // It is given up either way.
        }
        connection = null;
    }

    private void write(String key, Operation.Kind kind) {
        String value = id + "-" + ++writes;
        int expected = kind == Operation.Kind.CAS ? lastVersion : -1;
        long call = System.nanoTime();
        int version = 0;
        Operation.Outcome outcome;
        try {
            Stat stat =
                    connection.setData(key, value.getBytes(StandardCharsets.US_ASCII), expected);
            version = stat.getVersion();
            lastVersion = version;
            outcome = Operation.Outcome.OK;
        } catch (KeeperException.BadVersionException refused) {
            lastVersion = expected + 1;
            outcome = Operation.Outcome.MISMATCH;
        } catch (KeeperException.NoNodeException missing) {
            outcome = Operation.Outcome.MISSING;
        } catch (IOException | KeeperException lost) {
            outcome = Operation.Outcome.UNKNOWN;
            disconnect();
        }
        long now = System.nanoTime();
        history.add(new Operation(id, key, kind, value, expected, version, outcome, call, now));
    }

    /** Whether there was an answer; a read without one tells nothing and is not recorded. */
    private boolean read(String key) {
        long call = System.nanoTime();
        String value = "";
        int version = 0;
        Operation.Outcome outcome = Operation.Outcome.OK;
        try {
            if (reads == Reads.SYNCED) {
                connection.sync(key);
            } else {
                connection.setData(fence(), new byte[0]);
            }
            GetDataResponse answer = connection.getData(key);
            value = new String(answer.getData(), StandardCharsets.US_ASCII);
            version = answer.getStat().getVersion();
            lastVersion = version;
        } catch (KeeperException.NoNodeException missing) {
            outcome = Operation.Outcome.MISSING;
        } catch (IOException | KeeperException lost) {
            disconnect();
            return false;
        }
        long now = System.nanoTime();
        history.add(
                new Operation(
                        id, key, Operation.Kind.READ, value, -1, version, outcome, call, now));
        return true;
    }
}
