package io.tailbound.zookeeper.client.pace;

import java.util.SplittableRandom;

/**
 * When one client makes its attempts to connect. Pure: it neither sleeps nor reads a clock.
 *
 * <p>Attempts go round the client's list of servers, the lost server last. After a loss
 *
 * <ol>
 *   <li>every other server is tried at once, one attempt each (the first after {@code spread});
 *   <li>then attempts follow at {@code retry}, each pause drawn anew from {@code retry * (1 ± jitter)},
 *       so that clients which lost the same server at the same instant drift apart; the attempt
 *       that follows one to the lost server needs no pause, so that a dead server costs no time;
 *   <li>once the loss is older than {@code persist}, a pause is drawn between {@code retry} and three
 *       times the one before, at most {@code max} (decorrelated jitter): a service that is down for
 *       long is not asked twenty times a second by each of its clients.
 * </ol>
 *
 * <p>Hence, with n &gt; 1 servers, at most n - 1 attempts are made at once and later ones n at a
 * time in n - 1 pauses, none shorter than {@link ReconnectOptions#shortestPauseNs}.
 *
 * <p>Safe for use by several threads: Netty reports a connection from a thread of its own.
 */
public final class ReconnectSchedule {
    private final ReconnectOptions options;
    private final SplittableRandom random;
    private boolean connected = true;
    private long attempts;
    private long lostAtNs;
    private long pauseNs;

    /**
     * A schedule of a client that is not connected yet: its first attempts are those after a loss.
     *
     * @param random the source of jitter; each client needs one of its own seed
     */
    public ReconnectSchedule(ReconnectOptions options, SplittableRandom random) {
        this.options = options;
        this.random = random;
    }

    /** A session was established: what comes next is a new loss. */
    public synchronized void connected() {
        connected = true;
    }

    /**
     * The pause before the attempt that is about to be made.
     *
     * @param nowNs a monotonic clock, in nanoseconds
     * @param servers the length of the client's list of servers
     * @return nanoseconds, 0 for at once
     */
    public synchronized long nextPauseNs(long nowNs, int servers) {
        if (connected) {
            connected = false;
            attempts = 0;
            lostAtNs = nowNs;
            pauseNs = options.retryNs();
        }
        long attempt = attempts++;
        if (attempt == 0) {
            return upTo(options.spreadNs());
        }
        boolean afterLostServer = servers > 1 && attempt % servers == 0;
        if (attempt < servers - 1 || afterLostServer) {
            return 0;
        }
        return nowNs - lostAtNs < options.persistNs() ? steadyPauseNs() : slowingPauseNs();
    }

    private long steadyPauseNs() {
        long shortest = options.shortestPauseNs();
        return shortest + upTo(2 * (options.retryNs() - shortest));
    }

    private long slowingPauseNs() {
        long longest = Math.min(options.maxNs(), 3 * pauseNs);
        pauseNs = options.retryNs() + upTo(longest - options.retryNs());
        return pauseNs;
    }

    private long upTo(long ns) {
        return ns <= 0 ? 0 : random.nextLong(ns + 1);
    }
}
