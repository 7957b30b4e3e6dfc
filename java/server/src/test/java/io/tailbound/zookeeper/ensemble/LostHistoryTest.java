package io.tailbound.zookeeper.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A server whose log lost a transaction before others comes back with the others' data. */
class LostHistoryTest {

  private static final long MINUTE_NS = TimeUnit.MINUTES.toNanos(1);
  private static final int HEADER_BYTES = 16;
  private static final int RECORD_OVERHEAD_BYTES = 13;

  @Test
  void aServerWithAGapInItsLogCopiesTheDataOfTheLeader(@TempDir Path directory) throws Exception {
    try (Ensemble ensemble = Ensemble.start(directory, 3, id -> ServerProcess.OURS,
        id -> Ensemble.UNREHEARSED)) {
      LeaderKills kills = new LeaderKills(ensemble);
      kills.trial();
      kills.trial();
      ensemble.awaitHealth(MINUTE_NS);
      ServerProcess damaged = ensemble.server(1);
      damaged.kill();
      Path data = damaged.directory().resolve("data");
      removeSnapshotsButTheFirst(data.resolve("version-2"));
      removeOneTransaction(data.resolve("version-2"));
      damaged.start();
      ensemble.awaitHealth(MINUTE_NS);
      Ensemble.awaitLogged(damaged, "lost transactions that it may have acknowledged", MINUTE_NS);
      assertEquals(1, folders(data).size());
      kills.trial();
      ensemble.awaitHealth(MINUTE_NS);
    }
  }

  private static List<Path> folders(Path data) throws IOException {
    try (Stream<Path> all = Files.list(data)) {
      return all.filter(file -> file.getFileName().toString().startsWith("tailbound-damaged-")).toList();
    }
  }

  /** A later one may stand for the transaction that is to be missed. */
  private static void removeSnapshotsButTheFirst(Path snapshots) throws IOException {
    try (Stream<Path> all = Files.list(snapshots)) {
      for (Path file : all.filter(f -> f.getFileName().toString().startsWith("snapshot.")).toList()) {
        if (!file.getFileName().toString().equals("snapshot.0")) {
          Files.delete(file);
        }
      }
    }
  }

  /** Removes the second transaction of the newest log that has three. */
  private static void removeOneTransaction(Path logs) throws IOException {
    List<Path> files;
    try (Stream<Path> all = Files.list(logs)) {
      files = all.filter(file -> file.getFileName().toString().startsWith("log.")).sorted().toList();
    }
    for (int i = files.size() - 1; i >= 0; i--) {
      byte[] bytes = Files.readAllBytes(files.get(i));
      ByteBuffer log = ByteBuffer.wrap(bytes);
      int second = HEADER_BYTES + recordBytes(log, HEADER_BYTES);
      int third = second + recordBytes(log, second);
      if (third > second && recordBytes(log, third) > 0) {
        ByteArrayOutputStream rest = new ByteArrayOutputStream();
        rest.write(bytes, 0, second);
        rest.write(bytes, third, bytes.length - third);
        Files.write(files.get(i), rest.toByteArray());
        return;
      }
    }
    throw new AssertionError("no log with three transactions in " + files);
  }

  private static int recordBytes(ByteBuffer log, int at) {
    int length = log.getInt(at + Long.BYTES);
    return length == 0 ? 0 : length + RECORD_OVERHEAD_BYTES;
  }
}
