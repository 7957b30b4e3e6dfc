package io.tailbound.examples.kafka;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.tailbound.zookeeper.harness.ensemble.Selection;
import io.tailbound.zookeeper.harness.ensemble.Variant;
import io.tailbound.zookeeper.harness.ensemble.Variants;
import io.tailbound.zookeeper.harness.process.ServerProcess;
import io.tailbound.zookeeper.harness.result.Campaign;
import io.tailbound.zookeeper.harness.result.Folders;
import io.tailbound.zookeeper.harness.result.Options;
import io.tailbound.zookeeper.harness.result.Provenance;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Kafka with stock ZooKeeper and with ours, with its own ZooKeeper client and with the agent, in one
 * run. Settings take turns in random order, a fresh cluster for every few trials.
 */
public final class Study implements Campaign {
    /** How many clusters of a block may fail to come up before their failures count as trials. */
    private static final int MOST_SPOILT = 3;

    private final Options options;
    private final Path output;
    private final Path work;
    private final List<Situation> situations;
    private final List<Setting> settings = new ArrayList<>();
    private Selection selection;
    private final List<Trial> trials = Collections.synchronizedList(new ArrayList<>());
    private int failures;

    private Study(Options options) throws IOException {
        options.number("session-ms", 2 * options.number("tick-ms", 1));
        options.number("trials", 1);
        this.options = options;
        this.output = options.output();
        this.work = Path.of(System.getProperty("tailbound.kafka.work"));
        this.situations = Situation.named(options.list("situations"));
        plan();
    }

    private static Map<String, String> defaults() {
        return Options.defaults(
                "examples/kafka/out",
                "variants", "vanilla,thesis-full,tailbound",
                "clients", "original,agent",
                "situations", "reconnection,topic-creation,messages-zookeeper,messages-kafka,messages-both",
                "trials", "20",
                "trials-per-start", "5",
                "tick-ms", "300",
                "session-ms", "600",
                "period-ms", "10",
                "watch-ms", "3000");
    }

    private void plan() throws IOException {
        List<Setting.Client> clients = options.list("clients").stream().map(Setting.Client::named).toList();
        selection = new Selection(Variants.of(options).select(options.list("variants")), Selection::zooKeeperOnly);
        for (Variant variant : selection.runnable()) {
            clients.forEach(client -> settings.add(new Setting(variant, client)));
        }
        if (settings.isEmpty()) {
            throw new IllegalArgumentException("nothing to run");
        }
    }

    private Map<Situation, Experiment> experiments() {
        long period = TimeUnit.MILLISECONDS.toNanos(options.number("period-ms", 1));
        long watch = TimeUnit.MILLISECONDS.toNanos(options.number("watch-ms", 1));
        Path raw = output.resolve("raw");
        return Map.of(
                Situation.RECONNECTION, new Reconnection(),
                Situation.TOPIC_CREATION, new TopicCreation(),
                Situation.MESSAGES_ZOOKEEPER, new Delivery(true, false, period, watch, raw),
                Situation.MESSAGES_KAFKA, new Delivery(false, true, period, watch, raw),
                Situation.MESSAGES_BOTH, new Delivery(true, true, period, watch, raw));
    }

    @Override
    public void run() throws IOException, InterruptedException {
        Folders.delete(output.resolve("raw"));
        Files.deleteIfExists(output.resolve("kafka.json"));
        Random order = new Random(options.seed());
        Map<Situation, Experiment> experiments = experiments();
        int wanted = Math.toIntExact(options.number("trials", 1));
        int perStart = Math.toIntExact(options.number("trials-per-start", 1));
        for (int done = 0; done < wanted; done += perStart) {
            List<Setting> turn = new ArrayList<>(settings);
            Collections.shuffle(turn, order);
            for (Setting setting : turn) {
                List<Pending> pending = new ArrayList<>();
                for (int number = done; number < Math.min(done + perStart, wanted); number++) {
                    List<Situation> mixed = new ArrayList<>(situations);
                    Collections.shuffle(mixed, order);
                    for (Situation situation : mixed) {
                        pending.add(new Pending(situation, experiments.get(situation), number));
                    }
                }
                block(setting, pending, new SplittableRandom(order.nextLong()));
            }
        }
    }

    /** A trial to be made. */
    private record Pending(Situation situation, Experiment experiment, int number) {}

