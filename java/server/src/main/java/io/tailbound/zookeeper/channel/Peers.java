package io.tailbound.zookeeper.channel;

import io.tailbound.zookeeper.config.HeartbeatConfig;
import java.security.SecureRandom;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The states of all peers of our kind, exchanged over the election channel. All methods may be called
 * from any thread.
 */
public final class Peers implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(Peers.class);
  private static final int TICKS_PER_INTERVAL = 5;
  private static final long SHORTEST_TICK_NS = 2_000_000L;
  private static final long GARBAGE_LOG_INTERVAL_NS = 10_000_000_000L;

  private final HeartbeatConfig config;
  private final long ceilingNs;
  private final ChannelPort port;
  private final Supplier<LocalState> local;
  private final BiConsumer<Long, PeerState> told;
  private final Runnable changed;
  private final long incarnation = new SecureRandom().nextLong();
  private final Map<Long, PeerLink> links = new ConcurrentHashMap<>();
  private final Map<Long, Object> stockChannels = new ConcurrentHashMap<>();
  private volatile boolean closed;
  private volatile long lastGarbageLogNs = System.nanoTime() - GARBAGE_LOG_INTERVAL_NS;
  private volatile long garbage;

  /**
   * @param config intervals and limits
   * @param ceilingNs greatest silence before suspicion: upstream's own limit
   * @param port the election channel
   * @param local this server's state; called from several threads
   * @param told takes what a peer tells and that peer's id, and must not block
   * @param changed called after each message and each tick, and must not block
   */
  public Peers(HeartbeatConfig config, long ceilingNs, ChannelPort port, Supplier<LocalState> local,
      BiConsumer<Long, PeerState> told, Runnable changed) {
    this.config = config;
    this.ceilingNs = ceilingNs;
    this.port = port;
    this.local = local;
    this.told = told;
    this.changed = changed;
  }

  /** Starts the threads. */
  public void start() {
    Thread ticker = new Thread(this::tick, "tailbound-watch");
    ticker.setDaemon(true);
    ticker.start();
  }

  private long tickNs() {
    return Math.max(config.intervalNs() / TICKS_PER_INTERVAL, SHORTEST_TICK_NS);
  }

  private void tick() {
    long tickNs = tickNs();
    try {
      while (!closed) {
        Thread.sleep(tickNs / 1_000_000L, (int) (tickNs % 1_000_000L));
        tickOnce();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void tickOnce() {
    try {
      for (long server : port.others()) {
        link(server).tick(System.nanoTime());
      }
      changed.run();
    } catch (RuntimeException e) {
      // The watch must go on: without it a hung leader is found as late as upstream finds it.
      LOG.warn("A look at the peers failed", e);
    }
  }

  private PeerLink link(long server) {
    return links.computeIfAbsent(server, id -> {
      PeerLink link = new PeerLink(id, incarnation, config, tickNs(), ceilingNs, port, local);
      Thread sender = new Thread(link, "tailbound-state-" + id);
      sender.setDaemon(true);
      sender.start();
      return link;
    });
  }

  /**
   * Takes a message off the election channel.
   *
   * @param server id of the configured server at the other end
   * @param message its bytes
   * @return whether the message was ours, and so is not for upstream's election
   */
  public boolean received(long server, byte[] message) {
    if (closed) {
      return StateCodec.claims(message);
    }
    Object channel = port.channelTo(server);
    if (StateCodec.claims(message)) {
      Optional<PeerState> state = StateCodec.decode(message, server);
      if (state.isEmpty()) {
        garbage(server, message.length);
      } else if (link(server).received(state.get(), channel)) {
        told.accept(server, state.get());
        changed.run();
      }
      return true;
    }
    if (Announcement.carriedBy(message)) {
      link(server).announced(channel);
    } else if (channel != null && stockChannels.put(server, channel) != channel && !speaks(server)) {
      LOG.info("Server {} is a stock server: with it there are no ready notice, no heartbeats and no epoch"
          + " table; an election that needs it and a hung leader take as long as upstream's", server);
    }
    return false;
  }

  private void garbage(long server, int length) {
    garbage++;
    long now = System.nanoTime();
    if (now - lastGarbageLogNs >= GARBAGE_LOG_INTERVAL_NS) {
      lastGarbageLogNs = now;
      LOG.warn("Dropped a damaged message of {} bytes from server {} on the election channel; {} so far",
          length, server, garbage);
    }
  }

  /** Has this server's state sent to all peers now. */
  public void tell() {
    for (PeerLink link : links.values()) {
      link.nudge();
    }
  }

  /** Whether a server is of our kind and its channel lives. */
  public boolean speaks(long server) {
    PeerLink link = links.get(server);
    return link != null && link.speaks();
  }

  /** What a server said last on its live channel. */
  public Optional<PeerState> state(long server) {
    PeerLink link = links.get(server);
    return link == null ? Optional.empty() : link.state();
  }

  /** Whether a server beats, its channel lives, and it has been silent for too long. */
  public boolean suspicious(long server) {
    PeerLink link = links.get(server);
    return config.enabled() && link != null && link.suspicious();
  }

  /** Observed silence of a server, in nanoseconds. */
  public long silentNs(long server) {
    PeerLink link = links.get(server);
    return link == null ? 0 : link.silentNs();
  }

  @Override
  public void close() {
    closed = true;
    links.values().forEach(PeerLink::stop);
  }
}
