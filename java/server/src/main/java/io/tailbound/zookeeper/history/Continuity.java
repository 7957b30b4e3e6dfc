package io.tailbound.zookeeper.history;

/**
 * Whether transactions, one after the other, are a history without a gap. Blind at one place: transactions
 * that are missing at the end of an epoch, before the first one of the next.
 */
public final class Continuity {
  private long last;

  /** @param before zxid of the last transaction before the first one that is asked for; 0 for none */
  public Continuity(long before) {
    this.last = before;
  }

  /** Whether the transaction may follow the one before; if so, it is the last one now. */
  public boolean accepts(long zxid) {
    if (!Zxid.follows(last, zxid)) {
      return false;
    }
    last = zxid;
    return true;
  }

  /** The last transaction that was accepted. */
  public long last() {
    return last;
  }
}
