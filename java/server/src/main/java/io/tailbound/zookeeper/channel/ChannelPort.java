package io.tailbound.zookeeper.channel;

import java.util.Set;

/** What the exchange of states needs of the election channel. */
public interface ChannelPort {

  /** Ids of all other servers of the configuration, voters and observers. */
  Set<Long> others();

  /** The live channel to a server; a new connection is another object. Null if there is none. */
  Object channelTo(long server);

  /**
   * Sends a message over the live channel, past the one-slot queue of the votes. May block while the
   * channel is congested.
   *
   * @return whether it was handed to the network
   */
  boolean send(long server, byte[] message);

  /** Begins to connect to a server to which there is no channel; returns at once. */
  void connect(long server);
}
