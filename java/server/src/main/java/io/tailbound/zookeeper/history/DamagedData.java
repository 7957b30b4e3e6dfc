package io.tailbound.zookeeper.history;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Takes what is behind the end of a history out of the data directory, into a folder that is named by the
 * moment. Nothing is deleted. A note that history was lost is on disk before the first file moves, and
 * stays until the epoch file says so too: a crash in between must not leave a log that looks whole.
 */
public final class DamagedData {
  /** Name of the note, in the folder of the log files. */
  public static final String NOTE = "tailbound.history-lost";

  private static final DateTimeFormatter MOMENT =
      DateTimeFormatter.ofPattern("yyyyMMdd-HHmmss").withZone(ZoneOffset.UTC);
  private static final int MOST_FOLDERS_A_SECOND = 1000;
  private static final int BLOCK_BYTES = 1 << 16;

  private final Path logs;
  private final Path snapshots;

  /**
   * @param logs folder of the log files
   * @param snapshots folder of the snapshots, may be the same
   */
  public DamagedData(Path logs, Path snapshots) {
    this.logs = logs;
    this.snapshots = snapshots;
  }

  /**
   * Moves everything behind the end of the history away.
   *
   * @return the folder that has it now
   */
  public Path setAside(HistoryDamage damage, Instant now) throws IOException {
    if (damage.losesHistory()) {
      writeNote(damage.describe());
    }
    Path folder = create(now);
    Files.writeString(folder.resolve("README"), damage.describe() + "\n");
    long cutZxid = HistoryCheck.zxidOf(damage.file(), "log.");
    for (Path file : files(logs, "log.")) {
      if (HistoryCheck.zxidOf(file, "log.") > cutZxid) {
        move(file, folder);
      }
    }
    for (Path file : files(snapshots, "snapshot.")) {
      // A snapshot behind the gap was taken while the log had what it lacks now, and may hold part of it.
      if (damage.losesHistory() && HistoryCheck.zxidOf(file, "snapshot.") > damage.lastZxid()) {
        move(file, folder);
      }
    }
    cut(damage, folder);
    sync(folder);
    sync(logs);
    sync(snapshots);
    return folder;
  }

  private void cut(HistoryDamage damage, Path folder) throws IOException {
    if (damage.offset() == 0) {
      move(damage.file(), folder);
      return;
    }
    Path copy = folder.resolve(damage.file().getFileName() + ".from-byte-" + damage.offset());
    try (FileChannel channel = FileChannel.open(damage.file(), StandardOpenOption.READ, StandardOpenOption.WRITE);
        FileChannel out = FileChannel.open(copy, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      copyTail(channel.position(damage.offset()), out);
      out.force(true);
      sync(folder);
      channel.truncate(damage.offset());
      channel.force(true);
    }
  }

  /** Copies the rest of a file without the zeros at its end, which were allocated in advance. */
  private static void copyTail(FileChannel in, FileChannel out) throws IOException {
    ByteBuffer block = ByteBuffer.allocate(BLOCK_BYTES);
    long at = 0;
    for (int read = in.read(block.clear()); read >= 0; read = in.read(block.clear())) {
      int end = read;
      while (end > 0 && block.get(end - 1) == 0) {
        end--;
      }
      block.position(0).limit(end);
      while (block.hasRemaining()) {
        out.write(block, at + block.position());
      }
      at += read;
    }
  }

  private static void move(Path file, Path folder) throws IOException {
    // Within one file system a rename, else copied before it is deleted.
    Files.move(file, folder.resolve(file.getFileName()));
  }

  private Path create(Instant now) throws IOException {
    Path parent = logs.toAbsolutePath().getParent();
    String name = "tailbound-damaged-" + MOMENT.format(now);
    for (int number = 1; number < MOST_FOLDERS_A_SECOND; number++) {
      try {
        Path folder = Files.createDirectory(parent.resolve(number == 1 ? name : name + "-" + number));
        sync(parent);
        return folder;
      } catch (FileAlreadyExistsException taken) {
        // The next number.
      }
    }
    throw new IOException("no free name for a folder " + name + " in " + parent);
  }

  private void writeNote(String text) throws IOException {
    Path note = logs.resolve(NOTE);
    Files.writeString(note, text + "\n");
    sync(note);
    sync(logs);
  }

  /** What was lost, if a note says so. */
  public Optional<String> note() throws IOException {
    Path note = logs.resolve(NOTE);
    if (!Files.exists(note)) {
      return Optional.empty();
    }
    String text = new String(Files.readAllBytes(note), StandardCharsets.UTF_8).strip();
    return Optional.of(text.isEmpty() ? "its data were moved away by hand" : text);
  }

  /**
   * Moves a snapshot away that holds parts of transactions which the log lacks. It was taken while they were
   * applied and not yet synced here; others may have them.
   *
   * @return the folder that has it now
   */
  public Path setAside(Path snapshot, String reason, Instant now) throws IOException {
    Path folder = create(now);
    Files.writeString(folder.resolve("README"), "snapshot " + snapshot + ": " + reason + "\n");
    move(snapshot, folder);
    sync(folder);
    sync(snapshots);
    return folder;
  }

  /** The snapshots of that zxid, compressed or not. */
  public List<Path> snapshotsOf(long zxid) throws IOException {
    return files(snapshots, "snapshot.").stream()
        .filter(file -> HistoryCheck.zxidOf(file, "snapshot.") == zxid)
        .toList();
  }

  /** Removes the note; the epoch file tells that history was lost. */
  public void forget() throws IOException {
    if (Files.deleteIfExists(logs.resolve(NOTE))) {
      sync(logs);
    }
  }

  private static List<Path> files(Path folder, String prefix) throws IOException {
    try (Stream<Path> list = Files.list(folder)) {
      return list.filter(file -> HistoryCheck.zxidOf(file, prefix) >= 0).sorted().toList();
    }
  }

  /** Puts the log files, the snapshots and their names on disk. */
  public void syncAll() throws IOException {
    for (Path file : files(logs, "log.")) {
      syncUnlessPurged(file);
    }
    for (Path file : files(snapshots, "snapshot.")) {
      syncUnlessPurged(file);
    }
    sync(logs);
    sync(snapshots);
  }

  private static void syncUnlessPurged(Path file) throws IOException {
    try {
      sync(file);
    } catch (NoSuchFileException purged) {
      // Upstream's purge removes files that nothing is built on any more.
    }
  }

  private static void sync(Path path) throws IOException {
    StandardOpenOption how = Files.isDirectory(path) ? StandardOpenOption.READ : StandardOpenOption.WRITE;
    try (FileChannel channel = FileChannel.open(path, how)) {
      channel.force(true);
    }
  }
}
