package io.tailbound.zookeeper.epoch;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/**
 * One server's row of the EpochTable (thesis, Table 5.2), as told to one of its peers.
 *
 * @param server id of the server ({@code myid})
 * @param ensemble name of the ensemble, empty if none is configured; at most {@value
 *     #MAX_ENSEMBLE_BYTES} bytes of UTF-8
 * @param version grows with every change that this start of the server makes
 * @param accepted see {@link EpochStore#accepted}
 * @param current see {@link EpochStore#current}; {@link EpochStore#UNKNOWN} while lost
 * @param inDoubt see {@link EpochStore#inDoubt}
 * @param nonce drawn anew at every start of the server
 * @param echo nonce of the receiver, as the sender last heard it; 0 if it heard none. Tells the
 *     receiver that the row was made after the receiver started: an older one, which the election
 *     channel may repeat after a reconnect, must not settle a doubt
 */
public record PeerEpochs(
    long server,
    String ensemble,
    long version,
    long accepted,
    long current,
    boolean inDoubt,
    long nonce,
    long echo) {
  /** Longest name of an ensemble, in bytes of UTF-8. */
  public static final int MAX_ENSEMBLE_BYTES = 64;

  /** Refuses what no server could say. */
  public PeerEpochs {
    Objects.requireNonNull(ensemble, "ensemble");
    if (ensemble.getBytes(StandardCharsets.UTF_8).length > MAX_ENSEMBLE_BYTES) {
      throw new IllegalArgumentException(
          "name of an ensemble longer than " + MAX_ENSEMBLE_BYTES + " bytes");
    }
    if (accepted < 0 || current < EpochStore.UNKNOWN || accepted < current) {
      throw new IllegalArgumentException(
          "server " + server + ": accepted epoch " + accepted + " and current epoch " + current);
    }
  }
}
