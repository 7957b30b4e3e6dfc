package io.tailbound.zookeeper.client.curator;

import io.tailbound.zookeeper.client.PromptHostProvider;
import io.tailbound.zookeeper.client.PromptReconnection;
import io.tailbound.zookeeper.client.pace.ReconnectOptions;
import org.apache.curator.utils.ZookeeperFactory;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

/** Constructs clients for Curator that reconnect promptly: {@code builder().zookeeperFactory(...)}. */
public final class PromptZookeeperFactory implements ZookeeperFactory {
    private final ReconnectOptions options;

    /** With the options of the system property {@value ReconnectOptions#PROPERTY}. */
    public PromptZookeeperFactory() {
        this(ReconnectOptions.fromSystemProperty());
    }

    /** With options of one's own. */
    public PromptZookeeperFactory(ReconnectOptions options) {
        this.options = options;
    }

    @Override
    public ZooKeeper newZooKeeper(String connectString, int sessionTimeout, Watcher watcher, boolean canBeReadOnly)
            throws Exception {
        return newZooKeeper(connectString, sessionTimeout, watcher, canBeReadOnly, null);
    }

    @Override
    public ZooKeeper newZooKeeper(
            String connectString, int sessionTimeout, Watcher watcher, boolean canBeReadOnly, ZKClientConfig config)
            throws Exception {
        ZKClientConfig chosen = PromptReconnection.configure(config == null ? new ZKClientConfig() : config);
        PromptHostProvider servers = PromptHostProvider.of(connectString, options);
        return new ZooKeeper(connectString, sessionTimeout, watcher, canBeReadOnly, servers, chosen);
    }
}
