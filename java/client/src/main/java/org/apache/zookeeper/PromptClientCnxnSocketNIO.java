package org.apache.zookeeper;

import io.tailbound.zookeeper.client.PromptReconnection;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.io.IOException;
import java.util.Queue;
import org.apache.zookeeper.ClientCnxn.Packet;
import org.apache.zookeeper.client.ZKClientConfig;

/**
 * Upstream's plain socket with prompt reconnection, for clients to whom a system property can be
 * given: {@code -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.PromptClientCnxnSocketNIO}. Its
 * options are in the property {@value ReconnectOptions#PROPERTY}. ZooKeeper 3.6 or newer; with 3.5
 * it acts as upstream's.
 *
 * <p>It is in upstream's package since the methods of a client socket are package-private.
 */
public class PromptClientCnxnSocketNIO extends ClientCnxnSocketNIO {
    private final ReconnectOptions options;
    private boolean tried;
    private boolean prompt;

    /** Called by {@link ZooKeeper}, with the client's configuration. */
    public PromptClientCnxnSocketNIO(ZKClientConfig clientConfig) throws IOException {
        super(clientConfig);
        this.options = ReconnectOptions.fromSystemProperty();
    }

    /** Upstream's, and takes the pace of reconnection in hand at the first call. */
    @Override
    void doTransport(int waitTimeOut, Queue<Packet> pendingQueue, ClientCnxn cnxn)
            throws IOException, InterruptedException {
        if (!tried) {
            tried = true;
            prompt = PromptReconnection.install(cnxn, options);
        }
        super.doTransport(waitTimeOut, pendingQueue, cnxn);
    }

    /**
     * Upstream's without its sleep of 100 ms at the end, which no property governs: a thread that is
     * already interrupted does not sleep. Nothing before the sleep heeds the interruption: it closes
     * a non-blocking channel and selects without waiting.
     */
    @Override
    void cleanup() {
        if (!prompt) {
            super.cleanup();
            return;
        }
        boolean wasInterrupted = Thread.interrupted();
        Thread.currentThread().interrupt();
        super.cleanup();
        Thread.interrupted();
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
