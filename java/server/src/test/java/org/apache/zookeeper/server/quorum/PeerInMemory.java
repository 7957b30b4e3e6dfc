package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.txn.CreateTxn;
import org.apache.zookeeper.txn.TxnHeader;

/** A peer of three that is never started, so its ports are nobody's: its parts are used one by one. */
final class PeerInMemory {

  private static final int QUORUM_PORT = 2888;
  private static final int ELECTION_PORT = 3888;

  private PeerInMemory() {}

  static TailboundPeer create(Path directory) throws IOException {
    Map<Long, QuorumServer> members = new HashMap<>();
    for (long id = 1; id <= 3; id++) {
      members.put(id, new QuorumServer(id, new InetSocketAddress("127.0.0.1", QUORUM_PORT),
          new InetSocketAddress("127.0.0.1", ELECTION_PORT)));
    }
    return new TailboundPeer(members, directory.toFile(), directory.toFile(), 3, 1, 100, 10, 5, 5, null);
  }

  /** The election of a peer that proposes itself in a round. */
  static PromptElection election(TailboundPeer peer, long round, long zxid, long epoch) throws IOException {
    PromptElection election = new PromptElection(peer, (ElectionChannels) peer.createCnxnManager());
    election.logicalclock.set(round);
    election.updateProposal(peer.getMyId(), zxid, epoch);
    return election;
  }

  /** A transaction that creates {@code /n<counter>}. */
  static Request creation(long epoch, int counter) {
    TxnHeader header = new TxnHeader(1, counter, epoch << 32 | counter, 0, OpCode.create);
    CreateTxn body = new CreateTxn("/n" + counter, new byte[0], Ids.OPEN_ACL_UNSAFE, false, 0);
    return new Request(1, counter, OpCode.create, header, body, header.getZxid());
  }
}
