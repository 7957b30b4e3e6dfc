package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.history.DamagedData;
import io.tailbound.zookeeper.history.HistoryCheck;
import io.tailbound.zookeeper.history.HistoryDamage;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.persistence.SnapshotInfo;
import org.apache.zookeeper.server.persistence.Util;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads the database of a server that starts from data that are a history without a gap, and takes away what
 * is not.
 *
 * <p>A torn record at the end of the log was never acknowledged: it is cut off. Where transactions are
 * missing before others, the rest is moved away, and this server counts for no quorum of a new
 * leader until it has taken a leader's history: it may have acknowledged what it lost. Upstream's loading
 * ends the process in the first case, and in the second one if it notices.
 */
class LoadedHistory {

  private static final Logger LOG = LoggerFactory.getLogger(LoadedHistory.class);
  private static final int MOST_ATTEMPTS = 20;
  /** Upstream's switch for tests that leave out transactions. */
  private static final String GAPS_ALLOWED = "zookeeper.test.allowDiscontinuousProposals";

  /** The database's own loading. */
  interface Loading {
    long load() throws IOException;

    /** Forgets what was loaded. */
    void clear();

    DataTree tree();
  }

  private final TailboundPeer peer;
  private final PromptLog log;
  private final DamagedData data;
  private final StartHistory notes;

  LoadedHistory(TailboundPeer peer, PromptLog log, StartHistory notes) {
    this.peer = peer;
    this.log = log;
    this.data = log.data();
    this.notes = notes;
  }

  private Path logs() {
    return log.getDataLogDir().toPath();
  }

  /** Loads, after taking away what is damaged, and returns the last zxid. */
  long load(Loading loading) throws IOException {
    long snapshot = newestSnapshot();
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      Optional<HistoryDamage> damage = new HistoryCheck(logs(), snapshot).run();
      if (damage.isPresent() && !Boolean.getBoolean(GAPS_ALLOWED)) {
        setAside(damage.get());
      }
      long zxid = loadOrExplain(loading);
      SnapshotInfo from = log.getLastSnapshotInfo();
      long loaded = from == null ? 0 : from.zxid;
      if (loaded < snapshot) {
        // The newer snapshot is damaged inside: the log behind the older one has to be whole.
        snapshot = loaded;
      } else if (log.unfitTransaction() != 0) {
        HistoryCheck check = new HistoryCheck(logs(), snapshot);
        setAside(check.gapBefore(log.unfitTransaction()).orElseThrow(
            () -> new IOException("transaction 0x" + Long.toHexString(log.unfitTransaction()) + " vanished")));
      } else if (isAheadOfLog(loading.tree(), zxid)) {
        setSnapshotAside(from);
        snapshot = newestSnapshot();
      } else {
        return zxid;
      }
      loading.clear();
    }
    throw new IOException(StartHistory.refusal(logs(), "no usable history in " + MOST_ATTEMPTS + " attempts"));
  }

  /** Zxid of the newest snapshot that looks whole. Log files without any snapshot are moved away. */
  private long newestSnapshot() throws IOException {
    List<File> valid = log.findNValidSnapshots(1);
    if (!valid.isEmpty()) {
      return Math.max(0, HistoryCheck.zxidOf(valid.get(0).toPath(), FileSnap.SNAPSHOT_FILE_PREFIX + "."));
    }
    File[] files = log.getSnapshotLogs(0);
    if (files.length > 0 && log.getLastLoggedZxid() > 0
        && !Boolean.getBoolean(FileTxnSnapLog.ZOOKEEPER_SNAPSHOT_TRUST_EMPTY)) {
      setAside(new HistoryDamage(HistoryDamage.Kind.GAP, files[0].toPath(), 0, 0,
          Util.getZxidFromName(files[0].getName(), "log"), "there is no whole snapshot to which it could be applied"));
    }
    return 0;
  }

  private long loadOrExplain(Loading loading) throws IOException {
    try {
      return loading.load();
    } catch (IOException | RuntimeException failed) {
      throw new IOException(StartHistory.refusal(logs(), failed.getMessage()), failed);
    }
  }

  private static boolean isAheadOfLog(DataTree tree, long zxid) {
    DataTree.ZxidDigest unmet = tree.getDigestFromLoadedSnapshot();
    return unmet != null && unmet.getZxid() > zxid;
  }

  private void setAside(HistoryDamage damage) throws IOException {
    if (damage.losesHistory() && !peer.keepsOwnEpochs()) {
      throw new IOException(StartHistory.refusal(logs(), damage.describe()));
    }
    Path folder = data.setAside(damage, Instant.now());
    notes.add(damage, folder);
    if (damage.losesHistory()) {
      LOG.error("{}. Moved what follows to {}", damage.describe(), folder);
    } else {
      LOG.warn("{}. Such a record was never synced, hence never acknowledged: cut off, and kept in {}",
          damage.describe(), folder);
    }
  }

  private void setSnapshotAside(SnapshotInfo from) throws IOException {
    String reason = "it holds parts of transactions that the log lacks";
    for (Path snapshot : data.snapshotsOf(from.zxid)) {
      Path folder = data.setAside(snapshot, reason, Instant.now());
      notes.add("snapshot " + snapshot + ": " + reason, folder);
      LOG.warn("Snapshot {}: {}. Moved it to {}", snapshot, reason, folder);
    }
  }
}
