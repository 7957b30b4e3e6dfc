package io.tailbound.zookeeper.config;

/**
 * Settings of the leader election.
 *
 * @param resend whether a vote is sent again to a peer that evidently does not know it (FCLE)
 * @param resendDelayNs wait before such a vote goes to a peer still in an older round, in nanoseconds
 * @param rule when an election ends
 * @param shortWaitNs the wait of {@link FinishRule#SHORT_WAIT}, in nanoseconds
 * @param readyNotice whether a leader tells that its quorum port accepts, and followers wait for it
 *     (FQCE)
 * @param readyWaitNs longest wait for that notice, in nanoseconds; then a follower connects as upstream
 * @param rejoin whether a server that looks for a leader joins one that waits for its vote, a leader
 *     gives up soon when one of its voters votes again, and a follower does when its leader is gone or follows another
 * @param unknownPeers what peers outside the configuration get
 */
public record ElectionConfig(
    boolean resend,
    long resendDelayNs,
    FinishRule rule,
    long shortWaitNs,
    boolean readyNotice,
    long readyWaitNs,
    boolean rejoin,
    UnknownPeers unknownPeers) {}
