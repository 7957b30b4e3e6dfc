package io.tailbound.zookeeper.channel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.tailbound.zookeeper.config.HeartbeatConfig;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Peers become known by what they send, in whatever order it comes. */
class PeersTest {

  private static final long PEER = 2;
  private static final long SECOND_NS = 1_000_000_000L;
  private static final HeartbeatConfig HEARTBEATS =
      new HeartbeatConfig(true, SECOND_NS, 3 * SECOND_NS, 9 * SECOND_NS, 4);

  private static final byte[] STATE = StateCodec.encode(
      new PeerState(7, 1, 0, SECOND_NS, PeerState.Role.LOOKING, 1, PEER, false, false, Optional.empty()));
  private static final byte[] MARKED_VOTE = Announcement.append(ByteBuffer.allocate(44)
      .putInt(0).putLong(PEER).putLong(0).putLong(1).putLong(0).putInt(2).putInt(0).array());

  private final ListAppender<ILoggingEvent> log = new ListAppender<>();
  private final Logger logger = (Logger) LoggerFactory.getLogger("io.tailbound.zookeeper.channel");
  private final Port port = new Port();
  private final Peers peers = new Peers(HEARTBEATS, 20 * SECOND_NS, port, PeersTest::looking,
      (server, state) -> {}, () -> {});

  /** An election channel that nothing is read from. */
  private static final class Port implements ChannelPort {

    private volatile Object channel = new Object();

    @Override
    public Set<Long> others() {
      return Set.of(PEER);
    }

    @Override
    public Object channelTo(long server) {
      return channel;
    }

    @Override
    public boolean send(long server, byte[] message) {
      return true;
    }

    @Override
    public void connect(long server) {}
  }

  private static LocalState looking() {
    return new LocalState(PeerState.Role.LOOKING, 1, 1, false, false, server -> Optional.empty());
  }

  private long introductions() {
    return List.copyOf(log.list).stream()
        .filter(event -> event.getFormattedMessage().equals("Server 2 is of our kind")).count();
  }

  @BeforeEach
  void listen() {
    log.start();
    logger.addAppender(log);
    logger.setLevel(Level.INFO);
  }

  @AfterEach
  void close() {
    peers.close();
    logger.setLevel(null);
    logger.detachAppender(log);
  }

  @Test
  void aPeerIsIntroducedByItsMark() {
    assertFalse(peers.speaks(PEER));
    assertFalse(peers.received(PEER, MARKED_VOTE));
    assertTrue(peers.speaks(PEER));
    assertTrue(peers.received(PEER, STATE));
    assertEquals(1, introductions());
  }

  @Test
  void aPeerIsIntroducedByAStateThatOvertakesItsMark() {
    assertTrue(peers.received(PEER, STATE));
    assertTrue(peers.speaks(PEER));
    assertFalse(peers.received(PEER, MARKED_VOTE));
    assertEquals(1, introductions());
  }

  @Test
  void aPeerIsIntroducedAnewOnEachChannel() {
    peers.received(PEER, MARKED_VOTE);
    port.channel = new Object();
    assertFalse(peers.speaks(PEER));
    peers.received(PEER, STATE);
    assertTrue(peers.speaks(PEER));
    assertEquals(2, introductions());
  }
}
