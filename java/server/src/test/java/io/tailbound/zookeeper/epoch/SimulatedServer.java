package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.UUID;
import java.util.random.RandomGenerator;

/** One server of the {@link SimulatedEnsemble}: the real epoch store on a forgetful disk, and a log. */
final class SimulatedServer {
  /** A transaction; two with one zxid and different leaders would be a divergence. */
  record Txn(long zxid, long leader) {}

  final long id;
  final ForgetfulStorage storage = new ForgetfulStorage();
  final List<Txn> log = new ArrayList<>();
  final Deque<Runnable> background = new ArrayDeque<>();
  private final EpochPolicy policy;
  private final Voting voting;
  private UUID boot;
  FileEpochStore store;
  SimulatedTerm term;
  boolean holdsHistory;
  boolean inService;
  int applied;
  int logSynced;
  long promised;

  SimulatedServer(long id, EpochPolicy policy, Voting voting, RandomGenerator random) {
    this.id = id;
    this.policy = policy;
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
    return log.isEmpty() ? 0 : log.get(log.size() - 1).zxid();
  }

  void start(RandomGenerator random) throws IOException {
    EpochSettings settings =
        new EpochSettings(Path.of("/simulated"), id, voting, "simulated", policy, 2, lastZxid());
    store = new FileEpochStore(settings, storage, boot, random.nextLong() | 1, background::add);
  }

  /** Ends the role; a server that was in service knows what it applied to be committed. */
  void leaveRole() {
    if (inService) {
      store.leftService(applied == 0 ? 0 : log.get(applied - 1).zxid());
    }
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
    int kept = logSynced + random.nextInt(log.size() - logSynced + 1);
    log.subList(kept, log.size()).clear();
    logSynced = log.size();
  }

  /** Takes over a history, synced, as before an acknowledgement of NEWLEADER. */
  void takeHistory(List<Txn> history) {
    List<Txn> copy = List.copyOf(history);
    log.clear();
    log.addAll(copy);
    logSynced = log.size();
  }

  /** What FileTxnSnapLog.commit() does: log and epoch on disk. */
  void flush() throws IOException {
    logSynced = log.size();
    store.awaitDurable(store.current());
  }
}
