package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
}
