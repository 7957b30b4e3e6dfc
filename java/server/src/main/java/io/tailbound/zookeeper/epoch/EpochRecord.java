package io.tailbound.zookeeper.epoch;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.zip.CRC32C;

/**
 * One slot of the epoch file: all that a server has to remember of epochs.
 *
 * <p>{@value #BYTES} bytes, big endian: magic, format version, sequence, server, accepted, promised,
 * current, flags, boot id, length and bytes of the ensemble's name, zeros, CRC-32C of all before it.
 * It fits one sector, the unit that disks write whole.
 *
 * @param sequence grows with every write; the slot with the greater one counts
 * @param server id of the server
 * @param ensemble name of the ensemble, may be empty
 * @param boot boot of the operating system during which it was written
 * @param accepted highest epoch accepted
 * @param promised highest epoch that may have been accepted without this slot's knowledge: after a
 *     crash of the operating system it counts as accepted
 * @param current epoch whose initial history the server holds; {@link EpochStore#UNKNOWN} if lost
 * @param clean whether the server was shut down in order after this
 * @param acceptedLost whether the accepted epoch is only a lower bound
 */
record EpochRecord(
    long sequence,
    long server,
    String ensemble,
    UUID boot,
    long accepted,
    long promised,
    long current,
    boolean clean,
    boolean acceptedLost) {
  static final int BYTES = 512;
  static final int VERSION = 1;
  private static final int MAGIC = 0x54424550; // "TBEP"
  private static final int CHECKSUM_AT = BYTES - Integer.BYTES;
  private static final int CLEAN = 1;
  private static final int ACCEPTED_LOST = 2;

  /** Why a slot does not hold a record. */
  static final class Damaged extends Exception {
    private static final long serialVersionUID = 1L;

    Damaged(String reason) {
      super(reason);
    }
  }

  /** A slot of a later format, which this program must not touch. */
  static final class Newer extends Exception {
    private static final long serialVersionUID = 1L;

    Newer(int version) {
      super("format version " + version + "; this program knows version " + VERSION);
    }
  }

  byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(BYTES);
    byte[] name = ensemble.getBytes(StandardCharsets.UTF_8);
    out.putInt(MAGIC).putInt(VERSION).putLong(sequence).putLong(server);
    out.putLong(accepted).putLong(promised).putLong(current);
    out.putInt((clean ? CLEAN : 0) | (acceptedLost ? ACCEPTED_LOST : 0));
    out.putLong(boot.getMostSignificantBits()).putLong(boot.getLeastSignificantBits());
    out.putInt(name.length).put(name);
    out.putInt(CHECKSUM_AT, checksum(out.array()));
    return out.array();
  }

  static EpochRecord decode(byte[] slot) throws Damaged, Newer {
    if (slot.length != BYTES) {
      throw new Damaged("slot of " + slot.length + " bytes instead of " + BYTES);
    }
    ByteBuffer in = ByteBuffer.wrap(slot);
    if (in.getInt(CHECKSUM_AT) != checksum(slot)) {
      throw new Damaged(
          String.format(
              "checksum is %08x, its content has %08x", in.getInt(CHECKSUM_AT), checksum(slot)));
    }
    if (in.getInt() != MAGIC) {
      throw new Damaged("not an epoch record");
    }
    int version = in.getInt();
    if (version > VERSION) {
      throw new Newer(version);
    }
    long sequence = in.getLong();
    long server = in.getLong();
    long accepted = in.getLong();
    long promised = in.getLong();
    long current = in.getLong();
    int flags = in.getInt();
    UUID boot = new UUID(in.getLong(), in.getLong());
    int length = in.getInt();
    if (length < 0 || length > PeerEpochs.MAX_ENSEMBLE_BYTES) {
      throw new Damaged("name of the ensemble of " + length + " bytes");
    }
    byte[] name = new byte[length];
    in.get(name);
    if (accepted < 0 || current < EpochStore.UNKNOWN || current > accepted || promised < accepted) {
      throw new Damaged(
          "impossible epochs: accepted " + accepted + ", promised " + promised + ", current " + current);
    }
    return new EpochRecord(
        sequence,
        server,
        new String(name, StandardCharsets.UTF_8),
        boot,
        accepted,
        promised,
        current,
        (flags & CLEAN) != 0,
        (flags & ACCEPTED_LOST) != 0);
  }

  private static int checksum(byte[] slot) {
    CRC32C crc = new CRC32C();
    crc.update(slot, 0, CHECKSUM_AT);
    return (int) crc.getValue();
  }

  /** The next record with these values; not clean. */
  EpochRecord next(long newAccepted, long newPromised, long newCurrent, boolean lost) {
    return new EpochRecord(
        sequence + 1, server, ensemble, boot, newAccepted, newPromised, newCurrent, false, lost);
  }

  /** The last record of an orderly shutdown. */
  EpochRecord shutDown() {
    return new EpochRecord(
        sequence + 1, server, ensemble, boot, accepted, promised, current, true, acceptedLost);
  }
}
