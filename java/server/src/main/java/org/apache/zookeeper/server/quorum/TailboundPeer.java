package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.channel.LocalState;
import io.tailbound.zookeeper.channel.PeerState;
import io.tailbound.zookeeper.channel.Peers;
import io.tailbound.zookeeper.config.TailboundConfig;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import java.io.IOException;
import java.util.Optional;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.common.X509Exception;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/** A quorum peer with the mechanisms of bounded recovery, each of which can be switched off. */
public class TailboundPeer extends QuorumPeer {

  private static final long MILLISECOND_NS = 1_000_000L;

  private final TailboundConfig config;
  private final LeaderWatch watch = new LeaderWatch(this);
  private volatile Peers peers;

  /** @param config the settings of the mechanisms */
  public TailboundPeer(TailboundConfig config) throws SaslException {
    this.config = config;
  }

  TailboundConfig config() {
    return config;
  }

  /** The states of the peers; present once the election channel is. */
  Peers peers() {
    return peers;
  }

  LeaderWatch leaderWatch() {
    return watch;
  }

  /** Whether this server tells its peers of which kind it is: if a mechanism needs their states. */
  boolean announces() {
    return config.election().readyNotice() || config.heartbeat().enabled();
  }

  @Override
  public QuorumCnxManager createCnxnManager() {
    int timeoutMs = Integer.getInteger(QUORUM_CNXN_TIMEOUT_MS, -1);
    ElectionChannels channels =
        new ElectionChannels(this, timeoutMs > 0 ? timeoutMs : tickTime * syncLimit);
    Peers before = peers;
    peers = new Peers(config.heartbeat(), tickTime * syncLimit * MILLISECOND_NS, channels,
        this::localState, epochs -> { }, watch::look);
    if (before != null) {
      before.close();
    }
    if (announces()) {
      peers.start();
    }
    return channels;
  }

  /**
   * Lets upstream create and start its election, then puts ours on the same channels. Upstream's
   * object has seen no message by then: the channels give them to our receiver only.
   */
  @Override
  protected Election createElectionAlgorithm(int electionAlgorithm) {
    FastLeaderElection stock = (FastLeaderElection) super.createElectionAlgorithm(electionAlgorithm);
    stock.messenger.halt();
    stock.messenger.wsThread.interrupt();
    ElectionChannels channels = (ElectionChannels) stock.getCnxManager();
    PromptElection election = new PromptElection(this, channels);
    channels.admit(election.messenger.wrThread);
    election.start();
    return election;
  }

  private LocalState localState() {
    Vote vote = getCurrentVote();
    PeerState.Role role = switch (getPeerState()) {
      case LOOKING -> PeerState.Role.LOOKING;
      case FOLLOWING -> PeerState.Role.FOLLOWING;
      case LEADING -> PeerState.Role.LEADING;
      case OBSERVING -> PeerState.Role.OBSERVING;
    };
    Election election = electionAlg;
    long round = election instanceof PromptElection ours ? ours.getLogicalClock() : 0;
    return new LocalState(role, round, vote == null ? -1 : vote.getId(), watch.ready(), watch.suspects(),
        receiver -> Optional.empty());
  }

  @Override
  public synchronized void setPeerState(ServerState newState) {
    super.setPeerState(newState);
    if (peers != null) {
      watch.setReady(false);
    }
  }

  @Override
  protected Leader makeLeader(FileTxnSnapLog logFactory) throws IOException, X509Exception {
    LeaderZooKeeperServer server = config.leader().deferSnapshot()
        ? new PromptLeaderServer(logFactory, this, getZkDb())
        : new LeaderZooKeeperServer(logFactory, this, getZkDb());
    // The constructor binds the quorum port, so connections are accepted (by the kernel) from here on.
    Leader leader = new Leader(this, server);
    watch.setReady(true);
    return leader;
  }

  @Override
  protected Follower makeFollower(FileTxnSnapLog logFactory) throws IOException {
    return new PromptFollower(this, new FollowerZooKeeperServer(logFactory, this, getZkDb()));
  }

  /** Waits while this server may not vote. */
  void awaitCertainty() throws InterruptedException {
    // Replaced when epochs are kept by this server.
  }

  /** This server is about to leave its role. */
  void leaving(LossCause cause) {
    // Recorded when recoveries are.
  }

  @Override
  public void shutdown() {
    super.shutdown();
    if (peers != null) {
      peers.close();
    }
  }
}
