package io.tailbound.zookeeper.harness.result;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.process.Tool;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** What every result says of where it comes from: host, versions, seed. */
public final class Provenance {
    private static final int SCHEMA_VERSION = 1;
    private static final ObjectMapper JSON = new ObjectMapper();

    private Provenance() {}

    /** The beginning of a result: schema, benchmark, seed, host, versions and options. */
    public static ObjectNode begin(String benchmark, Options options) {
        ObjectNode result = JSON.createObjectNode();
        result.put("schema_version", SCHEMA_VERSION);
        result.put("benchmark", benchmark);
        result.put("seed", options.seed());
        result.set("host", host());
        result.set("versions", versions());
        ObjectNode used = result.putObject("options");
        options.all().forEach(used::put);
        return result;
    }

    private static ObjectNode host() {
        ObjectNode host = JSON.createObjectNode();
        host.put("kernel", firstLine("/proc/sys/kernel/osrelease"));
        host.put("cpus", Runtime.getRuntime().availableProcessors());
        host.put("cpu-model", value("/proc/cpuinfo", "model name"));
        host.put("memory", value("/proc/meminfo", "MemTotal"));
        host.put(
                "clock-source",
                firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
        host.put("load-average", firstLine("/proc/loadavg"));
        return host;
    }

    private static ObjectNode versions() {
        ObjectNode versions = JSON.createObjectNode();
        versions.put("zookeeper", org.apache.zookeeper.Version.getVersion());
        versions.put("java", System.getProperty("java.vm.version"));
        versions.put("etcd", Tool.firstLineOf("etcd", "--version"));
        return versions;
    }

    private static String firstLine(String file) {
        try {
            return Files.readString(Path.of(file)).lines().findFirst().orElse(null);
        } catch (IOException absent) {
            return null;
        }
    }

    private static String value(String file, String key) {
        try (var lines = Files.lines(Path.of(file), StandardCharsets.UTF_8)) {
            return lines.filter(line -> line.startsWith(key))
                    .map(line -> line.substring(line.indexOf(':') + 1).strip())
                    .findFirst()
                    .orElse(null);
        } catch (IOException absent) {
            return null;
        }
    }

    /** Writes a result, indented, with a newline at its end. */
    public static void write(ObjectNode result, Path file) throws IOException {
        String text = JSON.writerWithDefaultPrettyPrinter().writeValueAsString(result);
        Files.createDirectories(file.toAbsolutePath().getParent());
        Files.writeString(file, text + "\n");
    }
}
