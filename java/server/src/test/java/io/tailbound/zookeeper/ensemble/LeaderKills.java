package io.tailbound.zookeeper.ensemble;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Kills leader after leader and checks each time that nothing acknowledged was lost. */
final class LeaderKills {

  private static final long LIMIT_NS = TimeUnit.MINUTES.toNanos(1);
  private static final int LINES_OF_LOGS = 60;

  private final Ensemble ensemble;
  private final List<Long> recoveriesNs = new ArrayList<>();
  private int written;

  LeaderKills(Ensemble ensemble) {
    this.ensemble = ensemble;
  }

  /** Kills the leader, waits for the next one, starts the killed server again. */
  void trial() throws Exception {
    ServerProcess leader = ensemble.awaitHealth(LIMIT_NS);
    writeAndCheck();
    long killed = System.nanoTime();
    leader.kill();
    awaitOtherLeader(leader);
    recoveriesNs.add(System.nanoTime() - killed);
    writeAndCheck();
    leader.start();
  }

  private void awaitOtherLeader(ServerProcess killed) throws Exception {
    long end = System.nanoTime() + LIMIT_NS;
    while (ensemble.leader().filter(l -> l != killed).isEmpty()) {
      if (System.nanoTime() - end > 0) {
        throw new AssertionError("no leader within a minute after server " + killed.id() + " was killed"
            + ensemble.lastWords(LINES_OF_LOGS));
      }
      Thread.sleep(2);
    }
  }

  /** Checks that every earlier write is there, and writes once more. */
  void writeAndCheck() throws Exception {
    CountDownLatch connected = new CountDownLatch(1);
    try (ZooKeeper client = new ZooKeeper(ensemble.connectString(), 30_000, event -> {
      if (event.getState() == KeeperState.SyncConnected) {
        connected.countDown();
      }
    })) {
      if (!connected.await(1, TimeUnit.MINUTES)) {
        throw new AssertionError("no client could connect");
      }
      client.sync("/", (code, path, context) -> { }, null);
      int present = client.getChildren("/", false).size();
      if (present != written + 1) {
        throw new AssertionError("wrote " + written + " nodes, found " + (present - 1));
      }
      client.create("/n" + written, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      written++;
    }
  }

  /** Median of the times from the kill to the next serving leader, in nanoseconds. */
  long medianNs() {
    List<Long> sorted = new ArrayList<>(recoveriesNs);
    Collections.sort(sorted);
    return sorted.get(sorted.size() / 2);
  }

  @Override
  public String toString() {
    List<Long> ms = recoveriesNs.stream().map(ns -> ns / 1_000_000L).sorted().toList();
    return "median " + medianNs() / 1_000_000L + " ms of " + ms;
  }
}
