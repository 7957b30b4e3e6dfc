package io.tailbound.zookeeper.channel;

/**
 * How long a peer has been silent, and how long it may be, in time that this process observed.
 *
 * <p>Two guards bound false suspicions under load of the CPU. First, silence is counted in ticks of
 * the watching thread, each of which counts at most {@code mostPerTickNs}: while this process itself
 * is stalled (collection of garbage, no CPU), no silence is counted, and messages that waited in the
 * socket are read before the next tick. Second, the limit adapts: it is {@code gapFactor} times the
 * longest gap between two messages in the last one to two windows, never below {@code floorNs} and
 * never above {@code ceilingNs}. A host whose scheduling delays heartbeats raises its own limit.
 *
 * <p>Not safe for use from several threads; the owner synchronises.
 */
public final class Silence {

  private static final long WINDOW_NS = 30_000_000_000L;

  private final long floorNs;
  private final long ceilingNs;
  private final int gapFactor;
  private final long mostPerTickNs;
  private long silentNs;
  private long lastTickNs;
  private long windowStartNs;
  private long longestNowNs;
  private long longestBeforeNs;

  /**
   * @param floorNs smallest limit
   * @param ceilingNs greatest limit
   * @param gapFactor multiple of the longest recent gap
   * @param mostPerTickNs what one tick may count, a small multiple of the time between ticks
   * @param nowNs present time of the monotonic clock
   */
  public Silence(long floorNs, long ceilingNs, int gapFactor, long mostPerTickNs, long nowNs) {
    this.floorNs = floorNs;
    this.ceilingNs = Math.max(ceilingNs, floorNs);
    this.gapFactor = gapFactor;
    this.mostPerTickNs = mostPerTickNs;
    this.lastTickNs = nowNs;
    this.windowStartNs = nowNs;
  }

  /** The peer was heard. */
  public void heard(long nowNs) {
    // A gap that ended in a suspicion counts as long as the limit: several in a row make the limit
    // grow, while one long hang does not make the watcher blind for the rest of the window.
    longestNowNs = Math.max(longestNowNs, Math.min(silentNs, limitNs()));
    silentNs = 0;
    if (nowNs - windowStartNs > WINDOW_NS) {
      longestBeforeNs = longestNowNs;
      longestNowNs = 0;
      windowStartNs = nowNs;
    }
  }

  /** The watching thread ran. */
  public void tick(long nowNs) {
    silentNs += Math.min(Math.max(nowNs - lastTickNs, 0), mostPerTickNs);
    lastTickNs = nowNs;
  }

  /** Observed silence since the last message, in nanoseconds. */
  public long silentNs() {
    return silentNs;
  }

  /** Silence beyond which the peer is suspected, in nanoseconds. */
  public long limitNs() {
    long adapted = gapFactor * Math.max(longestNowNs, longestBeforeNs);
    return Math.min(Math.max(adapted, floorNs), ceilingNs);
  }

  /** Whether the silence is beyond the limit. */
  public boolean suspicious() {
    return silentNs > limitNs();
  }
}
