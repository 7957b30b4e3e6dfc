package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.result.Quantiles;
import io.tailbound.zookeeper.harness.result.Table;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Trials by cell: quantiles of every measure, as JSON and as a table. */
final class Summary {
    private final Map<Cell, List<Trial>> byCell = new LinkedHashMap<>();

    Summary(List<Cell> order, List<Trial> trials) {
        for (Cell cell : order) {
            byCell.put(cell, new ArrayList<>());
        }
        for (Trial trial : trials) {
            byCell.get(trial.cell()).add(trial);
        }
        byCell.values().removeIf(List::isEmpty);
    }

    private static Map<String, List<Long>> measures(List<Trial> trials) {
        Map<String, List<Long>> measures = new TreeMap<>();
        for (Trial trial : trials) {
            if (trial.failure() == null) {
                add(measures, "recovery", trial.recoveryNs());
                add(measures, "gap", trial.gapNs());
                add(measures, "worst latency", trial.worstLatencyNs());
                add(measures, "cpu", trial.cpuNs());
                trial.phasesNs()
                        .forEach((phase, ns) -> add(measures, "phase " + nameOf(phase), ns));
            }
        }
        return measures;
    }

    private static String nameOf(String phase) {
        return phase.replaceFirst("_ns$", "").replace('_', ' ');
    }

    private static void add(Map<String, List<Long>> measures, String name, long ns) {
        measures.computeIfAbsent(name, absent -> new ArrayList<>()).add(ns);
    }

    private static long failures(List<Trial> trials) {
        return trials.stream().filter(trial -> trial.failure() != null).count();
    }

    /** Adds the summary and all trials to a result. */
    void addTo(ObjectNode result) {
        ArrayNode cells = result.putArray("cells");
        ArrayNode all = result.putArray("trials");
        byCell.forEach(
                (cell, trials) -> {
                    ObjectNode json = cells.addObject();
                    json.put("variant", cell.variant().name());
                    json.put("size", cell.size());
                    json.put("fault", cell.fault().name().toLowerCase());
                    json.put("failures", failures(trials));
                    ObjectNode measures = json.putObject("measures");
                    measures(trials)
                            .forEach(
                                    (name, ns) ->
                                            measures.set(
                                                    name.replace(' ', '_'),
                                                    Quantiles.of(ns).toJson()));
                    trials.forEach(trial -> all.add(trial.toJson()));
                });
    }

    /** A row for every measure of every cell, in milliseconds. */
    String table() {
        Table table =
                new Table(
                        "variant", "servers", "fault", "measure", "trials", "failed", "min ms",
                        "median ms", "p90 ms", "p99 ms", "max ms");
        byCell.forEach(
                (cell, trials) -> {
                    String size = Integer.toString(cell.size());
                    String fault = cell.fault().name().toLowerCase();
                    String failed = Long.toString(failures(trials));
                    Map<String, List<Long>> measures = measures(trials);
                    if (measures.isEmpty()) {
                        String name = cell.variant().name();
                        table.add(name, size, fault, "-", "0", failed, "-", "-", "-", "-", "-");
                    }
                    measures.forEach(
                            (name, ns) -> {
                                Quantiles q = Quantiles.of(ns);
                                table.add(
                                        cell.variant().name(), size, fault,
                                        name, Integer.toString(ns.size()),
                                        failed, Table.ms(q.min()), Table.ms(q.at(50)),
                                        Table.ms(q.at(90)), Table.ms(q.at(99)), Table.ms(q.max()));
                            });
                });
        return table.toString();
    }
}
