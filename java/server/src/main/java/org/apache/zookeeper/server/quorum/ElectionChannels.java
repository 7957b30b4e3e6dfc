package org.apache.zookeeper.server.quorum;

import io.tailbound.zookeeper.channel.Announcement;
import io.tailbound.zookeeper.channel.ChannelPort;
import io.tailbound.zookeeper.channel.OwnVote;
import io.tailbound.zookeeper.config.UnknownPeers;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Upstream's election channels, with our messages on the same sockets (so that TLS and SASL hold for
 * them too), a check of what peers send, and a memory of which peers could not be reached.
 *
 * <p>Our messages go straight to the socket under the lock that upstream's sender takes, past its
 * queue of one slot, so votes and ours never displace each other.
 */
class ElectionChannels extends QuorumCnxManager implements ChannelPort {

  private static final Logger LOG = LoggerFactory.getLogger(ElectionChannels.class);

  /** After this time a peer that accepted nothing and did not call back counts as unreachable. */
  private static final long CALL_BACK_NS = 50_000_000L;

  /** What upstream calls the thread that takes votes off the channel. */
  private static final String RECEIVER_NAME = "WorkerReceiver";

  private final TailboundPeer peer;
  private final Set<Long> met = ConcurrentHashMap.newKeySet();
  private final Map<Long, Long> triedAtNs = new ConcurrentHashMap<>();
  private final Map<Long, byte[]> checkedConfigurations = new ConcurrentHashMap<>();
  private final Set<Long> refused = ConcurrentHashMap.newKeySet();
  private final Map<Long, Long> currentEpochs = new ConcurrentHashMap<>();
  private volatile Thread receiver;

  ElectionChannels(TailboundPeer peer, int socketTimeoutMs) {
    super(peer, peer.getMyId(), peer.getView(), peer.authServer, peer.authLearner, socketTimeoutMs,
        peer.getQuorumListenOnAllIPs(), peer.quorumCnxnThreadsSize, peer.isQuorumSaslAuthEnabled());
    this.peer = peer;
  }

  /** From now on only this one of the threads that receive for an election takes votes off the channel. */
  void admit(Thread onlyReceiver) {
    receiver = onlyReceiver;
  }

  @Override
  public Message pollRecvQueue(long timeout, TimeUnit unit) throws InterruptedException {
    Thread asking = Thread.currentThread();
    if (asking != receiver && asking.getName().startsWith(RECEIVER_NAME)) {
      // The receiver of upstream's election object, which ours replaces and which is about to end.
      Thread.sleep(1);
      return null;
    }
    return super.pollRecvQueue(timeout, unit);
  }

  @Override
  public void addToRecvQueue(Message message) {
    long server = message.sid;
    if (server == mySid) {
      super.addToRecvQueue(message);
      return;
    }
    if (!isMember(server)) {
      if (refuses()) {
        refuse(server);
      } else {
        super.addToRecvQueue(message);
      }
      return;
    }
    met.add(server);
    triedAtNs.remove(server);
    byte[] bytes = message.buffer.array();
    if (!peer.peers().received(server, bytes) && isReadable(server, bytes)) {
      OwnVote.currentEpoch(server, bytes).ifPresent(epoch -> currentEpochs.put(server, epoch));
      super.addToRecvQueue(message);
    }
  }

  private boolean refuses() {
    // Joining by reconfiguration needs upstream's answer to servers that are not configured yet.
    return peer.config().election().unknownPeers() == UnknownPeers.REFUSE && !peer.isReconfigEnabled();
  }

  private void refuse(long server) {
    SendWorker channel = senderWorkerMap.get(server);
    if (channel != null) {
      channel.finish();
    }
    queueSendMap.remove(server);
    if (refused.size() < RECV_CAPACITY && refused.add(server)) {
      LOG.warn("Refused server {} on the election port: it is not in the configuration", server);
    }
  }

  /**
   * Whether upstream's receiver can read the configuration of a notification. Its thread would end
   * with an unchecked exception on some, and this server could never vote again.
   */
  private boolean isReadable(long server, byte[] notification) {
    byte[] configuration = Announcement.configuration(notification);
    if (configuration.length == 0 || Arrays.equals(configuration, checkedConfigurations.get(server))) {
      return true;
    }
    try {
      peer.configFromString(new String(configuration, StandardCharsets.UTF_8));
      checkedConfigurations.put(server, configuration);
      return true;
    } catch (IOException | ConfigException e) {
      return true;
    } catch (RuntimeException e) {
      LOG.warn("Dropped a notification of server {} whose configuration cannot be read: {}", server, e.toString());
      return false;
    }
  }

  private boolean isMember(long server) {
    return peer.getView().containsKey(server)
        || peer.getLastSeenQuorumVerifier() != null
            && peer.getLastSeenQuorumVerifier().getAllMembers().containsKey(server);
  }

  @Override
  public void toSend(Long server, ByteBuffer notification) {
    if (server == mySid) {
      super.toSend(server, notification);
    } else if (isMember(server)) {
      super.toSend(server, ByteBuffer.wrap(
          peer.announces() ? Announcement.append(notification.array()) : notification.array()));
    } else if (!refuses()) {
      super.toSend(server, notification);
    }
  }

  @Override
  synchronized boolean connectOne(long server, MultipleAddresses address) {
    if (!isMember(server) && refuses()) {
      refuse(server);
      return false;
    }
    return super.connectOne(server, address);
  }

  /**
   * As upstream's. With {@code multiAddress.enabled} that looks a channel up twice; if it breaks in between,
   * an unchecked exception would end the thread that sends votes, and this server could never vote again.
   */
  @Override
  synchronized void connectOne(long server) {
    try {
      super.connectOne(server);
    } catch (NullPointerException e) {
      LOG.debug("The channel to server {} broke while it was looked at", server, e);
      super.connectOne(server);
    }
  }

  @Override
  public void initiateConnection(MultipleAddresses address, Long server) {
    super.initiateConnection(address, server);
    if (senderWorkerMap.get(server) == null) {
      triedAtNs.putIfAbsent(server, System.nanoTime());
    }
  }

  /**
   * Whether a server is known to be unable to vote now: its channel broke, or it could not be reached,
   * or it has been silent for too long. A server never heard of in this process may be about to
   * connect, so it is not absent until an attempt to reach it failed.
   */
  boolean isAbsent(long server) {
    if (senderWorkerMap.get(server) != null) {
      return peer.peers().suspicious(server);
    }
    Long tried = triedAtNs.get(server);
    return met.contains(server) || tried != null && System.nanoTime() - tried > CALL_BACK_NS;
  }

  /** The epoch of the last leader that a server had followed when its last election began, if it was heard then. */
  OptionalLong currentEpoch(long server) {
    Long epoch = currentEpochs.get(server);
    return epoch == null ? OptionalLong.empty() : OptionalLong.of(epoch);
  }

  @Override
  public Set<Long> others() {
    Set<Long> others = new HashSet<>(peer.getView().keySet());
    others.remove(mySid);
    return others;
  }

  @Override
  public Object channelTo(long server) {
    return senderWorkerMap.get(server);
  }

  @Override
  public boolean send(long server, byte[] message) {
    SendWorker channel = senderWorkerMap.get(server);
    if (channel == null) {
      return false;
    }
    try {
      channel.send(ByteBuffer.wrap(message));
      return true;
    } catch (IOException e) {
      LOG.debug("The channel to server {} broke", server, e);
      channel.finish();
      return false;
    }
  }

  @Override
  public void connect(long server) {
    if (!shutdown) {
      connectOne(server);
    }
  }
}
