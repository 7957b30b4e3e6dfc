package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

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
    long zxid = super.loadDataBase();
    peer.databaseLoaded(zxid);
    return zxid;
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
