package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a server's log says of its last recovery. Our server writes one line {@code recovery {...}};
 * every whole number in it whose name ends in {@code _ns} is a phase, whatever it is called. A stock
 * server tells only how long its election took.
 */
final class RecoveryLines {
    private static final Pattern OURS = Pattern.compile("\\brecovery (\\{.*\\})");
    private static final Pattern STOCK = Pattern.compile("LEADER ELECTION TOOK - (\\d+) MS");
    private static final ObjectMapper JSON = new ObjectMapper();

    private RecoveryLines() {}

    /**
     * The phases of the last recovery that the log tells of from a place on.
     *
     * @param offset where the log ended before the fault, in bytes
     * @return nanoseconds by phase; empty if the log tells none
     */
    static Map<String, Long> read(Path log, long offset) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(log.toFile(), "r")) {
            file.seek(Math.min(offset, file.length()));
            byte[] bytes = new byte[Math.toIntExact(file.length() - file.getFilePointer())];
            file.readFully(bytes);
            return parse(new String(bytes, StandardCharsets.UTF_8));
        }
    }

    static Map<String, Long> parse(String text) {
        Map<String, Long> phases = new TreeMap<>();
        for (String line : text.lines().toList()) {
            Matcher stock = STOCK.matcher(line);
            if (stock.find()) {
                long ms = Long.parseLong(stock.group(1));
                phases.put("election_ns", TimeUnit.MILLISECONDS.toNanos(ms));
            }
        }
        for (String line : text.lines().toList()) {
            Matcher ours = OURS.matcher(line);
            if (ours.find()) {
                collect(ours.group(1), phases);
            }
        }
        return phases;
    }

    private static void collect(String json, Map<String, Long> phases) {
        try {
            collect(JSON.readTree(json), phases);
        } catch (JsonProcessingException malformed) {
            // Somebody else's words in the log.
        }
    }

    private static void collect(JsonNode node, Map<String, Long> phases) {
        node.fields()
                .forEachRemaining(
                        field -> {
                            JsonNode value = field.getValue();
                            if (value.isObject()) {
                                collect(value, phases);
                            } else if (field.getKey().endsWith("_ns") && value.isIntegralNumber()) {
                                phases.put(field.getKey(), value.longValue());
                            }
                        });
    }
}
