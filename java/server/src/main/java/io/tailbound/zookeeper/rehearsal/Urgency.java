package io.tailbound.zookeeper.rehearsal;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.HashSet;
import java.util.Set;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Whether an ensemble waits for a server that is about to start. */
public final class Urgency {

  private static final Logger LOG = LoggerFactory.getLogger(Urgency.class);
  private static final int CONNECT_LIMIT_MS = 100;

  private Urgency() {}

  /**
   * Whether the servers that can be reached on their election ports are no quorum, but would be one with
   * this server. Each of them sees a connection that is closed at once.
   *
   * @param quorums the configuration
   * @param own id of this server
   */
  public static boolean isWaitedFor(QuorumVerifier quorums, long own) {
    Set<Long> present = new HashSet<>();
    for (QuorumServer server : quorums.getVotingMembers().values()) {
      if (server.id != own && accepts(server)) {
        present.add(server.id);
      }
    }
    return isMissing(quorums, own, present);
  }

  static boolean isMissing(QuorumVerifier quorums, long own, Set<Long> present) {
    Set<Long> withThis = new HashSet<>(present);
    withThis.add(own);
    return !present.isEmpty() && !quorums.containsQuorum(present) && quorums.containsQuorum(withThis);
  }

  private static boolean accepts(QuorumServer server) {
    for (InetSocketAddress address : server.electionAddr.getAllAddresses()) {
      try (Socket socket = new Socket()) {
        socket.connect(new InetSocketAddress(address.getHostString(), address.getPort()), CONNECT_LIMIT_MS);
        return true;
      } catch (IOException e) {
        LOG.debug("Server {} does not accept at {}", server.id, address, e);
      }
    }
    return false;
  }
}
