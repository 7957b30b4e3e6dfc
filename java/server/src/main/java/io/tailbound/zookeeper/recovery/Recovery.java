package io.tailbound.zookeeper.recovery;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * One finished recovery as one server saw it. Durations in nanoseconds of the monotonic clock; the
 * phases follow each other without gaps, so that they add up to the total.
 *
 * @param number counts the recoveries of this process from 1
 * @param server id of this server
 * @param role what the server became
 * @param leader id of the new leader
 * @param epoch the new epoch
 * @param cause why the old leader was given up
 * @param rounds elections that it took, at least 1
 * @param servers voting servers of the configuration
 * @param variant name of the configured variant
 * @param detectionNs last sign of life of the leader to giving it up
 * @param electionNs giving it up to the end of the election
 * @param connectionNs end of the election to connection
 * @param synchronisationNs connection to acknowledged NEWLEADER
 * @param startNs acknowledged NEWLEADER to accepting requests
 * @param firstWriteNs accepting requests (or the arrival of the request, if later) to the first
 *     committed write of a client; {@link #NO_WRITE} if there was none before the next recovery
 */
public record Recovery(
    long number,
    long server,
    RecoveryRecorder.Role role,
    long leader,
    long epoch,
    RecoveryRecorder.LossCause cause,
    int rounds,
    int servers,
    String variant,
    long detectionNs,
    long electionNs,
    long connectionNs,
    long synchronisationNs,
    long startNs,
    long firstWriteNs) {
  /** Stands for a first write that never came. */
  public static final long NO_WRITE = -1;

  /** Sum of the phases, in nanoseconds; without the first write if there was none. */
  public long totalNs() {
    long served = detectionNs + electionNs + connectionNs + synchronisationNs + startNs;
    return served + Math.max(0, firstWriteNs);
  }

  /** The phases by their names in JSON, in order; the first write is null if there was none. */
  public Map<String, Long> phasesNs() {
    Map<String, Long> phases = new LinkedHashMap<>();
    phases.put("detection_ns", detectionNs);
    phases.put("election_ns", electionNs);
    phases.put("connection_ns", connectionNs);
    phases.put("synchronisation_ns", synchronisationNs);
    phases.put("start_ns", startNs);
    phases.put("first_write_ns", firstWriteNs == NO_WRITE ? null : firstWriteNs);
    return phases;
  }

  /**
   * All values by their names in the recovery breakdown that {@code tailbound predict recovery} reads
   * (docs/concepts/recovery.md), in order.
   */
  public Map<String, Object> toMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("number", number);
    map.put("server", server);
    map.put("role", role.name().toLowerCase(Locale.ROOT));
    map.put("leader", leader);
    map.put("epoch", epoch);
    map.put("cause", cause.name().toLowerCase(Locale.ROOT));
    map.put("rounds", rounds);
    map.put("servers", servers);
    map.put("variant", variant);
    map.putAll(phasesNs());
    map.put("total_ns", totalNs());
    return map;
  }
}
