package io.tailbound.zookeeper.history;

/** The order of transaction ids: an epoch in the upper half, a counter from 1 on in the lower. */
final class Zxid {
  private static final long COUNTER_MASK = 0xffff_ffffL;

  private Zxid() {}

  static long epoch(long zxid) {
    return zxid >>> 32;
  }

  static long counter(long zxid) {
    return zxid & COUNTER_MASK;
  }

  /**
   * Whether a history may hold {@code next} right after {@code last}: a leader counts its transactions
   * without a gap, and the first one of an epoch is number 1. A last zxid of 0 is an empty history.
   */
  static boolean follows(long last, long next) {
    return epoch(next) == epoch(last) ? next == last + 1 : next > last && counter(next) == 1;
  }

  static String format(long zxid) {
    return "0x" + Long.toHexString(zxid);
  }
}
