package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.OptionalLong;
import org.apache.zookeeper.server.quorum.QuorumPeer;

/**
 * Upstream's files {@code acceptedEpoch} and {@code currentEpoch}: decimal text. Kept up to date in
 * the page cache, so that a stock server can take the data directory over.
 */
final class StockEpochFiles {
  static final String ACCEPTED = QuorumPeer.ACCEPTED_EPOCH_FILENAME;
  static final String CURRENT = QuorumPeer.CURRENT_EPOCH_FILENAME;

  private final EpochStorage storage;

  StockEpochFiles(EpochStorage storage) {
    this.storage = storage;
  }

  /** Whether there is such a file, readable or not. */
  boolean exists(String name) throws IOException {
    return storage.read(name).isPresent();
  }

  /** The value in the file; nothing if there is no file or it does not hold an epoch. */
  OptionalLong read(String name) throws IOException {
    byte[] content = storage.read(name).orElse(new byte[0]);
    try {
      long value = Long.parseLong(new String(content, StandardCharsets.US_ASCII).trim());
      return value < 0 ? OptionalLong.empty() : OptionalLong.of(value);
    } catch (NumberFormatException unreadable) {
      return OptionalLong.empty();
    }
  }

  void write(String name, long epoch) throws IOException {
    storage.replace(name, Long.toString(epoch).getBytes(StandardCharsets.US_ASCII));
  }
}
