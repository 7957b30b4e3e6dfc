package io.tailbound.zookeeper.epoch;

/**
 * Epochs promised in advance. A server that may accept up to {@code promised} without asking the disk
 * takes all of them for accepted after a crash of the operating system: a promise can then not be
 * forgotten, at the cost of some skipped numbers.
 */
final class EpochReserve {
  /** Upstream sends epochs as 32-bit integers in ACKEPOCH, and reads them as signed. */
  static final long LARGEST_EPOCH = Integer.MAX_VALUE;

  private EpochReserve() {}

  /** Up to where a server that has accepted this epoch may go without a sync. */
  static long promise(EpochSettings settings, long accepted) {
    if (settings.policy() != EpochPolicy.RESERVED) {
      return accepted;
    }
    return Math.max(accepted, Math.min(LARGEST_EPOCH, accepted + settings.reserve()));
  }
}
