package io.tailbound.zookeeper.config;

import io.tailbound.zookeeper.epoch.EpochSettings;
import io.tailbound.zookeeper.epoch.PeerEpochs;
import java.io.IOException;
import java.nio.file.Path;

/**
 * The {@code tailbound.*} keys of an ordinary {@code zoo.cfg}. Every other key belongs to ZooKeeper
 * and is left to it.
 *
 * @param profile the set of defaults
 * @param election the leader election
 * @param heartbeat detection of a hung or cut-off leader
 * @param epochs how epochs are kept
 * @param leader readiness to lead
 */
public record TailboundConfig(
    Profile profile,
    ElectionConfig election,
    HeartbeatConfig heartbeat,
    EpochConfig epochs,
    LeaderConfig leader) {

  private static final long MILLISECOND_NS = 1_000_000L;

  /** The defaults of a profile. */
  public static TailboundConfig of(Profile profile) {
    boolean ours = profile == Profile.TAILBOUND;
    boolean thesis = profile == Profile.THESIS_LITE || profile == Profile.THESIS_FULL;
    FinishRule rule = ours
        ? FinishRule.COMPLETE_VOTE
        : thesis ? FinishRule.SHORT_WAIT : FinishRule.UPSTREAM;
    ElectionConfig election = new ElectionConfig(
        ours || thesis,
        5 * MILLISECOND_NS,
        rule,
        20 * MILLISECOND_NS,
        ours || thesis,
        300 * MILLISECOND_NS,
        ours,
        ours ? UnknownPeers.REFUSE : UnknownPeers.UPSTREAM);
    HeartbeatConfig heartbeat =
        new HeartbeatConfig(ours, 50 * MILLISECOND_NS, 500 * MILLISECOND_NS, 800 * MILLISECOND_NS, 3);
    EpochMode mode = ours
        ? EpochMode.CRASH_SAFE
        : profile == Profile.THESIS_FULL ? EpochMode.VOLATILE : EpochMode.UPSTREAM;
    EpochConfig epochs = new EpochConfig(mode, EpochSettings.DEFAULT_RESERVE, "");
    LeaderConfig leader = new LeaderConfig(ours, ours, ours ? LeaderConfig.USUAL_REHEARSALS : 0);
    return new TailboundConfig(profile, election, heartbeat, epochs, leader);
  }

  /**
   * Reads the keys of a file.
   *
   * @param file an ordinary zoo.cfg
   * @return the settings, defaults filled in
   * @throws ConfigProblem if a {@code tailbound.*} key is unknown, given twice, or its value bad
   * @throws IOException if the file cannot be read
   */
  public static TailboundConfig load(Path file) throws ConfigProblem, IOException {
    Entries entries = Entries.read(file);
    entries.rejectUnknown(Key.names());
    Profile profile = entries.choice(Key.PROFILE, Profile.values(), Profile.TAILBOUND);
    TailboundConfig defaults = of(profile);
    return new TailboundConfig(
        profile,
        election(entries, defaults.election),
        heartbeat(entries, defaults.heartbeat),
        epochs(entries, defaults.epochs),
        new LeaderConfig(
            entries.flag(Key.DEFER_SNAPSHOT, defaults.leader.deferSnapshot()),
            entries.flag(Key.SKIP_REPLAY, defaults.leader.skipReplay()),
            entries.count(Key.REHEARSALS, defaults.leader.rehearsals(), 0, LeaderConfig.MOST_REHEARSALS)));
  }

  private static ElectionConfig election(Entries entries, ElectionConfig defaults) throws ConfigProblem {
    return new ElectionConfig(
        entries.flag(Key.RESEND, defaults.resend()),
        entries.durationNs(Key.RESEND_DELAY, defaults.resendDelayNs(), MILLISECOND_NS),
        entries.choice(Key.RULE, FinishRule.values(), defaults.rule()),
        entries.durationNs(Key.SHORT_WAIT, defaults.shortWaitNs(), MILLISECOND_NS),
        entries.flag(Key.READY_NOTICE, defaults.readyNotice()),
        entries.durationNs(Key.READY_WAIT, defaults.readyWaitNs(), MILLISECOND_NS),
        entries.flag(Key.REJOIN, defaults.rejoin()),
        entries.choice(Key.UNKNOWN_PEERS, UnknownPeers.values(), defaults.unknownPeers()));
  }

  private static EpochConfig epochs(Entries entries, EpochConfig defaults) throws ConfigProblem {
    return new EpochConfig(
        entries.choice(Key.EPOCHS, EpochMode.values(), defaults.mode()),
        entries.count(Key.EPOCH_RESERVE, defaults.reserve(), 1, EpochSettings.MAX_RESERVE),
        entries.name(Key.ENSEMBLE, defaults.ensemble(), PeerEpochs.MAX_ENSEMBLE_BYTES));
  }

  private static HeartbeatConfig heartbeat(Entries entries, HeartbeatConfig defaults) throws ConfigProblem {
    long intervalNs = entries.durationNs(Key.INTERVAL, defaults.intervalNs(), 5 * MILLISECOND_NS);
    long timeoutNs = entries.durationNs(Key.TIMEOUT, defaults.timeoutNs(), 5 * MILLISECOND_NS);
    if (timeoutNs < 4 * intervalNs) {
      throw entries.problem(
          entries.has(Key.TIMEOUT) ? Key.TIMEOUT : Key.INTERVAL,
          "the timeout must be at least four intervals ("
              + 4 * intervalNs / MILLISECOND_NS + "ms), so that lost or late ones do no harm");
    }
    long usualLongestNs = Math.max(defaults.longestTimeoutNs(), timeoutNs);
    long longestNs = entries.durationNs(Key.LONGEST_TIMEOUT, usualLongestNs, 5 * MILLISECOND_NS);
    if (longestNs < timeoutNs) {
      throw entries.problem(
          Key.LONGEST_TIMEOUT,
          "the longest timeout must be at least the timeout (" + timeoutNs / MILLISECOND_NS + "ms)");
    }
    return new HeartbeatConfig(
        entries.flag(Key.HEARTBEAT, defaults.enabled()),
        intervalNs,
        timeoutNs,
        longestNs,
        entries.count(Key.GAP_FACTOR, defaults.gapFactor(), 1, 100));
  }
}
