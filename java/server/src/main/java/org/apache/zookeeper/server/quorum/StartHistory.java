package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.history.HistoryDamage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The history with which a server starts: whether it is on disk, what was wrong with it, and the words for
 * that. Empty for a server that keeps upstream's log (profile {@code vanilla}).
 */
class StartHistory {

  private static final Logger LOG = LoggerFactory.getLogger(StartHistory.class);

  private final List<String> notes = new ArrayList<>();
  private volatile PromptLog log;
  private volatile boolean loaded;
  private volatile long checkedFrom;
  private String loss = "";

  void of(PromptLog log) {
    this.log = log;
  }

  boolean isLoaded() {
    return loaded;
  }

  long checkedFrom() {
    return checkedFrom;
  }

  long load(TailboundPeer peer, LoadedHistory.Loading database) throws IOException {
    PromptLog own = log;
    if (own == null) {
      return database.load();
    }
    long zxid = new LoadedHistory(peer, own, this).load(database);
    loss = own.data().note().orElse("");
    checkedFrom = own.getLastSnapshotInfo() == null ? 0 : own.getLastSnapshotInfo().zxid;
    loaded = true;
    return zxid;
  }

  /** Whether transactions are missing that this server may have acknowledged. */
  boolean isLost() {
    return !loss.isEmpty();
  }

  /** The epoch file says by now that history was lost. */
  void noted(long server) throws IOException {
    if (isLost()) {
      LOG.error("Server {} lost transactions that it may have acknowledged: {}. No quorum of a new leader counts it"
          + " until it has copied a leader's data, which needs a quorum of the others. If more servers lost theirs,"
          + " the ensemble stays down rather than lose writes: bring the others back, or restore the data"
          + " directories", server, loss);
      log.data().forget();
    }
  }

  void awaitDurable() throws IOException {
    PromptLog own = log;
    if (own != null) {
      own.awaitDurable();
    }
  }

  synchronized void add(HistoryDamage damage, Path folder) {
    add(damage.describe(), folder);
  }

  synchronized void add(String what, Path folder) {
    notes.add(what + "; moved to " + folder);
  }

  /** What was found to be wrong with the data, oldest first. */
  synchronized List<String> notes() {
    return List.copyOf(notes);
  }

  /** What a server says that cannot start with its data, and what its operator does. */
  static String refusal(Path logs, String problem) {
    return "the data in " + logs + " cannot be loaded: " + problem
        + ". If a quorum of the other servers is up, copy their data: stop this server, create an empty file "
        + "tailbound.history-lost in " + logs + ", move the files log.* and snapshot.* out of dataLogDir and"
        + " dataDir, leave tailbound.epoch, acceptedEpoch and currentEpoch where they are, and start the server."
        + " If no quorum of the others is up, move nothing: restore this directory";
  }
}
