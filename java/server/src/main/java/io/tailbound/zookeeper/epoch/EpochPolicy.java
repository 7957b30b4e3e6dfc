package io.tailbound.zookeeper.epoch;

/** When epoch values reach the disk. */
public enum EpochPolicy {
  /** Before the protocol goes on, as upstream: up to four syncs in every recovery. */
  SYNCHRONOUS,
  /** In the background, behind a reserve of epochs that was synced beforehand: ours. */
  RESERVED,
  /**
   * Never synced, as the thesis's DEVP, which relies on the memory of a majority. Loses the values
   * when the operating systems of a majority crash together: an epoch can then be used twice. For
   * comparison only.
   */
  VOLATILE
}
