package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.config.ElectionConfig;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/**
 * A follower that connects when its leader says that it accepts (FQCE; thesis, section 5.2.3), gives up
 * one that is gone, and tells what happens to it.
 */
class PromptFollower extends Follower {

  /** How upstream's complaint about a leader of an earlier epoch begins. */
  private static final String EARLIER_EPOCH = "Leaders epoch";

  private static final long REFUSAL_PAUSE_MS = 100;

  private final TailboundPeer peer;
  private volatile boolean refused;

  PromptFollower(TailboundPeer peer, FollowerZooKeeperServer server) {
    super(peer, server);
    this.peer = peer;
  }

  @Override
  protected void sockConnect(Socket sock, InetSocketAddress addr, int timeout) throws IOException {
    ElectionConfig election = peer.config().election();
    Vote vote = peer.getCurrentVote();
    if (election.readyNotice() && !refused) {
      peer.leaderWatch().awaitReady(vote, election.readyWaitNs());
    }
    try {
      super.sockConnect(sock, addr, timeout);
    } catch (IOException e) {
      refused = true;
      // A leader that steps down may be voted for once more by those who still hear it. Upstream would
      // try again five times; an unchecked exception ends the role.
      if (election.rejoin() && peer.isAbsent(vote.getId())) {
        throw new IllegalStateException("server " + vote.getId() + ", just elected, is gone", e);
      }
      throw e;
    }
  }

  /**
   * Registers with the leader. One of an earlier epoch than this server has accepted cannot lead it; such a
   * leader {@linkplain PromptLeader steps down} after a while, so there is no use in asking at once again.
   */
  @Override
  protected long registerWithLeader(int packetType) throws IOException {
    try {
      return super.registerWithLeader(packetType);
    } catch (IOException e) {
      if (String.valueOf(e.getMessage()).startsWith(EARLIER_EPOCH)) {
        pause();
      }
      throw e;
    }
  }

  private static void pause() {
    try {
      Thread.sleep(REFUSAL_PAUSE_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  protected void connectToLeader(MultipleAddresses addresses, String hostname) throws IOException {
    super.connectToLeader(addresses, hostname);
    peer.recorder().connected();
  }

  @Override
  void readPacket(QuorumPacket packet) throws IOException {
    try {
      super.readPacket(packet);
    } catch (IOException e) {
      peer.leaving(LossCause.CLOSED);
      throw e;
    }
    peer.recorder().leaderSign();
  }

  /**
   * Ends the role. While a follower is brought up to its leader by TRUNC, what it receives goes to the
   * tree only, until the snapshot at the end. Upstream keeps that tree when the leader is lost before,
   * and only writes it to disk if this server is elected next. Ours is loaded from disk again, as
   * upstream does after a SNAP that was broken off.
   */
  @Override
  public void shutdown() {
    peer.roleEnds(zk);
    peer.leaving(LossCause.OTHER);
    boolean unlogged = receivesUnlogged();
    super.shutdown();
    if (unlogged) {
      peer.getZkDb().clear();
      peer.setSyncMode(QuorumPeer.SyncMode.NONE);
    }
  }

  private boolean receivesUnlogged() {
    return switch (peer.getSyncMode()) {
      case NONE -> false;
      case DIFF -> zk.shouldForceWriteInitialSnapshotAfterLeaderElection();
      case TRUNC, SNAP -> true;
    };
  }
}
