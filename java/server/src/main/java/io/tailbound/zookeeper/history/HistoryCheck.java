package io.tailbound.zookeeper.history;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Finds out whether a snapshot and the log files behind it are one history without a gap.
 *
 * <p>Files are read from the one that holds the snapshot's transaction on: what upstream loads at a start.
 * Transactions that are missing at the end of an epoch leave no trace in the numbers; {@link
 * #gapBefore} tells where such a gap is once the digest of the next transaction has shown it.
 */
public final class HistoryCheck {
  private static final String PREFIX = "log.";
  private static final int HEXADECIMAL = 16;

  private final Path logs;
  private final long snapshotZxid;

  /**
   * @param logs folder of the log files
   * @param snapshotZxid zxid in the name of the snapshot that is loaded; 0 if there is none
   */
  public HistoryCheck(Path logs, long snapshotZxid) {
    this.logs = logs;
    this.snapshotZxid = snapshotZxid;
  }

  /** A log file and the zxid of its first transaction, which is its name. */
  private record Named(Path path, long zxid) {}

  /** The zxid in the name of a log file or, with another prefix, of a snapshot; -1 if it has none. */
  public static long zxidOf(Path file, String prefix) {
    String name = file.getFileName().toString();
    if (!name.startsWith(prefix)) {
      return -1;
    }
    String number = name.substring(prefix.length());
    int suffix = number.indexOf('.');
    try {
      return Long.parseUnsignedLong(suffix < 0 ? number : number.substring(0, suffix), HEXADECIMAL);
    } catch (NumberFormatException other) {
      return -1;
    }
  }

  private List<Named> files() throws IOException {
    List<Named> all = new ArrayList<>();
    try (Stream<Path> list = Files.list(logs)) {
      list.filter(file -> zxidOf(file, PREFIX) >= 0).forEach(file -> all.add(new Named(file, zxidOf(file, PREFIX))));
    }
    all.sort(Comparator.comparingLong(Named::zxid));
    int first = 0;
    for (int i = 0; i < all.size(); i++) {
      first = all.get(i).zxid() <= snapshotZxid ? i : first;
    }
    return all.subList(first, all.size());
  }

  /** Where the history ends before its files do; nothing if it is whole. */
  public Optional<HistoryDamage> run() throws IOException {
    return search(-1);
  }

  /** The damage of a history whose transaction {@code zxid} does not fit the ones before it. */
  public Optional<HistoryDamage> gapBefore(long zxid) throws IOException {
    return search(zxid);
  }

  private Optional<HistoryDamage> search(long unfit) throws IOException {
    Continuity continuity = new Continuity(snapshotZxid);
    HistoryDamage tear = null;
    boolean partial = false;
    for (Named named : files()) {
      try (LogFile file = LogFile.open(named.path())) {
        long before = file.offset();
        while (file.next()) {
          long zxid = file.zxid();
          if (tear != null && !partial) {
            return Optional.of(gap(tear, zxid));
          }
          if (zxid > snapshotZxid && (zxid == unfit || !continuity.accepts(zxid))) {
            return Optional.of(tear != null ? gap(tear, zxid)
                : misfit(named.path(), before, continuity.last(), zxid, unfit));
          }
          // A stock server goes on in a new file after a record that its predecessor did not finish.
          tear = null;
          before = file.offset();
        }
        if (!file.damage().isEmpty() && tear == null) {
          partial = file.partial();
          tear = new HistoryDamage(HistoryDamage.Kind.TORN_TAIL, named.path(), file.offset(),
              continuity.last(), 0, file.damage());
        }
      }
    }
    return partial ? Optional.empty() : Optional.ofNullable(tear);
  }

  private static HistoryDamage gap(HistoryDamage tear, long next) {
    return new HistoryDamage(
        HistoryDamage.Kind.GAP, tear.file(), tear.offset(), tear.lastZxid(), next, tear.reason());
  }

  private static HistoryDamage misfit(Path file, long offset, long last, long zxid, long unfit) {
    String reason = zxid == unfit
        ? "the digest of transaction " + Zxid.format(zxid) + " shows that transactions before it are missing"
        : "transactions are missing";
    return new HistoryDamage(HistoryDamage.Kind.GAP, file, offset, last, zxid, reason);
  }
}
