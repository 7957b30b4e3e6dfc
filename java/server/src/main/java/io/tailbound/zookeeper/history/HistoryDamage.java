package io.tailbound.zookeeper.history;

import java.nio.file.Path;

/**
 * Where the transactions that a server finds on its disk stop to be a history.
 *
 * @param kind what that means
 * @param file the log file with the first byte that does not belong to the history
 * @param offset of that byte; 0 if nothing of the file does
 * @param lastZxid the last transaction of the history before it; 0 for none
 * @param nextZxid the first transaction found behind it; 0 if there is none
 * @param reason what is wrong, as part of a sentence about the file
 */
public record HistoryDamage(Kind kind, Path file, long offset, long lastZxid, long nextZxid, String reason) {
  /** What damage means. */
  public enum Kind {
    /**
     * The last record of the last file was not written to its end: it was never synced, so it was never
     * acknowledged.
     */
    TORN_TAIL,
    /** Transactions are missing although later ones are there: acknowledged ones may be among them. */
    GAP
  }

  /** Whether transactions may be missing that this server acknowledged. */
  public boolean losesHistory() {
    return kind == Kind.GAP;
  }

  /** The damage in a sentence for an operator. */
  public String describe() {
    String where = "log file " + file + ": " + reason + " (the history is whole up to zxid "
        + Zxid.format(lastZxid) + ", epoch " + Zxid.epoch(lastZxid);
    return nextZxid == 0 ? where + ")" : where + "; it goes on with zxid " + Zxid.format(nextZxid) + ", epoch "
        + Zxid.epoch(nextZxid) + ")";
  }
}
