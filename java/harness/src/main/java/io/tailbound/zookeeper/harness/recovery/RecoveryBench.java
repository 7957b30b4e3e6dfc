package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.LoopbackBlock;
import io.tailbound.zookeeper.harness.ensemble.Programs;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.process.ServerProcess;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Time from a leader's failure to the next successful write, for many variants in one run. The cells
 * take turns in random order, a fresh ensemble for every few faults, so that a noisy minute of the
 * machine meets all of them alike.
 */
public final class RecoveryBench {
    private static final int OK = 0;
    private static final int FAILED = 1;

    private final Options options;
    private final Path output;
    private final SyncDelay syncDelay;
    private final List<Cell> cells = new ArrayList<>();
    private final Map<String, String> skipped = new LinkedHashMap<>();
    private final List<Trial> trials = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean complete;

    private RecoveryBench(Options options) throws IOException {
        this.options = options;
        this.output = Path.of(options.text("out")).toAbsolutePath();
        this.syncDelay =
                new SyncDelay(
                        options.number("sync-delay-ms", 0),
                        Path.of(System.getProperty("tailbound.syncdelay", "sync_delay.so")));
        plan();
    }

    private static Map<String, String> defaults() {
        Map<String, String> defaults = new LinkedHashMap<>();
        defaults.put("out", "out/bench");
        defaults.put("sizes", "3,5,7");
        defaults.put("variants", "all");
        defaults.put("faults", "kill,stop");
        defaults.put("trials", "50");
        defaults.put("faults-per-start", "5");
        defaults.put("period-ms", "5");
        defaults.put("sync-delay-ms", "0");
        defaults.put("seed", Long.toString(System.nanoTime() & 0xffff_ffffL));
        defaults.put("variants-file", "");
        return defaults;
    }

    private void plan() throws IOException {
        String file = options.text("variants-file");
        Variants table = Variants.read(file.isEmpty() ? null : Path.of(file));
        List<String> names = new ArrayList<>(options.list("variants"));
        if (names.equals(List.of("all"))) {
            names = new ArrayList<>(table.names());
            // The first variant runs twice: what differs between the two is noise.
            names.add(1, names.get(0) + "+again");
        }
        List<Integer> sizes = options.numbers("sizes", 3);
        for (Variant variant : table.select(names)) {
            Optional<String> obstacle =
                    Programs.obstacle(variant).or(() -> syncDelay.obstacle(variant));
            if (obstacle.isPresent()) {
                skipped.put(variant.name(), obstacle.get());
                System.err.println("SKIP " + variant.name() + ": " + obstacle.get());
                continue;
            }
            for (int size : sizes) {
                for (String fault : options.list("faults")) {
                    cells.add(new Cell(variant, size, fault(fault)));
                }
            }
        }
    }

    private static Cell.Fault fault(String name) {
        try {
            return Cell.Fault.valueOf(name.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            throw new IllegalArgumentException("--faults " + name + ": kill or stop is needed");
        }
    }

    private void run() throws IOException, InterruptedException {
        Random order = new Random(options.number("seed", 0));
        long wanted = options.number("trials", 1);
        long perStart = options.number("faults-per-start", 1);
        for (long done = 0; done < wanted; done += perStart) {
            List<Cell> turn = new ArrayList<>(cells);
            Collections.shuffle(turn, order);
            int faults = Math.toIntExact(Math.min(perStart, wanted - done));
            for (Cell cell : turn) {
                var random = new SplittableRandom(order.nextLong());
                // A failed trial ends its ensemble; the others of the block get a fresh one.
                int made = 0;
                while (made < faults) {
                    made += block(cell, faults - made, random);
                }
            }
        }
        complete = true;
    }

    /** Lets one fresh ensemble fail up to {@code faults} times; returns how many trials there were. */
    private int block(Cell cell, int faults, SplittableRandom random)
            throws IOException, InterruptedException {
        Path folder = output.resolve("recovery-work");
        Folders.delete(folder);
        Map<String, String> environment = syncDelay.environment(folder);
        var setup =
                new Ensemble.Setup(
                        cell.variant(),
                        cell.size(),
                        LoopbackBlock.claim(),
                        folder,
                        List.of(),
                        environment);
        long period = TimeUnit.MILLISECONDS.toNanos(options.number("period-ms", 1));
        int done = 0;
        try (var ensemble = new FaultedEnsemble(cell, setup, random, period)) {
            for (; done < faults; done++) {
                report(ensemble.trial());
            }
            return done;
        } catch (TimeoutException | IOException failed) {
            if (ServerProcess.isEnding()) {
                throw new InterruptedException("the run was ended");
            }
            // A failed trial counts; it must not vanish from the comparison.
            report(Trial.failed(cell, done, failed.getMessage()));
            Folders.keep(folder, output.resolve("recovery-failed-" + trials.size()));
            return done + 1;
        }
    }

    private void report(Trial trial) {
        trials.add(trial);
        String outcome =
                trial.failure() == null
                        ? TimeUnit.NANOSECONDS.toMicros(trial.recoveryNs()) / 1000.0 + " ms"
                        : "FAILED: " + trial.failure();
        long all = cells.size() * options.number("trials", 1);
        System.err.printf("recovery: %d/%d %s: %s%n", trials.size(), all, trial.cell(), outcome);
    }

    private void finish() throws IOException {
        ObjectNode result = Provenance.begin("recovery", options.number("seed", 0));
        result.put("complete", complete);
        result.put("sync_delay_ns", TimeUnit.MILLISECONDS.toNanos(syncDelay.delayMs()));
        ObjectNode used = result.putObject("options");
        options.all().forEach(used::put);
        ArrayNode absent = result.putArray("skipped");
        skipped.forEach((name, why) -> absent.addObject().put("variant", name).put("reason", why));
        Summary summary = new Summary(cells, List.copyOf(trials));
        summary.addTo(result);
        String name = syncDelay.delayMs() == 0 ? "recovery" : "recovery-slow-disk";
        Provenance.write(result, output.resolve(name + ".json"));
        System.out.print(summary.table());
        skipped.forEach((variant, why) -> System.out.println("skipped " + variant + ": " + why));
        Folders.delete(output.resolve("recovery-work"));
    }

    private void finishQuietly() {
        if (!complete) {
            try {
                finish();
            } catch (IOException failed) {
                System.err.println("recovery: " + failed.getMessage());
            }
        }
    }

    /** Runs the benchmark; see {@code bench/recovery/run}. */
    public static void main(String[] arguments) {
        try {
            RecoveryBench bench = new RecoveryBench(Options.parse(arguments, defaults()));
            Thread interrupted = new Thread(bench::finishQuietly, "finish");
            Runtime.getRuntime().addShutdownHook(interrupted);
            bench.run();
            bench.finish();
            boolean failures = bench.trials.stream().anyMatch(trial -> trial.failure() != null);
            System.exit(bench.cells.isEmpty() || failures ? FAILED : OK);
        } catch (IllegalArgumentException | IOException wrong) {
            System.err.println("recovery: " + wrong.getMessage());
            System.exit(FAILED);
        } catch (InterruptedException ended) {
            // The hooks write what there is and end the servers.
            Thread.currentThread().interrupt();
        }
    }
}
