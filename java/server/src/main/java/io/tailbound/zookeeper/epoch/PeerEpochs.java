package io.tailbound.zookeeper.epoch;

import java.util.Objects;

/**
 * One server's row of the EpochTable (thesis, Table 5.2), as told to its peers.
 *
 * @param server id of the server ({@code myid})
 * @param ensemble name of the ensemble, empty if none is configured; at most {@value
 *     #MAX_ENSEMBLE_BYTES} bytes of UTF-8
 * @param version grows with every change that the server makes; the greatest wins
 * @param accepted see {@link EpochStore#accepted}
 * @param current see {@link EpochStore#current}; {@link EpochStore#UNKNOWN} while lost
 * @param inDoubt see {@link EpochStore#inDoubt}
 */
public record PeerEpochs(
    long server, String ensemble, long version, long accepted, long current, boolean inDoubt) {
  /** Longest name of an ensemble, in bytes of UTF-8. */
  public static final int MAX_ENSEMBLE_BYTES = 64;

  /** Refuses what no server could say. */
  public PeerEpochs {
    Objects.requireNonNull(ensemble, "ensemble");
    if (ensemble.getBytes(java.nio.charset.StandardCharsets.UTF_8).length > MAX_ENSEMBLE_BYTES) {
      throw new IllegalArgumentException(
          "name of an ensemble longer than " + MAX_ENSEMBLE_BYTES + " bytes");
    }
    if (accepted < 0 || current < EpochStore.UNKNOWN || accepted < current) {
      throw new IllegalArgumentException(
          "server " + server + ": accepted epoch " + accepted + " below current epoch " + current);
    }
  }
}
