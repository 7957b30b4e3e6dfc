package io.tailbound.zookeeper.harness.ensemble;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.tailbound.zookeeper.harness.result.Options;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The table of variants, read from a JSON file; the harness brings one of its own. */
public final class Variants {
    private final Map<String, Variant> byName = new LinkedHashMap<>();

    private Variants(List<Variant> variants) {
        for (Variant variant : variants) {
            byName.put(variant.name(), variant);
        }
    }

    /**
     * Reads the table that the option {@code --variants-file} names, or the harness's own.
     *
     * @throws IOException if it cannot be read or is malformed
     */
    public static Variants of(Options options) throws IOException {
        String file = options.text("variants-file");
        return read(file.isEmpty() ? null : Path.of(file));
    }

    /**
     * Reads a table.
     *
     * @param file the table, or null for the harness's own
     * @throws IOException if it cannot be read or is malformed
     */
    public static Variants read(Path file) throws IOException {
        ObjectMapper mapper =
                JsonMapper.builder().enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_ENUMS).build();
        try (InputStream input =
                file == null
                        ? Variants.class.getResourceAsStream("/variants.json")
                        : Files.newInputStream(file)) {
            return new Variants(mapper.readValue(input, new TypeReference<List<Variant>>() {}));
        }
    }

    /** The names in the order of the table. */
    public List<String> names() {
        return List.copyOf(byName.keySet());
    }

    /**
     * The variants of the given names; the suffix {@code +again} gives a second copy of one.
     *
     * @throws IllegalArgumentException if one is unknown
     */
    public List<Variant> select(List<String> names) {
        List<Variant> chosen = new ArrayList<>();
        for (String name : names) {
            String known = name.replaceFirst("\\+again$", "");
            Variant variant = byName.get(known);
            if (variant == null) {
                throw new IllegalArgumentException(
                        "no variant '" + known + "'; known: " + String.join(", ", byName.keySet()));
            }
            chosen.add(variant.named(name));
        }
        return chosen;
    }
}
