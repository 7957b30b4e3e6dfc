package io.tailbound.zookeeper.epoch;

import java.io.Closeable;
import java.io.IOException;
import java.util.Optional;

/**
 * The few file operations that the epoch store needs, so that a test can put a disk in their place
 * that forgets what was not synced. Every operation is a boundary at which a process may be killed.
 */
interface EpochStorage extends Closeable {
  /** Content of a file, or nothing if there is no such file. */
  Optional<byte[]> read(String name) throws IOException;

  /** Puts a file on disk, in place of an old one of that name; a crash leaves one or the other. */
  void create(String name, byte[] content) throws IOException;

  /**
   * Puts a file in place of an old one of that name as one step, in the page cache. A crash of the
   * operating system may leave the old one, the new one, or an empty one.
   */
  void replace(String name, byte[] content) throws IOException;

  /** Overwrites part of an existing file in the page cache, without making it longer. */
  void overwrite(String name, long offset, byte[] content) throws IOException;

  /** Returns once the content of a file is on disk whose name and length are there already. */
  void syncContent(String name) throws IOException;

  /** Returns once the file and its name are on disk. A failure is final: no later call may succeed. */
  void sync(String name) throws IOException;
}
