package io.tailbound.zookeeper.epoch;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** One attempt of one server to lead an epoch, with what its followers acknowledged. */
final class SimulatedTerm {
  enum Stage {
    DISCOVERY,
    SYNCHRONISATION,
    SERVICE
  }

  final SimulatedServer leader;
  final long epoch;
  final long leaderCurrent;
  final long leaderZxid;
  final Set<Long> epochAcks = new HashSet<>();
  final Set<Long> historyAcks = new HashSet<>();
  final Map<Long, Integer> txnAcks = new HashMap<>();
  Stage stage = Stage.DISCOVERY;
  List<SimulatedServer.Txn> history = List.of();
  int committed;

  SimulatedTerm(SimulatedServer leader, long epoch) {
    this.leader = leader;
    this.epoch = epoch;
    this.leaderCurrent = leader.store.current();
    this.leaderZxid = leader.lastZxid();
  }

  boolean alive() {
    return leader.term == this;
  }

  /** Whether a server with these values may follow: Leader.waitForEpochAck's condition. */
  boolean covers(long current, long zxid) {
    return current < leaderCurrent || (current == leaderCurrent && zxid <= leaderZxid);
  }
}
