package io.tailbound.examples.kafka;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.result.Quantiles;
import io.tailbound.zookeeper.harness.result.Table;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Trials by situation and setting, each compared with the first setting of the run: ratios within a
 * round, and their median, minimum and maximum.
 */
final class Summary {
    private final List<Situation> situations;
    private final List<Setting> settings;
    private final List<Trial> trials;

    Summary(List<Situation> situations, List<Setting> settings, List<Trial> trials) {
        this.situations = situations;
        this.settings = settings;
        this.trials = trials;
    }

    /** One row: what was measured in one situation with one setting. */
    private record Row(
            Situation situation,
            String measure,
            Setting setting,
            List<Long> timesNs,
            long failures,
            List<Double> ratios) {}

    private List<Trial> of(Situation situation, Setting setting) {
        return trials.stream()
                .filter(trial -> trial.situation() == situation && trial.setting().equals(setting))
                .toList();
    }

    private List<Row> rows() {
        List<Row> rows = new ArrayList<>();
        for (Situation situation : situations) {
            for (String measure : measures(situation)) {
                Map<Integer, Long> baseline = times(of(situation, settings.get(0)), measure);
                for (Setting setting : settings) {
                    List<Trial> made = of(situation, setting);
                    Map<Integer, Long> times = times(made, measure);
                    long failures = made.stream().filter(trial -> trial.failure() != null).count();
                    rows.add(new Row(
                            situation, measure, setting, List.copyOf(times.values()), failures,
                            ratios(times, baseline)));
                }
            }
        }
        return rows;
    }

    private List<String> measures(Situation situation) {
        return trials.stream()
                .filter(trial -> trial.situation() == situation)
                .flatMap(trial -> trial.measuresNs().keySet().stream())
                .distinct()
                .sorted()
                .toList();
    }

    private static Map<Integer, Long> times(List<Trial> trials, String measure) {
        Map<Integer, Long> times = new LinkedHashMap<>();
        for (Trial trial : trials) {
            if (trial.failure() == null) {
                times.put(trial.number(), trial.measuresNs().get(measure));
            }
        }
        return times;
    }

    private static List<Double> ratios(Map<Integer, Long> times, Map<Integer, Long> baseline) {
        List<Double> ratios = new ArrayList<>();
        times.forEach((number, ns) -> {
            Long other = baseline.get(number);
            if (other != null && other > 0) {
                ratios.add((double) ns / other);
            }
        });
        Collections.sort(ratios);
        return ratios;
    }

    private static double median(List<Double> sorted) {
        int half = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted.get(half) : (sorted.get(half - 1) + sorted.get(half)) / 2;
    }

    /** Adds the rows and all trials to a result. */
    void addTo(ObjectNode result) {
        ArrayNode cells = result.putArray("cells");
        for (Row row : rows()) {
            ObjectNode json = cells.addObject();
            json.put("situation", row.situation().text());
            json.put("measure", row.measure());
            json.put("variant", row.setting().variant().name());
            json.put("client", row.setting().client().text());
            json.put("failures", row.failures());
            if (!row.timesNs().isEmpty()) {
                json.set("times", Quantiles.of(row.timesNs()).toJson());
            }
            if (!row.ratios().isEmpty()) {
                json.putObject("ratio_to_first")
                        .put("median", median(row.ratios()))
                        .put("min", row.ratios().get(0))
                        .put("max", row.ratios().get(row.ratios().size() - 1));
            }
        }
        ArrayNode all = result.putArray("trials");
        trials.forEach(trial -> all.add(trial.toJson()));
    }

    /** The rows in milliseconds, as plain text. */
    String table() {
        Table table = new Table(
                "situation", "measure", "variant", "client", "trials", "failed", "min ms", "median ms", "max ms",
                "ratio", "ratios from-to");
        for (Row row : rows()) {
            boolean measured = !row.timesNs().isEmpty();
            Quantiles times = measured ? Quantiles.of(row.timesNs()) : null;
            List<Double> ratios = row.ratios();
            table.add(
                    row.situation().text(), row.measure().replace('_', ' '), row.setting().variant().name(),
                    row.setting().client().text(), Integer.toString(row.timesNs().size()),
                    Long.toString(row.failures()), measured ? Table.ms(times.min()) : "-",
                    measured ? Table.ms(times.at(50)) : "-", measured ? Table.ms(times.max()) : "-",
                    ratios.isEmpty() ? "-" : two(median(ratios)),
                    ratios.isEmpty() ? "-" : two(ratios.get(0)) + "-" + two(ratios.get(ratios.size() - 1)));
        }
        return table.toString();
    }

    private static String two(double ratio) {
        return String.format(Locale.ROOT, "%.2f", ratio);
    }
}
