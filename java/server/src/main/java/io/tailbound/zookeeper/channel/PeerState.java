package io.tailbound.zookeeper.channel;

import io.tailbound.zookeeper.epoch.PeerEpochs;
import java.util.Objects;
import java.util.Optional;

/**
 * All that a server tells its peers over the election channel. It is a state and no event: the
 * newest one replaces all before, so a lost or doubled one does no harm and nothing need be queued.
 *
 * @param incarnation drawn anew at every start of the sender
 * @param sequence counts the messages of this incarnation to this receiver from 1
 * @param heard sequence of the receiver's last message that the sender saw; 0 if it saw none
 * @param intervalNs longest time that the sender lets pass between two messages, in nanoseconds; 0 if
 *     it sends none without cause
 * @param role what the sender is doing
 * @param round the sender's election round (upstream's logical clock, or that of its last vote)
 * @param leader id of the server that the sender votes for, follows, or is
 * @param ready whether the sender leads and its quorum port accepts (the thesis's CNX_READY)
 * @param suspects whether the sender follows {@code leader} and has not heard it for too long
 * @param epochs the sender's row of the epoch table, if it keeps one
 */
public record PeerState(
    long incarnation,
    long sequence,
    long heard,
    long intervalNs,
    Role role,
    long round,
    long leader,
    boolean ready,
    boolean suspects,
    Optional<PeerEpochs> epochs) {

  /** Longest interval that a server can be configured with, in nanoseconds. */
  public static final long MAX_INTERVAL_NS = 60_000_000_000L;

  /** What a server is doing; the order is that of the wire format. */
  public enum Role {
    /** In an election. */
    LOOKING,
    /** Follows a leader, or tries to. */
    FOLLOWING,
    /** Leads, or tries to. */
    LEADING,
    /** Observes. */
    OBSERVING
  }

  /** Refuses what no server could say. */
  public PeerState {
    Objects.requireNonNull(role, "role");
    Objects.requireNonNull(epochs, "epochs");
    if (intervalNs < 0 || intervalNs > MAX_INTERVAL_NS) {
      throw new IllegalArgumentException("interval of " + intervalNs + " ns: must be 0 to " + MAX_INTERVAL_NS);
    }
  }
}
