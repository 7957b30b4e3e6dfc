package io.tailbound.zookeeper.client;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;

/** A client that notes when its connection came and went. */
final class ObservedClient implements Watcher, AutoCloseable {
    /** Longer than a server takes to start on a busy machine. */
    static final int SESSION_TIMEOUT_MS = 40_000;

    /** What a test compares clients by. */
    final String kind;
    final List<Long> reconnectionsNs = new ArrayList<>();
    private final Access zooKeeper;
    private long connectedAtNs;
    private boolean connected;

    private static final class Access extends ZooKeeper {
        Access(String servers, Watcher watcher, HostProvider provider, ZKClientConfig config) throws Exception {
            super(servers, SESSION_TIMEOUT_MS, watcher, false, provider, config);
        }

        Access(String servers, Watcher watcher, ZKClientConfig config) throws Exception {
            super(servers, SESSION_TIMEOUT_MS, watcher, config);
        }

        int port() {
            return ((InetSocketAddress) testableRemoteSocketAddress()).getPort();
        }
    }

    ObservedClient(String kind, String servers, HostProvider provider, ZKClientConfig config) throws Exception {
        this.kind = kind;
        this.zooKeeper = provider == null ? new Access(servers, this, config) : new Access(servers, this, provider, config);
    }

    /** A client whose socket class is named. */
    static ObservedClient withSocket(String kind, String servers, String socket) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper." + socket);
        return new ObservedClient(kind, servers, null, config);
    }

    @Override
    public synchronized void process(WatchedEvent event) {
        boolean now = event.getState() == Event.KeeperState.SyncConnected
                || event.getState() == Event.KeeperState.SaslAuthenticated;
        if (now && !connected) {
            connectedAtNs = System.nanoTime();
        }
        connected = now;
        notifyAll();
    }

    /** Waits for a connection that was made after an instant of {@code System.nanoTime}, and returns its instant. */
    synchronized long awaitConnection(long afterNs) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!connected || connectedAtNs - afterNs < 0) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (leftMs <= 0 || !zooKeeper.getState().isAlive()) {
                // CLOSED: its session has ended, so that it never connects again.
                throw new TimeoutException(kind + " does not connect; it is " + zooKeeper.getState());
            }
            wait(Math.min(leftMs, 200));
        }
        return connectedAtNs;
    }

    ZooKeeper zooKeeper() {
        return zooKeeper;
    }

    int port() {
        return zooKeeper.port();
    }

    long session() {
        return zooKeeper.getSessionId();
    }

    long medianNs() {
        return medianNs(reconnectionsNs);
    }

    static long medianNs(List<Long> samples) {
        return samples.stream().sorted().toList().get(samples.size() / 2);
    }

    /** One line of a table: milliseconds. */
    static String row(String kind, List<Long> samples) {
        List<Long> sorted = samples.stream().sorted().toList();
        return String.format("%-34s n=%-3d min %5d  median %5d  max %5d ms", kind, sorted.size(),
                sorted.get(0) / 1_000_000, medianNs(sorted) / 1_000_000, sorted.get(sorted.size() - 1) / 1_000_000);
    }

    @Override
    public void close() throws InterruptedException {
        zooKeeper.close();
    }
}
