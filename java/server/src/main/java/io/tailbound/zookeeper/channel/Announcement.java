package io.tailbound.zookeeper.channel;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * The mark by which servers of this kind know each other: bytes that follow an ordinary notification
 * of the election channel. A stock server (3.5 and later) reads as many bytes of configuration as the
 * notification says and ignores what follows, so the mark may go to every peer; {@link PeerState}s go
 * only to peers that sent it.
 */
public final class Announcement {

  private static final long MAGIC = 0x7461696C626F756EL;
  private static final byte FORMAT = 1;
  private static final int CRC_BYTES = Integer.BYTES;

  /** Length of the mark, in bytes. */
  public static final int BYTES = Long.BYTES + 1 + CRC_BYTES;

  /** Bytes of a notification before the configuration: upstream's layout since 3.5. */
  private static final int NOTIFICATION_BYTES = 44;

  private static final int VERSION_OFFSET = 36;
  private static final int LENGTH_OFFSET = 40;
  private static final int FIRST_VERSION_WITH_CONFIGURATION = 2;
  private static final byte[] MARK = mark();

  private Announcement() {}

  private static byte[] mark() {
    ByteBuffer out = ByteBuffer.allocate(BYTES).putLong(MAGIC).put(FORMAT);
    CRC32 crc = new CRC32();
    crc.update(out.array(), 0, BYTES - CRC_BYTES);
    return out.putInt((int) crc.getValue()).array();
  }

  /** The notification with the mark behind it; unchanged if it is of a form that cannot carry one. */
  public static byte[] append(byte[] notification) {
    if (configurationEnd(notification) != notification.length) {
      return notification;
    }
    byte[] marked = Arrays.copyOf(notification, notification.length + BYTES);
    System.arraycopy(MARK, 0, marked, notification.length, BYTES);
    return marked;
  }

  /** Whether the bytes are a notification with the mark behind it. */
  public static boolean carriedBy(byte[] notification) {
    int end = configurationEnd(notification);
    return end >= 0 && notification.length == end + BYTES
        && Arrays.equals(notification, end, notification.length, MARK, 0, BYTES);
  }

  /** Offset behind the configuration of a notification, or -1 if it has none that fits. */
  static int configurationEnd(byte[] notification) {
    if (notification.length < NOTIFICATION_BYTES) {
      return -1;
    }
    ByteBuffer in = ByteBuffer.wrap(notification);
    int length = in.getInt(LENGTH_OFFSET);
    boolean carries = in.getInt(VERSION_OFFSET) >= FIRST_VERSION_WITH_CONFIGURATION;
    return carries && length >= 0 && length <= notification.length - NOTIFICATION_BYTES
        ? NOTIFICATION_BYTES + length
        : -1;
  }

  /** The configuration inside of a notification as bytes; empty if it has none. */
  public static byte[] configuration(byte[] notification) {
    int end = configurationEnd(notification);
    return end < 0 ? new byte[0] : Arrays.copyOfRange(notification, NOTIFICATION_BYTES, end);
  }
}
