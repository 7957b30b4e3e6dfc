package io.tailbound.zookeeper.history;

/**
 * What the digests in a log tell while it is replayed: whether the tree before the first transaction of an
 * epoch is the one that the leader had. That is where transactions can be missing without a gap in the
 * numbers.
 *
 * <p>Only a tree counts that fitted the transaction before, replayed from the same log. A tree right after a
 * snapshot may be ahead of its zxid: a leader sends what it has while it applies more.
 */
public final class ReplayedDigests {
  private long replayed;
  private long misfit;
  private long unfit;

  /** The digest of a transaction differs from the tree's; called before {@link #replayed}. */
  public void differs(long zxid) {
    boolean fittedBefore = replayed != 0 && misfit != replayed;
    if (unfit == 0 && fittedBefore && Zxid.counter(zxid) == 1) {
      unfit = zxid;
    }
    misfit = zxid;
  }

  /** A transaction was applied. */
  public void replayed(long zxid) {
    replayed = zxid;
  }

  /** The first transaction of an epoch before which others are missing; 0 if there is none. */
  public long unfit() {
    return unfit;
  }
}
