package io.tailbound.zookeeper.epoch;

import io.tailbound.zookeeper.history.HistorySync;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.UUID;
import java.util.random.RandomGenerator;

/** One server of the {@link SimulatedEnsemble}: the real epoch store on a forgetful disk, and a log. */
final class SimulatedServer {
  /**
   * A transaction; two with one zxid and different leaders would be a divergence.
   *
   * @param before how many transactions precede it in the history, in place of upstream's digest of the tree
   */
  record Txn(long zxid, long leader, int before) {}

  final long id;
  final ForgetfulStorage storage = new ForgetfulStorage();
  final SimulatedLog log = new SimulatedLog();
  final Deque<Runnable> background = new ArrayDeque<>();
  private final EpochPolicy policy;
  private final boolean trustsLog;
  private final Voting voting;
  private HistorySync history;
  private boolean noteOfLoss;
  private UUID boot;
  FileEpochStore store;
  SimulatedTerm term;
  boolean holdsHistory;
  boolean inService;
  int applied;
  long promised;

  /** @param trustsLog whether what was read back from the log is taken to be on disk, as upstream does */
  SimulatedServer(
      long id, EpochPolicy policy, boolean trustsLog, Voting voting, RandomGenerator random) {
    this.id = id;
    this.policy = policy;
    this.trustsLog = trustsLog;
    this.voting = voting;
    this.boot = new UUID(random.nextLong(), random.nextLong());
  }

  boolean up() {
    return store != null;
  }

  /** Up and able to take part in making a leader. */
  boolean sure() {
    return up() && !store.inDoubt();
  }

  boolean storageHas(String name) {
    try {
      return storage.read(name).isPresent();
    } catch (IOException impossible) {
      throw new AssertionError(impossible);
    }
  }

  long lastZxid() {
    return log.lastZxid();
  }

  void start(RandomGenerator random) throws IOException {
    log.beginFile();
    // The note is on disk before the log is cut, and stays until the epoch file tells the same.
    noteOfLoss |= !trustsLog && log.cutAtGap();
    EpochSettings settings =
        new EpochSettings(Path.of("/simulated"), id, voting, "simulated", policy, 2, lastZxid(), noteOfLoss);
    history = new HistorySync(log::syncAll, background::add);
    history.readBack();
    store = new FileEpochStore(settings, storage, boot, random.nextLong() | 1, background::add);
    noteOfLoss = false;
  }

  /** The barrier before a vote. */
  void awaitHistory() throws IOException {
    if (!trustsLog) {
      history.await();
    }
  }

  /** Ends the role; a server that was in service knows what it applied to be committed. */
  void leaveRole() {
    if (inService) {
      store.leftService(applied == 0 ? 0 : log.get(applied - 1).zxid());
    }
    log.sync();
    term = null;
    holdsHistory = false;
    inService = false;
  }

  void kill() {
    storage.killAfter(Integer.MAX_VALUE);
    background.clear();
    store = null;
    term = null;
    holdsHistory = false;
    inService = false;
  }

  void losePower(RandomGenerator random) {
    kill();
    storage.losePower(random);
    boot = new UUID(random.nextLong(), random.nextLong());
    log.losePower(random);
  }

  /** Takes over a history, synced, as before an acknowledgement of NEWLEADER. */
  void takeHistory(List<Txn> taken) {
    log.become(taken);
    log.sync();
  }

  /** What FileTxnSnapLog.commit() does: log and epoch on disk. */
  void flush() throws IOException {
    log.sync();
    store.awaitDurable(store.current());
  }
}
