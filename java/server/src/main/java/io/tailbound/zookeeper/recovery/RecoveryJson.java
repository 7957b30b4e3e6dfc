package io.tailbound.zookeeper.recovery;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Recoveries as JSON, for log lines and for {@code tailbound predict recovery}. */
public final class RecoveryJson {
  /** Version of the schema of a recovery breakdown. */
  public static final int SCHEMA_VERSION = 1;

  private RecoveryJson() {}

  /** One recovery as one object on one line. */
  public static String line(Recovery recovery) {
    return recovery.toMap().entrySet().stream()
        .map(entry -> quoted(entry.getKey()) + ":" + value(entry.getValue()))
        .collect(Collectors.joining(",", "{", "}"));
  }

  /** A whole breakdown. */
  public static String breakdown(List<Recovery> recoveries) {
    return recoveries.stream()
        .map(RecoveryJson::line)
        .collect(
            Collectors.joining(",\n", "{\"schema_version\":" + SCHEMA_VERSION + ",\"recoveries\":[\n", "\n]}\n"));
  }

  /** A whole breakdown as a map, for the AdminServer, which writes JSON itself. */
  static Map<String, Object> breakdownMap(List<Recovery> recoveries) {
    return Map.of(
        "schema_version", SCHEMA_VERSION,
        "recoveries", recoveries.stream().map(Recovery::toMap).toList());
  }

  private static String value(Object value) {
    return value instanceof String text ? quoted(text) : String.valueOf(value);
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }
}
