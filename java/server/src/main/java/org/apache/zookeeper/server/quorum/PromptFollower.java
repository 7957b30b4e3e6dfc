package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** A follower that connects when its leader says that it accepts (FQCE; thesis, section 5.2.3). */
class PromptFollower extends Follower {

  private final TailboundPeer peer;

  PromptFollower(TailboundPeer peer, FollowerZooKeeperServer server) {
    super(peer, server);
    this.peer = peer;
  }

  @Override
  protected void sockConnect(Socket sock, InetSocketAddress addr, int timeout) throws IOException {
    if (peer.config().election().readyNotice()) {
      peer.leaderWatch().awaitReady(peer.getCurrentVote(), peer.config().election().readyWaitNs());
    }
    super.sockConnect(sock, addr, timeout);
  }
}
