package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import java.io.IOException;
import java.net.SocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A leader that tells when it ends, that forgets the acknowledgements of a follower which comes back, and
 * that steps down for a voter which has accepted a later epoch.
 *
 * <p>A follower may log a proposal, acknowledge it, lose its leader and come back before the proposal is
 * committed. It is then truncated to what is committed, and gets the proposal again. Upstream goes on
 * counting the first acknowledgement, so it may commit a transaction which that follower no longer has
 * on its disk; if the leader dies at that moment the transaction is lost. Here only what came over the
 * follower's present connection counts.
 *
 * <p>A voter may have accepted a later epoch than this leader's, from a candidate that then failed to lead.
 * It may follow no earlier leader, so upstream leaves it out until this leader ends for another reason, and
 * the ensemble tolerates one failure less meanwhile. Here the leader accepts that epoch, too, and steps down:
 * the next leader's epoch is later, and the voter follows it.
 *
 * <p>A voter that has <em>followed</em> a leader of a later epoch stays out, as upstream has it. The quorum
 * of that leader has lost its disks, or was another ensemble's: such a voter would win the next election,
 * and what the present quorum has acknowledged would be lost.
 */
class PromptLeader extends Leader {

  /** Within this time a voter that counts a whole promise as accepted learns which epochs the others accepted. */
  static final long PATIENCE_NS = 1_000_000_000L;

  private static final Logger LOG = LoggerFactory.getLogger(PromptLeader.class);

  private final TailboundPeer peer;
  /** When each voter with a later epoch was first refused; guarded by itself. */
  private final Map<Long, Long> refusedSince = new HashMap<>();
  /** The present connection of each server; guarded by this. */
  private final Map<Long, LearnerHandler> connections = new HashMap<>();

  PromptLeader(TailboundPeer peer, LeaderZooKeeperServer server) throws IOException {
    super(peer, server);
    this.peer = peer;
  }

  /** Called by the thread of each connection. */
  @Override
  public long getEpochToPropose(long server, long accepted) throws InterruptedException, IOException {
    long epoch = super.getEpochToPropose(server, accepted);
    if (accepted > epoch && mayBeFollower(server, epoch)) {
      refuse(server, accepted, epoch, System.nanoTime());
    }
    return epoch;
  }

  private boolean mayBeFollower(long server, long epoch) {
    OptionalLong followed = peer.currentEpochOf(server);
    return peer.getQuorumVerifier().getVotingMembers().containsKey(server)
        && followed.isPresent() && followed.getAsLong() <= epoch;
  }

  /** Takes note that a voter cannot follow; steps down once that has lasted longer than patience. */
  void refuse(long server, long accepted, long epoch, long nowNs) throws IOException {
    synchronized (refusedSince) {
      long since = refusedSince.computeIfAbsent(server, first -> nowNs);
      if (nowNs - since < PATIENCE_NS) {
        return;
      }
      refusedSince.clear();
    }
    if (accepted > peer.getAcceptedEpoch()) {
      peer.setAcceptedEpoch(accepted);
    }
    LOG.warn("Stepping down: server {} has accepted epoch {}, so it cannot follow this leader of epoch {}", server,
        accepted, epoch);
    peer.leaderWatch().stepDown(this, "a voter has accepted a later epoch");
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
