package io.tailbound.examples.elearning;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.catalina.Lifecycle;
import org.apache.catalina.LifecycleEvent;
import org.apache.catalina.LifecycleListener;

/**
 * Keeps the public connector closed until the application is compiled: replays walks over a connector behind a Unix
 * socket, which starts before it. Whoever can connect finds an application that is ready and warm.
 */
public final class WarmUpGate implements LifecycleListener {
    private static final String PREFIX = "elearning.";
    private static final int FAILURE = 1;

    @Override
    public void lifecycleEvent(LifecycleEvent event) {
        if (!event.getType().equals(Lifecycle.BEFORE_START_EVENT)) {
            return;
        }
        try {
            warmUp();
        } catch (IOException | RuntimeException failed) {
            System.err.println("web: the application does not answer: " + failed.getMessage());
            // Not an orderly end, which would wait for this very start.
            Runtime.getRuntime().halt(FAILURE);
        }
        // The garbage of the start is none of the first requests' business.
        System.gc();
    }

    private static void warmUp() throws IOException {
        long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Long.getLong(PREFIX + "warm-up-ms", 5000));
        int most = Integer.getInteger(PREFIX + "warm-up-requests", 3000);
        List<String> paths = new ArrayList<>(List.of("/ready"));
        paths.addAll(paths(Files.readAllLines(Path.of(System.getProperty(PREFIX + "walks")))));
        Path socket = Path.of(System.getProperty(PREFIX + "warm-up-socket"));
        try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket))) {
            KeptConnection connection = new KeptConnection(Channels.newInputStream(channel));
            for (int i = 0; i < most && System.nanoTime() < endNs; i++) {
                String path = paths.get(i % paths.size());
                String head = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
                channel.write(ByteBuffer.wrap(head.getBytes(StandardCharsets.US_ASCII)));
                int status = connection.skipResponse();
                if (status != KeptConnection.OK) {
                    throw new IOException("status " + status + " of " + path);
                }
            }
        }
    }

    /** The requests of users along walks: a CSV with the columns session, step, lat, lon and id. */
    static List<String> paths(List<String> lines) {
        List<String> paths = new ArrayList<>();
        for (String line : lines.subList(1, lines.size())) {
            String[] fields = line.split(",");
            paths.add("/position?lat=" + fields[2] + "&lon=" + fields[3]);
            paths.add("/content?id=" + fields[4]);
        }
        return paths;
    }
}
