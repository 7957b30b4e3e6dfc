package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.tailbound.zookeeper.channel.PeerState;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Who counts as having left leader 5, which was elected in round 7. */
class AbandonedLeaderTest {

  @ParameterizedTest
  @CsvSource({
    // An election goes on that this leader may still have won.
    "LOOKING, 6, 5, false",
    "LOOKING, 7, 4, false",
    "LOOKING, 8, 5, true",
    "LOOKING, 8, 2, true",
    "FOLLOWING, 7, 5, false",
    "FOLLOWING, 8, 5, false",
    "FOLLOWING, 8, 2, true",
    "LEADING, 8, 2, true",
    "LEADING, 6, 2, false",
  })
  void onlyALaterElectionCounts(PeerState.Role role, long round, long leader, boolean left) {
    PeerState state = new PeerState(1, 1, 0, 0, role, round, leader, false, false, Optional.empty());
    assertEquals(left, LeaderWatch.hasLeft(state, 5, 7));
  }

  /** What server 5 tells itself while its voters wait for it. */
  @ParameterizedTest
  @CsvSource({
    "FOLLOWING, 6, 2, false",
    "LOOKING, 7, 2, false",
    "LOOKING, 8, 2, false",
    "LEADING, 7, 5, false",
    "FOLLOWING, 7, 2, true",
    "FOLLOWING, 8, 2, true",
  })
  void whoFollowsAnotherSinceItsElectionLeadsNobody(PeerState.Role role, long round, long leader, boolean follows) {
    PeerState state = new PeerState(1, 1, 0, 0, role, round, leader, false, false, Optional.empty());
    assertEquals(follows, LeaderWatch.followsAnother(state, 7));
  }
}
