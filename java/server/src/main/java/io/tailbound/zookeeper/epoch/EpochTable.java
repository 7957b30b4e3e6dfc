package io.tailbound.zookeeper.epoch;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * What one server knows of the epochs of all servers: the newest row of each. Immutable.
 *
 * @param rows newest row of each server heard of, by its id
 */
public record EpochTable(Map<Long, PeerEpochs> rows) {
  /** Copies its argument. */
  public EpochTable {
    rows = Map.copyOf(rows);
  }

  /** The table of a server that has heard nothing. */
  public static EpochTable empty() {
    return new EpochTable(Map.of());
  }

  /** This table with the row, unless a newer one of the same start of that server is known. */
  public EpochTable with(PeerEpochs row) {
    PeerEpochs known = rows.get(row.server());
    if (known != null && known.nonce() == row.nonce() && known.version() > row.version()) {
      return this;
    }
    Map<Long, PeerEpochs> merged = new TreeMap<>(rows);
    merged.put(row.server(), row);
    return new EpochTable(merged);
  }

  /** The rows of servers that lost nothing, made after the start that drew this nonce. */
  EpochTable certainAnswersTo(long nonce) {
    return new EpochTable(
        rows.values().stream()
            .filter(row -> row.echo() == nonce && !row.inDoubt())
            .collect(Collectors.toMap(PeerEpochs::server, row -> row)));
  }

  /** Highest accepted epoch of all rows; 0 if there are none. */
  public long highestAccepted() {
    return rows.values().stream().mapToLong(PeerEpochs::accepted).max().orElse(0);
  }
}
