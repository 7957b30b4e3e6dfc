package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.epoch.EpochStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Leaving out the replay must never leave out a transaction that is in the log. */
class PromptLogTest {

  private static final long EPOCH = 1;

  @TempDir
  private Path directory;

  private ZKDatabase database;

  @BeforeEach
  void load() throws IOException {
    database = PeerInMemory.create(directory).getZkDb();
    database.loadDataBase();
  }

  private void log(int counter) throws IOException {
    database.append(PeerInMemory.creation(EPOCH, counter));
  }

  private static long zxid(int counter) {
    return EPOCH << 32 | counter;
  }

  @Test
  void theLoggedTailIsReplayed() throws IOException {
    log(1);
    log(2);
    database.commit();
    assertEquals(zxid(2), database.fastForwardDataBase());
    assertEquals(zxid(2), database.getDataTreeLastProcessedZxid());
    assertEquals(zxid(2), database.fastForwardDataBase(), "nothing left to replay");
  }

  @Test
  void afterTruncationTheTreeEndsWithTheLog() throws IOException {
    log(1);
    log(2);
    log(3);
    database.commit();
    database.fastForwardDataBase();
    database.truncateLog(zxid(2));
    assertEquals(zxid(2), database.getDataTreeLastProcessedZxid());
    assertEquals(zxid(2), database.fastForwardDataBase());
    log(3);
    database.commit();
    assertEquals(zxid(3), database.fastForwardDataBase());
  }

  @Test
  void whatAFailedAppendLeftInTheLogIsReplayed() throws IOException {
    Path logs = directory.resolve(FileTxnSnapLog.version + FileTxnSnapLog.VERSION);
    Path away = directory.resolve("away");
    Files.move(logs, away);
    assertThrows(IOException.class, () -> log(1));
    Files.move(away, logs);
    FileTxnSnapLog other = new FileTxnSnapLog(directory.toFile(), directory.toFile());
    other.append(PeerInMemory.creation(EPOCH, 1));
    other.commit();
    other.close();
    assertEquals(zxid(1), database.fastForwardDataBase());
  }

  private void logAsAStockServer(int... counters) throws IOException {
    FileTxnSnapLog other = new FileTxnSnapLog(directory.toFile(), directory.toFile());
    for (int counter : counters) {
      other.append(PeerInMemory.creation(EPOCH, counter));
    }
    other.commit();
    other.close();
  }

  private List<Path> asideFolders() throws IOException {
    try (Stream<Path> all = Files.list(directory)) {
      return all.filter(file -> file.getFileName().toString().startsWith("tailbound-damaged-")).toList();
    }
  }

  @Test
  void aServerWhoseLogHasAGapHoldsTheHistoryOfNoEpoch() throws IOException {
    logAsAStockServer(1, 2, 4);
    TailboundPeer peer = PeerInMemory.create(directory);
    assertEquals(zxid(2), peer.getZkDb().loadDataBase());
    assertEquals(EpochStore.UNKNOWN, peer.getCurrentEpoch());
    assertEquals(EPOCH, peer.getAcceptedEpoch());
    assertEquals(1, asideFolders().size());
    TailboundPeer again = PeerInMemory.create(directory);
    assertEquals(zxid(2), again.getZkDb().loadDataBase());
    assertEquals(EpochStore.UNKNOWN, again.getCurrentEpoch(), "the log looks whole by now");
  }

  @Test
  void aLogWithoutItsSnapshotIsMovedAway() throws IOException {
    logAsAStockServer(1, 2);
    Path snapshots = directory.resolve(FileTxnSnapLog.version + FileTxnSnapLog.VERSION);
    Files.write(snapshots.resolve("snapshot.0"), new byte[0]);
    TailboundPeer peer = PeerInMemory.create(directory);
    assertEquals(0, peer.getZkDb().loadDataBase());
    assertEquals(EpochStore.UNKNOWN, peer.getCurrentEpoch());
    assertEquals(1, asideFolders().size());
  }

  @Test
  void aWholeLogIsLeftAlone() throws IOException {
    logAsAStockServer(1, 2, 3);
    TailboundPeer peer = PeerInMemory.create(directory);
    assertEquals(zxid(3), peer.getZkDb().loadDataBase());
    assertTrue(peer.getCurrentEpoch() >= EPOCH);
    assertEquals(List.of(), asideFolders());
  }
}
