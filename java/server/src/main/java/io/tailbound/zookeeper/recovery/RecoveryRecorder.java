package io.tailbound.zookeeper.recovery;

import java.util.List;

/**
 * Takes the times of one recovery after another on this server.
 *
 * <p>Calls in the order of a recovery: {@link #leaderSign} (all the time), {@link #leaderLost},
 * {@link #elected}, {@link #connected}, {@link #synchronised}, {@link #serving}, {@link #firstWrite}.
 * {@link #leaderLost} or a new {@link #elected} before {@link #serving} counts a round more; the time
 * spent in vain goes to the election. A call that was left out gives its phase no time. A recovery is
 * published with its first write, or without one when the next recovery begins or the server stops.
 *
 * <p><b>Threads.</b> Every method may be called from any thread, at any time, never throws and never
 * waits for a disk, a network or a listener: a call out of order is dropped and counted. {@link
 * #leaderSign} costs one clock read and one volatile write; {@link #firstWrite} costs one volatile
 * read when there is no recovery to finish, so it may be called for every write.
 *
 * <p>Times are those of {@code System.nanoTime} (CLOCK_MONOTONIC); no wall clock is used.
 */
public interface RecoveryRecorder {
  /** A message of the present leader arrived (proposal, ping, heartbeat); on the leader: of a follower. */
  void leaderSign();

  /** This server gave its leader up, or stepped down, and goes into an election. */
  void leaderLost(LossCause cause);

  /** The election ended on this server: it takes the role under that leader. */
  void elected(Role role, long leader);

  /** Follower: the leader accepted the connection. Leader: a majority is connected. */
  void connected();

  /** Follower: NEWLEADER acknowledged. Leader: a majority acknowledged it. */
  void synchronised(long epoch);

  /** The server accepts requests of clients. */
  void serving();

  /** As {@link #firstWrite(long)} for a write of which it is not known when it arrived. */
  default void firstWrite() {
    firstWrite(Long.MIN_VALUE);
  }

  /**
   * A write that a client asked for was committed on this server. The time that an idle server spent
   * waiting for a client is not counted.
   *
   * @param arrivedNs when the request arrived, of {@code System.nanoTime}; {@code Long.MIN_VALUE} if
   *     that is not known, then it counts as waiting since the server started to serve
   */
  void firstWrite(long arrivedNs);

  /** The last recoveries, newest first, at most {@link RecoveryLog#KEPT}. */
  List<Recovery> recent();

  /** The server stops: publishes a recovery that still waits for its first write. */
  void stop();

  /** Why a leader was given up. */
  enum LossCause {
    /** This server started. Detection is then 0. */
    STARTED,
    /** The connection was closed: the process died. */
    CLOSED,
    /** No sign of life for longer than the heartbeat's limit. */
    SILENT,
    /** The leader lost its majority and stepped down. */
    STEPPED_DOWN,
    /** The role ended for another reason (reconfiguration, error). */
    OTHER
  }

  /** What this server became. */
  enum Role {
    /** The leader. */
    LEADER,
    /** A voting follower. */
    FOLLOWER,
    /** An observer. */
    OBSERVER
  }
}
