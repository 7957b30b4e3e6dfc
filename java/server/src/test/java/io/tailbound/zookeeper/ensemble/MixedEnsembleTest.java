package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Stock servers and ours in one ensemble, as during a rolling upgrade and its way back. */
class MixedEnsembleTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);

  @Test
  void serversAreReplacedOneByOneAndBackWithoutLoss(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble = Ensemble.start(directory, 3, id -> ServerProcess.STOCK, id -> Ensemble.UNREHEARSED)) {
      ensemble.awaitHealth(MINUTE_NS);
      LeaderKills writes = new LeaderKills(ensemble);
      writes.writeAndCheck();
      for (String kind : new String[] {ServerProcess.OURS, ServerProcess.STOCK}) {
        for (ServerProcess server : ensemble.servers()) {
          server.kill();
          server.runs(kind);
          server.start();
          ensemble.awaitHealth(MINUTE_NS);
          writes.writeAndCheck();
        }
        writes.trial();
      }
      for (ServerProcess server : ensemble.servers()) {
        String log = server.logText();
        assertFalse(log.contains("Got a short response"), "a stock server was sent what it cannot read");
        assertFalse(log.contains("before reconfig"), "a stock server was sent a message of ours");
      }
      Ensemble.awaitLogged(ensemble.server(1), "is a stock server", MINUTE_NS);
      Ensemble.awaitLogged(ensemble.server(1), "is of our kind", MINUTE_NS);
    }
  }
}
