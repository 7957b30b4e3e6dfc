package io.tailbound.zookeeper.history;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which logs are a history without a gap, and what becomes of the others. */
class HistoryCheckTest {
  private static final long E1 = 1L << 32;
  private static final long E2 = 2L << 32;
  private static final long E3 = 3L << 32;
  private static final int MUTATIONS = 3000;

  @TempDir
  private Path logs;

  private void log(byte[] content, long first) throws IOException {
    Files.write(logs.resolve("log." + Long.toHexString(first)), content);
  }

  private void log(long... zxids) throws IOException {
    log(LogBytes.of(zxids), zxids[0]);
  }

  private Optional<HistoryDamage> check(long snapshot) throws IOException {
    return new HistoryCheck(logs, snapshot).run();
  }

  private HistoryDamage damage(long snapshot) throws IOException {
    return check(snapshot).orElseThrow(() -> new AssertionError("nothing was found"));
  }

  @Test
  void filesAndEpochsThatFollowEachOtherAreWhole() throws IOException {
    log(E1 + 1, E1 + 2);
    log(E1 + 3, E2 + 1, E2 + 2);
    log(E3 + 1);
    assertEquals(Optional.empty(), check(0));
  }

  @Test
  void aSnapshotStandsForWhatIsBeforeIt() throws IOException {
    log(E1 + 1);
    log(E2 + 5, E2 + 6);
    assertEquals(Optional.empty(), check(E2 + 4));
    assertEquals(Optional.empty(), check(E2 + 5));
    assertTrue(damage(0).losesHistory());
    assertTrue(damage(E2 + 2).losesHistory());
  }

  @Test
  void missingTransactionsBeforeOthersAreAGap() throws IOException {
    log(E1 + 1, E1 + 2);
    log(E1 + 4, E1 + 5);
    HistoryDamage found = damage(0);
    assertTrue(found.losesHistory());
    assertEquals(E1 + 2, found.lastZxid());
    assertEquals(E1 + 4, found.nextZxid());
    assertTrue(found.describe().contains("log.100000004"), found.describe());
    assertTrue(found.describe().contains("0x100000002"), found.describe());
  }

  @Test
  void anEpochThatDoesNotBeginWithItsFirstTransactionIsAGap() throws IOException {
    log(E1 + 1, E2 + 2);
    assertEquals(E1 + 1, damage(0).lastZxid());
  }

  @Test
  void aTornRecordAtTheEndWasNeverAcknowledged() throws IOException {
    byte[] torn = LogBytes.of(E1 + 1, E1 + 2);
    torn[LogBytes.record(1) + 20] ^= 1;
    log(torn, E1 + 1);
    HistoryDamage found = damage(0);
    assertFalse(found.losesHistory());
    assertEquals(LogBytes.record(1), found.offset());
  }

  @Test
  void aTornRecordBeforeALaterFileIsAGap() throws IOException {
    byte[] torn = LogBytes.of(E1 + 1, E1 + 2);
    torn[LogBytes.record(1) + 20] ^= 1;
    log(torn, E1 + 1);
    log(E2 + 1);
    assertTrue(damage(0).losesHistory());
  }

  @Test
  void aRecordThatAKilledProcessDidNotFinishIsTheEndOfItsFile() throws IOException {
    byte[] unfinished = LogBytes.of(E1 + 1, E1 + 2);
    Arrays.fill(unfinished, LogBytes.record(1) + 20, unfinished.length, (byte) 0);
    log(unfinished, E1 + 1);
    assertEquals(Optional.empty(), check(0));
    log(E2 + 1);
    assertEquals(Optional.empty(), check(0));
    log(E2 + 3);
    assertTrue(damage(0).losesHistory());
  }

  @Test
  void anEmptyFileAtTheEndIsMovedAway() throws IOException {
    log(E1 + 1);
    log(new byte[0], E2 + 1);
    HistoryDamage found = damage(0);
    assertFalse(found.losesHistory());
    Path folder = new DamagedData(logs, logs).setAside(found, Instant.EPOCH);
    assertTrue(Files.exists(folder.resolve("log.200000001")));
    assertEquals(Optional.empty(), check(0));
  }

  @Test
  void theDigestShowsAGapAtTheEndOfAnEpoch() throws IOException {
    log(E1 + 1, E1 + 2);
    log(E2 + 1);
    ReplayedDigests digests = new ReplayedDigests();
    digests.replayed(E1 + 2);
    digests.differs(E2 + 1);
    HistoryDamage found = new HistoryCheck(logs, 0).gapBefore(digests.unfit()).orElseThrow();
    assertTrue(found.losesHistory());
    assertEquals(E1 + 2, found.lastZxid());
  }

  @Test
  void aTreeAheadOfItsSnapshotIsNoGap() {
    ReplayedDigests digests = new ReplayedDigests();
    digests.differs(E2 + 1);
    digests.replayed(E2 + 1);
    digests.differs(E3 + 1);
    assertEquals(0, digests.unfit());
  }

  @Test
  void whatFollowsAGapIsMovedAndTheRestIsWhole() throws IOException {
    log(E1 + 1, E1 + 2, E1 + 5);
    log(E2 + 1);
    byte[] before = Files.readAllBytes(logs.resolve("log.100000001"));
    HistoryDamage found = damage(0);
    DamagedData data = new DamagedData(logs, logs);
    Path folder = data.setAside(found, Instant.EPOCH);
    assertEquals(Optional.empty(), check(0));
    assertTrue(data.note().orElseThrow().contains("0x100000005"), data.note().toString());
    data.forget();
    assertEquals(Optional.empty(), data.note());
    assertTrue(Files.exists(folder.resolve("log.200000001")));
    byte[] head = Files.readAllBytes(logs.resolve("log.100000001"));
    byte[] tail = Files.readAllBytes(folder.resolve("log.100000001.from-byte-" + found.offset()));
    byte[] both = Arrays.copyOf(head, before.length);
    System.arraycopy(tail, 0, both, head.length, tail.length);
    assertArrayEquals(before, both);
  }

  @Test
  void whateverIsInAFileWhatIsLeftAfterSettingAsideIsWhole() throws IOException {
    SplittableRandom random = new SplittableRandom(20071121);
    for (int i = 0; i < MUTATIONS; i++) {
      byte[] bytes = LogBytes.of(E1 + 1, E1 + 2, E2 + 1);
      for (int change = random.nextInt(4); change >= 0; change--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      }
      clear();
      log(Arrays.copyOf(bytes, random.nextInt(3) == 0 ? random.nextInt(bytes.length) : bytes.length), E1 + 1);
      if (random.nextBoolean()) {
        log(E2 + 2, E2 + 3);
      }
      Optional<HistoryDamage> found = check(0);
      if (found.isPresent()) {
        Path folder = new DamagedData(logs, logs).setAside(found.get(), Instant.EPOCH);
        assertEquals(Optional.empty(), check(0), "case " + i);
        deleteTree(folder);
      }
    }
  }

  private void clear() throws IOException {
    try (Stream<Path> files = Files.list(logs)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
    }
  }

  private static void deleteTree(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }
}
