package io.tailbound.zookeeper.recovery;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** Keeps the last recoveries. Safe for use from many threads. */
public final class RecoveryLog {
  /** How many recoveries are kept. */
  public static final int KEPT = 32;

  private final Deque<Recovery> newestFirst = new ArrayDeque<>();

  /** Adds a finished recovery; the oldest one beyond {@link #KEPT} is dropped. */
  public synchronized void add(Recovery recovery) {
    newestFirst.addFirst(recovery);
    if (newestFirst.size() > KEPT) {
      newestFirst.removeLast();
    }
  }

  /** The kept recoveries, newest first. */
  public synchronized List<Recovery> newestFirst() {
    return List.copyOf(newestFirst);
  }
}
