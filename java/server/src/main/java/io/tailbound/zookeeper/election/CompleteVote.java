package io.tailbound.zookeeper.election;

import java.util.Collection;
import java.util.Map;
import java.util.function.LongPredicate;

/**
 * The complete-vote rule: an election that has a quorum for its vote may end at once when no server
 * is left that could still bring a better one.
 *
 * <p>It changes only when upstream's wait for a better vote ends, never which vote wins; the quorum
 * was counted by upstream before. So safety rests on ZAB alone, as with every length of that wait,
 * and the rule decides about the time alone.
 */
public final class CompleteVote {

  private CompleteVote() {}

  /**
   * A vote.
   *
   * @param round election round in which it was cast
   * @param leader id of the proposed leader
   * @param zxid last transaction of the proposed leader
   * @param epoch current epoch of the proposed leader
   */
  public record Ballot(long round, long leader, long zxid, long epoch) {}

  /**
   * The newest notification of a peer.
   *
   * @param ballot its vote
   * @param decided whether the peer already follows or leads by that vote
   */
  public record Answer(Ballot ballot, boolean decided) {

    /** Whether the peer supports the same leader in the same round. */
    boolean agrees(Ballot mine) {
      // A peer that follows or leads tells zxid and epoch of a moment when the vote was cast or later
      // (upstream updates them), so round and leader must do.
      // Field by field: a record's own equals() is linked at its first call, amid an election.
      boolean sameLeader = ballot.round == mine.round && ballot.leader == mine.leader;
      return sameLeader && (decided || ballot.zxid == mine.zxid && ballot.epoch == mine.epoch);
    }
  }

  /**
   * @param voters ids of all voters of the present and the next configuration
   * @param self id of this server
   * @param mine the vote for which this server has a quorum
   * @param answers newest notification of each peer in this election
   * @param absent whether a peer is known to be unable to vote now (dead, unreachable, hung)
   * @return whether every voter that can vote agrees
   */
  public static boolean holds(
      Collection<Long> voters, long self, Ballot mine, Map<Long, Answer> answers, LongPredicate absent) {
    for (long voter : voters) {
      if (voter == self || absent.test(voter)) {
        continue;
      }
      Answer answer = answers.get(voter);
      if (answer == null || !answer.agrees(mine)) {
        return false;
      }
    }
    return true;
  }
}
