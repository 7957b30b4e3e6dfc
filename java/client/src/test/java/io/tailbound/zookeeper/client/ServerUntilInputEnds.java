package io.tailbound.zookeeper.client;

import java.io.IOException;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;

/** A stock server that ends with the process that started it: when its standard input does. */
final class ServerUntilInputEnds {
    private ServerUntilInputEnds() {}

    /** Takes the configuration file, as upstream's main class does. */
    public static void main(String[] arguments) {
        haltAtEndOfInput();
        QuorumPeerMain.main(arguments);
    }

    /** Ends this process at the end of its input, however its parent ended. */
    static void haltAtEndOfInput() {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Nothing is ever written.
                }
            } catch (IOException e) {
                // The parent is gone as well.
            }
            Runtime.getRuntime().halt(0);
        }, "end of input");
        watcher.setDaemon(true);
        watcher.start();
    }
}
