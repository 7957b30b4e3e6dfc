package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.FastLeaderElection.Notification;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Server 1 looks for a leader in round 7 and proposes itself; server 3 tells that it leads. */
class WaitingLeaderTest {

  private static final long ROUND = 7;
  private static final long ZXID = 0x500000003L;
  private static final long EPOCH = 5;

  @TempDir
  private Path directory;
  private TailboundPeer peer;
  private PromptElection election;

  @BeforeEach
  void create() throws Exception {
    peer = PeerInMemory.create(directory);
    election = PeerInMemory.election(peer, ROUND, ZXID, EPOCH);
  }

  @AfterEach
  void end() {
    election.shutdown();
    peer.shutdown();
  }

  private static Notification leading(long round, long zxid) {
    Notification n = new Notification();
    n.sid = 3;
    n.leader = 3;
    n.state = ServerState.LEADING;
    n.electionEpoch = round;
    n.zxid = zxid;
    n.peerEpoch = EPOCH;
    return n;
  }

  private Notification next() throws InterruptedException {
    return election.recvqueue.poll(1, TimeUnit.MILLISECONDS);
  }

  @Test
  void theLeaderOfThisRoundIsVotedForToo() throws InterruptedException {
    Notification told = leading(ROUND, ZXID);
    election.recvqueue.offer(told);
    assertSame(told, next(), "first as upstream looks at it");
    Notification vote = next();
    assertNotNull(vote);
    assertEquals(ServerState.LOOKING, vote.state);
    assertEquals(3, vote.sid);
    assertEquals(3, vote.leader);
    assertEquals(ROUND, vote.electionEpoch);
    assertEquals(ZXID, vote.zxid);
    assertEquals(EPOCH, vote.peerEpoch);
    assertNull(next(), "once only");
  }

  @Test
  void theLeaderOfAnotherRoundIsNot() throws InterruptedException {
    election.recvqueue.offer(leading(ROUND - 1, ZXID));
    assertNotNull(next());
    assertNull(next());
  }

  @Test
  void aLeaderThatKnowsLessIsNot() throws InterruptedException {
    election.recvqueue.offer(leading(ROUND, ZXID - 1));
    assertNotNull(next());
    assertNull(next());
  }

  @Test
  void whatWasHeardInTheElectionBeforeIsForgotten() throws InterruptedException {
    election.recvqueue.offer(leading(ROUND, ZXID));
    assertNotNull(next());
    ((VoteQueue) election.recvqueue).newElection();
    assertNull(next());
  }
}
