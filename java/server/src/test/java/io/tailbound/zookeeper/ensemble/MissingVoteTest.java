package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Who rehearses recoveries, and for whom the ensemble waits too much for that. */
class MissingVoteTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);
  private static final String REHEARSED = "Rehearsed 4 recoveries in ";
  private static final String NOT_REHEARSED = "No recovery is rehearsed, since the ensemble has no quorum";

  @Test
  void aServerWhoseVoteIsMissingJoinsAtOnce(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble = Ensemble.prepare(directory, 3, id -> ServerProcess.OURS, id -> "")) {
      ServerProcess first = ensemble.server(1);
      ServerProcess second = ensemble.server(2);
      first.start();
      Ensemble.awaitLogged(first, "LOOKING", MINUTE_NS);
      assertTrue(first.logText().contains(REHEARSED), "alone, it is waited for by nobody");
      joinsWithoutRehearsal(ensemble, second);

      ServerProcess third = ensemble.server(3);
      third.start();
      ensemble.awaitHealth(MINUTE_NS);
      assertTrue(third.logText().contains(REHEARSED), "the others are a quorum without it");
      third.kill();

      LeaderKills writes = new LeaderKills(ensemble);
      writes.writeAndCheck();
      second.kill();
      joinsWithoutRehearsal(ensemble, second);
      writes.writeAndCheck();
    }
  }

  private static void joinsWithoutRehearsal(Ensemble ensemble, ServerProcess server)
      throws IOException, InterruptedException {
    server.start();
    ensemble.awaitHealth(MINUTE_NS);
    String log = Files.readString(server.log());
    assertTrue(log.contains(NOT_REHEARSED), log);
    assertFalse(log.contains(REHEARSED), log);
  }
}
