package io.tailbound.zookeeper.epoch;

import io.tailbound.zookeeper.epoch.SimulatedServer.Txn;
import io.tailbound.zookeeper.epoch.SimulatedTerm.Stage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * Servers that make leaders and write transactions as ZAB has it, under crashes drawn from a seed.
 * Messages are not objects here: a receiver reads what the sender would have sent as long as the
 * sender is in the same term, and the connection ends with the term, so that a lost or late message is
 * a step that is not or later taken.
 */
final class SimulatedEnsemble {
  /** A safety condition does not hold. */
  static final class Violation extends Error {
    private static final long serialVersionUID = 1L;

    Violation(String what) {
      super(what);
    }
  }

  private final SplittableRandom random;
  private final List<SimulatedServer> servers;
  private final Voting voting;
  private final Damages damages;
  private final Map<Long, SimulatedTerm> leaders = new HashMap<>();
  private List<Txn> committed = List.of();
  private int commits;
  private int powerCuts;

  /** What a disk loses although it was synced, at one server at a time. */
  enum Damages {
    NONE,
    EPOCH_FILE,
    /** Transactions before the last one. */
    LOG
  }

  /**
   * @param size how many servers
   * @param policy when epochs reach the disk
   * @param trustsLog whether what was read back from a log is taken to be on disk
   * @param damages what disks lose
   * @param seed draws everything
   */
  SimulatedEnsemble(int size, EpochPolicy policy, boolean trustsLog, Damages damages, long seed) {
    this.random = new SplittableRandom(seed);
    this.damages = damages;
    Set<Long> ids = LongStream.rangeClosed(1, size).boxed().collect(Collectors.toSet());
    this.voting = Voting.majorityOf(ids);
    this.servers =
        ids.stream().sorted()
            .map(id -> new SimulatedServer(id, policy, trustsLog, voting, random)).toList();
  }

  int commits() {
    return commits;
  }

  int powerCuts() {
    return powerCuts;
  }

  /** Takes one random step and checks everything. */
  void step() {
    SimulatedServer one = servers.get(random.nextInt(servers.size()));
    if (one.up() && random.nextInt(120) == 0) {
      one.storage.killAfter(random.nextInt(12));
    }
    try {
      act(one, servers.get(random.nextInt(servers.size())));
    } catch (ForgetfulStorage.Killed killed) {
      servers.stream().filter(server -> server.storage == killed.storage).forEach(this::crash);
    } catch (IOException refused) {
      one.leaveRole();
    }
    check();
  }

  private void crash(SimulatedServer server) {
    if (random.nextBoolean()) {
      server.kill();
    } else {
      server.losePower(random);
    }
  }

  private void act(SimulatedServer one, SimulatedServer other) throws IOException {
    int choice = random.nextInt(1000);
    if (choice < 3) {
      cutPower();
    } else if (choice < 8) {
      crash(one);
      damage(one);
    } else if (!one.up()) {
      if (choice < 600) {
        one.start(random);
      }
    } else if (choice < 40) {
      if (!one.background.isEmpty()) {
        one.background.poll().run();
      }
    } else if (choice < 70) {
      if (!content(one)) {
        stand(one);
      }
    } else if (choice < 300) {
      if (!content(one)) {
        follow(one, someLeader(other));
      }
    } else if (choice < 450) {
      lead(one);
    } else if (choice < 600) {
      synchronise(one);
    } else if (choice < 960) {
      serve(one);
    } else if (other.up() && one != other) {
      one.store.peerReported(other.store.own(one.id));
    }
  }

  /** Whether the server has a living leader; now and then it leaves it all the same. */
  private boolean content(SimulatedServer one) {
    return one.term != null && one.term.alive() && random.nextInt(20) > 0;
  }

  private SimulatedServer someLeader(SimulatedServer otherwise) {
    List<SimulatedServer> leading =
        servers.stream().filter(s -> s.term != null && s.term.leader == s).toList();
    return leading.isEmpty() ? otherwise : leading.get(random.nextInt(leading.size()));
  }

  private void cutPower() {
    powerCuts++;
    servers.forEach(server -> server.losePower(random));
  }

