package io.tailbound.zookeeper.epoch;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.random.RandomGenerator;

/**
 * A file layer that forgets at a loss of power what was not synced, and that kills its process at a
 * chosen operation. After a loss of power each sector holds what was synced last or anything written
 * to it since; an unsynced new file may be the old one, the new one or empty.
 */
final class ForgetfulStorage implements EpochStorage {
  static final int SECTOR = 512;

  /** The process dies at this operation. */
  static final class Killed extends Error {
    private static final long serialVersionUID = 1L;
    final transient ForgetfulStorage storage;

    Killed(ForgetfulStorage storage) {
      super("killed");
      this.storage = storage;
    }
  }

  private static final class Content {
    final TreeMap<Integer, List<byte[]>> sectorsSinceSync = new TreeMap<>();
    int length;

    static Content of(byte[] bytes) {
      Content content = new Content();
      content.length = bytes.length;
      for (int at = 0; at < bytes.length; at += SECTOR) {
        List<byte[]> versions = new ArrayList<>();
        versions.add(Arrays.copyOfRange(bytes, at, Math.min(bytes.length, at + SECTOR)));
        content.sectorsSinceSync.put(at, versions);
      }
      return content;
    }

    byte[] newest() {
      byte[] all = new byte[length];
      sectorsSinceSync.forEach(
          (at, versions) -> {
            byte[] last = versions.get(versions.size() - 1);
            System.arraycopy(last, 0, all, at, last.length);
          });
      return all;
    }
  }

  /** The names that a file had since the last sync, oldest first; the first is on disk. */
  private final Map<String, List<Content>> files = new HashMap<>();

  private int operationsLeft = Integer.MAX_VALUE;
  private int syncs;
  private boolean full;
  private boolean broken;

  void killAfter(int operations) {
    operationsLeft = operations;
  }

  void fillUp(boolean isFull) {
    full = isFull;
  }

  void breakSyncs() {
    broken = true;
  }

  int syncs() {
    return syncs;
  }

  /** Loses power: every sector and every name falls back to something since its last sync. */
  void losePower(RandomGenerator random) {
    operationsLeft = Integer.MAX_VALUE;
    for (List<Content> names : files.values()) {
      Content kept = names.get(random.nextInt(names.size()));
      boolean newName = kept != names.get(0);
      if (newName && random.nextInt(4) == 0) {
        kept = Content.of(new byte[0]);
      }
      for (List<byte[]> versions : kept.sectorsSinceSync.values()) {
        byte[] chosen = versions.get(random.nextInt(versions.size()));
        versions.clear();
        versions.add(chosen);
      }
      names.clear();
      names.add(kept);
    }
    files.values().removeIf(names -> names.get(0) == ABSENT);
  }

  private static final Content ABSENT = Content.of(new byte[0]);

  /** Damages a file as an editor or a bad disk would. */
  void damage(String name, RandomGenerator random) {
    byte[] bytes = files.get(name).get(files.get(name).size() - 1).newest();
    if (bytes.length != EpochRecovery.FILE_BYTES || random.nextBoolean()) {
      bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length + 1));
    } else {
      int slot = random.nextInt(2) * EpochRecovery.SLOT_DISTANCE;
      bytes[slot + random.nextInt(EpochRecord.BYTES)] ^= (byte) (1 + random.nextInt(255));
    }
    put(name, bytes);
  }

  /** Puts a file on this disk, as another program would. */
  void put(String name, byte[] bytes) {
    files.put(name, new ArrayList<>(List.of(Content.of(bytes))));
  }

  private void boundary() {
    if (operationsLeft-- <= 0) {
      throw new Killed(this);
    }
  }

  private Content newest(String name) throws IOException {
    List<Content> names = files.get(name);
    if (names == null) {
      throw new IOException(name + ": no such file");
    }
    return names.get(names.size() - 1);
  }

  @Override
  public Optional<byte[]> read(String name) throws IOException {
    return files.containsKey(name) ? Optional.of(newest(name).newest()) : Optional.empty();
  }

  @Override
  public void create(String name, byte[] content) throws IOException {
    boundary();
    refuseIfFull();
    put(name, content);
    boundary();
  }

  @Override
  public void replace(String name, byte[] content) throws IOException {
    boundary();
    refuseIfFull();
    files.computeIfAbsent(name, absent -> new ArrayList<>(List.of(ABSENT))).add(Content.of(content));
    boundary();
  }

  private void refuseIfFull() throws IOException {
    if (full) {
      throw new IOException("No space left on device");
    }
  }

  @Override
  public void overwrite(String name, long offset, byte[] content) throws IOException {
    boundary();
    if (offset % SECTOR != 0 || content.length != SECTOR || offset + SECTOR > newest(name).length) {
      throw new IOException("not one whole sector of the file");
    }
    newest(name).sectorsSinceSync.get((int) offset).add(content.clone());
    boundary();
  }

  @Override
  public void syncContent(String name) throws IOException {
    sync(name, false);
  }

  @Override
  public void sync(String name) throws IOException {
    sync(name, true);
  }

  private void sync(String name, boolean nameToo) throws IOException {
    boundary();
    if (broken) {
      throw new IOException("Input/output error");
    }
    syncs++;
    List<Content> names = files.get(name);
    Content synced = Content.of(newest(name).newest());
    if (nameToo) {
      names.clear();
      names.add(synced);
    } else {
      names.set(names.size() - 1, synced);
    }
    boundary();
  }

  @Override
  public void close() {
    // Nothing to give back.
  }
}
