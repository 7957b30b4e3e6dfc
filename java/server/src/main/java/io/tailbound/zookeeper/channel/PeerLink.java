package io.tailbound.zookeeper.channel;

import io.tailbound.zookeeper.config.HeartbeatConfig;
import java.util.Optional;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The exchange of states with one peer: what it said last, how long it has been silent, and the
 * thread that tells it ours. A thread for each peer, so that one congested channel delays no other.
 */
final class PeerLink implements Runnable {

  private static final Logger LOG = LoggerFactory.getLogger(PeerLink.class);

  /**
   * States sent without a sign that the peer read them. A hung peer's socket buffers take this many
   * with certainty, so that a sender never blocks in the monitor that upstream's votes need too.
   */
  private static final int MOST_UNREAD = 64;

  private static final long SHORTEST_RETRY_NS = 1_000_000_000L;
  private static final long LONGEST_RETRY_NS = 30_000_000_000L;
  private static final int MOST_TICKS_AT_ONCE = 3;

  private final long server;
  private final long incarnation;
  private final HeartbeatConfig config;
  private final long tickNs;
  private final long ceilingNs;
  private final ChannelPort port;
  private final Supplier<LocalState> local;

  private Object channel;
  private PeerState last;
  private Silence silence;
  private long sequence;
  private boolean nudged;
  private boolean stopped;
  private long retryAtNs;
  private long retryDelayNs = SHORTEST_RETRY_NS;

  PeerLink(long server, long incarnation, HeartbeatConfig config, long tickNs, long ceilingNs,
      ChannelPort port, Supplier<LocalState> local) {
    this.server = server;
    this.incarnation = incarnation;
    this.config = config;
    this.tickNs = tickNs;
    this.ceilingNs = ceilingNs;
    this.port = port;
    this.local = local;
    this.retryAtNs = System.nanoTime() + SHORTEST_RETRY_NS;
  }

  /** The peer showed on a channel that it is of our kind: by the mark, or by a state that came before it. */
  synchronized void announced(Object onChannel) {
    if (onChannel == null || onChannel == channel) {
      return;
    }
    channel = onChannel;
    last = null;
    sequence = 0;
    silence = newSilence(config.timeoutNs());
    nudge();
    LOG.info("Server {} is of our kind", server);
  }

  private Silence newSilence(long floorNs) {
    return new Silence(floorNs, config.longestTimeoutNs(), ceilingNs, config.gapFactor(),
        MOST_TICKS_AT_ONCE * tickNs, System.nanoTime());
  }

  /** A state arrived on a channel. Returns false if it is older than one known. */
  synchronized boolean received(PeerState state, Object onChannel) {
    announced(onChannel);
    if (onChannel == null || onChannel != channel) {
      return false;
    }
    boolean sameStart = last != null && last.incarnation() == state.incarnation();
    if (sameStart && state.sequence() <= last.sequence()) {
      return false;
    }
    if (last == null || last.intervalNs() != state.intervalNs()) {
      // A peer that beats more slowly than we do may be silent for as many of its own intervals.
      long intervals = Math.max(config.timeoutNs() / config.intervalNs(), 1);
      silence = newSilence(Math.max(config.timeoutNs(), intervals * state.intervalNs()));
    }
    last = state;
    silence.heard(System.nanoTime());
    return true;
  }

  /** Whether the peer is of our kind and its channel lives. */
  synchronized boolean speaks() {
    return channel != null && port.channelTo(server) == channel;
  }

  /** What the peer said last on the live channel. */
  synchronized Optional<PeerState> state() {
    return speaks() ? Optional.ofNullable(last) : Optional.empty();
  }

  /** Whether the peer beats, its channel lives, and it has been silent for too long. */
  synchronized boolean suspicious() {
    return speaks() && last != null && last.intervalNs() > 0 && silence.suspicious();
  }

  /** Observed silence, in nanoseconds; 0 unless the peer is of our kind. */
  synchronized long silentNs() {
    return silence == null ? 0 : silence.silentNs();
  }

  /** Lets time pass for the silence, and reconnects a lost channel now and then. */
  void tick(long nowNs) {
    boolean reconnect;
    synchronized (this) {
      if (silence != null) {
        silence.tick(nowNs);
      }
      reconnect = reconnectIsDue(nowNs);
    }
    if (reconnect) {
      port.connect(server);
    }
  }

  private boolean reconnectIsDue(long nowNs) {
    if (port.channelTo(server) != null) {
      retryDelayNs = SHORTEST_RETRY_NS;
      retryAtNs = nowNs + retryDelayNs;
      return false;
    }
    if (nowNs - retryAtNs < 0) {
      return false;
    }
    retryDelayNs = Math.min(2 * retryDelayNs, LONGEST_RETRY_NS);
    retryAtNs = nowNs + retryDelayNs;
    return true;
  }

  /** Has the present state sent now. */
  synchronized void nudge() {
    nudged = true;
    notifyAll();
  }

  /** Ends the thread. */
  synchronized void stop() {
    stopped = true;
    notifyAll();
  }

  @Override
  public void run() {
    try {
      while (awaitTurn()) {
        sendState();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private synchronized boolean awaitTurn() throws InterruptedException {
    long end = System.nanoTime() + config.intervalNs();
    while (!stopped && !nudged) {
      long leftNs = end - System.nanoTime();
      if (leftNs <= 0) {
        break;
      }
      wait(leftNs / 1_000_000L, (int) (leftNs % 1_000_000L));
    }
    nudged = false;
    return !stopped;
  }

  private void sendState() {
    LocalState mine = local.get();
    byte[] message;
    synchronized (this) {
      long read = last == null ? 0 : last.heard();
      // After a reconnect the peer may still tell a number of the channel before.
      long unread = read > sequence ? 0 : sequence - read;
      if (!speaks() || unread >= MOST_UNREAD) {
        return;
      }
      sequence++;
      message = StateCodec.encode(new PeerState(incarnation, sequence, last == null ? 0 : last.sequence(),
          config.enabled() ? config.intervalNs() : 0, mine.role(), mine.round(), mine.leader(),
          mine.ready(), mine.suspects(), mine.epochs().apply(server)));
    }
    port.send(server, message);
  }
}
