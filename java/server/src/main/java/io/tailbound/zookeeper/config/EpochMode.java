package io.tailbound.zookeeper.config;

/** How accepted and current epoch are kept. */
public enum EpochMode {
  /** Two synchronous file writes on the critical path, as upstream. */
  UPSTREAM("upstream"),
  /** Synced in the background behind a promise made in advance; safe against loss of power. */
  CRASH_SAFE("crash-safe"),
  /** In the memory of a majority only, as in the thesis; not safe against loss of power. */
  VOLATILE("volatile");

  private final String text;

  EpochMode(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
