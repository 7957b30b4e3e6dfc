package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** {@link EpochStorage} in a folder of a file system. */
final class DirectoryStorage implements EpochStorage {
  private static final String TEMPORARY = ".tailbound-new";

  private final Path directory;
  private final Map<String, FileChannel> open = new HashMap<>();
  private IOException syncFailure;

  DirectoryStorage(Path directory) {
    this.directory = directory;
  }

  @Override
  public Optional<byte[]> read(String name) throws IOException {
    try {
      return Optional.of(Files.readAllBytes(directory.resolve(name)));
    } catch (NoSuchFileException absent) {
      return Optional.empty();
    }
  }

  @Override
  public void create(String name, byte[] content) throws IOException {
    Path temporary = directory.resolve(name + TEMPORARY);
    Files.write(temporary, content);
    sync(name + TEMPORARY);
    forget(name);
    rename(temporary, name);
    sync(name);
  }

  @Override
  public void replace(String name, byte[] content) throws IOException {
    Path temporary = directory.resolve(name + TEMPORARY);
    Files.write(temporary, content);
    rename(temporary, name);
  }

  private void rename(Path temporary, String name) throws IOException {
    Files.move(
        temporary,
        directory.resolve(name),
        StandardCopyOption.ATOMIC_MOVE,
        StandardCopyOption.REPLACE_EXISTING);
  }

  @Override
  public void overwrite(String name, long offset, byte[] content) throws IOException {
    ByteBuffer rest = ByteBuffer.wrap(content);
    FileChannel channel = channel(name);
    while (rest.hasRemaining()) {
      channel.write(rest, offset + rest.position());
    }
  }

  @Override
  public void syncContent(String name) throws IOException {
    force(name, false);
  }

  @Override
  public void sync(String name) throws IOException {
    force(name, true);
  }

  private void force(String name, boolean nameToo) throws IOException {
    // After a failed sync Linux may report success for pages that never reached the disk.
    synchronized (open) {
      if (syncFailure != null) {
        throw new IOException("an earlier sync failed: " + syncFailure.getMessage(), syncFailure);
      }
    }
    // Through channels of its own: a file may be replaced while it is synced.
    try (FileChannel file = FileChannel.open(directory.resolve(name), StandardOpenOption.WRITE)) {
      file.force(nameToo);
      if (nameToo) {
        try (FileChannel folder = FileChannel.open(directory, StandardOpenOption.READ)) {
          folder.force(true);
        }
      }
    } catch (IOException failure) {
      synchronized (open) {
        syncFailure = failure;
      }
      throw failure;
    }
  }

  private FileChannel channel(String name) throws IOException {
    synchronized (open) {
      FileChannel channel = open.get(name);
      if (channel == null || !channel.isOpen()) {
        channel =
            FileChannel.open(
                directory.resolve(name), StandardOpenOption.READ, StandardOpenOption.WRITE);
        open.put(name, channel);
      }
      return channel;
    }
  }

  private void forget(String name) throws IOException {
    synchronized (open) {
      FileChannel channel = open.remove(name);
      if (channel != null) {
        channel.close();
      }
    }
  }

  @Override
  public void close() throws IOException {
    synchronized (open) {
      for (FileChannel channel : open.values()) {
        channel.close();
      }
      open.clear();
    }
  }
}
