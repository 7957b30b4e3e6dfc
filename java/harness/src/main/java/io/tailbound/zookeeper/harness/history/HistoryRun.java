package io.tailbound.zookeeper.harness.history;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Ensemble;
import io.tailbound.zookeeper.harness.ensemble.LoopbackBlock;
import io.tailbound.zookeeper.harness.ensemble.Placement;
import io.tailbound.zookeeper.harness.ensemble.Selection;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.apache.zookeeper.KeeperException;

/**
 * Records what concurrent clients see while servers and links fail; the checker judges it. Exit 0 if it
 * is linearizable, 2 if not, 1 if the run itself failed or nothing could be decided.
 */
public final class HistoryRun {
    private static final int FAILED = 1;
    private static final Duration START_LIMIT = Duration.ofSeconds(60);
    private static final int KEYS = 300;
    /** Short, so that a hung or cut-off leader is found within a run also by a stock ensemble. */
    private static final List<String> CONFIG =
            List.of("tickTime=200", "initLimit=25", "syncLimit=5");

    private final Options options;
    private final Path output;
    private final SplittableRandom random;
    private final History history = new History();

    private HistoryRun(Options options) {
        this.options = options;
        this.output = options.output();
        this.random = new SplittableRandom(options.seed());
    }

    private static Map<String, String> defaults() {
        return Options.defaults(
                "out/bench",
                "variant", "tailbound",
                "size", "3",
                "seconds", "120",
                "clients", "6",
                "reads", "fenced");
    }

    private Variant variant() throws IOException {
        var wanted = Variants.of(options).select(List.of(options.text("variant")));
        List<Variant> runnable = new Selection(wanted, Selection::zooKeeperOnly).runnable();
        if (runnable.isEmpty()) {
            throw new IllegalArgumentException("nothing to run");
        }
        return runnable.get(0);
    }

    private static Links links(int size) throws IOException {
        return "yes".equals(System.getenv("TAILBOUND_PRIVATE_NETWORK")) ? Links.build(size) : null;
    }

    private int run()
            throws IOException, InterruptedException, TimeoutException, KeeperException {
        Variant variant = variant();
        int size = Math.toIntExact(options.number("size", 3));
        Path folder = output.resolve("history-work");
        Folders.delete(folder);
        Links links = links(size);
        Placement placement = links == null ? LoopbackBlock.claim() : links;
        var setup = new Ensemble.Setup(variant, size, placement, folder, CONFIG, Map.of());
        Nemesis nemesis;
        try (Ensemble ensemble = Ensemble.of(setup)) {
            ensemble.start();
            ensemble.awaitHealthy(START_LIMIT);
            nemesis = new Nemesis(ensemble, links, random.split());
            record(ensemble, nemesis);
        } catch (IOException | TimeoutException failed) {
            Folders.keep(folder, output.resolve("history-failed"));
            throw failed;
        }
        Path file = output.resolve("history-" + variant.name() + ".jsonl");
        history.write(file);
        writeResult(variant, nemesis);
        int verdict = check(file);
        if (verdict == 0) {
            Folders.delete(folder);
        } else {
            Folders.keep(folder, output.resolve("history-failed"));
        }
        return verdict;
    }

    private void record(Ensemble ensemble, Nemesis nemesis)
            throws IOException, InterruptedException, TimeoutException, KeeperException {
        Keys keys = new Keys(KEYS);
        List<InetSocketAddress> servers =
                IntStream.rangeClosed(1, ensemble.size())
                        .mapToObj(ensemble::clientAddress)
                        .toList();
        var reads = reads();
        List<HistoryClient> clients = new ArrayList<>();
        for (int id = 1; id <= options.number("clients", 2); id++) {
            var client = new HistoryClient(id, servers, keys, history, reads, random.split());
            client.prepare();
            clients.add(client);
        }
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(options.number("seconds", 1));
        List<Thread> threads = new ArrayList<>();
        for (HistoryClient client : clients) {
            Thread thread = new Thread(() -> work(client, end), "client-" + threads.size());
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
        nemesis.work(end);
        for (Thread thread : threads) {
            thread.join();
        }
        int unread = reads == HistoryClient.Reads.NONE ? 0 : clients.get(0).readAll();
        if (unread > 0) {
            throw new IOException(unread + " znodes could not be read after the run");
        }
    }

    private HistoryClient.Reads reads() {
        try {
            return HistoryClient.Reads.valueOf(options.text("reads").toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            throw new IllegalArgumentException(
                    "--reads " + options.text("reads") + ": fenced, synced or none is needed");
        }
    }

    private static void work(HistoryClient client, long end) {
        try {
            client.work(end);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void writeResult(Variant variant, Nemesis nemesis) throws IOException {
        ObjectNode result = Provenance.begin("history", options);
        result.put("operations", history.size());
        ObjectNode faults = result.putObject("faults");
        nemesis.done().forEach((fault, times) -> faults.put(fault.name().toLowerCase(), times));
        Provenance.write(result, output.resolve("history-" + variant.name() + ".json"));
        System.out.println("faults: " + nemesis.done());
    }

    private static int check(Path file) throws IOException, InterruptedException {
        String checker = System.getProperty("tailbound.checker", "checker");
        return new ProcessBuilder(checker, file.toString()).inheritIO().start().waitFor();
    }

    /** Runs and judges; see {@code bench/recovery/history}. */
    public static void main(String[] arguments) throws InterruptedException {
        try {
            System.exit(new HistoryRun(Options.parse(arguments, defaults())).run());
        } catch (IllegalArgumentException | IOException | TimeoutException wrong) {
            System.err.println("history: " + wrong.getMessage());
        } catch (KeeperException refused) {
            System.err.println("history: cannot make the znodes: " + refused.getMessage());
        }
        System.exit(FAILED);
    }
}
