package io.tailbound.zookeeper.config;

/** When a server that holds a quorum of votes stops waiting for a better one. */
public enum FinishRule {
  /** After 200 ms without a better vote, upstream's compile-time constant. */
  UPSTREAM("upstream"),
  /** After the fixed wait of {@code tailbound.election.short-wait} (thesis, section 5.3.1). */
  SHORT_WAIT("short-wait"),
  /** As soon as every voter that can still vote holds the same vote, else as upstream. */
  COMPLETE_VOTE("complete-vote");

  private final String text;

  FinishRule(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
