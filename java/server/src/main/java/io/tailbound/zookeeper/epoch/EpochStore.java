package io.tailbound.zookeeper.epoch;

import java.io.Closeable;
import java.io.IOException;

/**
 * The epoch values of one server, kept crash-safe off the critical path of a recovery.
 *
 * <p>Open one per data directory with {@link FileEpochStore#open}. {@code QuorumPeer} overrides
 * delegate as follows:
 *
 * <ul>
 *   <li>{@code getAcceptedEpoch} to {@link #accepted}, {@code setAcceptedEpoch} to {@link
 *       #setAccepted};
 *   <li>{@code getCurrentEpoch} to {@link #current}, {@code setCurrentEpoch} to {@link #setCurrent}
 *       with {@code getLastLoggedZxid()};
 *   <li>{@code FileTxnSnapLog.commit} calls {@link #awaitDurable} with {@link #current} before or
 *       after {@code super.commit()}, but always before it returns;
 *   <li>a role that had reached service (UPTODATE received, or sent by the leader) calls {@link
 *       #leftService} with the zxid last applied to the data tree, before the server is shut down
 *       (upstream's shutdown applies the logged, uncommitted tail to the tree);
 *   <li>every message in which a peer tells its epochs goes to {@link #peerReported}; {@link #own}
 *       is what this server tells its peers.
 * </ul>
 *
 * <p><b>Threads.</b> All methods may be called from any thread. {@link #accepted}, {@link #current},
 * {@link #inDoubt}, {@link #own}, {@link #table}, {@link #leftService} and {@link #peerReported}
 * never wait for a disk. {@link #setAccepted} writes to the page cache only, unless the reserve is
 * used up (more recoveries within one sync than {@link EpochSettings#reserve}); {@link #setCurrent}
 * writes to the page cache and waits for the disk only in the case that it describes. {@link
 * #awaitDurable} waits; it costs one volatile read once the epoch is durable. An {@link IOException}
 * of any method means that this server must not take part in the epoch: leave the role, as upstream
 * does for a failed write.
 */
public interface EpochStore extends Closeable {
  /** What {@link #current} returns while the value is unknown; upstream does not count such an ACKEPOCH. */
  long UNKNOWN = -1;

  /** The highest epoch that this server has promised to accept; never goes back. */
  long accepted();

  /**
   * The epoch whose initial history this server holds, or {@link #UNKNOWN} while it lost that value
   * (then no quorum of a new leader may count this server, until it has followed one).
   */
  long current();

  /**
   * Promises the epoch. When this returns, the promise survives a killed process, a crashed operating
   * system and loss of power: ACKEPOCH may be sent.
   *
   * @throws IOException if it could not be kept, or would go back
   */
  void setAccepted(long epoch) throws IOException;

  /**
   * Notes that this server holds the initial history of the epoch, synced in its log. When this
   * returns, the ACK of NEWLEADER may be sent. Waits for the disk unless all of that history is known
   * to be committed already ({@code lastLoggedZxid} is the zxid last given to {@link #leftService}):
   * an acknowledgement commits the tail of the history, so the epoch that protects it must last.
   *
   * @param lastLoggedZxid zxid of the last transaction in this server's log, after the
   *     synchronisation
   * @throws IOException if it could not be kept, or the epoch was never accepted
   */
  void setCurrent(long epoch, long lastLoggedZxid) throws IOException;

  /** Notes that all transactions up to this zxid are committed. See the class comment. */
  void leftService(long lastAppliedZxid);

  /**
   * Waits until accepted and current epoch are on disk up to the given epoch.
   *
   * @throws IOException if the disk failed; no transaction may be acknowledged any more
   */
  void awaitDurable(long epoch) throws IOException;

  /**
   * Whether this server lost epoch values (damaged or missing file) and has not yet heard a majority
   * of servers that did not. It must neither send nor count a vote of its own while this is true.
   */
  boolean inDoubt();

  /** Takes in what a peer said. Entries of another ensemble or of unknown servers are ignored. */
  void peerReported(PeerEpochs peer);

  /** This server's own entry as it is to be told to that peer, anew whenever it changed. */
  PeerEpochs own(long peer);

  /** What this server knows of the epochs of all servers. */
  EpochTable table();

  /** Syncs, marks a clean shutdown and closes. Later calls fail with {@link IOException}. */
  @Override
  void close() throws IOException;
}
