package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EndOfServiceTest {

  private static final long COMMITTED = 5;
  private static final long WITH_TAIL = 9;

  @TempDir
  private Path directory;

  private ZooKeeperServer server(boolean running) throws IOException {
    TailboundPeer peer = PeerInMemory.create(directory);
    ZooKeeperServer server = new FollowerZooKeeperServer(peer.getTxnFactory(), peer, peer.getZkDb()) {
      @Override
      public boolean isRunning() {
        return running;
      }
    };
    server.getZKDatabase().setlastProcessedZxid(COMMITTED);
    return server;
  }

  @Test
  void aSecondShutdownDoesNotTakeTheAppliedTailForCommitted() throws IOException {
    List<Long> told = new ArrayList<>();
    ZooKeeperServer server = server(true);
    EndOfService end = new EndOfService();
    end.of(server, told::add);
    // The first shutdown replays the log; the state is still "running" meanwhile.
    server.getZKDatabase().setlastProcessedZxid(WITH_TAIL);
    end.of(server, told::add);
    assertEquals(List.of(COMMITTED), told);
  }

  @Test
  void aRoleThatNeverServedTellsNothing() throws IOException {
    List<Long> told = new ArrayList<>();
    new EndOfService().of(server(false), told::add);
    new EndOfService().of(null, told::add);
    assertEquals(List.of(), told);
  }
}
