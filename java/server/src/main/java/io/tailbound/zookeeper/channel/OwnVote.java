package io.tailbound.zookeeper.channel;

import java.nio.ByteBuffer;
import java.util.OptionalLong;

/**
 * What a server says of its own history when its election begins: upstream's notification by which it
 * votes for itself.
 */
public final class OwnVote {

  /** Upstream's number of the state in which a server is in an election. */
  private static final int LOOKING = 0;

  private static final int STATE_OFFSET = 0;
  private static final int LEADER_OFFSET = 4;
  private static final int PEER_EPOCH_OFFSET = 28;

  private OwnVote() {}

  /** The epoch of the last leader that the sender followed; empty if the notification is no vote for its sender. */
  public static OptionalLong currentEpoch(long sender, byte[] notification) {
    if (notification.length < PEER_EPOCH_OFFSET + Long.BYTES) {
      return OptionalLong.empty();
    }
    ByteBuffer in = ByteBuffer.wrap(notification);
    return in.getInt(STATE_OFFSET) == LOOKING && in.getLong(LEADER_OFFSET) == sender
        ? OptionalLong.of(in.getLong(PEER_EPOCH_OFFSET))
        : OptionalLong.empty();
  }
}
