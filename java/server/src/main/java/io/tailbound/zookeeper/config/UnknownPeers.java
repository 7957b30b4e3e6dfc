package io.tailbound.zookeeper.config;

/** What a peer gets on the election port whose id is not in the configuration. */
public enum UnknownPeers {
  /** Nothing: its channel is closed. Joining through reconfiguration still works where enabled. */
  REFUSE("refuse"),
  /** What the stock server sends: the current vote and the whole configuration. */
  UPSTREAM("upstream");

  private final String text;

  UnknownPeers(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
