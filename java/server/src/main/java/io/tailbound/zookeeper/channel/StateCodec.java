package io.tailbound.zookeeper.channel;

import io.tailbound.zookeeper.epoch.PeerEpochs;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.zip.CRC32;

/**
 * The message that carries a {@link PeerState}. It has the shape of a notification of the stock
 * server, with a state that does not exist, so that a stock server which got one by mistake would
 * drop it: first int outside of 0..3, at least 44 bytes, an int 1 where a format version belongs.
 *
 * <p>Layout (big endian; offsets in bytes): 0 magic; 4 incarnation; 12 sequence; 20 heard; 28 round;
 * 36 the int 1; 40 format version; 41 role; 42 flags; 43 leader; 51 interval; with flag EPOCHS: 59
 * version, 67 accepted, 75 current, 83 nonce, 91 echo, 99 length of the ensemble's name and the name;
 * last four bytes: CRC-32 of all before.
 */
public final class StateCodec {

  /** First int of each message; no state of upstream. */
  public static final int MAGIC = 0x746C6264;

  private static final byte FORMAT = 1;
  private static final int STOCK_VERSION = 1;
  private static final int FIXED_BYTES = 59;
  private static final int EPOCH_BYTES = 5 * Long.BYTES + 1;
  private static final int CRC_BYTES = Integer.BYTES;
  private static final int READY = 1;
  private static final int SUSPECTS = 2;
  private static final int EPOCHS = 4;
  private static final int IN_DOUBT = 8;

  /** Longest message, in bytes. */
  public static final int MAX_BYTES =
      FIXED_BYTES + EPOCH_BYTES + PeerEpochs.MAX_ENSEMBLE_BYTES + CRC_BYTES;

  private StateCodec() {}

  /** Whether the bytes claim to be such a message (they may still be damaged). */
  public static boolean claims(byte[] message) {
    return message.length >= Integer.BYTES && ByteBuffer.wrap(message).getInt() == MAGIC;
  }

  /** The message; its array is exactly as long as the message. */
  public static byte[] encode(PeerState state) {
    byte[] name = state.epochs()
        .map(row -> row.ensemble().getBytes(StandardCharsets.UTF_8)).orElse(new byte[0]);
    int length = FIXED_BYTES + (state.epochs().isPresent() ? EPOCH_BYTES + name.length : 0) + CRC_BYTES;
    ByteBuffer out = ByteBuffer.allocate(length);
    out.putInt(MAGIC).putLong(state.incarnation()).putLong(state.sequence()).putLong(state.heard())
        .putLong(state.round()).putInt(STOCK_VERSION).put(FORMAT).put((byte) state.role().ordinal())
        .put((byte) flags(state)).putLong(state.leader()).putLong(state.intervalNs());
    state.epochs().ifPresent(row -> out.putLong(row.version()).putLong(row.accepted())
        .putLong(row.current()).putLong(row.nonce()).putLong(row.echo())
        .put((byte) name.length).put(name));
    out.putInt(crc(out.array(), length - CRC_BYTES));
    return out.array();
  }

  private static int flags(PeerState state) {
    boolean doubt = state.epochs().map(PeerEpochs::inDoubt).orElse(false);
    return (state.ready() ? READY : 0) | (state.suspects() ? SUSPECTS : 0)
        | (state.epochs().isPresent() ? EPOCHS : 0) | (doubt ? IN_DOUBT : 0);
  }

  /**
   * Reads a message.
   *
   * @param message any bytes
   * @param sender id of the server at the other end of the channel
   * @return the state, or nothing if the bytes are no whole message of this format
   */
  public static Optional<PeerState> decode(byte[] message, long sender) {
    int body = message.length - CRC_BYTES;
    if (body < FIXED_BYTES || message.length > MAX_BYTES || !claims(message)
        || ByteBuffer.wrap(message).getInt(body) != crc(message, body)) {
      return Optional.empty();
    }
    ByteBuffer in = ByteBuffer.wrap(message, Integer.BYTES, body - Integer.BYTES);
    long incarnation = in.getLong();
    long sequence = in.getLong();
    long heard = in.getLong();
    long round = in.getLong();
    int stockVersion = in.getInt();
    byte format = in.get();
    int role = in.get();
    int flags = in.get();
    long leader = in.getLong();
    long intervalNs = in.getLong();
    if (stockVersion != STOCK_VERSION || format != FORMAT || role < 0
        || role >= PeerState.Role.values().length || (flags & ~(READY | SUSPECTS | EPOCHS | IN_DOUBT)) != 0
        || intervalNs < 0 || intervalNs > PeerState.MAX_INTERVAL_NS) {
      return Optional.empty();
    }
    Optional<PeerEpochs> epochs = Optional.empty();
    if ((flags & EPOCHS) != 0) {
      epochs = decodeEpochs(in, sender, (flags & IN_DOUBT) != 0);
      if (epochs.isEmpty()) {
        return Optional.empty();
      }
    }
    if (in.hasRemaining()) {
      return Optional.empty();
    }
    return Optional.of(new PeerState(incarnation, sequence, heard, intervalNs,
        PeerState.Role.values()[role], round, leader, (flags & READY) != 0, (flags & SUSPECTS) != 0, epochs));
  }

  private static Optional<PeerEpochs> decodeEpochs(ByteBuffer in, long sender, boolean inDoubt) {
    if (in.remaining() < EPOCH_BYTES) {
      return Optional.empty();
    }
    long version = in.getLong();
    long accepted = in.getLong();
    long current = in.getLong();
    long nonce = in.getLong();
    long echo = in.getLong();
    int length = in.get();
    if (length < 0 || length > PeerEpochs.MAX_ENSEMBLE_BYTES || length != in.remaining()) {
      return Optional.empty();
    }
    byte[] name = new byte[length];
    in.get(name);
    try {
      return Optional.of(new PeerEpochs(sender, new String(name, StandardCharsets.UTF_8), version, accepted,
          current, inDoubt, nonce, echo));
    } catch (IllegalArgumentException impossible) {
      return Optional.empty();
    }
  }

  private static int crc(byte[] bytes, int length) {
    CRC32 crc = new CRC32();
    crc.update(bytes, 0, length);
    return (int) crc.getValue();
  }
}
