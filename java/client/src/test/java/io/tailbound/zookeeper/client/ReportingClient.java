package io.tailbound.zookeeper.client;

import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * A program with a ZooKeeper client, which knows nothing of ours. It prints its connection's state
 * at each change, with the server's port, the session, and {@code System.nanoTime} (one clock for
 * all processes of a host). Runs with clients of ZooKeeper 3.5 to 3.9.
 */
final class ReportingClient {
    private ReportingClient() {}

    /** Takes a connect string. */
    public static void main(String[] arguments) throws Exception {
        ServerUntilInputEnds.haltAtEndOfInput();
        CountDownLatch constructed = new CountDownLatch(1);
        ZooKeeper[] client = new ZooKeeper[1];
        client[0] = new ZooKeeper(arguments[0], ObservedClient.SESSION_TIMEOUT_MS, event -> {
            long nowNs = System.nanoTime();
            try {
                constructed.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            if (event.getState() == KeeperState.SyncConnected && event.getPath() == null) {
                report("CONNECTED", nowNs, client[0]);
            } else if (event.getState() == KeeperState.Disconnected || event.getState() == KeeperState.Expired) {
                System.out.println("LOST " + nowNs);
            } else {
                System.out.println(event.getState() + " " + nowNs);
            }
        });
        constructed.countDown();
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void report(String what, long nowNs, ZooKeeper client) {
        String text = client.toString().replaceFirst(".*remoteserver:[^ ]*:(\\d+) .*", "$1");
        System.out.println(what + " " + nowNs + " " + text + " " + client.getSessionId());
    }
}
