package io.tailbound.zookeeper.history;

import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The barrier between a history that a server read back from its files and anything that the server
 * promises on the strength of that history.
 *
 * <p>What a process reads from its log need not be on disk: the process before it may have been killed
 * before its last sync, and the page cache of the operating system outlives a process. Such a tail is
 * gone after a loss of power, while transactions that were logged and synced behind it in a newer file
 * survive. So every file of a history is synced once after it was read back, in the background, and a
 * server waits for that before it votes, acknowledges a history or acknowledges a transaction.
 *
 * <p>Thread-safe. {@link #await} costs one volatile read once the history is on disk.
 */
public final class HistorySync {
  private static final Logger LOG = LoggerFactory.getLogger(HistorySync.class);

  /** The files of a history. */
  @FunctionalInterface
  public interface Files {
    /** Returns once the files, and their names, are on disk. */
    void sync() throws IOException;
  }

  private final Files files;
  private final Executor background;
  private final ReentrantLock syncing = new ReentrantLock();
  private volatile long readings;
  private volatile long durableReadings;
  private volatile IOException failure;

  /**
   * @param files what {@link #readBack} refers to
   * @param background runs the sync that nobody waits for yet
   */
  public HistorySync(Files files, Executor background) {
    this.files = files;
    this.background = background;
  }

  /** Notes that the history was read from its files, or that its files were changed without a sync. */
  public void readBack() {
    syncing.lock();
    try {
      readings++;
    } finally {
      syncing.unlock();
    }
    background.execute(() -> {
      try {
        await();
      } catch (IOException failed) {
        LOG.error("The log and the snapshots that were read at the start cannot be synced: this server"
            + " does not vote", failed);
      }
    });
  }

  /** Whether all that was read back is on disk. */
  public boolean isDurable() {
    return durableReadings == readings;
  }

  /**
   * Returns once all that was read back before the call is on disk.
   *
   * @throws IOException if a sync failed, now or before: after a failed sync Linux may report success for
   *     pages that never reached the disk, so no later call succeeds
   */
  public void await() throws IOException {
    if (isDurable() && failure == null) {
      return;
    }
    syncing.lock();
    try {
      if (failure != null) {
        throw new IOException("an earlier sync failed: " + failure.getMessage(), failure);
      }
      if (!isDurable()) {
        long covered = readings;
        files.sync();
        durableReadings = covered;
      }
    } catch (IOException failed) {
      failure = failure == null ? failed : failure;
      throw failed;
    } finally {
      syncing.unlock();
    }
  }
}
