package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Path;
import java.util.Set;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.quorum.Leader.Proposal;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Acknowledgements of a follower that lost its leader, came back and was truncated. */
class ReturningFollowerTest {

  private static final long EPOCH = 1;
  private static final long FOLLOWER = 2;
  private static final long COMMITTED = EPOCH << 32 | 1;
  private static final int PROPOSED = 2;

  @TempDir
  private Path directory;

  private TailboundPeer peer;
  private PromptLeader leader;
  private Proposal proposal;

  @BeforeEach
  void propose() throws IOException {
    peer = PeerInMemory.create(directory);
    leader = new PromptLeader(peer, new PromptLeaderServer(peer.getTxnFactory(), peer, peer.getZkDb()));
    Request request = PeerInMemory.creation(EPOCH, PROPOSED);
    proposal = new Proposal(request, new QuorumPacket(Leader.PROPOSAL, request.zxid, new byte[0], null));
    proposal.addQuorumVerifier(peer.getQuorumVerifier());
    leader.outstandingProposals.put(request.zxid, proposal);
    leader.lastProposed = request.zxid;
  }

  @AfterEach
  void close() {
    leader.closeSockets();
  }

  /** A connection whose thread acknowledges the proposal when it is run. */
  private LearnerHandler connection() throws IOException {
    LearnerHandler handler = new LearnerHandler(
        new Socket(), new BufferedInputStream(InputStream.nullInputStream()), leader) {
      @Override
      public void run() {
        leader.processAck(FOLLOWER, proposal.getQuorumPacket().getZxid(), null);
      }
    };
    handler.sid = FOLLOWER;
    return handler;
  }

  private static void acknowledge(LearnerHandler connection) throws InterruptedException {
    connection.start();
    connection.join();
  }

  private Set<Long> acknowledged() {
    return proposal.qvAcksetPairs.get(0).getAckset();
  }

  @Test
  void theFirstAcknowledgementIsForgottenAndTheSecondCounts() throws Exception {
    LearnerHandler first = connection();
    leader.startForwarding(first, COMMITTED);
    acknowledge(first);
    assertEquals(Set.of(FOLLOWER), acknowledged());

    LearnerHandler second = connection();
    leader.startForwarding(second, COMMITTED);
    assertEquals(Set.of(), acknowledged(), "it is truncated to what is committed");
    acknowledge(second);
    assertEquals(Set.of(FOLLOWER), acknowledged());
  }

  @Test
  void aLateAcknowledgementOfTheOldConnectionDoesNotCount() throws Exception {
    LearnerHandler first = connection();
    leader.startForwarding(first, COMMITTED);
    leader.startForwarding(connection(), COMMITTED);
    acknowledge(first);
    assertEquals(Set.of(), acknowledged());
  }
}
