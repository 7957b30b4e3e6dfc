package io.tailbound.zookeeper.config;

import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The {@code tailbound.*} entries of one properties file with their lines, and typed access to them. */
final class Entries {

  private static final Pattern DURATION = Pattern.compile("(\\d{1,9})\\s*(us|ms|s)");

  private record Entry(String value, int line) {}

  private final Path file;
  private final Map<String, Entry> entries;

  private Entries(Path file, Map<String, Entry> entries) {
    this.file = file;
    this.entries = entries;
  }

  /** Reads a file in the format of {@link Properties}, whose logical lines may be continued. */
  static Entries read(Path file) throws IOException, ConfigProblem {
    Map<String, Entry> entries = new LinkedHashMap<>();
    int number = 0;
    int first = 0;
    StringBuilder logical = new StringBuilder();
    for (String line : new String(Files.readAllBytes(file), StandardCharsets.UTF_8).split("\r\n|\r|\n", -1)) {
      number++;
      boolean comment = logical.isEmpty() && line.stripLeading().matches("[#!].*");
      if (logical.isEmpty()) {
        first = number;
      }
      logical.append(line);
      if (!comment && continues(line)) {
        logical.append('\n');
        continue;
      }
      add(file, entries, logical.toString(), first);
      logical.setLength(0);
    }
    add(file, entries, logical.toString(), first);
    return new Entries(file, entries);
  }

  private static boolean continues(String line) {
    int end = line.length();
    while (end > 0 && line.charAt(end - 1) == '\\') {
      end--;
    }
    return (line.length() - end) % 2 == 1;
  }

  private static void add(Path file, Map<String, Entry> entries, String logical, int line)
      throws IOException, ConfigProblem {
    Properties properties = new Properties();
    try {
      properties.load(new StringReader(logical));
    } catch (IllegalArgumentException e) {
      throw new ConfigProblem(file, line, logical.strip(), "not a line of a properties file: " + e.getMessage());
    }
    for (String key : properties.stringPropertyNames()) {
      if (!key.toLowerCase(java.util.Locale.ROOT).startsWith(Key.PREFIX)) {
        continue;
      }
      Entry before = entries.put(key, new Entry(properties.getProperty(key).strip(), line));
      if (before != null) {
        throw new ConfigProblem(file, line, key, "given before, in line " + before.line + "; give it once");
      }
    }
  }

  /** @throws ConfigProblem for the first key that is none of those known, with the nearest of them */
  void rejectUnknown(List<String> known) throws ConfigProblem {
    for (Map.Entry<String, Entry> entry : entries.entrySet()) {
      if (!known.contains(entry.getKey())) {
        throw new ConfigProblem(file, entry.getValue().line, entry.getKey(),
            "unknown key; the nearest known one is '" + nearest(entry.getKey(), known) + "'");
      }
    }
  }

  boolean has(Key key) {
    return entries.containsKey(key.toString());
  }

  /** A problem with a key of this file. */
  ConfigProblem problem(Key key, String problem) {
    Entry entry = entries.get(key.toString());
    return new ConfigProblem(file, entry == null ? 0 : entry.line, key.toString(), problem);
  }

  boolean flag(Key key, boolean byDefault) throws ConfigProblem {
    if (!has(key)) {
      return byDefault;
    }
    return switch (value(key)) {
      case "true" -> true;
      case "false" -> false;
      default -> throw problem(key, "'" + value(key) + "' is neither 'true' nor 'false'");
    };
  }

  <T> T choice(Key key, T[] choices, T byDefault) throws ConfigProblem {
    if (!has(key)) {
      return byDefault;
    }
    for (T choice : choices) {
      if (choice.toString().equals(value(key))) {
        return choice;
      }
    }
    String known = Arrays.stream(choices).map(T::toString).collect(Collectors.joining("', '"));
    throw problem(key, "'" + value(key) + "' is none of '" + known + "'");
  }

  int count(Key key, int byDefault, int least, int most) throws ConfigProblem {
    if (!has(key)) {
      return byDefault;
    }
    String value = value(key);
    if (value.matches("\\d{1,6}") && Integer.parseInt(value) >= least && Integer.parseInt(value) <= most) {
      return Integer.parseInt(value);
    }
    throw problem(key, "'" + value + "' is no whole number from " + least + " to " + most);
  }

  String name(Key key, String byDefault, int mostBytes) throws ConfigProblem {
    if (!has(key)) {
      return byDefault;
    }
    String value = value(key);
    if (!value.matches("[A-Za-z0-9._-]+") || value.length() > mostBytes) {
      throw problem(key, "'" + value + "' is no name of 1 to " + mostBytes
          + " letters, digits, dots, dashes and underscores");
    }
    return value;
  }

  long durationNs(Key key, long byDefaultNs, long leastNs) throws ConfigProblem {
    if (!has(key)) {
      return byDefaultNs;
    }
    Matcher matcher = DURATION.matcher(value(key));
    if (!matcher.matches()) {
      throw problem(key, "'" + value(key) + "' is no duration; write a whole number and a unit,"
          + " as in '500us', '20ms' or '1s'");
    }
    long unitNs = switch (matcher.group(2)) {
      case "us" -> 1_000L;
      case "ms" -> 1_000_000L;
      default -> 1_000_000_000L;
    };
    long ns = Long.parseLong(matcher.group(1)) * unitNs;
    if (ns < leastNs || ns > 60_000_000_000L) {
      throw problem(key, "'" + value(key) + "' is outside of " + leastNs / 1_000_000L + "ms to 60s");
    }
    return ns;
  }

  private String value(Key key) {
    return entries.get(key.toString()).value;
  }

  private static String nearest(String key, List<String> known) {
    TreeMap<Integer, String> byDistance = new TreeMap<>();
    for (String candidate : known) {
      byDistance.putIfAbsent(distance(key, candidate), candidate);
    }
    return byDistance.firstEntry().getValue();
  }

  /** Levenshtein's edit distance. */
  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int substitution = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(substitution, 1 + Math.min(row[j], row[j - 1]));
      }
    }
    return row[b.length()];
  }
}
