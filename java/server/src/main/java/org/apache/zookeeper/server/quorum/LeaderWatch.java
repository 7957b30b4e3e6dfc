package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.channel.PeerState;
import io.tailbound.zookeeper.channel.Peers;
import io.tailbound.zookeeper.recovery.RecoveryRecorder;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongPredicate;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Acts on what the peers say about the leader: a follower leaves a leader that a quorum has not heard
 * for too long or has left, a leader steps down that has not heard a quorum for too long, and a follower
 * waits for the notice that its leader is ready.
 *
 * <p>Otherwise a follower alone never leaves: the service gains nothing unless a quorum can elect another
 * leader, and a false suspicion by fewer costs nothing at all.
 */
class LeaderWatch {

  private static final Logger LOG = LoggerFactory.getLogger(LeaderWatch.class);

  private final TailboundPeer peer;
  private volatile boolean ready;
  private volatile boolean suspects;
  private Learner left;
  private Leader steppedDown;

  LeaderWatch(TailboundPeer peer) {
    this.peer = peer;
  }

  /** Whether this server leads and its quorum port accepts. */
  boolean ready() {
    return ready;
  }

  void setReady(boolean now) {
    ready = now;
    peer.peers().tell();
  }

  /** Whether this server follows a leader that it has not heard for too long. */
  boolean suspects() {
    return suspects;
  }

  /** Looks at the peers again. Called after each message and each tick. */
  synchronized void look() {
    notifyAll();
    if (!peer.config().heartbeat().enabled()) {
      return;
    }
    Follower follower = peer.follower;
    Leader leader = peer.leader;
    if (follower != null && peer.getPeerState() == ServerState.FOLLOWING) {
      watchLeader(follower);
    } else {
      suspects = false;
      if (leader != null && peer.getZabState() == QuorumPeer.ZabState.BROADCAST) {
        watchFollowers(leader);
      }
    }
  }

  private void watchLeader(Follower follower) {
    Vote vote = peer.getCurrentVote();
    boolean now = vote != null && peer.peers().suspicious(vote.getId());
    if (now != suspects) {
      suspects = now;
      peer.peers().tell();
    }
    if (vote == null || left == follower) {
      return;
    }
    if (now && isQuorum(voter -> hasLost(voter, vote.getId())) || isAbandoned(vote.getId())) {
      left = follower;
      LOG.warn("Leaving server {}: a quorum has not heard it or has left it, this server not for {} ms",
          vote.getId(), peer.peers().silentNs(vote.getId()) / 1_000_000L);
      peer.leaving(RecoveryRecorder.LossCause.SILENT);
      // In a thread of its own, since closing a TLS connection to a hung peer may block.
      inBackground(follower::closeSocket, "tailbound-leave");
    }
  }

  /** Whether a voter follows the leader no more, or has not heard it for too long. */
  private boolean hasLost(long voter, long leader) {
    if (voter == peer.getMyId()) {
      return true;
    }
    Optional<PeerState> state = peer.peers().state(voter);
    return voter != leader && state.isPresent() && !peer.peers().suspicious(voter)
        && (state.get().role() == PeerState.Role.LOOKING
            || state.get().role() == PeerState.Role.FOLLOWING
                && (state.get().suspects() || state.get().leader() != leader));
  }

  /**
   * Whether so many have left the leader for a later election that the rest is no quorum. Without this
   * the last one to suspect would keep the others waiting for its vote.
   */
  private boolean isAbandoned(long leader) {
    long round = peer.round();
    return !isQuorum(voter -> voter == peer.getMyId() || voter == leader
        || peer.peers().state(voter).filter(state -> hasLeft(state, leader, round)).isEmpty());
  }

  /** Whether a peer is in a later election than that leader's, or came out of one with another leader. */
  static boolean hasLeft(PeerState state, long leader, long round) {
    // In the election that made this leader the others may still tell that they are looking.
    return state.round() > round && (state.role() == PeerState.Role.LOOKING || state.leader() != leader);
  }

  private void watchFollowers(Leader leader) {
    // Who does not beat (a stock server, a broken channel) is left to upstream's own check.
    long round = peer.round();
    boolean quorumMayLive = isQuorum(voter -> voter == peer.getMyId() || mayFollow(voter, round));
    if (!quorumMayLive && steppedDown != leader) {
      LOG.warn("Stepping down: a quorum was not heard for too long, or is in a later election");
      stepDown(leader, "a quorum is lost");
    }
  }

  /** Ends a leader's role, once. */
  void stepDown(Leader leader, String reason) {
    synchronized (this) {
      if (steppedDown == leader) {
        return;
      }
      steppedDown = leader;
    }
    peer.leaving(RecoveryRecorder.LossCause.STEPPED_DOWN);
    inBackground(() -> leader.shutdown(reason), "tailbound-step-down");
  }

  private static void inBackground(Runnable task, String name) {
    Thread thread = new Thread(task, name);
    thread.setDaemon(true);
    thread.start();
  }

  /** Whether a voter may still follow this leader: it was heard, and is in no later election. */
  private boolean mayFollow(long voter, long round) {
    Optional<PeerState> state = peer.peers().state(voter);
    return state.isEmpty() || !peer.peers().suspicious(voter)
        && (state.get().round() <= round || state.get().leader() == peer.getMyId());
  }

  private boolean isQuorum(LongPredicate member) {
    Set<Long> servers = new HashSet<>();
    for (long voter : peer.getQuorumVerifier().getVotingMembers().keySet()) {
      if (member.test(voter)) {
        servers.add(voter);
      }
    }
    return peer.getQuorumVerifier().containsQuorum(servers);
  }

  /**
   * Waits until the leader of a vote accepts connections. Returns at once if it is no server of our
   * kind, and after the limit in any case; then upstream's own retries apply.
   *
   * @throws IllegalStateException if the elected server cannot become this server's leader any more;
   *     unchecked, since upstream would try again after an {@code IOException}
   */
  void awaitReady(Vote vote, long limitNs) {
    long leader = vote.getId();
    long end = System.nanoTime() + limitNs;
    try {
      synchronized (this) {
        boolean spoke = peer.peers().speaks(leader);
        while (spoke && !isReady(leader, vote.getElectionEpoch())) {
          long leftNs = end - System.nanoTime();
          if (leftNs <= 0) {
            LOG.info("No notice from server {} that it is ready; connecting as upstream does", leader);
            return;
          }
          if (!peer.peers().speaks(leader)) {
            throw new IllegalStateException("server " + leader + ", just elected, is gone");
          }
          if (peer.config().election().rejoin()
              && peer.peers().state(leader).filter(s -> followsAnother(s, vote.getElectionEpoch())).isPresent()) {
            throw new IllegalStateException("server " + leader + ", just elected, follows another one");
          }
          wait(leftNs / 1_000_000L + 1);
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Whether a server that was voted for in a round came out of it, or of a later one, as a follower. */
  static boolean followsAnother(PeerState state, long round) {
    return state.role() == PeerState.Role.FOLLOWING && state.round() >= round;
  }

  private boolean isReady(long leader, long round) {
    return peer.peers().state(leader)
        .filter(s -> s.role() == PeerState.Role.LEADING && s.ready() && s.round() >= round).isPresent();
  }
}
