package io.tailbound.zookeeper.rehearsal;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.junit.jupiter.api.Test;

/** A server is waited for if exactly its vote is missing. */
class UrgencyTest {

  private static QuorumMaj quorums(int... electionPorts) {
    Map<Long, QuorumServer> members = new HashMap<>();
    for (int i = 0; i < electionPorts.length; i++) {
      long id = i + 1;
      members.put(id, new QuorumServer(id,
          new InetSocketAddress("127.0.0.1", 1), new InetSocketAddress("127.0.0.1", electionPorts[i])));
    }
    return new QuorumMaj(members);
  }

  @Test
  void onlyWhoseVoteMakesTheQuorumIsMissing() {
    QuorumMaj five = quorums(1, 1, 1, 1, 1);
    assertFalse(Urgency.isMissing(five, 1, Set.of()), "all start at once");
    assertFalse(Urgency.isMissing(five, 1, Set.of(2L)), "one more would be missing");
    assertTrue(Urgency.isMissing(five, 1, Set.of(2L, 3L)));
    assertFalse(Urgency.isMissing(five, 1, Set.of(2L, 3L, 4L)), "they are a quorum");
  }

  @Test
  void whoAcceptsConnectionsIsPresent() throws IOException {
    try (ServerSocket second = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))) {
      int closed;
      try (ServerSocket third = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))) {
        closed = third.getLocalPort();
        assertFalse(Urgency.isWaitedFor(quorums(1, second.getLocalPort(), closed), 1));
      }
      assertTrue(Urgency.isWaitedFor(quorums(1, second.getLocalPort(), closed), 1));
    }
  }
}
