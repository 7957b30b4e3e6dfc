package io.tailbound.zookeeper.recovery;

import java.util.List;

/**
 * Takes the times of one recovery after another on this server.
 *
 * <p>Calls in the order of a recovery: {@link #leaderSign} (all the time), {@link #leaderLost},
 * {@link #elected}, {@link #connected}, {@link #synchronised}, {@link #serving}, {@link #firstWrite}.
 * {@link #leaderLost} or a new {@link #elected} in between starts that part again and counts a
 * round more; the time so far goes to the phase that was repeated.
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

  /** A transaction that a client asked for was committed, or could have been seen by one. */
  void firstWrite();

  /** The last recoveries, newest first, at most {@link RecoveryLog#KEPT}. */
  List<Recovery> recent();

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
