package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.tailbound.zookeeper.config.ElectionConfig;
import io.tailbound.zookeeper.election.CompleteVote;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;

/**
 * Upstream's election with three changes, none of which touches the choice of the leader: votes are
 * sent again to peers that evidently do not know them (FCLE; thesis, section 5.2.2), the wait after a
 * quorum is reached ends by a rule instead of after 200 ms ({@link VoteQueue}), and a leader and a voter
 * that wait for each other do not do so for long.
 */
class PromptElection extends FastLeaderElection {

  private static final int MOST_DOUBLINGS = 3;

  private final TailboundPeer peer;
  private final ElectionChannels channels;
  private final ElectionConfig config;
  private final Map<Long, Integer> resends = new ConcurrentHashMap<>();
  private final ScheduledThreadPoolExecutor timer;
  private SyncedLearnerTracker quorum;

  PromptElection(TailboundPeer peer, ElectionChannels channels) {
    super(peer, channels);
    this.peer = peer;
    this.channels = channels;
    this.config = peer.config().election();
    this.timer = new ScheduledThreadPoolExecutor(1, task -> {
      Thread thread = new Thread(task, "tailbound-resend");
      thread.setDaemon(true);
      return thread;
    });
    timer.setRemoveOnCancelPolicy(true);
    timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    recvqueue = new VoteQueue(this);
  }

  ElectionConfig config() {
    return config;
  }

  @Override
  public Vote lookForLeader() throws InterruptedException {
    peer.electionBegins();
    peer.awaitDurableHistory(this);
    peer.awaitCertainty(this);
    resends.clear();
    quorum = null;
    ((VoteQueue) recvqueue).newElection();
    Vote vote = super.lookForLeader();
    if (vote != null) {
      peer.elected(vote.getId());
    }
    return vote;
  }

  /** Upstream asks this after each vote; a quorum for its own vote means that the final wait begins. */
  @Override
  protected SyncedLearnerTracker getVoteTracker(Map<Long, Vote> votes, Vote vote) {
    SyncedLearnerTracker tracker = super.getVoteTracker(votes, vote);
    // Votes of decided peers (FOLLOWING, LEADING) are counted by another path without a final wait.
    quorum = vote.getState() == ServerState.LOOKING && tracker.hasAllQuorums() ? tracker : null;
    return tracker;
  }

  /** Whether upstream holds a quorum for its own vote and only waits for a better one. */
  boolean hasQuorum() {
    return quorum != null;
  }

  /** The final wait was left for a better vote. */
  void voteImproved() {
    quorum = null;
  }

  CompleteVote.Ballot ballot() {
    return new CompleteVote.Ballot(logicalclock.get(), proposedLeader, proposedZxid, proposedEpoch);
  }

  /** Whether a notification carries a better vote than this server's, by upstream's order. */
  boolean isBetter(Notification n) {
    return totalOrderPredicate(n.leader, n.zxid, n.peerEpoch, proposedLeader, proposedZxid, proposedEpoch);
  }

  /**
   * Whether the sender leads by this round, with a better vote than this server has by now. This server
   * may have given it the vote that made it the leader, and then have joined another leader, who was just
   * about to end. Both would wait, the leader for its followers and this server for a quorum, until
   * {@code initLimit} is over. So the leader's vote counts (after it was looked at as upstream does) as
   * one that is given now.
   */
  boolean isWaitedForBy(Notification n) {
    return config.rejoin() && n.state == ServerState.LEADING && n.sid == n.leader
        && n.electionEpoch == logicalclock.get() && isBetter(n);
  }

  boolean isComplete(Map<Long, CompleteVote.Answer> answers) {
    return CompleteVote.holds(
        self.getCurrentAndNextConfigVoters(), self.getMyId(), ballot(), answers, channels::isAbsent);
  }

  /**
   * Sends this server's vote again where the notification shows that the sender lacks it. A decided
   * sender's leader gets it too: only the leader's own word ends the election, and if it had this vote
   * before it led, it has given none. Upstream asks everybody once all are silent for a while, which
   * the answers of the followers would put off for ever.
   */
  void answer(Notification n) {
    if (!config.resend() || n.sid == self.getMyId() || stop) {
      return;
    }
    boolean inOlderRound = n.electionEpoch < logicalclock.get();
    if (n.state == ServerState.LOOKING) {
      // An older round is answered by upstream itself.
      if (n.electionEpoch == logicalclock.get() && isWorse(n)) {
        sendVote(n.sid);
      }
    } else if (inOlderRound && n.state != ServerState.OBSERVING) {
      sendVoteLater(n.sid);
      if (n.state == ServerState.FOLLOWING && n.leader != n.sid && channels.others().contains(n.leader)) {
        sendVoteLater(n.leader);
      }
    }
  }

  private void sendVoteLater(long server) {
    int doublings = Math.min(resends.merge(server, 1, Integer::sum) - 1, MOST_DOUBLINGS);
    timer.schedule(() -> sendVote(server), config.resendDelayNs() << doublings, TimeUnit.NANOSECONDS);
  }

  private boolean isWorse(Notification n) {
    return totalOrderPredicate(proposedLeader, proposedZxid, proposedEpoch, n.leader, n.zxid, n.peerEpoch);
  }

  private void sendVote(long server) {
    if (stop || self.getPeerState() != ServerState.LOOKING || proposedLeader == -1) {
      return;
    }
    synchronized (this) {
      sendqueue.offer(new ToSend(ToSend.mType.notification, proposedLeader, proposedZxid, logicalclock.get(),
          ServerState.LOOKING, server, proposedEpoch, self.getQuorumVerifier().toString().getBytes(UTF_8)));
    }
  }

  /**
   * Makes the server known to its peers without a vote: as an observer would, which stock servers
   * take note of and do not answer.
   */
  void introduce() {
    byte[] configuration = self.getQuorumVerifier().toString().getBytes(UTF_8);
    for (long server : channels.others()) {
      sendqueue.offer(new ToSend(ToSend.mType.notification, self.getMyId(), 0, 0, ServerState.OBSERVING,
          server, 0, configuration));
    }
  }

  @Override
  public void shutdown() {
    ScheduledExecutorService ending = timer;
    ending.shutdownNow();
    super.shutdown();
  }
}
