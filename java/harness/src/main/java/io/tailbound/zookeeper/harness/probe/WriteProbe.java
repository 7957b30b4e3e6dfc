package io.tailbound.zookeeper.harness.probe;

import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A client that writes on a schedule (open loop) to the servers that it is given, and records when
 * writes succeed. It knows which server will fail and does not ask it: what is measured is the
 * ensemble, not how a client guesses.
 */
public abstract class WriteProbe implements AutoCloseable {
    /** What a client waits between attempts to reach the service. */
    static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(3);

    private final List<InetSocketAddress> targets;
    private final long periodNs;
    private final WriteLog log = new WriteLog();
    private final long startNs = System.nanoTime();
    private volatile boolean stopped;

    WriteProbe(List<InetSocketAddress> targets, long periodNs) {
        this.targets = List.copyOf(targets);
        this.periodNs = periodNs;
    }

    /**
     * Starts the kind of probe that the ensemble needs.
     *
     * @param targets addresses of servers, tried in this order
     * @param periodNs time between intended writes
     * @throws IOException if the first connection fails
     */
    public static WriteProbe start(
            Ensemble ensemble, List<InetSocketAddress> targets, long periodNs) throws IOException {
        return ensemble.setup().variant().launcher() == Variant.Launcher.ETCD
                ? new EtcdProbe(targets, periodNs)
                : new ZooKeeperProbe(targets, periodNs);
    }

    /** What has succeeded so far. */
    public final WriteLog log() {
        return log;
    }

    final InetSocketAddress target(int attempt) {
        return targets.get(Math.floorMod(attempt, targets.size()));
    }

    final long intendedNs(long index) {
        return startNs + index * periodNs;
    }

    final boolean isStopped() {
        return stopped;
    }

    final void stop() {
        stopped = true;
    }

    /** Sleeps until a time of CLOCK_MONOTONIC; returns at once if it has passed. */
    static void sleepUntil(long ns) {
        long remaining = ns - System.nanoTime();
        if (remaining > 0) {
            LockSupport.parkNanos(remaining);
        }
    }

    /** Ends the writes and the connections. */
    @Override
    public abstract void close();
}
