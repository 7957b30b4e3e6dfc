package io.tailbound.zookeeper.client.pace;

import java.util.Map;
import java.util.SplittableRandom;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;

/**
 * What rewritten ZooKeeper clients call in place of their own waits.
 *
 * <p>It is loaded by the system class loader, as agents are, while clients may be in loaders below it
 * (a servlet container's): hence it knows no class of ZooKeeper. A client is known by its thread
 * {@code ClientCnxn.SendThread}, and forgotten with it.
 */
public final class ClientPace {
    private static final Map<Thread, ReconnectSchedule> SCHEDULES = new WeakHashMap<>();
    private static volatile ReconnectOptions options = ReconnectOptions.DEFAULT;

    private ClientPace() {}

    /** Sets the options of clients that make their first attempt from now on. */
    public static void configure(ReconnectOptions chosen) {
        options = chosen;
    }

    /**
     * Waits until the calling client's next attempt. Called before {@code HostProvider.next}.
     *
     * @param provider the client's {@code HostProvider}; one of ours keeps the pace itself
     * @param servers what its {@code size()} says
     */
    public static void beforeAttempt(Object provider, int servers) {
        if (provider.getClass().getName().startsWith("io.tailbound.zookeeper.client.")) {
            return;
        }
        ReconnectSchedule schedule;
        synchronized (SCHEDULES) {
            schedule = SCHEDULES.computeIfAbsent(
                    Thread.currentThread(), thread -> new ReconnectSchedule(options, new SplittableRandom()));
        }
        long pauseNs = schedule.nextPauseNs(System.nanoTime(), servers);
        if (pauseNs > 0) {
            try {
                TimeUnit.NANOSECONDS.sleep(pauseNs);
            } catch (InterruptedException e) {
                // As upstream's waits do: the attempt is made early. The flag must not be set again, for
                // it would close the connection that follows.
                return;
            }
        }
    }

    /** A session was established by the client of this thread. */
    public static void connected(Object sendThread) {
        ReconnectSchedule schedule;
        synchronized (SCHEDULES) {
            schedule = SCHEDULES.get(sendThread);
        }
        if (schedule != null) {
            schedule.connected();
        }
    }

    /**
     * In place of the random wait before a connection: none, for {@link #beforeAttempt} has waited.
     *
     * @param upstreamMs what upstream would sleep, in milliseconds
     */
    public static void beforeConnect(long upstreamMs) {}

    /**
     * In place of the fixed wait after a connection was closed: no wait for clients whose attempts are
     * paced by {@link #beforeAttempt}, upstream's for others.
     *
     * @param upstreamMs what upstream would sleep, in milliseconds
     */
    public static void afterClose(long upstreamMs) throws InterruptedException {
        boolean paced;
        synchronized (SCHEDULES) {
            paced = SCHEDULES.containsKey(Thread.currentThread());
        }
        if (!paced) {
            Thread.sleep(upstreamMs);
        }
    }
}
