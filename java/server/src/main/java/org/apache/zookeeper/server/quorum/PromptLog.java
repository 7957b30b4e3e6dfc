package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import java.util.Map;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Upstream's log and snapshots with two changes.
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
  private volatile long lastLogged = UNKNOWN;

  /**
   * @param logDirectory folder that holds upstream's {@code version-2} folder of the log
   * @param snapshotDirectory folder that holds that of the snapshots
   * @param peer whose epochs are waited for
   */
  PromptLog(File logDirectory, File snapshotDirectory, TailboundPeer peer) throws IOException {
    super(logDirectory, snapshotDirectory);
    this.peer = peer;
  }

  @Override
  public void commit() throws IOException {
    super.commit();
    peer.awaitDurableEpoch();
  }

  @Override
  public long restore(DataTree tree, Map<Long, Integer> sessions, PlayBackListener listener) throws IOException {
    lastLogged = UNKNOWN;
    long end = super.restore(tree, sessions, listener);
    lastLogged = end;
    return end;
  }

  @Override
  public boolean append(Request request) throws IOException {
    if (request.getHdr() == null) {
      return super.append(request);
    }
    // An append that fails may have written the transaction all the same.
    lastLogged = UNKNOWN;
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
