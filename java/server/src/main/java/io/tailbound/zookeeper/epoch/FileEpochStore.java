package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * {@link EpochStore} in files of the data directory: {@code tailbound.epoch}, and upstream's two
 * files for a stock server that takes over.
 *
 * <p>Why no recovery waits for a disk and yet nothing is forgotten: an accepted epoch is covered by a
 * reserve that was synced before ({@link EpochReserve}); a current epoch matters to safety only if
 * the history that it stands for contains transactions that are not committed otherwise, and then
 * {@link #setCurrent} does wait. {@code crates/epoch-model} checks this exhaustively for three
 * servers.
 */
public final class FileEpochStore implements EpochStore {
  private static final Logger LOG = LoggerFactory.getLogger(FileEpochStore.class);
  private static final String DAMAGED_COPY = EpochRecovery.FILE + ".damaged";
  private static final long NOTHING_KNOWN = -1;
  private static final long CLOSE_WAIT_SECONDS = 30;

  private final EpochSettings settings;
  private final EpochStorage storage;
  private final StockEpochFiles stock;
  private final Executor background;
  private final long nonce;
  private final EpochFile file;
  private final Map<Long, Long> noncesOfPeers = new ConcurrentHashMap<>();
  private final Object changing = new Object();
  private volatile EpochTable peers = EpochTable.empty();
  private volatile long committed = NOTHING_KNOWN;
  private volatile IOException failure;
  private boolean closed;
  /** The accepted epoch that is known for sure; guarded by {@link #changing}. */
  private long leastAccepted;
  private volatile boolean raised;

  FileEpochStore(
      EpochSettings settings, EpochStorage storage, UUID boot, long nonce, Executor background)
      throws IOException {
    this.settings = settings;
    this.storage = storage;
    this.stock = new StockEpochFiles(storage);
    this.background = background;
    this.nonce = nonce;
    EpochRecovery.Found found = new EpochRecovery(settings, storage, boot).recover();
    Optional<byte[]> old = storage.read(EpochRecovery.FILE);
    boolean whole = old.isPresent() && found.problems().isEmpty();
    this.leastAccepted = found.leastAccepted();
    this.raised = found.leastAccepted() < found.record().accepted();
    if (old.isPresent() && !whole) {
      storage.replace(DAMAGED_COPY, old.get());
    }
    this.file = EpochFile.begin(storage, found.record(), whole, mayWait());
    if (inDoubt()) {
      LOG.error(
          "Epochs of server {} in {} are lost: {}. It does not vote before it has heard a quorum of"
              + " servers that lost nothing; if there is none, restore the file or empty the data"
              + " directory of this server",
          settings.server(), settings.directory(), reason(found.problems()));
    } else {
      writeStockFiles(found.record());
      syncStockFilesFirst();
    }
  }

  private static String reason(List<String> problems) {
    return problems.isEmpty()
        ? "an earlier start found them damaged or missing, and no quorum was heard since"
        : String.join("; ", problems);
  }

  /**
   * Opens the epoch files of a data directory.
   *
   * @throws IOException if they belong to another server or ensemble or to a later version of the
   *     program, or cannot be read, written or synced
   */
  public static FileEpochStore open(EpochSettings settings) throws IOException {
    ExecutorService syncer =
        Executors.newSingleThreadExecutor(
            task -> {
              Thread thread = new Thread(task, "tailbound-epoch-sync");
              thread.setDaemon(true);
              return thread;
            });
    try {
      return new FileEpochStore(
          settings, new DirectoryStorage(settings.directory()), BootId.read(), drawNonce(), syncer);
    } catch (IOException | RuntimeException failed) {
      syncer.shutdown();
      throw failed;
    }
  }

  /** Name of our file inside the data directory. */
  public static Path fileIn(Path directory) {
    return directory.resolve(EpochRecovery.FILE);
  }

  private static long drawNonce() {
    // 0 stands for "heard nothing" in a peer's echo.
    long drawn = new SecureRandom().nextLong();
    return drawn == 0 ? 1 : drawn;
  }

  private boolean mayWait() {
    return settings.policy() != EpochPolicy.VOLATILE;
  }

  private void syncStockFilesFirst() throws IOException {
    if (mayWait()) {
      // A process that was killed may have left it unsynced. The record was synced when the file was begun.
      file.stockFileChanged(StockEpochFiles.ACCEPTED);
      file.syncStockFiles();
    }
  }

  @Override
  public long accepted() {
    return file.written().accepted();
  }

  @Override
  public long current() {
    return file.written().current();
  }

  @Override
  public boolean inDoubt() {
    return file.written().acceptedLost();
  }

  @Override
  public void setAccepted(long epoch) throws IOException {
    boolean covered;
    synchronized (changing) {
      EpochRecord now = usable();
      if (now.acceptedLost()) {
        throw new IOException("in doubt: cannot accept epoch " + epoch + " before a quorum was heard");
      }
      if (epoch < now.accepted()) {
        throw new IOException(
            "epoch " + epoch + " is below the accepted epoch " + now.accepted() + ": not accepted");
      }
      if (epoch > EpochReserve.LARGEST_EPOCH) {
        throw new IOException("epoch " + epoch + " is above the largest one, " + EpochReserve.LARGEST_EPOCH);
      }
      if (epoch > now.accepted()) {
        long promised = Math.max(now.promised(), EpochReserve.promise(settings, epoch));
        change(now.next(epoch, promised, now.current(), false));
      }
      raised = false;
      EpochRecord durable = file.durable();
      covered = epoch <= durable.promised() && !durable.acceptedLost();
    }
    finish(!covered);
  }

  @Override
  public void setCurrent(long epoch, long lastLoggedZxid) throws IOException {
    boolean tail;
    synchronized (changing) {
      EpochRecord now = usable();
      if (epoch > now.accepted() || now.acceptedLost()) {
        throw new IOException(
            "epoch " + epoch + " was never accepted (accepted: " + now.accepted() + ")");
      }
      if (epoch < now.current()) {
        throw new IOException("epoch " + epoch + " is below the current epoch " + now.current());
      }
      if (lastLoggedZxid >>> 32 > epoch) {
        throw new IOException(
            "log ends at 0x" + Long.toHexString(lastLoggedZxid) + ", after epoch " + epoch);
      }
      tail = lastLoggedZxid != committed || committed == NOTHING_KNOWN;
      tail |= file.durable().current() == UNKNOWN;
      raised = false;
      if (epoch > now.current()) {
        change(now.next(now.accepted(), now.promised(), epoch, false));
      }
    }
    finish(tail);
  }

  private EpochRecord usable() throws IOException {
    if (failure != null) {
      throw new IOException("the disk of the epoch file failed: " + failure.getMessage(), failure);
    }
    if (closed) {
      throw new IOException("the epoch file is closed");
    }
    return file.written();
  }

  /** Caller holds {@link #changing}. Our file first: only it cannot fail for want of space. */
  private void change(EpochRecord next) throws IOException {
    file.write(next);
    writeStockFiles(next);
  }

  private void writeStockFiles(EpochRecord next) throws IOException {
    writeStockFile(StockEpochFiles.ACCEPTED, next.accepted());
    if (next.current() != UNKNOWN) {
      writeStockFile(StockEpochFiles.CURRENT, next.current());
    }
  }

  private void writeStockFile(String name, long epoch) throws IOException {
    if (stock.read(name).orElse(UNKNOWN) != epoch) {
      stock.write(name, epoch);
      file.stockFileChanged(name);
    }
  }

  /** Syncs what was changed: now, in the background, or never, as the policy and the case demand. */
  private void finish(boolean needed) throws IOException {
    switch (settings.policy()) {
      case VOLATILE -> { }
      case SYNCHRONOUS -> sync(true);
      case RESERVED -> {
        if (needed) {
          sync(false);
        }
        background.execute(this::syncQuietly);
      }
    }
  }

  /** Safety does not depend on upstream's files here, so a recovery that waits for the disk leaves them out. */
  private void sync(boolean stockFilesToo) throws IOException {
    try {
      file.sync();
      if (stockFilesToo) {
        file.syncStockFiles();
      }
    } catch (IOException failed) {
      failure = failed;
      throw failed;
    }
  }

  private void syncQuietly() {
    try {
      sync(true);
    } catch (IOException failed) {
      LOG.error("Epoch file of server {} could not be synced: nothing is acknowledged any more",
          settings.server(), failed);
    }
  }

  @Override
  public void leftService(long lastAppliedZxid) {
    committed = lastAppliedZxid;
  }

  @Override
  public void awaitDurable(long epoch) throws IOException {
    if (!mayWait()) {
      return;
    }
    if (failure != null) {
      throw new IOException("the disk of the epoch file failed: " + failure.getMessage(), failure);
    }
    EpochRecord durable = file.durable();
    if (durable.accepted() < epoch || durable.current() < epoch) {
      sync(false);
      EpochRecord synced = file.durable();
      if (synced.accepted() < epoch || synced.current() < epoch) {
        throw new IOException(
            "epoch " + epoch + " is not current here (accepted " + synced.accepted() + ", current "
                + synced.current() + "): nothing of it may be acknowledged");
      }
    }
  }

  @Override
  public void peerReported(PeerEpochs peer) {
    Set<Long> voters = settings.voting().voters();
    if (peer.server() == settings.server() || !voters.contains(peer.server())) {
      return;
    }
    String mine = file.written().ensemble();
    if (!mine.isEmpty() && !peer.ensemble().isEmpty() && !mine.equals(peer.ensemble())) {
      LOG.error("Server {} says it is of ensemble \"{}\", this is \"{}\": its epochs are ignored",
          peer.server(), peer.ensemble(), mine);
      return;
    }
    synchronized (changing) {
      noncesOfPeers.put(peer.server(), peer.nonce());
      peers = peers.with(peer);
      if (inDoubt()) {
        settle();
      } else if (raised) {
        lower();
      }
    }
  }

  /**
   * Caller holds {@link #changing}. After a crash of the operating system the whole promise counts as
   * accepted, which keeps this server out of a running ensemble whose epoch is below it. A server accepts an
   * epoch only from a leader that accepted it before, so if every other voter tells that it has
   * accepted no epoch above some value, this server has not either (save as a leader whom nobody
   * followed, and whose process is gone). A quorum would not do: the leader of the epoch in question might
   * be none of it.
   */
  private void lower() {
    EpochTable certain = peers.certainAnswersTo(nonce);
    Set<Long> others = new HashSet<>(settings.voting().voters());
    others.remove(settings.server());
    if (closed || failure != null || !certain.rows().keySet().containsAll(others)) {
      return;
    }
    EpochRecord now = file.written();
    long accepted = Math.max(Math.max(leastAccepted, now.current()), certain.highestAccepted());
    raised = false;
    if (accepted >= now.accepted()) {
      return;
    }
    try {
      // The promise stays: what is on disk may already count on it.
      change(now.next(accepted, now.promised(), now.current(), false));
      LOG.info("Server {} lost power and counted epochs up to {} as accepted; all others have accepted none above {}",
          settings.server(), now.accepted(), accepted);
      background.execute(this::syncQuietly);
    } catch (IOException failed) {
      failure = failed;
      LOG.error("Epoch file of server {} could not be written", settings.server(), failed);
    }
  }

  /** Caller holds {@link #changing}. Ends the doubt once a quorum that lost nothing was heard. */
  private void settle() {
    EpochTable certain = peers.certainAnswersTo(nonce);
    if (closed || failure != null || !settings.voting().isQuorum(certain.rows().keySet())) {
      return;
    }
    EpochRecord now = file.written();
    long accepted = Math.max(now.accepted(), certain.highestAccepted());
    try {
      file.write(now.next(accepted, EpochReserve.promise(settings, accepted), UNKNOWN, false));
      LOG.warn("Server {} is no longer in doubt: a quorum {} has accepted no epoch above {}",
          settings.server(), certain.rows().keySet(), accepted);
      background.execute(this::syncQuietly);
    } catch (IOException failed) {
      failure = failed;
      LOG.error("Epoch file of server {} could not be written", settings.server(), failed);
    }
  }

  @Override
  public PeerEpochs own(long peer) {
    EpochRecord now = file.written();
    return new PeerEpochs(
        settings.server(), now.ensemble(), now.sequence(), now.accepted(), now.current(),
        now.acceptedLost(), nonce, noncesOfPeers.getOrDefault(peer, 0L));
  }

  @Override
  public EpochTable table() {
    Map<Long, PeerEpochs> rows = new TreeMap<>(peers.rows());
    rows.put(settings.server(), own(settings.server()));
    return new EpochTable(rows);
  }

  @Override
  public void close() throws IOException {
    synchronized (changing) {
      if (closed) {
        return;
      }
      closed = true;
    }
    try {
      if (failure == null) {
        file.write(file.written().shutDown());
        if (mayWait()) {
          sync(true);
        }
      }
    } finally {
      stopSyncer();
      storage.close();
    }
  }

  private void stopSyncer() {
    if (background instanceof ExecutorService syncer) {
      syncer.shutdown();
      try {
        if (!syncer.awaitTermination(CLOSE_WAIT_SECONDS, TimeUnit.SECONDS)) {
          LOG.warn("The sync of the epoch file has not ended within {} s", CLOSE_WAIT_SECONDS);
        }
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
