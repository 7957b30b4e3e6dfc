package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Our server with every mechanism off. */
class VanillaProfileTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @Test
  void electsServesAndSurvivesItsLeaderAsTheStockServer(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble =
        Ensemble.start(directory, 3, id -> ServerProcess.OURS, id -> "tailbound.profile=vanilla")) {
      ServerProcess first = ensemble.awaitHealth(MINUTE_NS);
      CountDownLatch connected = new CountDownLatch(1);
      try (ZooKeeper client = new ZooKeeper(ensemble.connectString(), 30_000, event -> {
        if (event.getState() == KeeperState.SyncConnected) {
          connected.countDown();
        }
      })) {
        connected.await(1, TimeUnit.MINUTES);
        client.create("/a", new byte[] {1}, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      }
      first.kill();
      ServerProcess second = ensemble.awaitHealth(MINUTE_NS);
      assertNotEquals(first.id(), second.id());
      try (ZooKeeper client = new ZooKeeper(second.connectString(), 30_000, event -> {})) {
        assertEquals(1, client.getData("/a", false, null)[0]);
      }
    }
  }
}
