package io.tailbound.zookeeper.harness.probe;

import io.tailbound.zookeeper.harness.client.HttpConnection;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Writers that share one schedule, each on a kept-alive connection of its own.
 *
 * <p>An etcd server keeps its clients while it has no leader. A write that it has forwarded to a dead
 * leader is lost without a word, one that reaches it during an election waits and succeeds. A client
 * with one write at a time would add its own timeout to the recovery; so a write is given up after
 * 50 ms, and with 16 writers a fresh one starts every 3 ms or so, like the attempts of the session of
 * ZooKeeper.
 */
final class EtcdProbe extends WriteProbe {
    private static final int WRITERS = 16;
    private static final int REPLY_MS = 50;
    private static final String KEY = base64("tailbound-probe");

    private final AtomicLong schedule = new AtomicLong();
    private final List<Thread> writers = new ArrayList<>();

    EtcdProbe(List<InetSocketAddress> targets, long periodNs) throws IOException {
        super(targets, periodNs);
        HttpConnection.open(target(0), REPLY_MS).close();
        for (int writer = 0; writer < WRITERS; writer++) {
            int first = writer;
            Thread thread = new Thread(() -> write(first), "etcd-probe-" + writer);
            thread.setDaemon(true);
            writers.add(thread);
            thread.start();
        }
    }

    private void write(int firstTarget) {
        int attempt = firstTarget;
        HttpConnection connection = null;
        while (!isStopped()) {
            long index = schedule.getAndIncrement();
            long intended = intendedNs(index);
            sleepUntil(intended);
            boolean done = false;
            while (!done && !isStopped()) {
                long sent = System.nanoTime();
                try {
                    if (connection == null) {
                        connection = HttpConnection.open(target(attempt++), REPLY_MS);
                    }
                    put(connection, index);
                    log().add(new WriteLog.Write(intended, sent, System.nanoTime()));
                    done = true;
                } catch (IOException lost) {
                    close(connection);
                    connection = null;
                    sleepUntil(sent + RETRY_NS);
                }
            }
        }
        close(connection);
    }

    private static void put(HttpConnection connection, long value) throws IOException {
        String json = "{\"key\":\"" + KEY + "\",\"value\":\"" + base64(Long.toString(value)) + "\"}";
        connection.post("/v3/kv/put", json);
    }

    private static String base64(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static void close(HttpConnection connection) {
        try {
            if (connection != null) {
                connection.close();
            }
        } catch (IOException closed) {
            // It is given up either way.
        }
    }

    @Override
    public void close() {
        stop();
        try {
            for (Thread writer : writers) {
                writer.join(TimeUnit.SECONDS.toMillis(1));
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
