package org.apache.zookeeper;

import io.tailbound.zookeeper.client.PromptReconnection;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.io.IOException;
import java.util.Queue;
import org.apache.zookeeper.ClientCnxn.Packet;
import org.apache.zookeeper.client.ZKClientConfig;

/**
 * Upstream's Netty socket with prompt reconnection; clients with TLS need it in place of
 * {@link PromptClientCnxnSocketNIO}. It closes without a sleep, so that only the pace changes.
 */
public class PromptClientCnxnSocketNetty extends ClientCnxnSocketNetty {
    private final ReconnectOptions options;
    private boolean tried;

    /** Called by {@link ZooKeeper}, with the client's configuration. */
    public PromptClientCnxnSocketNetty(ZKClientConfig clientConfig) throws IOException {
        super(clientConfig);
        this.options = ReconnectOptions.fromSystemProperty();
    }

    /** Upstream's, and takes the pace of reconnection in hand at the first call. */
    @Override
    void doTransport(int waitTimeOut, Queue<Packet> pendingQueue, ClientCnxn cnxn)
            throws IOException, InterruptedException {
        if (!tried) {
            tried = true;
            PromptReconnection.install(cnxn, options);
        }
        super.doTransport(waitTimeOut, pendingQueue, cnxn);
    }
}
