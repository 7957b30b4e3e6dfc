package org.apache.zookeeper.server.quorum;

import java.util.function.LongConsumer;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * Tells once for each role up to which transaction all was committed when it left service.
 *
 * <p>Upstream's shutdown applies the logged tail, which need not be committed, to the data tree, and it
 * may be called by several threads at once (a leader by its own loop and by whoever makes it step
 * down). So the tree is read by the first caller only, and the others wait until it has been read.
 */
final class EndOfService {

  private ZooKeeperServer ended;

  /**
   * Must be called before upstream's shutdown of the server.
   *
   * @param server the server of the role that ends; may be null
   * @param committed takes the last zxid that this server applied; not called if the server never served
   */
  synchronized void of(ZooKeeperServer server, LongConsumer committed) {
    if (server == null || server == ended) {
      return;
    }
    ended = server;
    if (server.isRunning()) {
      committed.accept(server.getZKDatabase().getDataTreeLastProcessedZxid());
    }
  }
}
