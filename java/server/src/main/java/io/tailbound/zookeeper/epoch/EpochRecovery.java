package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;

/**
 * Finds out at a start which epochs this server had: the maximum of our file, upstream's files and
 * the log.
 *
 * <ul>
 *   <li>Our file is whole, and the operating system has not crashed since: the values are exact.
 *   <li>It is whole, but the system crashed: any epoch up to the promised one may have been accepted,
 *       so the promised one counts as accepted. The current epoch may be older than it was; {@link
 *       EpochStore#setCurrent} makes sure that nothing depended on the difference.
 *   <li>There is none, but upstream's files: an upgrade, their values count.
 *   <li>It is damaged, or there is none though the log has transactions: lower bounds only, the server
 *       is in doubt.
 *   <li>The log has lost transactions: the accepted epoch is what it is, but this server holds the history of
 *       no epoch, so no quorum of a new leader counts it until it has taken a history.
 *   <li>It belongs to another server, another ensemble or a later format: refused.
 * </ul>
 */
final class EpochRecovery {
  /** Name of our file. */
  static final String FILE = "tailbound.epoch";

  /** The two slots lie in pages of their own. */
  static final int SLOT_DISTANCE = 4096;

  /** Length of our file, in bytes; it never changes, so that a full disk cannot stop an update. */
  static final int FILE_BYTES = 2 * SLOT_DISTANCE;

  private final EpochSettings settings;
  private final EpochStorage storage;
  private final StockEpochFiles stock;
  private final UUID boot;
  private final List<String> problems = new ArrayList<>();
  private long leastAccepted = Long.MAX_VALUE;

  EpochRecovery(EpochSettings settings, EpochStorage storage, UUID boot) {
    this.settings = settings;
    this.storage = storage;
    this.stock = new StockEpochFiles(storage);
    this.boot = boot;
  }

  /**
   * What {@link #recover} found.
   *
   * @param record with which the server starts
   * @param problems why values are lost; empty if none are
   * @param leastAccepted the accepted epoch that is known for sure; below the record's if the operating system
   *     crashed and the whole promise counts
   */
  record Found(EpochRecord record, List<String> problems, long leastAccepted) {}

  /** The record with which the server starts; it is not written yet. */
  Found recover() throws IOException {
    Optional<byte[]> file = storage.read(FILE);
    EpochRecord start = file.isPresent() ? fromOurs(file.get()) : withoutOurs();
    return new Found(start, List.copyOf(problems), Math.min(leastAccepted, start.accepted()));
  }

  private long logEpoch() {
    return settings.lastLoggedZxid() < 0 ? 0 : settings.lastLoggedZxid() >>> 32;
  }

  private EpochRecord fromOurs(byte[] file) throws IOException {
    if (file.length != FILE_BYTES) {
      problems.add(FILE + " has " + file.length + " bytes instead of " + FILE_BYTES);
    }
    EpochRecord best = null;
    for (int slot = 0; slot < 2; slot++) {
      try {
        EpochRecord found = EpochRecord.decode(slotOf(file, slot));
        refuseStranger(found);
        best = best == null || found.sequence() > best.sequence() ? found : best;
      } catch (EpochRecord.Damaged damage) {
        problems.add(FILE + ", slot " + slot + ": " + damage.getMessage());
      } catch (EpochRecord.Newer newer) {
        throw new IOException(
            FILE + " was written by a later version of the program (" + newer.getMessage() + ")");
      }
    }
    return problems.isEmpty() ? whole(best) : damaged(best);
  }

  private static byte[] slotOf(byte[] file, int slot) {
    int from = Math.min(file.length, slot * SLOT_DISTANCE);
    return Arrays.copyOfRange(file, from, Math.min(file.length, from + EpochRecord.BYTES));
  }

  /** Sequence of the record in that slot; -1 if it holds none. */
  static long sequenceOf(byte[] file, int slot) {
    try {
      return EpochRecord.decode(slotOf(file, slot)).sequence();
    } catch (EpochRecord.Damaged | EpochRecord.Newer none) {
      return -1;
    }
  }

