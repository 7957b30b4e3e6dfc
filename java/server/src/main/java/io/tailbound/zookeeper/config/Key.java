package io.tailbound.zookeeper.config;

import java.util.Arrays;
import java.util.List;

/** The keys that this server adds to {@code zoo.cfg}; docs/guides/zookeeper.md explains each. */
enum Key {
  PROFILE("tailbound.profile"),
  RESEND("tailbound.election.resend"),
  RESEND_DELAY("tailbound.election.resend-delay"),
  RULE("tailbound.election.rule"),
  SHORT_WAIT("tailbound.election.short-wait"),
  READY_NOTICE("tailbound.election.ready-notice"),
  READY_WAIT("tailbound.election.ready-wait"),
  REJOIN("tailbound.election.rejoin"),
  UNKNOWN_PEERS("tailbound.election.unknown-peers"),
  HEARTBEAT("tailbound.heartbeat.enabled"),
  INTERVAL("tailbound.heartbeat.interval"),
  TIMEOUT("tailbound.heartbeat.timeout"),
  LONGEST_TIMEOUT("tailbound.heartbeat.longest-timeout"),
  GAP_FACTOR("tailbound.heartbeat.gap-factor"),
  EPOCHS("tailbound.epochs"),
  EPOCH_RESERVE("tailbound.epochs.reserve"),
  ENSEMBLE("tailbound.ensemble"),
  DEFER_SNAPSHOT("tailbound.leader.defer-snapshot"),
  SKIP_REPLAY("tailbound.leader.skip-replay"),
  REHEARSALS("tailbound.leader.rehearsals");

  /** What all of them begin with. */
  static final String PREFIX = "tailbound.";

  private final String text;

  Key(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }

  static List<String> names() {
    return Arrays.stream(values()).map(Key::toString).toList();
  }
}
