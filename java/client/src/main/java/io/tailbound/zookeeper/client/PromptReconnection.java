package io.tailbound.zookeeper.client;

import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.zookeeper.ClientCnxn;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Gives prompt reconnection to clients that someone else constructs. */
public final class PromptReconnection {
    private static final Logger LOG = LoggerFactory.getLogger(PromptReconnection.class);
    private static final String SOCKETS = "org.apache.zookeeper.";
    private static final AtomicBoolean TOLD = new AtomicBoolean();

    private PromptReconnection() {}

    /**
     * Chooses our counterpart of the socket class that a configuration names (NIO if it names none).
     * A socket class that we do not know is left as it is.
     *
     * @return the same configuration
     */
    public static ZKClientConfig configure(ZKClientConfig config) {
        String socket = config.getProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET);
        String name = socket == null ? "ClientCnxnSocketNIO"
                : socket.startsWith(SOCKETS) ? socket.substring(SOCKETS.length()) : socket;
        if (name.equals("ClientCnxnSocketNIO") || name.equals("ClientCnxnSocketNetty")) {
            config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, SOCKETS + "Prompt" + name);
        }
        return config;
    }

    /**
     * Puts a {@link PromptHostProvider} around the host provider of a client. For our socket classes,
     * which are handed the client before its first reconnection.
     *
     * @return whether its attempts are paced by us from now on; if not, nothing was changed
     */
    public static boolean install(ClientCnxn client, ReconnectOptions options) {
        try {
            Field field = ClientCnxn.class.getDeclaredField("hostProvider");
            field.setAccessible(true);
            HostProvider provider = (HostProvider) field.get(client);
            if (!(provider instanceof PromptHostProvider)) {
                field.set(client, new PromptHostProvider(provider, options));
            }
            return true;
        } catch (ReflectiveOperationException | RuntimeException e) {
            if (TOLD.compareAndSet(false, true)) {
                LOG.warn("This version of ZooKeeper is not known: its clients reconnect as they always did", e);
            }
            return false;
        }
    }
}
