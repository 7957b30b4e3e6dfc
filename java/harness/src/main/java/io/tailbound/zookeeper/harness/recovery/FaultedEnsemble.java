package io.tailbound.zookeeper.harness.recovery;

import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.probe.WriteProbe;
import io.tailbound.zookeeper.harness.process.CpuLoad;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One running ensemble whose leader fails again and again, with a client that writes. */
final class FaultedEnsemble implements AutoCloseable {
    private static final Duration START_LIMIT = Duration.ofSeconds(60);
    private static final long RECOVERY_LIMIT_NS = TimeUnit.SECONDS.toNanos(45);
    private static final int QUIET_BEFORE_MS = 500;
    /** The fault's phase against the servers' own ticks is drawn from this range. */
    private static final int PHASE_MS = 300;
    private static final int WATCH_AFTER_MS = 300;

    private final Cell cell;
    private final Ensemble ensemble;
    private final SplittableRandom random;
    private final long periodNs;
    private final int busyPerCpu;
    private int faults;

    FaultedEnsemble(
            Cell cell,
            Ensemble.Setup setup,
            SplittableRandom random,
            long periodNs,
            int busyPerCpu)
            throws IOException, InterruptedException, TimeoutException {
        this.cell = cell;
        this.random = random;
        this.periodNs = periodNs;
        this.busyPerCpu = busyPerCpu;
        this.ensemble = Ensemble.of(setup);
        try {
            ensemble.start();
            ensemble.awaitHealthy(START_LIMIT);
        } catch (IOException | InterruptedException | TimeoutException failed) {
            ensemble.close();
            throw failed;
        }
    }

    /** Lets the leader fail once, measures, and brings the ensemble back to full strength. */
    Trial trial() throws IOException, InterruptedException, TimeoutException {
        int leader = ensemble.awaitHealthy(START_LIMIT);
        ensemble.checkOptionsTaken();
        ensemble.findGroups(leader);
        long[] logEnds = logEnds();
        Trial trial;
        try (WriteProbe probe = WriteProbe.start(ensemble, survivors(leader), periodNs);
                CpuLoad load = startLoad()) {
            Thread.sleep(QUIET_BEFORE_MS + random.nextInt(PHASE_MS));
            Map<Integer, Duration> used = cpuTimes(leader);
            long before = System.nanoTime();
            ensemble.signal(leader, cell.fault().signal());
            long after = System.nanoTime();
            trial = watch(probe, before, after, used);
        }
        repair(leader);
        faults++;
        return trial.failure() == null ? withPhases(trial, logEnds) : trial;
    }

    /** The load is there for the fault and the recovery, not for the start of a server. */
    private CpuLoad startLoad() throws IOException {
        int cpus = Runtime.getRuntime().availableProcessors();
        return CpuLoad.start(busyPerCpu, cpus, ensemble.setup().folder().resolve("load"));
    }

    private List<InetSocketAddress> survivors(int leader) {
        List<InetSocketAddress> targets = new ArrayList<>();
        for (int id = 1; id <= ensemble.size(); id++) {
            if (id != leader) {
                targets.add(ensemble.clientAddress(id));
            }
        }
        Collections.shuffle(targets, new java.util.Random(random.nextLong()));
        return targets;
    }

    private Map<Integer, Duration> cpuTimes(int leader) {
        Map<Integer, Duration> times = new TreeMap<>();
        for (int id = 1; id <= ensemble.size(); id++) {
            if (id != leader) {
                times.put(id, ensemble.cpuTime(id));
            }
        }
        return times;
    }

    /** The most CPU time that a server used since then. */
    private long cpuNsSince(Map<Integer, Duration> used) {
        return used.entrySet().stream()
                .mapToLong(one -> ensemble.cpuTime(one.getKey()).minus(one.getValue()).toNanos())
                .max()
                .orElse(-1);
    }

    private Trial watch(
            WriteProbe probe, long before, long after, Map<Integer, Duration> used) throws InterruptedException {
        OptionalLong first = OptionalLong.empty();
        while (first.isEmpty() && System.nanoTime() - before < RECOVERY_LIMIT_NS) {
            Thread.sleep(2);
            first = probe.log().firstSuccessSentAfter(after);
        }
        if (first.isEmpty()) {
            long limit = TimeUnit.NANOSECONDS.toSeconds(RECOVERY_LIMIT_NS);
            return Trial.failed(cell, faults, "no write succeeded within " + limit + " s");
        }
        long cpuNs = cpuNsSince(used);
        Thread.sleep(WATCH_AFTER_MS);
        return new Trial(
                cell,
                faults,
                first.getAsLong() - before,
                probe.log().longestGapEndingAfter(before),
                probe.log().worstLatencyEndingAfter(before),
                cpuNs,
                Map.of(),
                null);
    }

    private Trial withPhases(Trial trial, long[] logEnds)
            throws IOException, InterruptedException, TimeoutException {
        int leader = ensemble.awaitHealthy(START_LIMIT);
        Map<String, Long> phases = RecoveryLines.read(ensemble.log(leader), logEnds[leader]);
        return new Trial(
                trial.cell(),
                trial.faultIndex(),
                trial.recoveryNs(),
                trial.gapNs(),
                trial.worstLatencyNs(),
                trial.cpuNs(),
                phases,
                null);
    }

    private void repair(int failed) throws IOException {
        if (cell.fault() == Cell.Fault.STOP) {
            ensemble.signal(failed, "CONT");
        } else {
            ensemble.kill(failed);
            ensemble.start(failed);
        }
    }

    private long[] logEnds() throws IOException {
        long[] ends = new long[ensemble.size() + 1];
        for (int id = 1; id <= ensemble.size(); id++) {
            ends[id] = Files.size(ensemble.log(id));
        }
        return ends;
    }

    @Override
    public void close() {
        ensemble.close();
    }
}
