package io.tailbound.zookeeper.epoch;

import java.util.Set;

/**
 * Who votes in the present configuration. Asked anew each time, since a reconfiguration changes it;
 * in the server a view of {@code QuorumPeer.getQuorumVerifier()}.
 */
public interface Voting {
  /** Ids of the voting servers. */
  Set<Long> voters();

  /** Whether these voters form a quorum (majority, or weights and groups if so configured). */
  boolean isQuorum(Set<Long> servers);

  /** Majority of a fixed set of voters. */
  static Voting majorityOf(Set<Long> voters) {
    Set<Long> fixed = Set.copyOf(voters);
    return new Voting() {
      @Override
      public Set<Long> voters() {
        return fixed;
      }

      @Override
      public boolean isQuorum(Set<Long> servers) {
        return servers.stream().filter(fixed::contains).count() > fixed.size() / 2;
      }
    };
  }
}
