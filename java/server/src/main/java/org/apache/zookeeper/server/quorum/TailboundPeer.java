package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.channel.LocalState;
import io.tailbound.zookeeper.channel.PeerState;
import io.tailbound.zookeeper.channel.Peers;
import io.tailbound.zookeeper.config.EpochMode;
import io.tailbound.zookeeper.config.Profile;
import io.tailbound.zookeeper.config.TailboundConfig;
import io.tailbound.zookeeper.epoch.EpochStore;
import io.tailbound.zookeeper.recovery.RecoveryRecorder;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.Role;
import io.tailbound.zookeeper.recovery.RecoveryReporting;
import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.common.X509Exception;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ServerMetrics;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A quorum peer with the mechanisms of bounded recovery, each of which can be switched off. */
public class TailboundPeer extends QuorumPeer {

  private static final Logger LOG = LoggerFactory.getLogger(TailboundPeer.class);
  private static final long MILLISECOND_NS = 1_000_000L;
  private static final long INTRODUCTION_INTERVAL_MS = 200;
  private static final int LONGEST_FALSE_LEAD_MS = 200;

  private final TailboundConfig config;
  private final LeaderWatch watch = new LeaderWatch(this);
  private final RecoveryTimes times = new RecoveryTimes();
  private final EndOfService endOfService = new EndOfService();
  private final StartHistory history = new StartHistory();
  private volatile Peers peers;
  private volatile ElectionChannels channels;
  private volatile EpochStore epochs;
  private volatile boolean treeAheadOfDisk;
  private volatile ReadConfiguration lastRead;
  private RecoveryReporting reporting;

  /** @param config the settings of the mechanisms */
  public TailboundPeer(TailboundConfig config) throws SaslException {
    this.config = config;
  }

  /** A peer with every mechanism on. */
  public TailboundPeer() throws SaslException {
    this(TailboundConfig.of(Profile.TAILBOUND));
  }

  /** As upstream's constructor of the same parameters, with every mechanism on. */
  public TailboundPeer(Map<Long, QuorumServer> members, File dataDir, File dataLogDir, int electionType,
      long myid, int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit,
      ServerCnxnFactory clients) throws IOException {
    super(members, dataDir, dataLogDir, electionType, myid, tickTime, initLimit, syncLimit,
        connectToLearnerMasterLimit, clients);
    this.config = TailboundConfig.of(Profile.TAILBOUND);
    replaceStorage();
  }

  /** As upstream's constructor of the same parameters, with every mechanism on. */
  public TailboundPeer(Map<Long, QuorumServer> members, File dataDir, File dataLogDir, int electionType,
      long myid, int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit,
      boolean quorumListenOnAllIPs, ServerCnxnFactory clients, QuorumVerifier quorum) throws IOException {
    super(members, dataDir, dataLogDir, electionType, myid, tickTime, initLimit, syncLimit,
        connectToLearnerMasterLimit, quorumListenOnAllIPs, clients, quorum);
    this.config = TailboundConfig.of(Profile.TAILBOUND);
    replaceStorage();
  }

  /** As upstream's constructor of the same parameters, with every mechanism on. */
  public TailboundPeer(Map<Long, QuorumServer> members, File snapDir, File logDir, int clientPort,
      int electionAlg, long myid, int tickTime, int initLimit, int syncLimit,
      int connectToLearnerMasterLimit) throws IOException {
    super(members, snapDir, logDir, clientPort, electionAlg, myid, tickTime, initLimit, syncLimit,
        connectToLearnerMasterLimit);
    this.config = TailboundConfig.of(Profile.TAILBOUND);
    replaceStorage();
  }

  /** As upstream's constructor of the same parameters, with every mechanism on. */
  public TailboundPeer(Map<Long, QuorumServer> members, File snapDir, File logDir, int clientPort,
      int electionAlg, long myid, int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit,
      String oraclePath) throws IOException {
    super(members, snapDir, logDir, clientPort, electionAlg, myid, tickTime, initLimit, syncLimit,
        connectToLearnerMasterLimit, oraclePath);
    this.config = TailboundConfig.of(Profile.TAILBOUND);
    replaceStorage();
  }

