package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A follower whose leader is gone, and a leader whose follower is. */
class GivingUpTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);
  private static final int SHORTEST_NOTIFICATION = 28;

  @TempDir
  private Path directory;
  private TailboundPeer peer;
  private ElectionChannels channels;

  @BeforeEach
  void create() throws IOException {
    peer = PeerInMemory.create(directory);
    channels = (ElectionChannels) peer.createCnxnManager();
  }

  @AfterEach
  void end() {
    channels.halt();
    peer.shutdown();
  }

  /** Connects to a port where nobody listens, as a follower of that server does. */
  private void connect(long leader) throws IOException {
    InetSocketAddress closed;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      closed = new InetSocketAddress("127.0.0.1", socket.getLocalPort());
    }
    peer.setCurrentVote(new Vote(leader, 0, 1, 1));
    PromptFollower follower =
        new PromptFollower(peer, new FollowerZooKeeperServer(peer.getTxnFactory(), peer, peer.getZkDb()));
    try (Socket socket = new Socket()) {
      follower.sockConnect(socket, closed, 10_000);
    }
  }

  @Test
  void aLeaderThatIsGoneIsGivenUp() {
    // It was heard in this process and has no channel any more.
    channels.addToRecvQueue(new QuorumCnxManager.Message(ByteBuffer.allocate(SHORTEST_NOTIFICATION), 3));
    IllegalStateException gone = assertThrows(IllegalStateException.class, () -> connect(3));
    assertEquals("server 3, just elected, is gone", gone.getMessage());
  }

  @Test
  void aLeaderThatWasNeverHeardIsTriedAgain() {
    assertThrows(IOException.class, () -> connect(2));
  }

  @Test
  void aLeaderWhoseVoterVotesAgainGivesUp() throws Exception {
    peer.setInitLimit(10_000);
    Leader leader = peer.makeLeader(peer.getTxnFactory());
    SyncedLearnerTracker voters = new SyncedLearnerTracker();
    voters.addQuorumVerifier(peer.getQuorumVerifier());
    voters.addAck(2L);
    leader.setLeadingVoteSet(voters);
    FutureTask<Long> waiting = new FutureTask<>(() -> leader.getEpochToPropose(peer.getMyId(), 0));
    Thread thread = new Thread(waiting, "waiting leader");
    thread.setDaemon(true);
    thread.start();
    long end = System.nanoTime() + MINUTE_NS;
    while (!waiting.isDone()) {
      assertTrue(System.nanoTime() - end < 0, "the leader waits for upstream's limit");
      leader.reportLookingSid(2);
      Thread.sleep(10);
    }
    leader.closeSockets();
    assertThrows(ExecutionException.class, waiting::get);
  }
}
