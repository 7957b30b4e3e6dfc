package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import io.tailbound.zookeeper.client.pace.ReconnectSchedule;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.StaticHostProvider;
import org.junit.jupiter.api.Test;

class PromptHostProviderTest {
    private static final int CLIENTS = 1000;
    private static final String FIVE = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5";

    /** A clock that sleeping moves. */
    private static final class Simulated implements PromptHostProvider.Clock {
        private long nowNs;

        @Override
        public long nowNs() {
            return nowNs;
        }

        @Override
        public void sleepNs(long ns) {
            nowNs += ns;
        }
    }

    private static PromptHostProvider simulated(ReconnectOptions options, Simulated clock) {
        StaticHostProvider servers = new StaticHostProvider(
                new ConnectStringParser(FIVE).getServerAddresses(), new SplittableRandom().nextLong());
        return new PromptHostProvider(servers, new ReconnectSchedule(options, new SplittableRandom()), clock);
    }

    private static void connectTo(int port, PromptHostProvider provider) {
        while (provider.next(0).getPort() != port) {
            // Round the list.
        }
        provider.onConnected();
    }

    /**
     * All clients of one server lose it: their first attempts are spread over the survivors as
     * uniformly as dice would. The bound is the chi-squared value of 3 degrees of freedom that a
     * uniform choice exceeds once in a million runs.
     */
    @Test
    void aThousandClientsSpreadOverTheSurvivors() {
        Map<Integer, Integer> first = new HashMap<>();
        for (int i = 0; i < CLIENTS; i++) {
            PromptHostProvider provider = PromptHostProvider.of(FIVE, ReconnectOptions.DEFAULT);
            connectTo(3, provider);
            first.merge(provider.next(1000).getPort(), 1, Integer::sum);
        }
        double expected = CLIENTS / 4.0;
        double chiSquared = first.values().stream().mapToDouble(n -> (n - expected) * (n - expected) / expected).sum();
        System.out.println("first attempts of " + CLIENTS + " clients by port: " + first + ", chi-squared " + chiSquared);
        assertEquals(java.util.Set.of(1, 2, 4, 5), first.keySet());
        assertTrue(chiSquared < 30.7, first + ", chi-squared " + chiSquared);
    }

    /** The attempts in the fullest 10 ms, from half a second to two seconds after the loss, over the mean. */
    private static double peak(ReconnectOptions options) {
        int[] bins = new int[150];
        for (int i = 0; i < CLIENTS; i++) {
            Simulated clock = new Simulated();
            PromptHostProvider provider = simulated(options, clock);
            connectTo(3, provider);
            while (clock.nowNs < 2_000_000_000L) {
                provider.next(1000);
                int bin = (int) ((clock.nowNs - 500_000_000L) / 10_000_000);
                if (clock.nowNs >= 500_000_000L && bin < bins.length) {
                    bins[bin]++;
                }
            }
        }
        double mean = java.util.Arrays.stream(bins).average().orElseThrow();
        return java.util.Arrays.stream(bins).max().orElseThrow() / mean;
    }

    @Test
    void aThousandClientsDriftApart() {
        double jittered = peak(ReconnectOptions.DEFAULT);
        double lockstep = peak(ReconnectOptions.parse("jitter=0"));
        System.out.printf("fullest 10 ms over the mean: %.2f with jitter, %.2f without%n", jittered, lockstep);
        assertTrue(jittered < 2, "peak " + jittered);
        assertTrue(lockstep > 2 * jittered, "without jitter the peak is only " + lockstep);
    }

    @Test
    void theLostServerIsTheLastToBeTriedAgain() {
        for (int i = 0; i < 100; i++) {
            PromptHostProvider provider = PromptHostProvider.of(FIVE, ReconnectOptions.DEFAULT);
            connectTo(2, provider);
            List<Integer> ports = new ArrayList<>();
            for (int k = 0; k < 4; k++) {
                ports.add(provider.next(1000).getPort());
            }
            assertEquals(java.util.Set.of(1, 3, 4, 5), new java.util.HashSet<>(ports), "attempts at " + ports);
        }
    }

    @Test
    void whoOnlyAsksForAServerDoesNotWait() {
        Simulated clock = new Simulated();
        PromptHostProvider provider = simulated(ReconnectOptions.DEFAULT, clock);
        for (int i = 0; i < 1000; i++) {
            provider.next(0);
        }
        assertEquals(0, clock.nowNs);
    }

    @Test
    void aNewListIsTakenOver() {
        PromptHostProvider provider = PromptHostProvider.of(FIVE, ReconnectOptions.DEFAULT);
        connectTo(2, provider);
        List<InetSocketAddress> list = List.of(
                InetSocketAddress.createUnresolved("127.0.0.1", 7), InetSocketAddress.createUnresolved("127.0.0.1", 8));
        assertTrue(provider.updateServerList(list, new InetSocketAddress("127.0.0.1", 2)));
        assertEquals(2, provider.size());
        assertTrue(List.of(7, 8).contains(provider.next(1000).getPort()));
    }

    @Test
    void aThreadThatIsInterruptedConnectsEarlyAndUninterrupted() {
        PromptHostProvider provider = PromptHostProvider.of("127.0.0.1:1", ReconnectOptions.parse("retry=3600s"));
        provider.next(1000);
        Thread.currentThread().interrupt();
        provider.next(1000);
        assertEquals(false, Thread.currentThread().isInterrupted());
    }
}
