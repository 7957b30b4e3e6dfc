package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.Leader.Proposal;

/** Upstream's database, which tells when it is loaded and when it commits a write. */
class PromptDatabase extends ZKDatabase {

  private static final long MILLISECOND_NS = 1_000_000L;

  private final TailboundPeer peer;

  PromptDatabase(FileTxnSnapLog log, TailboundPeer peer) {
    super(log);
    this.peer = peer;
  }

  /** Upstream reads its epoch files right after this, so ours must have repaired them by its end. */
  @Override
  public long loadDataBase() throws IOException {
    if (peer.isStarted()) {
      return super.loadDataBase();
    }
    long zxid = peer.load(new LoadedHistory.Loading() {
      @Override
      public long load() throws IOException {
        return PromptDatabase.super.loadDataBase();
      }

      @Override
      public void clear() {
        PromptDatabase.this.clear();
      }

      @Override
      public DataTree tree() {
        return getDataTree();
      }
    });
    peer.databaseLoaded(zxid);
    return zxid;
  }

  /**
   * What a log holds from before the snapshot with which this server started was not checked for gaps: a
   * follower that is so far behind gets a snapshot.
   */
  @Override
  public Iterator<Proposal> getProposalsFromTxnLog(long startZxid, long sizeLimit) {
    return startZxid < peer.checkedFrom()
        ? Collections.emptyIterator()
        : super.getProposalsFromTxnLog(startZxid, sizeLimit);
  }

  @Override
  public void addCommittedProposal(Request request) {
    super.addCommittedProposal(request);
    if (request.getHdr() != null) {
      // Upstream's elapsed time is System.nanoTime in milliseconds.
      peer.recorder().firstWrite(request.createTime * MILLISECOND_NS);
    }
  }
}
