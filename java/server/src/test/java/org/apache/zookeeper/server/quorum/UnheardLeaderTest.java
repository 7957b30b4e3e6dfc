package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.FastLeaderElection.Notification;
import org.apache.zookeeper.server.quorum.FastLeaderElection.ToSend;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Server 1 looks for a leader in round 7, server 2 follows one of round 6, of which server 1 has heard
 * nothing: its vote came before that one led, and got no answer.
 */
class UnheardLeaderTest {

  private static final long ROUND = 7;

  @TempDir
  private Path directory;
  private TailboundPeer peer;
  private PromptElection election;

  @BeforeEach
  void create() throws Exception {
    peer = PeerInMemory.create(directory);
    election = PeerInMemory.election(peer, ROUND, 0x500000003L, 5);
  }

  @AfterEach
  void end() {
    election.shutdown();
    peer.shutdown();
  }

  private static Notification following(long leader, long round) {
    Notification n = new Notification();
    n.sid = 2;
    n.leader = leader;
    n.state = ServerState.FOLLOWING;
    n.electionEpoch = round;
    n.zxid = 0x500000003L;
    n.peerEpoch = 5;
    return n;
  }

  /** Who gets the vote of server 1 because of a notification. */
  private Set<Long> asked(Notification n, int expected) throws InterruptedException {
    election.answer(n);
    Set<Long> asked = new TreeSet<>();
    while (asked.size() < expected) {
      ToSend vote = election.sendqueue.poll(30, TimeUnit.SECONDS);
      if (vote == null) {
        return asked;
      }
      assertEquals(ROUND, vote.electionEpoch);
      assertEquals(ServerState.LOOKING, vote.state);
      asked.add(vote.sid);
    }
    ToSend more = election.sendqueue.poll(200, TimeUnit.MILLISECONDS);
    if (more != null) {
      asked.add(more.sid);
    }
    return asked;
  }

  @Test
  void theLeaderOfADecidedPeerIsAskedToo() throws InterruptedException {
    assertEquals(Set.of(2L, 3L), asked(following(3, ROUND - 1), 2));
  }

  @Test
  void whoFollowsThisServerIsAskedAlone() throws InterruptedException {
    assertEquals(Set.of(2L), asked(following(1, ROUND - 1), 1));
  }

  @Test
  void aLeaderThatIsNoMemberIsNotAsked() throws InterruptedException {
    assertEquals(Set.of(2L), asked(following(9, ROUND - 1), 1));
  }

  @Test
  void aPeerOfThisRoundIsNotAsked() throws InterruptedException {
    assertEquals(Set.of(), asked(following(3, ROUND), 0));
  }
}
