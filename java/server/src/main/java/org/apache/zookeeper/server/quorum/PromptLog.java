package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.history.DamagedData;
import io.tailbound.zookeeper.history.HistorySync;
import io.tailbound.zookeeper.history.ReplayedDigests;
import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Upstream's log and snapshots with three changes.
 *
 * <p>What was read back from the disk is synced before anything is built on it ({@link HistorySync}).
 *
 * <p>{@link #commit}, after which transactions are acknowledged, also waits until the present epoch is
 * on disk: so epoch values may be written off the critical path of a recovery.
 *
 * <p>When a role ends, upstream brings the data tree up to the log by reading the newest log file from
 * its beginning, which takes time in proportion to that file. That is left out when nothing was
 * logged that the tree does not hold.
 */
class PromptLog extends FileTxnSnapLog {

  private static final long UNKNOWN = Long.MAX_VALUE;

  private final TailboundPeer peer;
  private final DamagedData data;
  private final HistorySync history;
  private volatile long lastLogged = UNKNOWN;
  private volatile boolean unsynced;
  private volatile long unfitTransaction;

  /**
   * @param logDirectory folder that holds upstream's {@code version-2} folder of the log
   * @param snapshotDirectory folder that holds that of the snapshots
   * @param peer whose epochs are waited for
   */
  PromptLog(File logDirectory, File snapshotDirectory, TailboundPeer peer) throws IOException {
    super(logDirectory, snapshotDirectory);
    this.peer = peer;
    this.data = new DamagedData(getDataLogDir().toPath(), getSnapDir().toPath());
    this.history = new HistorySync(data::syncAll, PromptLog::inBackground);
  }

  private static void inBackground(Runnable task) {
    Thread thread = new Thread(task, "tailbound-history-sync");
    thread.setDaemon(true);
    thread.start();
  }

  DamagedData data() {
    return data;
  }

  /** Returns once everything that this server has logged, read back or saved as its history is on disk. */
  void awaitDurable() throws IOException {
    history.await();
    if (unsynced) {
      // A role that ended badly may have left its last transactions unsynced, and they were read back.
      commit();
    }
  }

  /**
   * The first transaction of an epoch that did not fit the tree when the log was last read, by its
   * digest; 0 if all did. Within an epoch the numbers tell of a gap, at its beginning only the digest does.
   */
  long unfitTransaction() {
    return unfitTransaction;
  }

  @Override
  public void commit() throws IOException {
    history.await();
    super.commit();
    unsynced = false;
    peer.awaitDurableEpoch();
  }

  @Override
  public long restore(DataTree tree, Map<Long, Integer> sessions, PlayBackListener listener) throws IOException {
    lastLogged = UNKNOWN;
    unfitTransaction = 0;
    ReplayedDigests digests = new ReplayedDigests();
    tree.addDigestWatcher(digests::differs);
    long end = super.restore(tree, sessions, (header, txn, digest) -> {
      digests.replayed(header.getZxid());
      listener.onTxnLoaded(header, txn, digest);
    });
    unfitTransaction = digests.unfit();
    lastLogged = end;
    history.readBack();
    return end;
  }

  /** A snapshot that ends a synchronisation with a leader stands for history that is in no log. */
  @Override
  public File save(DataTree tree, ConcurrentHashMap<Long, Integer> sessions, boolean sync) throws IOException {
    File saved = super.save(tree, sessions, sync);
    if (peer.getSyncMode() != QuorumPeer.SyncMode.NONE) {
      history.readBack();
    }
    return saved;
  }

  @Override
  public boolean append(Request request) throws IOException {
    if (request.getHdr() == null) {
      return super.append(request);
    }
    // An append that fails may have written the transaction all the same.
    lastLogged = UNKNOWN;
    unsynced = true;
    boolean appended = super.append(request);
    lastLogged = request.getHdr().getZxid();
    return appended;
  }

  @Override
  public boolean truncateLog(long zxid) {
    lastLogged = UNKNOWN;
    return super.truncateLog(zxid);
  }

  @Override
  public long fastForwardFromEdits(DataTree tree, Map<Long, Integer> sessions, PlayBackListener listener)
      throws IOException {
    if (peer.config().leader().skipReplay() && tree.lastProcessedZxid >= lastLogged) {
      return tree.lastProcessedZxid;
    }
    return super.fastForwardFromEdits(tree, sessions, listener);
  }
}
