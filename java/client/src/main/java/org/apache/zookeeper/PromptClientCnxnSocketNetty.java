package org.apache.zookeeper;

import io.netty.channel.Channel;
import io.tailbound.zookeeper.client.PromptReconnection;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Queue;
import org.apache.zookeeper.ClientCnxn.Packet;
import org.apache.zookeeper.client.ZKClientConfig;

/**
 * Upstream's Netty socket with prompt reconnection; clients with TLS need it in place of
 * {@link PromptClientCnxnSocketNIO}.
 *
 * <p>Upstream may note a connection as made after Netty has reported its end, when a server without
 * a quorum accepts and closes at once; it then waits for the connection time-out, a session time-out
 * divided by the number of servers. While there is no session we look whether the channel lives.
 */
public class PromptClientCnxnSocketNetty extends ClientCnxnSocketNetty {
    /** How long a dead channel may stay unnoticed while there is no session. */
    private static final int LOOK_EVERY_MS = 20;

    private final ReconnectOptions options;
    private final Field channel;
    private boolean tried;

    /** Called by {@link ZooKeeper}, with the client's configuration. */
    public PromptClientCnxnSocketNetty(ZKClientConfig clientConfig) throws IOException {
        super(clientConfig);
        this.options = ReconnectOptions.fromSystemProperty();
        this.channel = channelField();
    }

    private static Field channelField() {
        try {
            Field field = ClientCnxnSocketNetty.class.getDeclaredField("channel");
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    /** Upstream's, and takes the pace of reconnection in hand at the first call. */
    @Override
    void doTransport(int waitTimeOut, Queue<Packet> pendingQueue, ClientCnxn cnxn)
            throws IOException, InterruptedException {
        if (!tried) {
            tried = true;
            PromptReconnection.install(cnxn, options);
        }
        if (channel == null || sendThread.getZkState().isConnected()) {
            super.doTransport(waitTimeOut, pendingQueue, cnxn);
            return;
        }
        super.doTransport(Math.min(waitTimeOut, LOOK_EVERY_MS), pendingQueue, cnxn);
        if (channelIsDead()) {
            throw new IOException("the server closed the connection before it established a session");
        }
    }

    private boolean channelIsDead() {
        try {
            Channel current = (Channel) channel.get(this);
            return current != null && !current.isActive() && !sendThread.getZkState().isConnected();
        } catch (IllegalAccessException e) {
            return false;
        }
    }
}
