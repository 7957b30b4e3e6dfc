package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A leader's server that writes its first snapshot when it serves instead of before.
 *
 * <p>Upstream's new leader writes a full snapshot before it accepts followers, which takes time in
 * proportion to the data. Nothing depends on it where all that the tree holds is in older snapshots
 * and the log on disk. That holds for what this process loaded, for what it logged as a leader or
 * follower, and after a synchronisation that was completed (TRUNC and SNAP end with a snapshot). After
 * one that was broken off the tree is loaded anew ({@link PromptFollower#shutdown}). In the other cases
 * (a former observer, upstream's rule for upgrades from 3.4) the snapshot is written as upstream does.
 *
 * <p>A fuzzy snapshot while serving is what upstream's own snapshot thread writes.
 */
class PromptLeaderServer extends LeaderZooKeeperServer {

  private static final Logger LOG = LoggerFactory.getLogger(PromptLeaderServer.class);

  private final TailboundPeer peer;
  private boolean loading;
  private boolean deferred;

  PromptLeaderServer(FileTxnSnapLog logFactory, TailboundPeer peer, ZKDatabase database) throws IOException {
    super(logFactory, peer, database);
    this.peer = peer;
  }

  @Override
  public void loadData() throws IOException, InterruptedException {
    loading = true;
    try {
      super.loadData();
    } finally {
      loading = false;
    }
  }

  @Override
  public File takeSnapshot() throws IOException {
    if (loading && peer.config().leader().deferSnapshot() && !peer.treeAheadOfDisk()
        && !shouldForceWriteInitialSnapshotAfterLeaderElection()) {
      deferred = true;
      return null;
    }
    File written = super.takeSnapshot();
    peer.treeOnDisk();
    return written;
  }

  /** Called when a quorum acknowledged the new epoch. */
  @Override
  public synchronized void startup() {
    peer.synchronised();
    super.startup();
    if (deferred) {
      deferred = false;
      Thread writer = new Thread(this::snapshotWhileServing, "tailbound-snapshot");
      writer.setDaemon(true);
      writer.start();
    }
  }

  private void snapshotWhileServing() {
    try {
      Thread.sleep(self.getTickTime());
      if (isRunning()) {
        // Not severe: upstream would end the process when the disk is full.
        takeSnapshot(false, false);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException e) {
      LOG.warn("The snapshot after the election failed; the log still holds everything", e);
    }
  }
}
