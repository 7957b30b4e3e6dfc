package io.tailbound.zookeeper.harness.throughput;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.Selection;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import io.tailbound.zookeeper.harness.result.Table;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.KeeperException;

/**
 * Throughput and latency of ordinary reads and writes against the first variant's. All ensembles live at
 * the same time and take turns in short windows, in random order within a round; only ratios of windows
 * of one round are compared, and the first variant also with a second ensemble of itself.
 */
public final class ThroughputBench {
    private static final int FAILED = 1;
    private static final Duration START_LIMIT = Duration.ofSeconds(60);

    private final Options options;
    private final Path output;
    private final Map<String, Load> loads = new LinkedHashMap<>();
    private final List<Ensemble> ensembles = new ArrayList<>();
    /** Values by kind of operation and measure, then by variant, one per round. */
    private final Map<String, Map<String, List<Double>>> values = new LinkedHashMap<>();

    private ThroughputBench(Options options) {
        this.options = options;
        this.output = options.output();
    }

    private static Map<String, String> defaults() {
        return Options.defaults(
                "out/bench",
                "variants", "vanilla,vanilla+again,tailbound",
                "size", "3",
                "sessions", "8",
                "rounds", "30",
                "window-ms", "1000",
                "warm-up-ms", "10000",
                "period-ms", "50");
    }

    private Path work() {
        return output.resolve("throughput-work");
    }

    private void start() throws IOException, InterruptedException, TimeoutException, KeeperException {
        Folders.delete(work());
        var selection =
                new Selection(
                        Variants.of(options).select(options.list("variants")),
                        Selection::zooKeeperOnly);
        for (Variant variant : selection.runnable()) {
            int size = Math.toIntExact(options.number("size", 1));
            var setup = Ensemble.Setup.plain(variant, size, work().resolve(variant.name()));
            Ensemble ensemble = Ensemble.of(setup);
            ensembles.add(ensemble);
            ensemble.start();
            ensemble.awaitHealthy(START_LIMIT);
            int sessions = Math.toIntExact(options.number("sessions", 1));
            loads.put(variant.name(), new Load(ensemble, sessions));
        }
        if (loads.size() < 2) {
            throw new IllegalArgumentException("fewer than two variants can run: nothing to compare");
        }
    }

    private void warmUp() throws IOException, InterruptedException {
        long length = TimeUnit.MILLISECONDS.toNanos(options.number("warm-up-ms", 0));
        for (Load load : loads.values()) {
            for (Load.Operation operation : Load.Operation.values()) {
                load.run(operation, length / 2, 0);
            }
        }
    }

    private void rounds() throws IOException, InterruptedException {
        Random order = new Random(options.seed());
        long rounds = options.number("rounds", 1);
        for (long round = 0; round < rounds; round++) {
            for (Load.Operation operation : Load.Operation.values()) {
                turn(operation, true, order);
                turn(operation, false, order);
            }
            System.err.printf("throughput: round %d/%d%n", round + 1, rounds);
        }
    }

    private void turn(Load.Operation operation, boolean closedLoop, Random order)
            throws IOException, InterruptedException {
        long length = TimeUnit.MILLISECONDS.toNanos(options.number("window-ms", 1));
        long period = TimeUnit.MILLISECONDS.toNanos(options.number("period-ms", 1));
        List<String> names = new ArrayList<>(loads.keySet());
        Collections.shuffle(names, order);
        for (String name : names) {
            Load.Window window = loads.get(name).run(operation, length, closedLoop ? 0 : period);
            for (Measure measure : Measure.values()) {
                if (measure.closedLoop() == closedLoop) {
                    String what = operation + " " + measure;
                    values.computeIfAbsent(what.toLowerCase(Locale.ROOT), w -> new LinkedHashMap<>())
                            .computeIfAbsent(name, n -> new ArrayList<>())
                            .add(measure.of(window));
                }
            }
        }
    }

    private static double[] ratios(List<Double> of, List<Double> to) {
        double[] ratios = new double[of.size()];
        for (int round = 0; round < ratios.length; round++) {
            ratios[round] = of.get(round) / to.get(round);
        }
        Arrays.sort(ratios);
        return ratios;
    }

    private static double quartile(double[] sorted, int quarters) {
        return sorted[(sorted.length - 1) * quarters / 4];
    }

    private void finish() throws IOException {
        ObjectNode result = Provenance.begin("throughput", options);
        ArrayNode rows = result.putArray("rows");
        String first = loads.keySet().iterator().next();
        Table table =
                new Table(
                        "operation and measure", "variant", "median", "ratio to " + first,
                        "lower quartile", "upper quartile", "min", "max");
        values.forEach(
                (what, byVariant) ->
                        loads.keySet().forEach(
                                name -> {
                                    List<Double> list = byVariant.get(name);
                                    double[] ratios = ratios(list, byVariant.get(first));
                                    double[] own = list.stream().mapToDouble(v -> v).sorted().toArray();
                                    addRow(rows, table, what, name, quartile(own, 2), ratios);
                                }));
        Provenance.write(result, output.resolve("throughput.json"));
        System.out.print(table);
    }

    private static void addRow(
            ArrayNode rows, Table table, String what, String name, double median, double[] ratios) {
        ObjectNode row = rows.addObject().put("measure", what).put("variant", name);
        if (what.endsWith("_ns")) {
            row.put("median_ns", Math.round(median));
        } else {
            row.put("median_per_second", median);
        }
        ArrayNode all = row.putArray("ratios_sorted");
        Arrays.stream(ratios).forEach(all::add);
        String shown =
                what.endsWith("_ns")
                        ? Table.ms(Math.round(median)) + " ms"
                        : String.format(Locale.ROOT, "%.0f/s", median);
        table.add(
                what.replace("_ns", ""), name, shown, three(quartile(ratios, 2)),
                three(quartile(ratios, 1)), three(quartile(ratios, 3)), three(quartile(ratios, 0)),
                three(quartile(ratios, 4)));
    }

    private static String three(double ratio) {
        return String.format(Locale.ROOT, "%.3f", ratio);
    }

    private void close() throws IOException {
        for (Load load : loads.values()) {
            load.close();
        }
        ensembles.forEach(Ensemble::close);
    }

    /** Runs the benchmark; see {@code bench/recovery/throughput}. */
    public static void main(String[] arguments) throws InterruptedException {
        try {
            ThroughputBench bench = new ThroughputBench(Options.parse(arguments, defaults()));
            bench.start();
            bench.warmUp();
            bench.rounds();
            bench.finish();
            bench.close();
            Folders.delete(bench.work());
            System.exit(0);
        } catch (IllegalArgumentException | IOException | TimeoutException wrong) {
            System.err.println("throughput: " + wrong.getMessage());
        } catch (KeeperException refused) {
            System.err.println("throughput: cannot make the znodes: " + refused.getMessage());
        }
        System.exit(FAILED);
    }
}
