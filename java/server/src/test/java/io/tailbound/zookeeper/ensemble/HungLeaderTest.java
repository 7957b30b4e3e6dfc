package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A leader that lives but does nothing is replaced by heartbeats, long before upstream's limit. */
class HungLeaderTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @Test
  void theFollowersElectAnotherAndTheOldOneFollowsWhenItWakes(@TempDir Path directory) throws Exception {
    // Upstream's limit is far beyond the waiting time of this test: only heartbeats can help.
    try (Ensemble ensemble = Ensemble.start(directory, 3, id -> ServerProcess.OURS,
        id -> Ensemble.UNREHEARSED + "syncLimit=60")) {
      ServerProcess hung = ensemble.awaitHealth(MINUTE_NS);
      LeaderKills writes = new LeaderKills(ensemble);
      writes.writeAndCheck();
      hung.signal("STOP");
      long end = System.nanoTime() + MINUTE_NS;
      while (ensemble.leader().filter(leader -> leader != hung).isEmpty()) {
        assertTrue(System.nanoTime() - end < 0, "no other leader within a minute");
        Thread.sleep(10);
      }
      for (ServerProcess server : ensemble.servers()) {
        if (server != hung) {
          Ensemble.awaitLogged(server, "Leaving server " + hung.id(), MINUTE_NS);
        }
      }
      hung.signal("CONT");
      while (!Ensemble.ask(hung, "srvr").contains("Mode: follower")) {
        assertTrue(System.nanoTime() - end < 0, "the old leader does not follow");
        Thread.sleep(50);
      }
      writes.writeAndCheck();
    }
  }
}
