package org.apache.zookeeper.server.quorum;

import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads and initialises, in the background, the classes that a server needs when it takes a role for
 * the first time. Without this the first recovery of a process pays for them.
 */
final class LeaderWarmUp {

  private static final Logger LOG = LoggerFactory.getLogger(LeaderWarmUp.class);
  private static final String SERVER = "org.apache.zookeeper.server.";

  private static final List<String> CLASSES = List.of(
      "quorum.Leader", "quorum.Leader$LearnerCnxAcceptor",
      "quorum.Leader$LearnerCnxAcceptor$LearnerCnxAcceptorHandler", "quorum.Leader$Proposal",
      "quorum.Leader$PureRequestProposal", "quorum.Leader$ToBeAppliedRequestProcessor",
      "quorum.LeaderBean", "quorum.LeaderRequestProcessor", "quorum.LeaderSessionTracker",
      "quorum.LeaderZooKeeperServer", "quorum.LearnerHandler", "quorum.LearnerHandlerBean",
      "quorum.LearnerInfo", "quorum.LearnerMaster", "quorum.LearnerSyncThrottler", "quorum.StateSummary",
      "quorum.AckRequestProcessor", "quorum.CommitProcessor", "quorum.ProposalRequestProcessor",
      "quorum.SendAckRequestProcessor", "quorum.FollowerRequestProcessor", "quorum.FollowerBean",
      "quorum.FollowerZooKeeperServer", "quorum.LearnerSender", "quorum.LearnerSessionTracker",
      "quorum.BufferStats", "quorum.PromptLeader", "quorum.PromptLeaderServer", "quorum.PromptFollower",
      "ContainerManager", "FinalRequestProcessor", "PrepRequestProcessor", "SyncRequestProcessor",
      "SessionTrackerImpl", "RequestThrottler", "DataTreeBean", "util.MessageTracker", "util.ZxidUtils",
      "ZooKeeperServer$ChangeRecord", "TxnLogProposalIterator", "RequestRecord", "SimpleRequestRecord");

  private LeaderWarmUp() {}

  /** Begins to load them; returns at once. */
  static void begin() {
    Thread loader = new Thread(LeaderWarmUp::load, "tailbound-warm-up");
    loader.setDaemon(true);
    loader.start();
  }

  private static void load() {
    for (String name : CLASSES) {
      try {
        Class.forName(SERVER + name);
      } catch (ClassNotFoundException | LinkageError e) {
        // Another release of ZooKeeper: the class is loaded when it is needed, as ever.
        LOG.debug("Not warmed up: {}", name, e);
      }
    }
  }
}
