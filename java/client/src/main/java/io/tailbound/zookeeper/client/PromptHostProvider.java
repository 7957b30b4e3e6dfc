package io.tailbound.zookeeper.client;

import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import io.tailbound.zookeeper.client.pace.ReconnectSchedule;
import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.StaticHostProvider;

/**
 * Makes the client that asks it reconnect promptly: at once to another server, then at a jittered
 * pace ({@link ReconnectSchedule}), without upstream's random wait of up to a second.
 *
 * <p>Which server comes next, address resolution and the balancing of load when the list of servers
 * changes remain with the provider that it wraps.
 */
public final class PromptHostProvider implements HostProvider {
    /** The time as a provider needs it; tests put their own in its place. */
    interface Clock {
        /** Monotonic, in nanoseconds. */
        long nowNs();

        /** Lets time pass. */
        void sleepNs(long ns) throws InterruptedException;
    }

    private static final Clock SYSTEM = new Clock() {
        @Override
        public long nowNs() {
            return System.nanoTime();
        }

        @Override
        public void sleepNs(long ns) throws InterruptedException {
            TimeUnit.NANOSECONDS.sleep(ns);
        }
    };

    private final HostProvider servers;
    private final ReconnectSchedule schedule;
    private final Clock clock;

    /**
     * Paces the attempts at the servers of another provider.
     *
     * @param servers which servers there are, and in which order they are tried
     */
    public PromptHostProvider(HostProvider servers, ReconnectOptions options) {
        this(servers, new ReconnectSchedule(options, new SplittableRandom()), SYSTEM);
    }

    PromptHostProvider(HostProvider servers, ReconnectSchedule schedule, Clock clock) {
        this.servers = servers;
        this.schedule = schedule;
        this.clock = clock;
    }

    /**
     * A provider of the servers of a connect string, with the options of the system property
     * {@value ReconnectOptions#PROPERTY}.
     *
     * @param connectString as ZooKeeper takes it: {@code host:port,host:port/chroot}
     */
    public static PromptHostProvider of(String connectString) {
        return of(connectString, ReconnectOptions.fromSystemProperty());
    }

    /**
     * A provider of the servers of a connect string.
     *
     * <p>The order of servers is drawn from a well-mixed seed. Upstream's own is the time in
     * milliseconds combined with an identity hash, which is alike in processes that start together:
     * their clients could all choose the same survivor.
     */
    public static PromptHostProvider of(String connectString, ReconnectOptions options) {
        Collection<InetSocketAddress> addresses = new ConnectStringParser(connectString).getServerAddresses();
        long seed = new SplittableRandom().nextLong();
        return new PromptHostProvider(new StaticHostProvider(addresses, seed), options);
    }

    @Override
    public int size() {
        return servers.size();
    }

    /**
     * The next server, after the pause that its attempt needs.
     *
     * @param spinDelay 0 if the caller only asks for a server (as the search for a server with a
     *     quorum does in read-only mode): no wait. Its amount, upstream's one second, has no effect.
     */
    @Override
    public InetSocketAddress next(long spinDelay) {
        if (spinDelay > 0) {
            FirstConnect.restore(Thread.currentThread());
            pause(schedule.nextPauseNs(clock.nowNs(), servers.size()));
        }
        return servers.next(0);
    }

    private void pause(long ns) {
        if (ns <= 0) {
            return;
        }
        try {
            clock.sleepNs(ns);
        } catch (InterruptedException e) {
            // As upstream's waits do: the attempt is made early. The flag must not be set again, for it
            // would close the connection that follows.
            return;
        }
    }

    @Override
    public void onConnected() {
        schedule.connected();
        servers.onConnected();
    }

    @Override
    public boolean updateServerList(Collection<InetSocketAddress> serverAddresses, InetSocketAddress currentHost) {
        return servers.updateServerList(serverAddresses, currentHost);
    }
}
