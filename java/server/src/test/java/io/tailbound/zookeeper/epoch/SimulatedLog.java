package io.tailbound.zookeeper.epoch;

import io.tailbound.zookeeper.epoch.SimulatedServer.Txn;
import io.tailbound.zookeeper.history.Continuity;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * A log in the page cache, which outlives a process, above a disk, which outlives the power. Every process
 * writes to a file of its own, and a sync covers the file that the present process writes, as in
 * upstream's {@code FileTxnLog}. A loss of power cuts each file somewhere behind its last sync.
 */
final class SimulatedLog extends AbstractList<Txn> {
  private static final long COUNTER = 0xffff_ffffL;

  private record Entry(Txn txn, int file, boolean synced) {}

  private final List<Entry> entries = new ArrayList<>();
  private int file;

  @Override
  public Txn get(int index) {
    return entries.get(index).txn;
  }

  @Override
  public int size() {
    return entries.size();
  }

  @Override
  public boolean add(Txn txn) {
    return entries.add(new Entry(txn, file, false));
  }

  long lastZxid() {
    return isEmpty() ? 0 : get(size() - 1).zxid();
  }

  /** A process starts: what it logs goes to a file of its own. */
  void beginFile() {
    file++;
  }

  /** Syncs the file of the present process. */
  void sync() {
    entries.replaceAll(entry -> new Entry(entry.txn, entry.file, entry.synced || entry.file == file));
  }

  /** Syncs every file. */
  void syncAll() {
    entries.replaceAll(entry -> new Entry(entry.txn, entry.file, true));
  }

  /** Keeps what the log shares with the history, cuts off the rest and logs the rest of the history. */
  void become(List<Txn> history) {
    int shared = 0;
    while (shared < Math.min(size(), history.size()) && get(shared).equals(history.get(shared))) {
      shared++;
    }
    List<Txn> rest = List.copyOf(history.subList(shared, history.size()));
    entries.subList(shared, entries.size()).clear();
    addAll(rest);
  }

  /** Each file loses a part, drawn, of what was logged to it behind its last sync. */
  void losePower(RandomGenerator random) {
    List<Entry> kept = new ArrayList<>();
    for (int from = 0; from < entries.size(); ) {
      int of = entries.get(from).file;
      int end = from;
      int synced = from;
      while (end < entries.size() && entries.get(end).file == of) {
        end++;
        synced = entries.get(end - 1).synced ? end : synced;
      }
      kept.addAll(entries.subList(from, synced + random.nextInt(end - synced + 1)));
      from = end;
    }
    entries.clear();
    entries.addAll(kept);
    syncAll();
  }

  /** The disk loses what it said to have synced: some transactions before the last one that is on it. */
  void loseSynced(RandomGenerator random) {
    int last = size() - 1;
    while (last >= 0 && !entries.get(last).synced) {
      last--;
    }
    if (last > 0) {
      int from = random.nextInt(last);
      entries.subList(from, from + 1 + random.nextInt(last - from)).clear();
    }
  }

  /**
   * Cuts the log off at its first gap, by the numbers or, at the beginning of an epoch, by the digest; whether
   * there was one.
   */
  boolean cutAtGap() {
    Continuity continuity = new Continuity(0);
    for (int i = 0; i < size(); i++) {
      boolean fits = get(i).before() == i || (get(i).zxid() & COUNTER) != 1;
      if (!continuity.accepts(get(i).zxid()) || !fits) {
        entries.subList(i, entries.size()).clear();
        return true;
      }
    }
    return false;
  }
}
