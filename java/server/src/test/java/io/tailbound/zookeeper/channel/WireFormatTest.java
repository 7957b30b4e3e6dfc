package io.tailbound.zookeeper.channel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.epoch.PeerEpochs;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The bytes of our messages: what is written is read, and nothing else is. */
class WireFormatTest {

  private static final long SENDER = 2;
  private static final int TRIALS = 50_000;

  private static PeerState anyState(Random random) {
    Optional<PeerEpochs> epochs = Optional.empty();
    if (random.nextBoolean()) {
      long accepted = random.nextInt(1 << 20);
      epochs = Optional.of(new PeerEpochs(SENDER, "e".repeat(random.nextInt(65)), random.nextLong(), accepted,
          random.nextLong(accepted + 2) - 1, random.nextBoolean(), random.nextLong(), random.nextLong()));
    }
    return new PeerState(random.nextLong(), random.nextLong(), random.nextLong(),
        random.nextLong(PeerState.MAX_INTERVAL_NS + 1),
        PeerState.Role.values()[random.nextInt(PeerState.Role.values().length)], random.nextLong(),
        random.nextLong(), random.nextBoolean(), random.nextBoolean(), epochs);
  }

  private static byte[] notification(Random random) {
    byte[] configuration = new byte[random.nextInt(300)];
    random.nextBytes(configuration);
    return ByteBuffer.allocate(44 + configuration.length).putInt(random.nextInt(4)).putLong(random.nextLong())
        .putLong(random.nextLong()).putLong(random.nextLong()).putLong(random.nextLong()).putInt(2)
        .putInt(configuration.length).put(configuration).array();
  }

  @Test
  void aStateIsReadAsItWasWritten() {
    Random random = new Random(1);
    for (int i = 0; i < TRIALS; i++) {
      PeerState state = anyState(random);
      byte[] bytes = StateCodec.encode(state);
      assertTrue(bytes.length <= StateCodec.MAX_BYTES);
      assertEquals(Optional.of(state), StateCodec.decode(bytes, SENDER));
    }
  }

  @Test
  void aStateIsNothingToAStockServer() {
    // The stock receiver takes 28 bytes or more, a state of 0 to 3, and a configuration from version 2 on.
    byte[] bytes = StateCodec.encode(anyState(new Random(2)));
    ByteBuffer in = ByteBuffer.wrap(bytes);
    assertTrue(bytes.length > 44);
    assertFalse(in.getInt(0) >= 0 && in.getInt(0) <= 3);
    assertTrue(in.getInt(36) < 2);
  }

  @Test
  void onlyAVoteForItselfTellsTheHistoryOfItsSender() {
    Random random = new Random(4);
    for (int i = 0; i < TRIALS; i++) {
      byte[] notification = notification(random);
      int state = ByteBuffer.wrap(notification).getInt(0);
      ByteBuffer.wrap(notification).putLong(4, SENDER).putLong(28, i);
      assertEquals(state == 0 ? OptionalLong.of(i) : OptionalLong.empty(),
          OwnVote.currentEpoch(SENDER, notification));
      assertEquals(OptionalLong.empty(), OwnVote.currentEpoch(SENDER + 1, notification));
      byte[] cut = Arrays.copyOf(notification, random.nextInt(36));
      assertEquals(OptionalLong.empty(), OwnVote.currentEpoch(SENDER, cut));
    }
  }

  @Test
  void aDamagedStateIsNeverRead() {
    Random random = new Random(3);
    for (int i = 0; i < TRIALS; i++) {
      byte[] bytes = StateCodec.encode(anyState(random));
      byte[] damaged = switch (random.nextInt(3)) {
        case 0 -> Arrays.copyOf(bytes, random.nextInt(bytes.length));
        case 1 -> Arrays.copyOf(bytes, bytes.length + 1 + random.nextInt(20));
        default -> {
          byte[] flipped = bytes.clone();
          flipped[random.nextInt(flipped.length)] ^= (byte) (1 << random.nextInt(8));
          yield flipped;
        }
      };
      assertEquals(Optional.empty(), StateCodec.decode(damaged, SENDER));
    }
  }

  @Test
  void arbitraryBytesWithACorrectChecksumNeverThrow() {
    Random random = new Random(4);
    int read = 0;
    for (int i = 0; i < TRIALS; i++) {
      byte[] bytes = StateCodec.encode(anyState(random));
      for (int edits = 1 + random.nextInt(4); edits > 0; edits--) {
        bytes[4 + random.nextInt(bytes.length - 8)] = (byte) random.nextInt();
      }
      java.util.zip.CRC32 crc = new java.util.zip.CRC32();
      crc.update(bytes, 0, bytes.length - 4);
      ByteBuffer.wrap(bytes).putInt(bytes.length - 4, (int) crc.getValue());
      read += StateCodec.decode(bytes, SENDER).isPresent() ? 1 : 0;
    }
    assertTrue(read > 0 && read < TRIALS);
  }

  @Test
  void aNotificationKeepsItsBytesAndIsKnownByItsMark() {
    Random random = new Random(5);
    for (int i = 0; i < TRIALS; i++) {
      byte[] plain = notification(random);
      byte[] marked = Announcement.append(plain);
      assertFalse(Announcement.carriedBy(plain));
      assertTrue(Announcement.carriedBy(marked));
      assertArrayEquals(plain, Arrays.copyOf(marked, plain.length));
      assertArrayEquals(Announcement.configuration(plain), Announcement.configuration(marked));
      assertArrayEquals(marked, Announcement.append(marked), "a mark is not added twice");
      marked[random.nextInt(Announcement.BYTES) + plain.length] ^= 1;
      assertFalse(Announcement.carriedBy(marked));
    }
  }

  @Test
  void whatCannotCarryAMarkStaysAsItIs() {
    Random random = new Random(6);
    for (int i = 0; i < TRIALS; i++) {
      byte[] bytes = new byte[random.nextInt(120)];
      random.nextBytes(bytes);
      byte[] sent = Announcement.append(bytes);
      assertTrue(sent == bytes || Announcement.carriedBy(sent));
      StateCodec.decode(bytes, SENDER);
      Announcement.configuration(bytes);
    }
    byte[] old = "an old notification of forty bytes......".getBytes(StandardCharsets.US_ASCII);
    assertArrayEquals(old, Announcement.append(old));
  }
}
