package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import java.io.IOException;
import java.net.SocketAddress;
import java.util.HashMap;
import java.util.Map;

/**
 * A leader that tells when it ends, and that forgets the acknowledgements of a follower which comes
 * back.
 *
 * <p>A follower may log a proposal, acknowledge it, lose its leader and come back before the proposal is
 * committed. It is then truncated to what is committed, and gets the proposal again. Upstream goes on
 * counting the first acknowledgement, so it may commit a transaction which that follower no longer has
 * on its disk; if the leader dies at that moment the transaction is lost. Here only what came over the
 * follower's present connection counts.
 */
class PromptLeader extends Leader {

  private final TailboundPeer peer;
  /** The present connection of each server; guarded by this. */
  private final Map<Long, LearnerHandler> connections = new HashMap<>();

  PromptLeader(TailboundPeer peer, LeaderZooKeeperServer server) throws IOException {
    super(peer, server);
    this.peer = peer;
  }

  /** Called before a follower is told to truncate its log. What it may have lost is proposed to it again. */
  @Override
  public synchronized long startForwarding(LearnerHandler handler, long lastSeenZxid) {
    long server = handler.getSid();
    connections.put(server, handler);
    outstandingProposals.forEach((zxid, proposal) -> {
      if (zxid > lastSeenZxid) {
        proposal.qvAcksetPairs.forEach(pair -> pair.getAckset().remove(server));
      }
    });
    return super.startForwarding(handler, lastSeenZxid);
  }

  /** Called by the thread of a connection, or by that of this leader's own log. */
  @Override
  public synchronized void processAck(long sid, long zxid, SocketAddress followerAddr) {
    boolean stale = Thread.currentThread() instanceof LearnerHandler handler
        && connections.getOrDefault(sid, handler) != handler;
    if (!stale) {
      super.processAck(sid, zxid, followerAddr);
    }
  }

  /** As upstream's, without formatting it for each follower that connects. */
  @Override
  public String getPeerInfo(long server) {
    return peer.getQuorumVerifier() instanceof FormattedQuorumMaj formatted
        ? formatted.member(server).orElse("")
        : super.getPeerInfo(server);
  }

  @Override
  void shutdown(String reason) {
    if (!isShutdown) {
      peer.roleEnds(zk);
      peer.leaving(LossCause.OTHER);
    }
    super.shutdown(reason);
  }
}