  /** Damages the epoch file or the log of one server at a time, so that a quorum that lost nothing remains. */
  private void damage(SimulatedServer one) {
    boolean whole =
        servers.stream().allMatch(s -> s.up() && s.sure() && s.store.current() >= 0 || s == one);
    if (damages == Damages.EPOCH_FILE && whole && !one.up() && one.storageHas(EpochRecovery.FILE)) {
      one.storage.damage(EpochRecovery.FILE, random);
      one.promised = 0;
    } else if (damages == Damages.LOG && whole && !one.up()) {
      one.log.loseSynced(random);
    }
  }

  /** The server proposes a new epoch to some quorum. */
  private void stand(SimulatedServer one) throws IOException {
    List<SimulatedServer> heard =
        servers.stream().filter(s -> s == one || (s.sure() && random.nextInt(3) > 0)).toList();
    stand(one, heard);
  }

  private void stand(SimulatedServer one, List<SimulatedServer> heard) throws IOException {
    if (!one.sure() || one.store.current() < 0 || !quorum(heard)) {
      return;
    }
    one.leaveRole();
    one.awaitHistory();
    long epoch = 1 + heard.stream().mapToLong(s -> s.store.accepted()).max().orElse(0);
    SimulatedTerm term = new SimulatedTerm(one, epoch);
    one.store.setAccepted(epoch);
    one.term = term;
    term.epochAcks.add(one.id);
  }

  private boolean quorum(List<SimulatedServer> some) {
    return voting.isQuorum(some.stream().map(s -> s.id).collect(Collectors.toSet()));
  }

  /** LEADERINFO and ACKEPOCH. */
  private void follow(SimulatedServer one, SimulatedServer other) throws IOException {
    SimulatedTerm term = other.term;
    if (one == other || !one.sure() || term == null || !other.up() || term.leader != other) {
      return;
    }
    if (term.epoch < one.store.accepted() || one.term == term) {
      return;
    }
    one.leaveRole();
    one.awaitHistory();
    if (term.epoch > one.store.accepted()) {
      long current = one.store.current();
      one.store.setAccepted(term.epoch);
      one.promised = term.epoch;
      // Until somebody has accepted it from its leader an epoch may be forgotten: the leader's term has ended then.
      other.promised = Math.max(other.promised, term.epoch);
      if (current >= 0 && term.stage == Stage.DISCOVERY) {
        if (!term.covers(current, one.lastZxid())) {
          other.leaveRole();
          return;
        }
        term.epochAcks.add(one.id);
      }
    }
    one.term = term;
  }

  /** The leader goes on as its acknowledgements allow. */
  private void lead(SimulatedServer one) throws IOException {
    SimulatedTerm term = one.term;
    if (term == null || term.leader != one) {
      return;
    }
    if (term.stage == Stage.DISCOVERY && voting.isQuorum(term.epochAcks)) {
      SimulatedTerm earlier = leaders.put(term.epoch, term);
      if (earlier != null) {
        throw new Violation("epoch " + term.epoch + " has two leaders: server " + earlier.leader.id
            + " and server " + one.id);
      }
      term.stage = Stage.SYNCHRONISATION;
      term.history = List.copyOf(one.log);
      one.store.setCurrent(term.epoch, one.lastZxid());
      one.holdsHistory = true;
      term.historyAcks.add(one.id);
    } else if (term.stage == Stage.SYNCHRONISATION && voting.isQuorum(term.historyAcks)) {
      term.stage = Stage.SERVICE;
      term.committed = term.history.size();
      commit(term.history, "initial history of epoch " + term.epoch);
      one.inService = true;
      one.applied = term.committed;
    }
  }

  /** NEWLEADER: history, then current epoch, then the acknowledgement. */
  private void synchronise(SimulatedServer one) throws IOException {
    SimulatedTerm term = one.term;
    if (term == null || term.leader == one || one.holdsHistory) {
      return;
    }
    if (!term.alive() || term.stage == Stage.DISCOVERY) {
      return;
    }
    one.takeHistory(
        term.stage == Stage.SERVICE ? term.leader.log : term.history);
    one.store.setCurrent(term.epoch, one.lastZxid());
    one.holdsHistory = true;
    term.historyAcks.add(one.id);
  }

