package io.tailbound.zookeeper.config;

/**
 * Settings of the detection of a hung or cut-off leader.
 *
 * @param enabled whether servers of this kind watch each other
 * @param intervalNs time between two heartbeats, in nanoseconds
 * @param timeoutNs shortest silence, in nanoseconds, after which a peer is suspected
 * @param longestTimeoutNs silence, in nanoseconds, after which a peer is suspected whatever gaps there
 *     were lately, unless it was suspected in vain lately
 * @param gapFactor a peer is suspected no sooner than this multiple of the longest recent gap
 */
public record HeartbeatConfig(boolean enabled, long intervalNs, long timeoutNs, long longestTimeoutNs, int gapFactor) {}
