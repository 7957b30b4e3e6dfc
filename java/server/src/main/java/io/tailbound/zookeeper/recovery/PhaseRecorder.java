package io.tailbound.zookeeper.recovery;

import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;

/** {@link RecoveryRecorder} that hands every finished recovery to a log and to listeners. */
public final class PhaseRecorder implements RecoveryRecorder {
  private enum State {
    QUIET,
    ELECTING,
    ELECTED,
    CONNECTED,
    SYNCHRONISED,
    AWAITING_WRITE
  }

  private final long server;
  private final IntSupplier servers;
  private final String variant;
  private final LongSupplier clock;
  private final Executor notifier;
  private final List<Consumer<Recovery>> listeners;
  private final RecoveryLog log = new RecoveryLog();

  private volatile long lastSign;
  private volatile boolean signSeen;
  private volatile State state = State.QUIET;
  private long number;
  private long dropped;
  private int rounds;
  private LossCause cause = LossCause.OTHER;
  private Role role = Role.FOLLOWER;
  private long leader;
  private long epoch;
  private long signAt;
  private long lostAt;
  private long electedAt;
  private long connectedAt;
  private long synchronisedAt;
  private long servingAt;

  /**
   * A recorder of one server.
   *
   * @param server id of this server
   * @param servers how many voting servers the present configuration has
   * @param variant name of the configured variant
   * @param clock monotonic clock in nanoseconds: {@code System::nanoTime}
   * @param notifier runs the listeners; must not run them in the calling thread if they wait
   * @param listeners told of every finished recovery
   */
  public PhaseRecorder(
      long server,
      IntSupplier servers,
      String variant,
      LongSupplier clock,
      Executor notifier,
      List<Consumer<Recovery>> listeners) {
    this.server = server;
    this.servers = servers;
    this.variant = variant;
    this.clock = clock;
    this.notifier = notifier;
    this.listeners = List.copyOf(listeners);
  }

  @Override
  public void leaderSign() {
    lastSign = clock.getAsLong();
    signSeen = true;
  }

  @Override
  public synchronized void leaderLost(LossCause why) {
    if (state == State.AWAITING_WRITE) {
      finish(Recovery.NO_WRITE);
    }
    if (state == State.QUIET) {
      lostAt = clock.getAsLong();
      boolean detected = why != LossCause.STARTED && signSeen;
      signAt = detected ? Math.min(lastSign, lostAt) : lostAt;
      cause = why;
      rounds = 0;
    }
    state = State.ELECTING;
  }

  @Override
  public synchronized void elected(Role newRole, long newLeader) {
    if (state == State.QUIET || state == State.AWAITING_WRITE) {
      dropped++;
      return;
    }
    electedAt = clock.getAsLong();
    role = newRole;
    leader = newLeader;
    rounds++;
    state = State.ELECTED;
  }

  @Override
  public synchronized void connected() {
    if (state != State.ELECTED) {
      dropped++;
      return;
    }
    connectedAt = clock.getAsLong();
    state = State.CONNECTED;
  }

  @Override
  public synchronized void synchronised(long newEpoch) {
    if (state != State.ELECTED && state != State.CONNECTED) {
      dropped++;
      return;
    }
    if (state == State.ELECTED) {
      connectedAt = electedAt;
    }
    synchronisedAt = clock.getAsLong();
    epoch = newEpoch;
    state = State.SYNCHRONISED;
  }

  @Override
  public synchronized void serving() {
    if (state != State.SYNCHRONISED) {
      dropped++;
      return;
    }
    servingAt = clock.getAsLong();
    state = State.AWAITING_WRITE;
  }

  @Override
  public void firstWrite(long arrivedNs) {
    if (state != State.AWAITING_WRITE) {
      return;
    }
    synchronized (this) {
      if (state == State.AWAITING_WRITE) {
        long now = clock.getAsLong();
        long from = arrivedNs == Long.MIN_VALUE || arrivedNs - servingAt < 0 ? servingAt : arrivedNs;
        finish(Math.max(0, now - from));
        state = State.QUIET;
      }
    }
  }

  @Override
  public synchronized void stop() {
    if (state == State.AWAITING_WRITE) {
      finish(Recovery.NO_WRITE);
    }
    state = State.QUIET;
  }

  private void finish(long firstWriteNs) {
    Recovery recovery =
        new Recovery(
            ++number, server, role, leader, epoch, cause, rounds, servers.getAsInt(), variant,
            lostAt - signAt, electedAt - lostAt, connectedAt - electedAt,
            synchronisedAt - connectedAt, servingAt - synchronisedAt, firstWriteNs);
    state = State.QUIET;
    log.add(recovery);
    for (Consumer<Recovery> listener : listeners) {
      notifier.execute(() -> listener.accept(recovery));
    }
  }

  @Override
  public List<Recovery> recent() {
    return log.newestFirst();
  }

  /** How many calls came in an order that no recovery has. */
  public synchronized long dropped() {
    return dropped;
  }
}
