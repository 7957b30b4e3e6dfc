package io.tailbound.zookeeper.harness.result;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Options {@code --name value} of a bench, each with its default; an unknown one is an error. */
public final class Options {
    private final Map<String, String> values;

    private Options(Map<String, String> values) {
        this.values = values;
    }

    /**
     * Reads arguments.
     *
     * @param defaults every option that there is, without its dashes, with its default
     * @throws IllegalArgumentException if an option is unknown or lacks its value
     */
    public static Options parse(String[] arguments, Map<String, String> defaults) {
        Map<String, String> values = new LinkedHashMap<>(defaults);
        for (int i = 0; i < arguments.length; i += 2) {
            String name = arguments[i].replaceFirst("^--", "");
            if (!arguments[i].startsWith("--") || !defaults.containsKey(name)) {
                throw new IllegalArgumentException(
                        "no option " + arguments[i] + "; there are --"
                                + String.join(" --", defaults.keySet()));
            }
            if (i + 1 == arguments.length) {
                throw new IllegalArgumentException(arguments[i] + " needs a value");
            }
            values.put(name, arguments[i + 1]);
        }
        return new Options(values);
    }

    /**
     * The defaults of a bench: of the options that every bench has (output folder, seed, table of
     * variants) and of its own.
     *
     * @param out the output folder
     * @param own names, without their dashes, and values in turn
     */
    public static Map<String, String> defaults(String out, String... own) {
        Map<String, String> defaults = new LinkedHashMap<>();
        defaults.put("out", out);
        for (int i = 0; i < own.length; i += 2) {
            defaults.put(own[i], own[i + 1]);
        }
        defaults.put("seed", Long.toString(System.nanoTime() & 0xffff_ffffL));
        defaults.put("variants-file", "");
        return defaults;
    }

    /** The output folder of a bench. */
    public Path output() {
        return Path.of(text("out")).toAbsolutePath();
    }

    /** The seed of a bench. */
    public long seed() {
        return number("seed", 0);
    }

    /** An option's text. */
    public String text(String name) {
        return values.get(name);
    }

    /** An option's text, split at commas. */
    public List<String> list(String name) {
        return List.of(values.get(name).split(","));
    }

    /**
     * An option's whole number.
     *
     * @throws IllegalArgumentException if it is none, or below {@code least}
     */
    public long number(String name, long least) {
        return number(name, values.get(name), least);
    }

    /** An option's whole numbers, split at commas. */
    public List<Integer> numbers(String name, long least) {
        return list(name).stream().map(text -> Math.toIntExact(number(name, text, least))).toList();
    }

    private static long number(String name, String text, long least) {
        try {
            long value = Long.parseLong(text);
            if (value >= least) {
                return value;
            }
        } catch (NumberFormatException malformed) {
            // Said below.
        }
        throw new IllegalArgumentException(
                "--" + name + " " + text + ": a whole number from " + least + " on is needed");
    }

    /** All options as they stand. */
    public Map<String, String> all() {
        return Map.copyOf(values);
    }
}
