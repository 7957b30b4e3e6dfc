package io.tailbound.zookeeper.harness.power;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.client.SessionIdentity;
import io.tailbound.zookeeper.harness.client.ZooKeeperConnection;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.Selection;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.KeeperException;

/**
 * Kills processes and cuts the power of hosts apart from each other, and looks whether anything that was
 * acknowledged is lost. Exit 0 if not, 2 if it is, 1 if the run itself failed.
 */
public final class PowerRun {
    private static final int SIZE = 3;
    private static final int LOST = 2;
    private static final Duration HEALTH_LIMIT = Duration.ofSeconds(90);
    private static final int SESSION_MS = 10_000;
    private static final List<String> CONFIG =
            List.of("tickTime=500", "initLimit=20", "syncLimit=10", "preAllocSize=256",
                    "autopurge.purgeInterval=0");

    private final Options options;
    private final Path output;
    private final Path folder;
    private final SplittableRandom random;
    private final List<String> wrong = new ArrayList<>();
    private long acknowledged;
    private int rounds;
    private int restarts;

    private PowerRun(Options options) {
        this.options = options;
        this.output = options.output();
        this.folder = output.resolve("power-work");
        this.random = new SplittableRandom(options.seed());
    }

    private Variant variant() throws IOException {
        var wanted = Variants.of(options).select(List.of(options.text("variant")));
        List<Variant> runnable = new Selection(wanted, Selection::zooKeeperOnly).runnable();
        if (runnable.isEmpty()) {
            throw new IllegalArgumentException("nothing to run");
        }
        return runnable.get(0);
    }

    private static List<String> config(Variant variant) {
        List<String> config = new ArrayList<>(CONFIG);
        if (variant.launcher() == Variant.Launcher.TAILBOUND) {
            // A rehearsal takes seconds at each of many starts and has no part in what is tested.
            config.add("tailbound.leader.rehearsals=0");
        }
        return config;
    }

    private int run() throws IOException, InterruptedException, TimeoutException, KeeperException {
        Variant variant = variant();
        Folders.delete(folder);
        Path tools = Path.of(System.getProperty("tailbound.tools"));
        Hosts hosts = new Hosts(folder, SIZE, tools);
        var setup = new Ensemble.Setup(variant, SIZE, hosts, folder, config(variant), Map.of());
        Faults faults;
        try (Ensemble ensemble = Ensemble.of(setup)) {
            ensemble.start();
            ensemble.awaitHealthy(HEALTH_LIMIT);
            // The configuration's part, such as myid, is an operator's to put on disk.
            hosts.sync();
            faults = new Faults(ensemble, hosts, random.split());
            boolean goesOn =
                    !playsKnownOrder() || new KnownOrder(ensemble, hosts, faults, wrong).run();
            if (goesOn) {
                rounds(ensemble, faults);
            }
        }
        writeResult(variant, faults);
        if (wrong.isEmpty()) {
            Folders.delete(folder);
            return 0;
        }
        Folders.keep(folder, output.resolve("power-failed-" + variant.name()));
        return LOST;
    }

    private boolean playsKnownOrder() {
        String answer = options.text("known-order");
        return switch (answer) {
            case "yes" -> true;
            case "no" -> false;
            default -> throw new IllegalArgumentException("--known-order takes yes or no, not " + answer);
        };
    }

    private void rounds(Ensemble ensemble, Faults faults)
            throws IOException, InterruptedException, KeeperException {
        long limit = options.number("seconds", 0);
        long end = limit == 0 ? Long.MAX_VALUE : System.nanoTime() + TimeUnit.SECONDS.toNanos(limit);
        Verdict verdict = new Verdict(ensemble);
        Map<String, Set<String>> all = new HashMap<>();
        for (int round = 1; round <= options.number("rounds", 0) && System.nanoTime() < end; round++) {
            String parent = "/r" + round;
            create(ensemble, parent);
            String story;
            Set<String> written;
            try (Writer writer = new Writer(ensemble, parent, random.split())) {
                story = faults.some();
                faults.end();
                if (!comesBack(ensemble, faults, "round " + round + " (" + story + ")")) {
                    return;
                }
                writer.close();
                written = writer.acknowledged();
            }
            acknowledged += written.size();
            rounds++;
            all.put(parent, written);
            int before = wrong.size();
            for (String what : verdict.wrong(Map.of(parent, written))) {
                wrong.add("round " + round + " (" + story + "): " + what);
            }
            wrong.subList(before, wrong.size()).forEach(System.out::println);
            System.err.println("power: round " + round + ", " + written.size() + " writes: " + story);
        }
        for (String what : verdict.wrong(all)) {
            wrong.add("at the end: " + what);
        }
    }

    /** Waits for all servers; one whose process ended gets a second start, since its host's would try again. */
    private boolean comesBack(Ensemble ensemble, Faults faults, String when)
            throws IOException, InterruptedException {
        String complaint = "";
        for (int attempt = 0; attempt < 3; attempt++) {
            try {
                ensemble.awaitHealthy(HEALTH_LIMIT);
                return true;
            } catch (TimeoutException down) {
                complaint = down.getMessage();
                restarts++;
                faults.end();
            }
        }
        wrong.add(when + ": does not come back: " + complaint);
        System.out.println(wrong.get(wrong.size() - 1));
        return false;
    }

    /** Creates a znode on any server that serves; the ensemble is whole. */
    static void create(Ensemble ensemble, String path)
            throws IOException, InterruptedException, KeeperException {
        IOException last = null;
        for (int attempt = 0; attempt < 30; attempt++) {
            int id = 1 + attempt % ensemble.size();
            try (ZooKeeperConnection connection =
                    ZooKeeperConnection.open(
                            ensemble.clientAddress(id), SessionIdentity.fresh(SESSION_MS), SESSION_MS)) {
                connection.create(path, new byte[0]);
                return;
            } catch (KeeperException.NodeExistsException done) {
                return;
            } catch (IOException down) {
                last = down;
                Thread.sleep(100);
            }
        }
        throw new IOException("cannot create " + path, last);
    }

    private void writeResult(Variant variant, Faults faults) throws IOException {
        ObjectNode result = Provenance.begin("power", options);
        result.put("rounds", rounds);
        result.put("acknowledged", acknowledged);
        result.put("second_starts", restarts);
        ObjectNode done = result.putObject("faults");
        faults.done().forEach((fault, times) -> done.put(fault.name().toLowerCase(), times));
        wrong.forEach(result.putArray("wrong")::add);
        Provenance.write(result, output.resolve("power-" + variant.name() + ".json"));
        System.out.println(
                variant.name() + ": " + rounds + " rounds, " + acknowledged + " acknowledged writes, faults "
                        + faults.done() + ", " + restarts + " second starts, " + wrong.size() + " wrong");
    }

    /** Runs and judges; see {@code bench/recovery/power}. */
    public static void main(String[] arguments) throws InterruptedException {
        try {
            Map<String, String> defaults =
                    Options.defaults(
                            "out/bench", "variant", "tailbound", "rounds", "300", "seconds", "0",
                            "known-order", "yes");
            System.exit(new PowerRun(Options.parse(arguments, defaults)).run());
        } catch (IllegalArgumentException | IOException | TimeoutException failed) {
            System.err.println("power: " + failed.getMessage());
        } catch (KeeperException refused) {
            System.err.println("power: cannot make a znode: " + refused.getMessage());
        }
        System.exit(1);
    }
}