  /** As upstream's constructor of the same parameters, with every mechanism on. */
  public TailboundPeer(Map<Long, QuorumServer> members, File snapDir, File logDir, int clientPort,
      int electionAlg, long myid, int tickTime, int initLimit, int syncLimit, int connectToLearnerMasterLimit,
      QuorumVerifier quorum) throws IOException {
    super(members, snapDir, logDir, clientPort, electionAlg, myid, tickTime, initLimit, syncLimit,
        connectToLearnerMasterLimit, quorum);
    this.config = TailboundConfig.of(Profile.TAILBOUND);
    replaceStorage();
  }

  /** Upstream's constructors set their log and database without the setters. */
  private void replaceStorage() {
    setTxnFactory(getTxnFactory());
    setZKDatabase(getZkDb());
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

  RecoveryRecorder recorder() {
    return times.recorder();
  }

  /** Whether this server tells its peers of which kind it is: if a mechanism needs their states. */
  boolean announces() {
    return config.election().readyNotice() || config.heartbeat().enabled()
        || config.epochs().mode() != EpochMode.UPSTREAM;
  }

  // Start and end.

  @Override
  public synchronized void start() {
    reporting = new RecoveryReporting(getMyId(), () -> getQuorumVerifier().getVotingMembers().size(),
        config.profile().toString(), ServerMetrics.getMetrics().getMetricsProvider().getRootContext());
    offer(reporting);
    times.to(reporting.recorder());
    super.start();
  }

  /** Makes the reports a command of the admin server. */
  void offer(RecoveryReporting reports) {
    reports.offerCommand(history::notes);
  }

  @Override
  public void shutdown() {
    super.shutdown();
    if (peers != null) {
      peers.close();
    }
    if (reporting != null) {
      reporting.close();
    }
    if (epochs != null) {
      try {
        epochs.close();
      } catch (IOException e) {
        LOG.warn("The epoch file could not be closed; the next start treats this as a crash", e);
      }
    }
  }

  // The election channel.

  @Override
  public QuorumCnxManager createCnxnManager() {
    int timeoutMs = Integer.getInteger(QUORUM_CNXN_TIMEOUT_MS, -1);
    ElectionChannels created =
        new ElectionChannels(this, timeoutMs > 0 ? timeoutMs : tickTime * syncLimit);
    channels = created;
    Peers before = peers;
    peers = new Peers(config.heartbeat(), tickTime * syncLimit * MILLISECOND_NS, created,
        this::localState, this::peerTold, watch::look);
    if (before != null) {
      before.close();
    }
    if (announces()) {
      peers.start();
    }
    return created;
  }

  /** Whether a server is known to be unable to vote or to lead now. */
  boolean isAbsent(long server) {
    return channels.isAbsent(server);
  }

  /** See {@link ElectionChannels#currentEpoch}. */
  OptionalLong currentEpochOf(long server) {
    return channels.currentEpoch(server);
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
    ElectionChannels admitting = (ElectionChannels) stock.getCnxManager();
    PromptElection election = new PromptElection(this, admitting);
    admitting.admit(election.messenger.wrThread);
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
    EpochStore store = epochs;
    return new LocalState(role, round(), vote == null ? -1 : vote.getId(), watch.ready(), watch.suspects(),
        receiver -> store == null ? Optional.empty() : Optional.of(store.own(receiver)));
  }

  /** The present or last election round of this server. */
  long round() {
    return electionAlg instanceof PromptElection election ? election.getLogicalClock() : 0;
  }

  private void peerTold(long server, PeerState state) {
    EpochStore store = epochs;
    if (store != null) {
      state.epochs().ifPresent(store::peerReported);
    }
    Vote vote = getCurrentVote();
    boolean ofLeader = vote != null && vote.getId() == server && getPeerState() == ServerState.FOLLOWING;
    if (ofLeader || getPeerState() == ServerState.LEADING) {
      recorder().leaderSign();
    }
  }

  // The configuration.

  private record ReadConfiguration(String text, FormattedQuorumMaj verifier) {}

  @Override
  public QuorumVerifier setQuorumVerifier(QuorumVerifier verifier, boolean writeToDisk) {
    return super.setQuorumVerifier(FormattedQuorumMaj.of(verifier), writeToDisk);
  }

  @Override
  public void setLastSeenQuorumVerifier(QuorumVerifier verifier, boolean writeToDisk) {
    super.setLastSeenQuorumVerifier(FormattedQuorumMaj.of(verifier), writeToDisk);
  }

  /**
   * Upstream reads the configuration that comes with each vote; nearly always it is the one of the vote
   * before. Each call returns another object, since upstream's leader changes the version of one.
   */
  @Override
  public QuorumVerifier configFromString(String text) throws IOException, ConfigException {
    ReadConfiguration read = lastRead;
    if (read != null && read.text.equals(text)) {
      return read.verifier.copy();
    }
    QuorumVerifier verifier = FormattedQuorumMaj.of(super.configFromString(text));
    if (verifier instanceof FormattedQuorumMaj formatted) {
      lastRead = new ReadConfiguration(text, formatted.copy());
    }
    return verifier;
  }

  // Roles.

  @Override
  public synchronized void setPeerState(ServerState newState) {
    super.setPeerState(newState);
    if (peers != null) {
      watch.setReady(false);
    }
  }

  @Override
  public void setZabState(ZabState zabState) {
    super.setZabState(zabState);
    if (zabState == ZabState.BROADCAST) {
      recorder().serving();
    }
  }

  @Override
  protected Leader makeLeader(FileTxnSnapLog logFactory) throws IOException, X509Exception {
    // The constructor binds the quorum port, so connections are accepted (by the kernel) from here on.
    if (config.election().rejoin() && Integer.getInteger(Leader.MAX_TIME_TO_WAIT_FOR_EPOCH) == null) {
      // Upstream has this and leaves it off: a leader that waits for its followers gives up when one of
      // those that voted for it is found to vote again. Votes of before are older than this.
      Leader.setMaxTimeToWaitForEpoch(LONGEST_FALSE_LEAD_MS);
    }
    Leader leader = new PromptLeader(this, new PromptLeaderServer(logFactory, this, getZkDb()));
    watch.setReady(config.election().readyNotice());
    return leader;
  }

  @Override
  protected Follower makeFollower(FileTxnSnapLog logFactory) throws IOException {
    return new PromptFollower(this, new FollowerZooKeeperServer(logFactory, this, getZkDb()));
  }

  /** An observer need not log what it applies, so afterwards the data tree may be ahead of the disk. */
  @Override
  protected Observer makeObserver(FileTxnSnapLog logFactory) throws IOException {
    treeAheadOfDisk = true;
    return super.makeObserver(logFactory);
  }

  /** Whether the data tree may hold transactions that are in no log and no snapshot of this server. */
  boolean treeAheadOfDisk() {
    return treeAheadOfDisk;
  }

  /** A snapshot of the whole tree was written. */
  void treeOnDisk() {
    treeAheadOfDisk = false;
  }

  /** A role ends. Upstream's shutdown applies the logged tail to the tree, so this comes before it. */
  void roleEnds(ZooKeeperServer server) {
    EpochStore store = epochs;
    if (store != null) {
      endOfService.of(server, store::leftService);
    }
  }

  /** This server leaves its role. Only the first cause given counts. */
  void leaving(LossCause cause) {
    times.left(cause);
  }

  /** An election begins. */
  void electionBegins() {
    times.left(LossCause.STARTED);
  }

  /** An election ended with this leader. */
  void elected(long leader) {
    Role role = switch (getPeerState()) {
      case LEADING -> Role.LEADER;
      case OBSERVING -> Role.OBSERVER;
      default -> Role.FOLLOWER;
    };
    times.elected(role, leader);
  }

  /** A quorum acknowledged this leader's epoch. */
  void synchronised() {
    try {
      recorder().synchronised(getCurrentEpoch());
    } catch (IOException e) {
      LOG.warn("The epoch is not known to the recovery breakdown", e);
    }
  }

  // Epochs.

  @Override
  public void setTxnFactory(FileTxnSnapLog factory) {
    if (config.epochs().mode() == EpochMode.UPSTREAM && !config.leader().skipReplay()) {
      super.setTxnFactory(factory);
      return;
    }
    try {
      factory.close();
      PromptLog log = new PromptLog(
          factory.getDataLogDir().getParentFile(), factory.getSnapDir().getParentFile(), this);
      history.of(log);
      super.setTxnFactory(log);
    } catch (IOException e) {
      throw new IllegalStateException("the data directory cannot be opened again", e);
    }
  }

  @Override
  public void setZKDatabase(ZKDatabase database) {
    super.setZKDatabase(new PromptDatabase(getTxnFactory(), this));
  }

  /** Whether this server writes its epochs itself, and so can note that it lost its history. */
  boolean keepsOwnEpochs() {
    return config.epochs().mode() != EpochMode.UPSTREAM;
  }

  /** Whether the data of this server were loaded once: from then on it knows what is in its files. */
  boolean isStarted() {
    return history.isLoaded();
  }

  /** Loads the data with which this server starts, or takes away what is damaged of them. */
  long load(LoadedHistory.Loading database) throws IOException {
    return history.load(this, database);
  }

  /** The zxid from which on the log was checked for gaps. */
  long checkedFrom() {
    return history.checkedFrom();
  }

  /** The database was loaded from disk, up to this transaction. */
  void databaseLoaded(long lastZxid) throws IOException {
    if (epochs == null && keepsOwnEpochs()) {
      epochs = Epochs.open(this, config.epochs(), lastZxid, history.isLost());
      history.noted(getMyId());
    }
  }

  /** Waits until all that this server read back or logged is on disk: a vote tells others that it has it. */
  void awaitDurableHistory(PromptElection election) throws InterruptedException {
    try {
      history.awaitDurable();
    } catch (IOException e) {
      LOG.error("The data of server {} cannot be synced, so it does not vote: replace the disk, and let the"
          + " server copy the data of the leader into an empty directory", getMyId(), e);
      while (isRunning() && !election.stop) {
        Thread.sleep(INTRODUCTION_INTERVAL_MS);
      }
    }
  }

  /** Waits until the present epoch is on disk. */
  void awaitDurableEpoch() throws IOException {
    EpochStore store = epochs;
    if (store != null) {
      store.awaitDurable(store.current());
    }
  }

  /** Waits while this server has lost epochs and may not vote, and asks its peers for theirs. */
  void awaitCertainty(PromptElection election) throws InterruptedException {
    EpochStore store = epochs;
    while (store != null && store.inDoubt() && isRunning() && !election.stop) {
      election.introduce();
      Thread.sleep(INTRODUCTION_INTERVAL_MS);
    }
  }

  @Override
  void writeLongToFile(String name, long value) throws IOException {
    // With a store of ours, upstream's files are the store's to write.
    if (epochs == null) {
      super.writeLongToFile(name, value);
    }
  }

  @Override
  public long getCurrentEpoch() throws IOException {
    return epochs == null ? super.getCurrentEpoch() : epochs.current();
  }

  @Override
  public long getAcceptedEpoch() throws IOException {
    return epochs == null ? super.getAcceptedEpoch() : epochs.accepted();
  }

  @Override
  public void setAcceptedEpoch(long epoch) throws IOException {
    if (epochs == null) {
      super.setAcceptedEpoch(epoch);
    } else {
      epochs.setAccepted(epoch);
    }
    if (getPeerState() == ServerState.LEADING) {
      // Upstream's leader sets it when a quorum is connected.
      recorder().connected();
    }
  }

  @Override
  public void setCurrentEpoch(long epoch) throws IOException {
    // What follows tells others that this server holds the history of the epoch.
    history.awaitDurable();
    if (epochs == null) {
      super.setCurrentEpoch(epoch);
    } else {
      epochs.setCurrent(epoch, getLastLoggedZxid());
    }
    if (getPeerState() != ServerState.LEADING) {
      // Upstream's learner acknowledges NEWLEADER right after this.
      recorder().synchronised(epoch);
    }
  }
}
