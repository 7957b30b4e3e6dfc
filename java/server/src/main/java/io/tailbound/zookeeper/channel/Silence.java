package io.tailbound.zookeeper.channel;

/**
 * How long a peer has been silent, and how long it may be, in time that this process observed.
 *
 * <p>Two guards bound false suspicions under load of the CPU. First, silence is counted in ticks of
 * the watching thread, each of which counts at most {@code mostPerTickNs}: while this process itself
 * is stalled (collection of garbage, no CPU), no silence is counted, and messages that waited in the
 * socket are read before the next tick. Second, the limit adapts: it is {@code gapFactor} times the
 * longest gap between two messages in the last one to two windows, within {@code floorNs} and {@code
 * adaptedNs}. A host whose scheduling delays heartbeats raises its own limit.
 *
 * <p>So the first hang of a peer is found within {@code adaptedNs}, whatever came before. After a
 * suspicion that came too soon (the peer is heard again before twice the limit) the limit is a quarter
 * more for one to two windows, and so on with each further one, up to {@code ceilingNs}: a peer that
 * stalls again and again is given more time. A longer hang was worth a recovery and changes nothing.
 *
 * <p>Not safe for use from several threads; the owner synchronises.
 */
public final class Silence {

  private static final long WINDOW_NS = 30_000_000_000L;

  private final long floorNs;
  private final long adaptedNs;
  private final long ceilingNs;
  private final int gapFactor;
  private final long mostPerTickNs;
  private long silentNs;
  private long lastTickNs;
  private long windowStartNs;
  private long longestNowNs;
  private long longestBeforeNs;
  private long grownNowNs;
  private long grownBeforeNs;

  /**
   * @param floorNs smallest limit
   * @param adaptedNs greatest limit that gaps lead to
   * @param ceilingNs greatest limit that repeated suspicions lead to
   * @param gapFactor multiple of the longest recent gap
   * @param mostPerTickNs what one tick may count, a small multiple of the time between ticks
   * @param nowNs present time of the monotonic clock
   */
  public Silence(
      long floorNs, long adaptedNs, long ceilingNs, int gapFactor, long mostPerTickNs, long nowNs) {
    this.floorNs = floorNs;
    this.ceilingNs = Math.max(ceilingNs, floorNs);
    this.adaptedNs = Math.min(Math.max(adaptedNs, floorNs), this.ceilingNs);
    this.gapFactor = gapFactor;
    this.mostPerTickNs = mostPerTickNs;
    this.lastTickNs = nowNs;
    this.windowStartNs = nowNs;
  }

  /** The peer was heard. */
  public void heard(long nowNs) {
    if (suspicious()) {
      long limitNs = limitNs();
      if (silentNs < 2 * limitNs) {
        grownNowNs = Math.min(limitNs + limitNs / 4, ceilingNs);
      }
    } else {
      longestNowNs = Math.max(longestNowNs, silentNs);
    }
    silentNs = 0;
    if (nowNs - windowStartNs > WINDOW_NS) {
      longestBeforeNs = longestNowNs;
      longestNowNs = 0;
      grownBeforeNs = grownNowNs;
      grownNowNs = 0;
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
    long fromGaps = gapFactor * Math.max(longestNowNs, longestBeforeNs);
    long adapted = Math.min(Math.max(fromGaps, floorNs), adaptedNs);
    return Math.max(adapted, Math.max(grownNowNs, grownBeforeNs));
  }

  /** Whether the silence is beyond the limit. */
  public boolean suspicious() {
    return silentNs > limitNs();
  }
}
