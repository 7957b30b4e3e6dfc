package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import java.io.IOException;

/** A leader that tells when it ends. */
class PromptLeader extends Leader {

  private final TailboundPeer peer;

  PromptLeader(TailboundPeer peer, LeaderZooKeeperServer server) throws IOException {
    super(peer, server);
    this.peer = peer;
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
