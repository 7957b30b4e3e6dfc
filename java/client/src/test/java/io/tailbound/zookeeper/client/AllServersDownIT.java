package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Clients that nobody serves: servers that accept and close, as those without a quorum do. */
@Timeout(120)
class AllServersDownIT {
    private static final long LENGTH_MS = 4000;

    @TempDir
    Path folder;

    /** Three listeners that close each connection and count it. */
    private static final class Refusing implements AutoCloseable {
        final AtomicInteger attempts = new AtomicInteger();
        private final List<ServerSocket> sockets = new ArrayList<>();

        Refusing() throws IOException {
            for (int i = 0; i < 3; i++) {
                ServerSocket socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                sockets.add(socket);
                Thread thread = new Thread(() -> refuse(socket), "refusing");
                thread.setDaemon(true);
                thread.start();
            }
        }

        private void refuse(ServerSocket socket) {
            try {
                while (true) {
                    socket.accept().close();
                    attempts.incrementAndGet();
                }
            } catch (IOException e) {
                // Closed by the test.
            }
        }

        String connectString() {
            return String.join(",", sockets.stream().map(s -> "127.0.0.1:" + s.getLocalPort()).toList());
        }

        @Override
        public void close() throws IOException {
            for (ServerSocket socket : sockets) {
                socket.close();
            }
        }
    }

    /** What attempts may number in a time: n at once, and then at most two after each shortest pause. */
    private static long bound(ReconnectOptions options, long elapsedNs) {
        return 3 + 2 * (elapsedNs / options.shortestPauseNs() + 1);
    }

    private static long sendThreadCpuNs() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long total = 0;
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().contains("-SendThread(")) {
                total += Math.max(0, threads.getThreadCpuTime(thread.getId()));
            }
        }
        return total;
    }

    @Test
    void everyWayInIsPacedAndLeavesTheProcessorAlone() throws Exception {
        for (String way : List.of("provider", "PromptClientCnxnSocketNIO", "PromptClientCnxnSocketNetty")) {
            try (Refusing servers = new Refusing()) {
                String connect = servers.connectString();
                long startNs = System.nanoTime();
                long cpuNs;
                try (ObservedClient client = way.equals("provider")
                        ? new ObservedClient(way, connect, PromptHostProvider.of(connect),
                                PromptReconnection.configure(new ZKClientConfig()))
                        : ObservedClient.withSocket(way, connect, way)) {
                    Thread.sleep(LENGTH_MS);
                    cpuNs = sendThreadCpuNs();
                }
                paced(way, servers.attempts.get(), System.nanoTime() - startNs);
                assertTrue(cpuNs < (System.nanoTime() - startNs) / 4, way + " used " + cpuNs + " ns of processor");
            }
        }
    }

    private static void paced(String way, int attempts, long elapsedNs) {
        System.out.printf("%s: %d attempts in %d ms%n", way, attempts, elapsedNs / 1_000_000);
        assertTrue(attempts <= bound(ReconnectOptions.DEFAULT, elapsedNs), way + ": " + attempts + " attempts");
        assertTrue(attempts > 10, way + ": only " + attempts + " attempts, slower than upstream's pace");
    }

    @Test
    void theAgentPacesAClientThatNeverConnected() throws Exception {
        String newest = System.getProperty("tailbound.newest");
        for (String version : List.of("3.5.10", "3.8.4", newest)) {
            withAgent("agent, " + version, version, List.of());
        }
        // The agent puts its jar on the class path, so that the socket classes are there, too.
        for (String socket : List.of("PromptClientCnxnSocketNIO", "PromptClientCnxnSocketNetty")) {
            withAgent("agent and " + socket, newest,
                    List.of("-Dzookeeper.clientCnxnSocket=org.apache.zookeeper." + socket));
        }
    }

    private void withAgent(String kind, String version, List<String> more) throws Exception {
        List<String> options = new ArrayList<>(more);
        options.add(ClientProcess.agent("persist=1s,max=400ms"));
        try (Refusing servers = new Refusing()) {
            long startNs = System.nanoTime();
            try (ClientProcess client =
                    new ClientProcess(kind, version, options, servers.connectString(), folder)) {
                while (servers.attempts.get() == 0) {
                    Thread.sleep(10);
                }
                Thread.sleep(LENGTH_MS);
                assertEquals(1, client.errors().lines().filter(l -> l.startsWith("tailbound")).count());
            }
            paced(kind, servers.attempts.get(), System.nanoTime() - startNs);
        }
    }
}
