package io.tailbound.zookeeper.harness.recovery;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.LoopbackBlock;
import io.tailbound.zookeeper.harness.ensemble.Selection;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.process.ServerProcess;
import io.tailbound.zookeeper.harness.result.Campaign;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Time from a leader's failure to the next successful write, for many variants in one run. The cells
 * take turns in random order, a fresh ensemble for every few faults, so that a noisy minute of the
 * machine meets all of them alike.
 */
public final class RecoveryBench implements Campaign {
    private final Options options;
    private final Path output;
    private final SyncDelay syncDelay;
    private final int busyPerCpu;
    private final List<Cell> cells = new ArrayList<>();
    private Selection selection;
    private final List<Trial> trials = Collections.synchronizedList(new ArrayList<>());

    private RecoveryBench(Options options) throws IOException {
        this.options = options;
        this.output = options.output();
        this.syncDelay =
                new SyncDelay(
                        options.number("sync-delay-ms", 0),
                        Path.of(System.getProperty("tailbound.syncdelay", "sync_delay.so")));
        this.busyPerCpu = Math.toIntExact(options.number("busy-per-cpu", 0));
        plan();
    }

    static Map<String, String> defaults() {
        return Options.defaults(
                "out/bench",
                "sizes", "3,5,7",
                "variants", "all",
                "faults", "kill,stop",
                "trials", "50",
                "faults-per-start", "5",
                "period-ms", "5",
                "sync-delay-ms", "0",
                "busy-per-cpu", "0");
    }

    private void plan() throws IOException {
        Variants table = Variants.of(options);
        List<String> names = new ArrayList<>(options.list("variants"));
        if (names.equals(List.of("all"))) {
            names = new ArrayList<>(table.names());
            // The first variant runs twice: what differs between the two is noise.
            names.add(1, names.get(0) + "+again");
        }
        List<Integer> sizes = options.numbers("sizes", 3);
        selection = new Selection(table.select(names), syncDelay::obstacle);
        for (Variant variant : selection.runnable()) {
            for (int size : sizes) {
                for (String fault : options.list("faults")) {
                    cells.add(new Cell(variant, size, fault(fault)));
                }
            }
        }
        if (cells.isEmpty()) {
            throw new IllegalArgumentException("nothing to run");
        }
    }

    private static Cell.Fault fault(String name) {
        try {
            return Cell.Fault.valueOf(name.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            throw new IllegalArgumentException("--faults " + name + ": kill or stop is needed");
        }
    }

    @Override
    public void run() throws IOException, InterruptedException {
        Random order = new Random(options.seed());
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
        try (var ensemble = new FaultedEnsemble(cell, setup, random, period, busyPerCpu)) {
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

    @Override
    public void finish(boolean complete) throws IOException {
        ObjectNode result = Provenance.begin("recovery", options);
        result.put("complete", complete);
        result.put("busy_processes_per_cpu", busyPerCpu);
        result.put("sync_delay_ns", TimeUnit.MILLISECONDS.toNanos(syncDelay.delayMs()));
        selection.addSkippedTo(result);
        Summary summary = new Summary(cells, List.copyOf(trials));
        summary.addTo(result);
        String name = resultName();
        Provenance.write(result, output.resolve(name + ".json"));
        Provenance.write(Breakdown.of(List.copyOf(trials)), output.resolve(name + "-breakdown.json"));
        System.out.print(summary.table());
        selection.printSkipped();
        Folders.delete(output.resolve("recovery-work"));
    }

    private String resultName() {
        return "recovery"
                + (syncDelay.delayMs() == 0 ? "" : "-slow-disk")
                + (busyPerCpu == 0 ? "" : "-busy");
    }

    @Override
    public boolean failed() {
        return trials.stream().anyMatch(trial -> trial.failure() != null);
    }

    /** Runs the benchmark; see {@code bench/recovery/run}. */
    public static void main(String[] arguments) {
        Campaign.main("recovery", given -> new RecoveryBench(Options.parse(given, defaults())), arguments);
    }
}
