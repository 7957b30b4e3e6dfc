package io.tailbound.zookeeper.epoch;

import java.nio.file.Path;
import java.util.Objects;

/**
 * What {@link FileEpochStore#open} needs to know.
 *
 * @param directory folder of the epoch files: upstream's {@code getTxnFactory().getSnapDir()} (the
 *     {@code version-2} folder)
 * @param server id of this server
 * @param voting who votes
 * @param ensemble name of the ensemble ({@code tailbound.ensemble}), empty if none is configured
 * @param policy when values reach the disk
 * @param reserve how many epochs are promised in advance (policy RESERVED), at least 1
 * @param lastLoggedZxid zxid of the last transaction found in log and snapshots
 * @param historyLost whether the log had lost transactions that were acknowledged, or may have been: then no
 *     epoch is current here until the server has taken a leader's history
 */
public record EpochSettings(
    Path directory,
    long server,
    Voting voting,
    String ensemble,
    EpochPolicy policy,
    int reserve,
    long lastLoggedZxid,
    boolean historyLost) {
  /** A reserve that no plausible series of recoveries uses up within the time of one sync. */
  public static final int DEFAULT_RESERVE = 16;

  /** Largest reserve: a power cut skips at most this many of the 2^31 epochs. */
  public static final int MAX_RESERVE = 1024;

  /** Checks the ranges. */
  public EpochSettings {
    Objects.requireNonNull(directory, "directory");
    Objects.requireNonNull(ensemble, "ensemble");
    Objects.requireNonNull(policy, "policy");
    Objects.requireNonNull(voting, "voting");
    if (reserve < 1 || reserve > MAX_RESERVE) {
      throw new IllegalArgumentException("reserve of " + reserve + " epochs: must be 1 to " + MAX_RESERVE);
    }
  }
}