    /** Makes trials on one cluster; after one that fails, the others get a fresh one. */
    private void block(Setting setting, List<Pending> pending, SplittableRandom random)
            throws IOException, InterruptedException {
        int next = 0;
        int spoilt = 0;
        while (next < pending.size()) {
            Path folder = work.resolve("cluster");
            Folders.delete(folder);
            boolean measuring = false;
            try (KafkaCluster cluster = cluster(setting, folder)) {
                cluster.start();
                Delivery.warmUp(cluster, TimeUnit.MILLISECONDS.toNanos(options.number("period-ms", 1)));
                while (next < pending.size()) {
                    Pending trial = pending.get(next);
                    measuring = true;
                    Outcome outcome = trial.experiment().run(cluster, random);
                    measuring = false;
                    report(outcome.of(setting, trial.situation(), trial.number()));
                    next++;
                    if (next < pending.size()) {
                        cluster.repair();
                    }
                }
            } catch (IOException | TimeoutException | KafkaException failed) {
                if (ServerProcess.isEnding()) {
                    throw new InterruptedException("the run was ended");
                }
                keepLogs(folder);
                spoilt++;
                // A cluster that does not come up has not failed a trial; one that never does has.
                if (measuring || spoilt > MOST_SPOILT) {
                    reportFailure(setting, pending.get(next), failed);
                    next++;
                } else {
                    System.err.println("kafka: another cluster is started, for " + failed.getMessage());
                }
            }
        }
    }

    private void reportFailure(Setting setting, Pending trial, Exception failed) {
        String why = String.valueOf(failed.getMessage());
        report(new Trial(setting, trial.situation(), trial.number(), Map.of(), Map.of(), why));
    }

    private KafkaCluster cluster(Setting setting, Path folder) throws IOException {
        long tickMs = options.number("tick-ms", 1);
        return new KafkaCluster(setting, tickMs, options.number("session-ms", 2 * tickMs), folder);
    }

    private void keepLogs(Path folder) throws IOException {
        Path kept = output.resolve("failed-" + ++failures);
        Folders.delete(kept);
        try (var files = Files.walk(folder)) {
            for (Path log : files.filter(file -> file.endsWith("log") && Files.isRegularFile(file)).toList()) {
                Path target = kept.resolve(folder.relativize(log));
                Files.createDirectories(target.getParent());
                Files.copy(log, target);
            }
        }
        System.err.println("kafka: kept the logs in " + kept);
    }

    private void report(Trial trial) {
        trials.add(trial);
        StringBuilder outcome = new StringBuilder();
        trial.measuresNs().forEach((name, ns) ->
                outcome.append(' ').append(name).append(' ').append(TimeUnit.NANOSECONDS.toMillis(ns)).append(" ms"));
        trial.counts().forEach((name, number) -> {
            if (number > 0) {
                outcome.append(' ').append(name).append(' ').append(number);
            }
        });
        long all = (long) settings.size() * situations.size() * options.number("trials", 1);
        System.err.printf("kafka: %d/%d %s, %s:%s%n", trials.size(), all, trial.setting(), trial.situation().text(),
                trial.failure() == null ? outcome : " FAILED: " + trial.failure());
    }

    @Override
    public synchronized void finish(boolean complete) throws IOException {
        if (trials.isEmpty()) {
            return;
        }
        ObjectNode result = Provenance.begin("kafka", options);
        result.put("complete", complete);
        ObjectNode versions = (ObjectNode) result.get("versions");
        versions.remove("etcd");
        versions.put("kafka", AppInfoParser.getVersion());
        versions.put("kafka-zookeeper-client", zooKeeperOfKafka());
        result.put("load_average_at_end", Files.readString(Path.of("/proc/loadavg")).strip());
        selection.addSkippedTo(result);
        Summary summary = new Summary(situations, settings, List.copyOf(trials));
        summary.addTo(result);
        Provenance.write(result, output.resolve("kafka.json"));
        System.out.print(summary.table());
        System.out.println("ratios: to " + settings.get(0) + ", in the same round");
        System.out.println("load average: " + result.get("host").get("load-average").asText());
        selection.printSkipped();
    }

    private static String zooKeeperOfKafka() {
        String[] names = new File(System.getProperty("tailbound.kafka.libraries"))
                .list((folder, name) -> name.matches("zookeeper-[0-9.]+\\.jar"));
        return names == null || names.length == 0 ? null : names[0].replaceAll("zookeeper-|\\.jar", "");
    }

    @Override
    public boolean failed() {
        return trials.stream().anyMatch(trial -> trial.failure() != null);
    }

    /** Runs the study; see {@code examples/kafka/run}. */
    public static void main(String[] arguments) {
        Campaign.main("kafka", given -> new Study(Options.parse(given, defaults())), arguments);
    }
}
