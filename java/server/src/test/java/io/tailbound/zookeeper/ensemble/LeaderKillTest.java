package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The service comes back after every kill of the leader, and sooner than the stock server's. */
class LeaderKillTest {

  private static final int KILLS = 20;
  private static final int KILLS_FOR_COMPARISON = 8;

  @TempDir
  private Path directory;

  private LeaderKills kill(String name, String mainClass, String settings, int times) throws Exception {
    Path own = Files.createDirectories(directory.resolve(name));
    try (Ensemble ensemble = Ensemble.start(own, 3, id -> mainClass, id -> settings)) {
      LeaderKills kills = new LeaderKills(ensemble);
      for (int i = 0; i < times; i++) {
        kills.trial();
      }
      System.out.println(name + ": " + kills);
      return kills;
    }
  }

  @Test
  void everyLeaderIsReplacedSoonerThanByTheStockServer() throws Exception {
    LeaderKills stock = kill("stock", ServerProcess.STOCK, "", KILLS_FOR_COMPARISON);
    LeaderKills ours = kill("tailbound", ServerProcess.OURS, "", KILLS);
    System.out.printf("stock / tailbound: %.1f%n", (double) stock.medianNs() / ours.medianNs());
    assertTrue(ours.medianNs() < stock.medianNs(), stock + "; " + ours);
  }

  @Test
  void theThesisVariantsRecoverToo() throws Exception {
    kill("thesis-lite", ServerProcess.OURS, "tailbound.profile=thesis-lite", KILLS_FOR_COMPARISON);
    kill("thesis-full", ServerProcess.OURS, "tailbound.profile=thesis-full", KILLS_FOR_COMPARISON);
  }
}
