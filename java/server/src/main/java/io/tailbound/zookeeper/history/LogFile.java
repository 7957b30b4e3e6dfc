package io.tailbound.zookeeper.history;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.Adler32;

/**
 * Reads one file of upstream's transaction log from its beginning, record by record: a header of 16 bytes
 * (magic, version, database id), then for each transaction an Adler-32 checksum (8 bytes), a length (4),
 * that many bytes, and the letter B. Files are preallocated, so zeros behind the last record are the
 * ordinary end.
 */
final class LogFile implements AutoCloseable {
  private static final int MAGIC = 0x5a4b4c47; // "ZKLG"
  private static final int HEADER_BYTES = 16;
  private static final int RECORD_OVERHEAD_BYTES = 13;
  private static final int ZXID_AT = 12;
  private static final int LEAST_RECORD_BYTES = 32;
  private static final byte RECORD_END = 'B';

  private final DataInputStream in;
  private final long length;
  private long offset;
  private long zxid;
  private String damage = "";
  private boolean partial;

  private LogFile(DataInputStream in, long length) {
    this.in = in;
    this.length = length;
  }

  /** Opens a file and reads its header; a damaged header is a file without records. */
  static LogFile open(Path file) throws IOException {
    InputStream bytes = Files.newInputStream(file);
    LogFile log = new LogFile(new DataInputStream(new BufferedInputStream(bytes, 1 << 16)), Files.size(file));
    try {
      log.readHeader();
      return log;
    } catch (IOException failed) {
      bytes.close();
      throw failed;
    }
  }

  private void readHeader() throws IOException {
    if (length < HEADER_BYTES) {
      damage = "it has " + length + " bytes, less than a header";
      return;
    }
    int magic = in.readInt();
    in.skipNBytes(HEADER_BYTES - Integer.BYTES);
    if (magic != MAGIC) {
      damage = String.format("it begins with %08x, not with the %08x of a transaction log", magic, MAGIC);
      return;
    }
    offset = HEADER_BYTES;
  }

  /** Goes to the next transaction; false at the end of the file or at a damaged record. */
  boolean next() throws IOException {
    if (!damage.isEmpty()) {
      return false;
    }
    try {
      return readRecord();
    } catch (EOFException cut) {
      damage = offset == length ? "" : "the record at byte " + offset + " is cut off by the end of the file";
      partial = true;
      return false;
    }
  }

  private boolean readRecord() throws IOException {
    long checksum = in.readLong();
    int size = in.readInt();
    if (size == 0) {
      // Upstream takes a length of 0 for the end, whatever the checksum is.
      return false;
    }
    if (size < LEAST_RECORD_BYTES || size > length - offset - RECORD_OVERHEAD_BYTES) {
      damage = "the record at byte " + offset + " has an impossible length of " + size;
      return false;
    }
    byte[] body = new byte[size];
    in.readFully(body);
    byte end = in.readByte();
    if (end != RECORD_END) {
      damage = "the record at byte " + offset + " was not written to its end";
      partial = true;
      return false;
    }
    Adler32 adler = new Adler32();
    adler.update(body, 0, size);
    if (adler.getValue() != checksum) {
      damage = "the record at byte " + offset + " does not match its checksum";
      return false;
    }
    offset += RECORD_OVERHEAD_BYTES + size;
    zxid = readLong(body, ZXID_AT);
    return true;
  }

  private static long readLong(byte[] bytes, int at) {
    long value = 0;
    for (int i = 0; i < Long.BYTES; i++) {
      value = value << 8 | bytes[at + i] & 0xff;
    }
    return value;
  }

  /** The transaction that {@link #next} went to. */
  long zxid() {
    return zxid;
  }

  /** Where the last transaction ends; 0 if the header is damaged. */
  long offset() {
    return offset;
  }

  /** What is wrong with the bytes behind the last transaction; empty if nothing is. */
  String damage() {
    return damage;
  }

  /** Whether the damage is what a killed process leaves in the middle of a write; upstream stops there too. */
  boolean partial() {
    return partial;
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
