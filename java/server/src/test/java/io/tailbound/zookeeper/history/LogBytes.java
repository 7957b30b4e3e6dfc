package io.tailbound.zookeeper.history;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.Adler32;

/** The bytes of a log file, as upstream writes them. */
final class LogBytes {
  static final int HEADER = 16;
  static final int BODY = 40;
  static final int RECORD = BODY + 13;
  static final int PADDING = 512;

  private LogBytes() {}

  /** A file with these transactions and zeros behind them. */
  static byte[] of(long... zxids) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(0x5a4b4c47);
    out.writeInt(2);
    out.writeLong(0);
    for (long zxid : zxids) {
      byte[] body = ByteBuffer.allocate(BODY).putLong(7).putInt(1).putLong(zxid).putLong(0).putInt(1).array();
      Adler32 adler = new Adler32();
      adler.update(body, 0, body.length);
      out.writeLong(adler.getValue());
      out.writeInt(body.length);
      out.write(body);
      out.writeByte('B');
    }
    out.write(new byte[PADDING]);
    return bytes.toByteArray();
  }

  /** Where the record with this index begins. */
  static int record(int index) {
    return HEADER + index * RECORD;
  }
}
