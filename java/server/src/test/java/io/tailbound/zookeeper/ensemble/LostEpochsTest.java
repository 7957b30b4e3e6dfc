package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Damaged epoch files, and a data directory of another ensemble. */
class LostEpochsTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @Test
  void aServerWithoutEpochsAsksTheOthersAndJoins(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble =
        Ensemble.start(directory, 3, id -> ServerProcess.OURS, id -> Ensemble.UNREHEARSED + "tailbound.ensemble=blue")) {
      LeaderKills kills = new LeaderKills(ensemble);
      kills.trial();
      ensemble.awaitHealth(MINUTE_NS);
      ServerProcess damaged = ensemble.server(1);
      Path data = damaged.directory().resolve("data").resolve("version-2");
      damaged.kill();
      for (String name : new String[] {"tailbound.epoch", "acceptedEpoch", "currentEpoch"}) {
        Files.write(data.resolve(name), new byte[0]);
      }
      damaged.start();
      ensemble.awaitHealth(MINUTE_NS);
      Ensemble.awaitLogged(damaged, "no longer in doubt", MINUTE_NS);
      kills.trial();
      ensemble.awaitHealth(MINUTE_NS);
      refusesAnotherEnsemble(ensemble.server(2));
    }
  }

  /** A candidate that nobody follows accepts its own epoch, fails, and finds another leader when it is back. */
  @Test
  void aServerThatAcceptedALaterEpochJoinsARunningLeader(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble =
        Ensemble.start(directory, 3, id -> ServerProcess.OURS, id -> Ensemble.UNREHEARSED)) {
      ensemble.awaitHealth(MINUTE_NS);
      ServerProcess ahead = ensemble.server(1);
      ahead.kill();
      Path accepted = ahead.directory().resolve("data").resolve("version-2").resolve("acceptedEpoch");
      Files.writeString(accepted, "414");
      ahead.start();
      ensemble.awaitHealth(MINUTE_NS);
      assertTrue(Files.readString(accepted).strip().compareTo("414") > 0, Files.readString(accepted));
    }
  }

  private static void refusesAnotherEnsemble(ServerProcess server) throws Exception {
    server.kill();
    Path configuration = server.directory().resolve("zoo.cfg");
    Files.writeString(configuration, Files.readString(configuration).replace("ensemble=blue", "ensemble=red"));
    server.start();
    Ensemble.awaitLogged(server, "tailbound-zookeeper: ", MINUTE_NS);
    String log = server.logText();
    String last = log.substring(log.lastIndexOf("tailbound-zookeeper: "));
    assertTrue(last.contains("blue") && last.contains("red"), last);
    assertFalse(last.contains("\tat "), last);
  }
}
