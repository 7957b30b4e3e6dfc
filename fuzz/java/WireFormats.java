package io.tailbound.zookeeper.epoch;

import io.tailbound.zookeeper.channel.Announcement;
import io.tailbound.zookeeper.channel.StateCodec;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/**
 * What our ZooKeeper servers read from each other and from their disks, by Jazzer: nothing but the declared
 * exceptions is thrown, and what is read is written as the same bytes' meaning.
 *
 * <p>Checksums would keep the fuzzer out, so each input is read as it is and with its checksum put right.
 */
public final class WireFormats {

  private static final long SENDER = 2;

  private WireFormats() {}

  /** One execution. */
  public static void fuzzerTestOneInput(byte[] bytes) {
    state(bytes);
    if (bytes.length >= Integer.BYTES) {
      byte[] right = bytes.clone();
      int body = right.length - Integer.BYTES;
      CRC32 crc = new CRC32();
      crc.update(right, 0, body);
      ByteBuffer.wrap(right).putInt(0, StateCodec.MAGIC);
      crc.reset();
      crc.update(right, 0, body);
      ByteBuffer.wrap(right).putInt(body, (int) crc.getValue());
      state(right);
    }
    notification(bytes);
    slot(bytes);
    byte[] slot = Arrays.copyOf(bytes, EpochRecord.BYTES);
    CRC32C crc = new CRC32C();
    crc.update(slot, 0, EpochRecord.BYTES - Integer.BYTES);
    ByteBuffer.wrap(slot).putInt(EpochRecord.BYTES - Integer.BYTES, (int) crc.getValue());
    slot(slot);
  }

  private static void state(byte[] bytes) {
    StateCodec.decode(bytes, SENDER).ifPresent(state -> {
      byte[] again = StateCodec.encode(state);
      if (!StateCodec.decode(again, SENDER).equals(java.util.Optional.of(state))) {
        throw new AssertionError("read otherwise the second time: " + state);
      }
    });
  }

  private static void notification(byte[] bytes) {
    byte[] configuration = Announcement.configuration(bytes);
    byte[] marked = Announcement.append(bytes);
    if (marked.length != bytes.length && !Announcement.carriedBy(marked)) {
      throw new AssertionError("a mark that is not known again");
    }
    if (!Arrays.equals(configuration, Announcement.configuration(marked))) {
      throw new AssertionError("the mark changes the configuration");
    }
  }

  private static void slot(byte[] bytes) {
    try {
      EpochRecord record = EpochRecord.decode(bytes);
      EpochRecord again = EpochRecord.decode(record.encode());
      if (!again.equals(record)) {
        throw new AssertionError("read otherwise the second time: " + record);
      }
    } catch (EpochRecord.Damaged | EpochRecord.Newer expected) {
      // It says so.
    }
  }
}
