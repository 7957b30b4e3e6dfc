package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.config.TailboundConfig;
import io.tailbound.zookeeper.recovery.RecoveryReporting;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.admin.DummyAdminServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;

/** A peer of an ensemble inside of this process, without an admin server and without a command in it. */
public final class RehearsedPeer extends TailboundPeer {

  private static final int TICK_MS = 500;
  private static final int LIMIT_TICKS = 20;
  /** A server that was late may lead for nobody so long, while the two others serve. */
  private static final int INIT_LIMIT_TICKS = 6;
  private static final int FAST_ELECTION = 3;
  private static final int CONNECTIONS = 60;
  private static final int DEFAULT_BACKLOG = -1;

  /**
   * @param config the settings of the mechanisms
   * @param members the ensemble
   * @param id which of the members this is
   * @param directory for its log and snapshots
   * @param clients where it listens to clients
   * @throws IOException if the folder or the port cannot be used
   */
  public RehearsedPeer(TailboundConfig config, Map<Long, QuorumServer> members, long id, File directory,
      InetSocketAddress clients) throws IOException {
    super(config);
    adminServer = new DummyAdminServer();
    setTxnFactory(new FileTxnSnapLog(directory, directory));
    setElectionType(FAST_ELECTION);
    setMyid(id);
    setTickTime(TICK_MS);
    setInitLimit(INIT_LIMIT_TICKS);
    setSyncLimit(LIMIT_TICKS);
    setConnectToLearnerMasterLimit(LIMIT_TICKS);
    setMultiAddressEnabled(false);
    setZKDatabase(new ZKDatabase(getTxnFactory()));
    setQuorumVerifier(new QuorumMaj(members), false);
    initConfigInZKDatabase();
    ServerCnxnFactory factory = ServerCnxnFactory.createFactory();
    factory.configure(clients, CONNECTIONS, DEFAULT_BACKLOG, false);
    setCnxnFactory(factory);
    initialize();
  }

  /** Whether it serves clients now. */
  public boolean serves() {
    ZooKeeperServer server = getActiveServer();
    return server != null && server.isRunning();
  }

  @Override
  void offer(RecoveryReporting reports) {
    // The admin server's commands are the process's: that of the real peer comes later.
  }
}
