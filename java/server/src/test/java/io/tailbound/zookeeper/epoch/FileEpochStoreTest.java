package io.tailbound.zookeeper.epoch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileEpochStoreTest {
  private static final UUID BOOT = new UUID(1, 1);
  private static final UUID NEXT_BOOT = new UUID(2, 2);
  private static final long NONCE = 77;
  private static final int RESERVE = 4;

  private final ForgetfulStorage disk = new ForgetfulStorage();
  private final Deque<Runnable> background = new ArrayDeque<>();

  private static EpochSettings settings(long server, String ensemble, EpochPolicy policy, long zxid) {
    return new EpochSettings(
        Path.of("/simulated"), server, Voting.majorityOf(Set.of(1L, 2L, 3L)), ensemble, policy,
        RESERVE, zxid, false);
  }

  private FileEpochStore open(UUID boot, long zxid) throws IOException {
    return open(settings(1, "one", EpochPolicy.RESERVED, zxid), boot);
  }

  private FileEpochStore open(EpochSettings settings, UUID boot) throws IOException {
    return new FileEpochStore(settings, disk, boot, NONCE, background::add);
  }

  private static PeerEpochs peer(long server, long accepted, boolean doubt, long echo) {
    return new PeerEpochs(server, "one", 1, accepted, doubt ? -1 : 0, doubt, server * 10, echo);
  }

  @Test
  void acceptingAnEpochOfTheReserveSyncsNothing() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    int before = disk.syncs();
    for (int epoch = 1; epoch <= RESERVE; epoch++) {
      store.setAccepted(epoch);
    }
    assertEquals(before, disk.syncs());
    store.setAccepted(RESERVE + 1);
    assertTrue(disk.syncs() > before, "the reserve is used up");
  }

  @Test
  void aKilledProcessFindsItsExactEpochs() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(2);
    store.setCurrent(2, 0);
    FileEpochStore again = open(BOOT, 0);
    assertEquals(2, again.accepted());
    assertEquals(2, again.current());
  }

  @Test
  void afterACrashOfTheSystemTheReserveCountsAsAccepted() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(3);
    disk.losePower(new SplittableRandom(1));
    FileEpochStore again = open(NEXT_BOOT, 0);
    assertTrue(again.accepted() >= 3, "accepted " + again.accepted());
    assertFalse(again.inDoubt());
  }

  @Test
  void anOrderlyShutdownSkipsNoEpoch() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(3);
    store.setCurrent(3, 0);
    store.close();
    disk.losePower(new SplittableRandom(1));
    FileEpochStore again = open(NEXT_BOOT, 0);
    assertEquals(3, again.accepted());
    assertEquals(3, again.current());
    assertThrows(IOException.class, () -> store.setAccepted(4));
  }

  @Test
  void theAcknowledgementOfAHistoryWaitsUnlessItIsKnownToBeCommitted() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(6);
    int before = disk.syncs();
    store.leftService(0x500000007L);
    store.setCurrent(6, 0x500000007L);
    assertEquals(before, disk.syncs(), "all of the history was committed");
    store.setAccepted(7);
    store.setCurrent(7, 0x500000008L);
    assertTrue(disk.syncs() > before, "a transaction of the history may not have been");
    disk.losePower(new SplittableRandom(3));
    assertEquals(7, open(NEXT_BOOT, 0x500000008L).current());
  }

  @Test
  void awaitDurableWaitsOnce() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.leftService(0);
    store.setAccepted(1);
    store.setCurrent(1, 0);
    int before = disk.syncs();
    store.awaitDurable(1);
    int after = disk.syncs();
    assertTrue(after > before);
    store.awaitDurable(1);
    assertEquals(after, disk.syncs());
    assertThrows(IOException.class, () -> store.awaitDurable(2));
  }

  @Test
  void epochsDoNotGoBackNorAheadOfEachOther() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(5);
    assertThrows(IOException.class, () -> store.setAccepted(4));
    assertThrows(IOException.class, () -> store.setCurrent(6, 0));
    store.setCurrent(5, 0);
    assertThrows(IOException.class, () -> store.setCurrent(4, 0));
    assertThrows(IOException.class, () -> store.setCurrent(5, 6L << 32));
    assertThrows(IOException.class, () -> store.setAccepted(1L << 31));
  }

  @Test
  void aStrangersDirectoryIsRefused() throws IOException {
    open(BOOT, 0).close();
    IOException server =
        assertThrows(
            IOException.class,
            () -> open(settings(2, "one", EpochPolicy.RESERVED, 0), BOOT));
    assertTrue(server.getMessage().contains("belongs to server 1"), server.getMessage());
    IOException ensemble =
        assertThrows(
            IOException.class,
            () -> open(settings(1, "other", EpochPolicy.RESERVED, 0), BOOT));
    assertTrue(ensemble.getMessage().contains("tailbound.ensemble"), ensemble.getMessage());
  }

  @Test
  void everyDamagePutsTheServerInDoubt() throws IOException {
    EpochSettings settings = settings(1, "one", EpochPolicy.RESERVED, 0);
    for (int seed = 0; seed < 300; seed++) {
      ForgetfulStorage bad = new ForgetfulStorage();
      new FileEpochStore(settings, bad, BOOT, NONCE, background::add).close();
      bad.damage(EpochRecovery.FILE, new SplittableRandom(seed));
      FileEpochStore store = new FileEpochStore(settings, bad, BOOT, NONCE, background::add);
      assertTrue(store.inDoubt(), "seed " + seed);
      assertEquals(EpochStore.UNKNOWN, store.current());
      assertThrows(IOException.class, () -> store.setAccepted(100));
      FileEpochStore again = new FileEpochStore(settings, bad, NEXT_BOOT, NONCE, background::add);
      assertTrue(again.inDoubt(), "a restart does not end a doubt");
    }
  }

  @Test
  void theReserveAndTheStoredSlotsAreNotTakenForDamage() throws IOException {
    for (int seed = 0; seed < 300; seed++) {
      FileEpochStore store = open(new UUID(9, seed), 0);
      store.setAccepted(store.accepted() + 1);
      disk.losePower(new SplittableRandom(seed));
      assertFalse(open(new UUID(10, seed), 0).inDoubt(), "seed " + seed);
    }
  }

  @Test
  void aDoubtEndsOnlyWithAQuorumThatLostNothingAndHeardUs() throws IOException {
    disk.put(EpochRecovery.FILE, new byte[17]);
    FileEpochStore store = open(BOOT, 0x300000001L);
    store.peerReported(peer(2, 9, false, NONCE));
    assertTrue(store.inDoubt(), "one of three is no quorum");
    store.peerReported(peer(3, 8, true, NONCE));
    assertTrue(store.inDoubt(), "the other one is in doubt itself");
    store.peerReported(peer(3, 8, false, 0));
    assertTrue(store.inDoubt(), "made before this start: may be an old row, repeated");
    store.peerReported(peer(4, 8, false, NONCE));
    assertTrue(store.inDoubt(), "not a voter");
    store.peerReported(peer(3, 8, false, NONCE));
    assertFalse(store.inDoubt());
    assertEquals(9, store.accepted());
    assertEquals(EpochStore.UNKNOWN, store.current(), "what history it holds is not known by that");
    store.setAccepted(10);
    store.leftService(0x300000001L);
    int before = disk.syncs();
    store.setCurrent(10, 0x300000001L);
    assertTrue(disk.syncs() > before, "the first history after a doubt is synced");
    assertEquals(10, store.current());
  }

  @Test
  void peersOfAnotherEnsembleAreIgnored() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.peerReported(new PeerEpochs(2, "other", 1, 9, 9, false, 5, NONCE));
    assertFalse(store.table().rows().containsKey(2L));
    store.peerReported(new PeerEpochs(2, "one", 1, 9, 9, false, 5, NONCE));
    assertEquals(9, store.table().rows().get(2L).accepted());
    assertEquals(5, store.own(2).echo());
    assertEquals(0, store.own(3).echo());
  }

  @Test
  void upstreamsFilesAreTakenOverAndKept() throws IOException {
    disk.put(StockEpochFiles.ACCEPTED, "12\n".getBytes(StandardCharsets.US_ASCII));
    disk.put(StockEpochFiles.CURRENT, "11".getBytes(StandardCharsets.US_ASCII));
    FileEpochStore store = open(BOOT, 0xb00000002L);
    assertEquals(12, store.accepted());
    assertEquals(11, store.current());
    store.setAccepted(13);
    store.setCurrent(13, 0xb00000002L);
    assertEquals("13", text(StockEpochFiles.ACCEPTED));
    assertEquals("13", text(StockEpochFiles.CURRENT));
    disk.put(StockEpochFiles.ACCEPTED, "20".getBytes(StandardCharsets.US_ASCII));
    disk.put(StockEpochFiles.CURRENT, "20".getBytes(StandardCharsets.US_ASCII));
    assertEquals(20, open(BOOT, 0x1400000001L).current(), "a stock server ran in between");
  }

  @Test
  void upstreamsFilesReachTheDiskInTheBackground() throws IOException {
    for (long zxid : new long[] {0, 0x100000001L}) {
      for (int seed = 0; seed < 20; seed++) {
        ForgetfulStorage other = new ForgetfulStorage();
        EpochSettings settings = settings(1, "one", EpochPolicy.RESERVED, 0);
        FileEpochStore store = new FileEpochStore(settings, other, BOOT, NONCE, background::add);
        store.leftService(0);
        store.setAccepted(2);
        store.setCurrent(2, zxid);
        background.forEach(Runnable::run);
        background.clear();
        other.losePower(new SplittableRandom(seed));
        for (String name : new String[] {StockEpochFiles.ACCEPTED, StockEpochFiles.CURRENT}) {
          assertEquals("2", new String(other.read(name).orElseThrow(), StandardCharsets.US_ASCII), name);
        }
      }
    }
  }

  private String text(String name) throws IOException {
    return new String(disk.read(name).orElseThrow(), StandardCharsets.US_ASCII);
  }

  @Test
  void editedFilesOfUpstreamAreNotBelieved() throws IOException {
    disk.put(StockEpochFiles.ACCEPTED, "10".getBytes(StandardCharsets.US_ASCII));
    disk.put(StockEpochFiles.CURRENT, "11".getBytes(StandardCharsets.US_ASCII));
    assertThrows(IOException.class, () -> open(BOOT, 1));
    disk.put(StockEpochFiles.CURRENT, "ten".getBytes(StandardCharsets.US_ASCII));
    assertTrue(open(BOOT, 1).inDoubt());
  }

  @Test
  void aHistoryWithoutAnyEpochFileMeansDoubt() throws IOException {
    assertTrue(open(BOOT, 0x100000001L).inDoubt());
  }

  @Test
  void aFullDiskRefusesThePromise() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    disk.fillUp(true);
    assertThrows(IOException.class, () -> store.setAccepted(1));
    assertTrue(store.accepted() <= 1);
    disk.fillUp(false);
    store.setAccepted(2);
    assertEquals(2, store.accepted());
  }

  @Test
  void aFailedSyncEndsAllAcknowledgements() throws IOException {
    FileEpochStore store = open(BOOT, 0);
    store.setAccepted(1);
    disk.breakSyncs();
    assertThrows(IOException.class, () -> store.setCurrent(1, 0));
    assertThrows(IOException.class, () -> store.setAccepted(2));
    assertThrows(IOException.class, () -> store.awaitDurable(1));
  }

  @Test
  void worksOnARealDirectoryAndLeavesFilesThatAStockServerReads(@TempDir Path directory)
      throws IOException {
    EpochSettings real =
        new EpochSettings(
            directory, 1, Voting.majorityOf(Set.of(1L)), "", EpochPolicy.RESERVED, RESERVE, 0, false);
    try (FileEpochStore store = FileEpochStore.open(real)) {
      for (int epoch = 1; epoch < 40; epoch++) {
        store.setAccepted(epoch);
        store.setCurrent(epoch, (long) (epoch - 1) << 32 | 5);
        store.awaitDurable(epoch);
      }
    }
    assertEquals("39", Files.readString(directory.resolve("acceptedEpoch")));
    assertEquals("39", Files.readString(directory.resolve("currentEpoch")));
    assertEquals(EpochRecovery.FILE_BYTES, Files.size(FileEpochStore.fileIn(directory)));
    try (FileEpochStore again = FileEpochStore.open(real)) {
      assertEquals(39, again.accepted());
    }
    Files.write(FileEpochStore.fileIn(directory), new byte[] {1, 2, 3});
    try (FileEpochStore doubting = FileEpochStore.open(real)) {
      assertTrue(doubting.inDoubt());
    }
    assertEquals(3, Files.size(directory.resolve("tailbound.epoch.damaged")));
  }

  @Test
  void noBytesCrashTheDecoder() {
    SplittableRandom random = new SplittableRandom(5);
    EpochRecord valid = new EpochRecord(3, 1, "one", BOOT, 5, 9, 4, false, false);
    for (int i = 0; i < 20_000; i++) {
      byte[] bytes = valid.encode();
      bytes[random.nextInt(bytes.length)] ^= (byte) (1 + random.nextInt(255));
      byte[] cut = Arrays.copyOf(bytes, random.nextInt(bytes.length + 1));
      assertThrows(EpochRecord.Damaged.class, () -> EpochRecord.decode(bytes));
      assertThrows(EpochRecord.Damaged.class, () -> EpochRecord.decode(cut));
    }
  }

  @Test
  void aRecordComesBackAsItWas() throws Exception {
    EpochRecord valid = new EpochRecord(3, 1, "Ünsemble", BOOT, 5, 9, -1, true, true);
    assertEquals(valid, EpochRecord.decode(valid.encode()));
    byte[] newer = valid.encode();
    newer[7] = 2;
    java.util.zip.CRC32C crc = new java.util.zip.CRC32C();
    crc.update(newer, 0, EpochRecord.BYTES - 4);
    java.nio.ByteBuffer.wrap(newer).putInt(EpochRecord.BYTES - 4, (int) crc.getValue());
    assertThrows(EpochRecord.Newer.class, () -> EpochRecord.decode(newer));
  }
}
