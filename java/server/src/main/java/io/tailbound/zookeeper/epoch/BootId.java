package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;

/** Tells one start of the operating system from another: what the page cache held is lost between two. */
final class BootId {
  private static final Path LINUX = Path.of("/proc/sys/kernel/random/boot_id");

  private BootId() {}

  /** The kernel's boot id; without one a random id, so that every start counts as a new boot. */
  static UUID read() {
    try {
      return UUID.fromString(Files.readString(LINUX).trim());
    } catch (IOException | IllegalArgumentException unreadable) {
      return UUID.randomUUID();
    }
  }
}
