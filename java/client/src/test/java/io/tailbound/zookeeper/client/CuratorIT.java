package io.tailbound.zookeeper.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.client.curator.PromptZookeeperFactory;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The example of the guide for Curator, and that its clients outlive their server. */
@Timeout(200)
class CuratorIT {
    @TempDir
    Path folder;

    @Test
    void aCuratorClientKeepsItsSession() throws Exception {
        try (Ensemble ensemble = Ensemble.start(3, folder);
                CuratorFramework curator = CuratorFrameworkFactory.builder()
                        .connectString(ensemble.connectString())
                        .sessionTimeoutMs(10_000)
                        .retryPolicy(new RetryForever(50))
                        .zookeeperFactory(new PromptZookeeperFactory())
                        .build()) {
            CountDownLatch reconnected = new CountDownLatch(1);
            curator.getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.RECONNECTED) {
                    reconnected.countDown();
                }
            });
            curator.start();
            curator.create().withMode(CreateMode.EPHEMERAL).forPath("/node", new byte[] {7});
            long session = curator.getZookeeperClient().getZooKeeper().getSessionId();
            String text = curator.getZookeeperClient().getZooKeeper().toString();
            int port = Integer.parseInt(text.replaceFirst(".*remoteserver:[^ ]*:(\\d+) .*", "$1"));
            ensemble.kill(ensemble.serverAt(port));
            assertTrue(reconnected.await(60, TimeUnit.SECONDS), "never reconnected");
            assertArrayEquals(new byte[] {7}, curator.getData().forPath("/node"));
            assertEquals(session, curator.getZookeeperClient().getZooKeeper().getSessionId());
        }
    }
}
