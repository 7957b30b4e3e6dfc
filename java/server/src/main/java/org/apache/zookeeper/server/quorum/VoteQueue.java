package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.config.FinishRule;
import io.tailbound.zookeeper.election.CompleteVote;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.FastLeaderElection.Notification;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;

/**
 * The queue from which upstream's election takes notifications. Upstream ends an election when this
 * queue stays empty for a fixed time after a quorum was reached; the queue decides when that is.
 *
 * <p>{@link #offer} is called by the receiving thread, {@link #poll(long, TimeUnit)} by the electing
 * one.
 */
class VoteQueue extends LinkedBlockingQueue<Notification> {

  /** How soon the end of a channel is noticed while nothing arrives. */
  private static final long LOOK_NS = 2_000_000L;

  private final transient PromptElection election;
  private final transient Map<Long, CompleteVote.Answer> answers = new HashMap<>();
  private transient Notification again;

  VoteQueue(PromptElection election) {
    this.election = election;
  }

  /** Forgets the answers of the election before. Called by the electing thread. */
  void newElection() {
    answers.clear();
    again = null;
  }

  @Override
  public boolean offer(Notification n) {
    boolean taken = super.offer(n);
    election.answer(n);
    return taken;
  }

  @Override
  public Notification poll(long timeout, TimeUnit unit) throws InterruptedException {
    if (again != null) {
      Notification vote = again;
      again = null;
      return vote;
    }
    if (!election.hasQuorum()) {
      Notification n = noted(super.poll(timeout, unit));
      again = n != null && election.isWaitedForBy(n) ? asVote(n) : null;
      return n;
    }
    FinishRule rule = election.config().rule();
    long waitNs = rule == FinishRule.SHORT_WAIT ? election.config().shortWaitNs() : unit.toNanos(timeout);
    return finish(rule, System.nanoTime() + waitNs);
  }

  /** Waits for a better vote; null if there is none in time, or none can come any more. */
  private Notification finish(FinishRule rule, long endNs) throws InterruptedException {
    while (true) {
      long leftNs = endNs - System.nanoTime();
      boolean complete = rule == FinishRule.COMPLETE_VOTE && isEmpty() && election.isComplete(answers);
      if (complete || leftNs <= 0 && isEmpty()) {
        return null;
      }
      Notification n = noted(super.poll(Math.max(Math.min(leftNs, LOOK_NS), 0), TimeUnit.NANOSECONDS));
      if (n == null) {
        continue;
      }
      if (election.isBetter(n)) {
        election.voteImproved();
        return n;
      }
      if (rule == FinishRule.UPSTREAM) {
        // Upstream starts its wait again after every notification.
        return n;
      }
    }
  }

  /** The vote by which its sender became the leader. */
  private static Notification asVote(Notification n) {
    Notification vote = new Notification();
    vote.version = n.version;
    vote.leader = n.leader;
    vote.zxid = n.zxid;
    vote.electionEpoch = n.electionEpoch;
    vote.state = ServerState.LOOKING;
    vote.sid = n.sid;
    vote.qv = n.qv;
    vote.peerEpoch = n.peerEpoch;
    return vote;
  }

  private Notification noted(Notification n) {
    if (n != null && n.state != ServerState.OBSERVING) {
      CompleteVote.Ballot ballot = new CompleteVote.Ballot(n.electionEpoch, n.leader, n.zxid, n.peerEpoch);
      // A peer that just decided may still tell the vote of the round before (upstream sets its state
      // first and its vote after): that must not displace its vote in this round.
      answers.merge(n.sid, new CompleteVote.Answer(ballot, n.state != ServerState.LOOKING),
          (known, told) -> told.ballot().round() < known.ballot().round() ? known : told);
    }
    return n;
  }
}