  /** UPTODATE, proposals, acknowledgements and commits. */
  private void serve(SimulatedServer one) throws IOException {
    SimulatedTerm term = one.term;
    if (term == null || term.stage != Stage.SERVICE || !one.holdsHistory || !term.alive()) {
      return;
    }
    boolean leads = term.leader == one;
    switch (random.nextInt(4)) {
      case 0 -> {
        if (leads) {
          int counter = one.log.size() - term.history.size() + 1;
          one.log.add(new Txn(term.epoch << 32 | counter, one.id, one.log.size()));
        } else if (one.log.size() < term.leader.log.size()) {
          one.log.add(term.leader.log.get(one.log.size()));
        }
      }
      case 1 -> {
        one.flush();
        term.txnAcks.put(one.id, one.log.size());
      }
      case 2 -> {
        if (leads) {
          commitAcknowledged(term);
        }
      }
      default -> {
        one.inService = true;
        one.applied = Math.max(leads ? one.applied : 0, Math.min(one.log.size(), term.committed));
      }
    }
  }

  private void commitAcknowledged(SimulatedTerm term) {
    for (int length = term.leader.log.size(); length > term.committed; length--) {
      int wanted = length;
      Set<Long> acked = new LinkedHashSet<>();
      term.txnAcks.forEach((id, n) -> {
        if (n >= wanted) {
          acked.add(id);
        }
      });
      if (voting.isQuorum(acked)) {
        term.committed = length;
        term.leader.applied = length;
        commit(term.leader.log.subList(0, length), "transactions of epoch " + term.epoch);
        commits++;
        return;
      }
    }
  }

  private void commit(List<Txn> history, String what) {
    int shared = Math.min(history.size(), committed.size());
    if (!history.subList(0, shared).equals(committed.subList(0, shared))) {
      throw new Violation(what + " replace committed ones: " + history + " after " + committed);
    }
    if (history.size() < committed.size() && what.startsWith("initial")) {
      throw new Violation(what + " lacks committed ones: " + history + " after " + committed);
    }
    if (history.size() > committed.size()) {
      committed = List.copyOf(history);
    }
  }

  private void check() {
    for (SimulatedServer server : servers) {
      if (!server.up()) {
        continue;
      }
      long accepted = server.store.accepted();
      long current = server.store.current();
      if (!server.store.inDoubt() && accepted < server.promised) {
        throw new Violation("server " + server.id + " forgot that it accepted " + server.promised);
      }
      if (current > accepted || (current >= 0 && current < server.lastZxid() >>> 32)) {
        throw new Violation("server " + server.id + ": accepted " + accepted + ", current " + current
            + ", log ends in epoch " + (server.lastZxid() >>> 32));
      }
    }
  }

  /** Ends all trouble and lets the servers make a leader: they must be able to, with nothing lost. */
  void settle() throws IOException {
    for (SimulatedServer server : servers) {
      if (server.up()) {
        server.kill();
      }
      server.storage.killAfter(Integer.MAX_VALUE);
      server.start(random);
    }
    for (int round = 0; round < 3; round++) {
      for (SimulatedServer one : servers) {
        for (SimulatedServer other : servers) {
          if (one != other) {
            one.store.peerReported(other.store.own(one.id));
          }
        }
      }
    }
    SimulatedServer best =
        servers.stream()
            .max((a, b) -> a.store.current() != b.store.current()
                ? Long.compare(a.store.current(), b.store.current())
                : Long.compare(a.lastZxid(), b.lastZxid()))
            .orElseThrow();
    makeLeader(best);
  }

  private void makeLeader(SimulatedServer best) throws IOException {
    List<SimulatedServer> others = new ArrayList<>(servers);
    others.remove(best);
    stand(best, servers.stream().filter(SimulatedServer::sure).toList());
    for (SimulatedServer other : others) {
      follow(other, best);
    }
    lead(best);
    for (SimulatedServer other : others) {
      synchronise(other);
    }
    lead(best);
    check();
    if (best.term == null || best.term.stage != Stage.SERVICE) {
      throw new Violation("no leader could be made after the trouble ended");
    }
  }
}
