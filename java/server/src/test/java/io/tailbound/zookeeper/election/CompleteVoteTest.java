package io.tailbound.zookeeper.election;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.election.CompleteVote.Answer;
import io.tailbound.zookeeper.election.CompleteVote.Ballot;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class CompleteVoteTest {

  private static final List<Long> VOTERS = List.of(1L, 2L, 3L);
  private static final Ballot MINE = new Ballot(2, 3, 0x500000001L, 5);
  private static final Answer AGREES = new Answer(MINE, false);

  private static boolean holds(Map<Long, Answer> answers, Set<Long> absent) {
    return CompleteVote.holds(VOTERS, 1, MINE, answers, absent::contains);
  }

  @Test
  void everyOtherVoterMustAgree() {
    assertTrue(holds(Map.of(2L, AGREES, 3L, AGREES), Set.of()));
    assertFalse(holds(Map.of(2L, AGREES), Set.of()));
    assertFalse(holds(Map.of(), Set.of()));
  }

  @Test
  void anAbsentVoterIsNotWaitedForWhateverItSaidLast() {
    assertTrue(holds(Map.of(2L, AGREES), Set.of(3L)));
    Answer other = new Answer(new Ballot(2, 2, 0x500000001L, 5), false);
    assertTrue(holds(Map.of(2L, AGREES, 3L, other), Set.of(3L)));
  }

  @Test
  void anotherVoteRoundZxidOrEpochIsNoAgreement() {
    for (Ballot other : List.of(new Ballot(2, 2, 0x500000001L, 5), new Ballot(1, 3, 0x500000001L, 5),
        new Ballot(2, 3, 0x500000000L, 5), new Ballot(2, 3, 0x500000001L, 4))) {
      assertFalse(holds(Map.of(2L, new Answer(other, false), 3L, AGREES), Set.of()), other.toString());
    }
  }

  @Test
  void aPeerThatDecidedInThisRoundForTheSameLeaderAgrees() {
    // It tells the epoch that it has reached since, which upstream writes into its vote.
    Answer decided = new Answer(new Ballot(2, 3, 0x500000001L, 6), true);
    assertTrue(holds(Map.of(2L, decided, 3L, AGREES), Set.of()));
    Answer stale = new Answer(new Ballot(1, 3, 0x500000001L, 5), true);
    assertFalse(holds(Map.of(2L, stale, 3L, AGREES), Set.of()));
    Answer elsewhere = new Answer(new Ballot(2, 2, 0x500000001L, 5), true);
    assertFalse(holds(Map.of(2L, elsewhere, 3L, AGREES), Set.of()));
  }
}