  private void refuseStranger(EpochRecord found) throws IOException {
    if (found.server() != settings.server()) {
      throw new IOException(
          FILE + " belongs to server " + found.server() + ", this is server " + settings.server()
              + ": check dataDir and myid");
    }
    if (!found.ensemble().isEmpty()
        && !settings.ensemble().isEmpty()
        && !found.ensemble().equals(settings.ensemble())) {
      throw new IOException(
          FILE + " belongs to ensemble \"" + found.ensemble() + "\", the configuration names \""
              + settings.ensemble() + "\": check dataDir and tailbound.ensemble");
    }
  }

  private EpochRecord whole(EpochRecord found) throws IOException {
    boolean exact = found.clean() || found.boot().equals(boot);
    long accepted =
        exact || settings.policy() == EpochPolicy.VOLATILE ? found.accepted() : found.promised();
    boolean lostCurrent = settings.historyLost() || found.current() == EpochStore.UNKNOWN;
    long current = max(found.current(), stockValue(StockEpochFiles.CURRENT));
    long others = max(stockValue(StockEpochFiles.ACCEPTED), current, logEpoch());
    long lowest = max(accepted, others);
    leastAccepted = max(found.accepted(), others);
    return start(
        found.sequence(),
        nameOf(found),
        lowest,
        lostCurrent ? EpochStore.UNKNOWN : max(current, logEpoch()),
        found.acceptedLost());
  }

  private EpochRecord damaged(EpochRecord best) throws IOException {
    long known = best == null ? 0 : max(best.promised(), best.current());
    long lowest =
        max(known, stockValue(StockEpochFiles.ACCEPTED), stockValue(StockEpochFiles.CURRENT), logEpoch());
    long sequence = best == null ? 0 : best.sequence();
    String name = best == null ? settings.ensemble() : nameOf(best);
    return start(sequence, name, lowest, EpochStore.UNKNOWN, true);
  }

  /** No file of ours: a new server, or the first start on upstream's data. */
  private EpochRecord withoutOurs() throws IOException {
    OptionalLong accepted = stock.read(StockEpochFiles.ACCEPTED);
    OptionalLong current = stock.read(StockEpochFiles.CURRENT);
    if (accepted.isPresent() && current.isPresent()) {
      if (accepted.getAsLong() < current.getAsLong()) {
        throw new IOException(
            StockEpochFiles.ACCEPTED + " holds " + accepted.getAsLong() + ", below "
                + StockEpochFiles.CURRENT + " with " + current.getAsLong()
                + ": one of them was edited; restore them, or empty this data directory so that the"
                + " server copies the leader's data");
      }
      long both = max(current.getAsLong(), logEpoch());
      return start(
          0,
          settings.ensemble(),
          max(accepted.getAsLong(), both),
          settings.historyLost() ? EpochStore.UNKNOWN : both,
          false);
    }
    boolean touched = stock.exists(StockEpochFiles.ACCEPTED) || stock.exists(StockEpochFiles.CURRENT);
    if (!touched && settings.lastLoggedZxid() <= 0 && !settings.historyLost()) {
      return start(0, settings.ensemble(), 0, 0, false);
    }
    problems.add(
        "no " + FILE + ", and " + StockEpochFiles.ACCEPTED + " or " + StockEpochFiles.CURRENT
            + " is missing or does not hold a number");
    long lowest = max(accepted.orElse(0), current.orElse(0), logEpoch());
    return start(0, settings.ensemble(), lowest, EpochStore.UNKNOWN, true);
  }

  private EpochRecord start(long sequence, String name, long accepted, long current, boolean lost) {
    long promised = EpochReserve.promise(settings, accepted);
    return new EpochRecord(
        sequence + 1, settings.server(), name, boot, accepted, promised, current, false, lost);
  }

  private String nameOf(EpochRecord found) {
    return settings.ensemble().isEmpty() ? found.ensemble() : settings.ensemble();
  }

  private long stockValue(String name) throws IOException {
    OptionalLong value = stock.read(name);
    if (value.isEmpty()) {
      // Ours holds the same value or a newer one; the file is written anew below.
      return 0;
    }
    return value.getAsLong();
  }

  private static long max(long... values) {
    return Arrays.stream(values).max().orElse(0);
  }
}
