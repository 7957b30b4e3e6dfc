package io.tailbound.zookeeper.channel;

import io.tailbound.zookeeper.epoch.PeerEpochs;
import java.util.Optional;
import java.util.function.LongFunction;

/**
 * This server's part of a {@link PeerState}, as of now.
 *
 * @param role what this server is doing
 * @param round its election round
 * @param leader id of the server that it votes for, follows, or is
 * @param ready whether it leads and its quorum port accepts
 * @param suspects whether it follows a leader that it has not heard for too long
 * @param epochs its row of the epoch table for a receiver, if it keeps one
 */
public record LocalState(
    PeerState.Role role,
    long round,
    long leader,
    boolean ready,
    boolean suspects,
    LongFunction<Optional<PeerEpochs>> epochs) {}
