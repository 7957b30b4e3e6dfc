package io.tailbound.zookeeper.epoch;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What one server knows of the epochs of all servers: the newest row of each. Immutable.
 *
 * @param voters ids of the voting servers
 * @param rows newest row of each server heard of, this one included
 */
public record EpochTable(Set<Long> voters, Map<Long, PeerEpochs> rows) {
  /** Copies its arguments. */
  public EpochTable {
    voters = Set.copyOf(voters);
    rows = Map.copyOf(rows);
  }

  /** This table with the row, unless a newer one of that server is known already. */
  public EpochTable with(PeerEpochs row) {
    PeerEpochs known = rows.get(row.server());
    if (known != null && known.version() >= row.version()) {
      return this;
    }
    Map<Long, PeerEpochs> merged = new TreeMap<>(rows);
    merged.put(row.server(), row);
    return new EpochTable(voters, merged);
  }

  /** Whether a majority of the voters are known and not in doubt. */
  public boolean certainMajority() {
    long certain =
        voters.stream().filter(id -> rows.containsKey(id) && !rows.get(id).inDoubt()).count();
    return certain > voters.size() / 2;
  }

  /** Highest accepted epoch of all voters that are known and not in doubt; 0 if there is none. */
  public long highestCertainAccepted() {
    return voters.stream()
        .filter(id -> rows.containsKey(id) && !rows.get(id).inDoubt())
        .mapToLong(id -> rows.get(id).accepted())
        .max()
        .orElse(0);
  }
}
