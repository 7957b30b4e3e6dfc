package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The epoch file with its two slots. The slot that is known to be on disk is never overwritten, so a
 * crash at any moment leaves it, or a later record, to be found.
 *
 * <p>Thread-safe. {@link #write} never waits for a sync that another thread has under way.
 */
final class EpochFile {
  private final EpochStorage storage;
  private final ReentrantLock syncing = new ReentrantLock();
  private final Object slots = new Object();
  private volatile EpochRecord written;
  private volatile EpochRecord durable;
  private int writtenSlot;
  private int durableSlot;
  private final Set<String> changedStockFiles = ConcurrentHashMap.newKeySet();

  private EpochFile(EpochStorage storage, EpochRecord first) {
    this.storage = storage;
    this.written = first;
    this.durable = first;
  }

  /**
   * Makes the file, or overwrites one that is there, and syncs it if told so.
   *
   * @param whole whether both slots of the file that is there hold a record: only then is it updated
   *     in place, slot by slot; otherwise it is replaced
   */
  static EpochFile begin(EpochStorage storage, EpochRecord first, boolean whole, boolean sync)
      throws IOException {
    EpochFile file = new EpochFile(storage, first);
    if (whole) {
      file.updateBoth(first, sync);
    } else {
      byte[] content = new byte[EpochRecovery.FILE_BYTES];
      byte[] slot = first.encode();
      System.arraycopy(slot, 0, content, 0, slot.length);
      System.arraycopy(slot, 0, content, EpochRecovery.SLOT_DISTANCE, slot.length);
      storage.create(EpochRecovery.FILE, content);
    }
    return file;
  }

  private void updateBoth(EpochRecord first, boolean sync) throws IOException {
    int older = olderSlot();
    overwrite(older, first);
    if (sync) {
      storage.sync(EpochRecovery.FILE);
    }
    overwrite(1 - older, first);
    writtenSlot = older;
    durableSlot = older;
  }

  private int olderSlot() throws IOException {
    byte[] content = storage.read(EpochRecovery.FILE).orElseThrow(() -> new IOException("epoch file vanished"));
    return EpochRecovery.sequenceOf(content, 0) <= EpochRecovery.sequenceOf(content, 1) ? 0 : 1;
  }

  private void overwrite(int slot, EpochRecord record) throws IOException {
    storage.overwrite(EpochRecovery.FILE, (long) slot * EpochRecovery.SLOT_DISTANCE, record.encode());
  }

  /** Writes into the page cache. The caller orders writers among themselves. */
  void write(EpochRecord record) throws IOException {
    synchronized (slots) {
      int slot = written == durable ? 1 - durableSlot : writtenSlot;
      overwrite(slot, record);
      writtenSlot = slot;
      written = record;
    }
  }

  /** Tells that one of upstream's files changed too. */
  void stockFileChanged(String name) {
    changedStockFiles.add(name);
  }

  /** Returns once every record written before the call is on disk. */
  void sync() throws IOException {
    EpochRecord wanted = written;
    syncing.lock();
    try {
      if (durable.sequence() >= wanted.sequence()) {
        return;
      }
      EpochRecord covered;
      int slot;
      synchronized (slots) {
        covered = written;
        slot = writtenSlot;
      }
      storage.syncContent(EpochRecovery.FILE);
      synchronized (slots) {
        if (covered.sequence() > durable.sequence()) {
          // A record written meanwhile went into the same slot; it is newer, so the slot still tells
          // at least what was synced.
          durable = covered;
          durableSlot = slot;
        }
      }
    } finally {
      syncing.unlock();
    }
  }

  /** Syncs those of upstream's files that changed and that no other thread is about to sync. */
  void syncStockFiles() throws IOException {
    for (String name : Set.copyOf(changedStockFiles)) {
      changedStockFiles.remove(name);
      storage.sync(name);
    }
  }

  EpochRecord written() {
    return written;
  }

  EpochRecord durable() {
    return durable;
  }
}
