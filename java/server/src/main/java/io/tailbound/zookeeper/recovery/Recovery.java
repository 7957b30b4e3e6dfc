package io.tailbound.zookeeper.recovery;

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
 * @param firstWriteNs accepting requests to the first committed write of a client
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
  /** Sum of the phases, in nanoseconds. */
  public long totalNs() {
    return detectionNs + electionNs + connectionNs + synchronisationNs + startNs + firstWriteNs;
  }
}
