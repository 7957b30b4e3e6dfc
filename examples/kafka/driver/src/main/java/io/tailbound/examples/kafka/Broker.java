package io.tailbound.examples.kafka;

import io.tailbound.zookeeper.harness.process.ServerProcess;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** One unmodified Kafka broker in ZooKeeper mode, as a process of its own. */
final class Broker implements AutoCloseable {
    private static final int PORT = 9092;
    private static final String HEAP = "-Xmx512m";
    private static final String LOGGING = "broker-log4j.properties";
    private static final String AGENT_SPEAKS = "reconnects promptly";

    private final int id;
    private final String host;
    private final Path folder;
    private final boolean agent;
    private ServerProcess process;

    /**
     * A broker, not started.
     *
     * @param id its {@code broker.id}
     * @param host the address that it listens on
     * @param folder where its data and its log go; created
     * @param agent whether its ZooKeeper client is made to reconnect promptly
     */
    Broker(int id, String host, Path folder, boolean agent) {
        this.id = id;
        this.host = host;
        this.folder = folder;
        this.agent = agent;
    }

    /** Its {@code broker.id}. */
    int id() {
        return id;
    }

    /** Where clients reach it. */
    String address() {
        return host + ":" + PORT;
    }

    /** The file with everything that it has printed. */
    Path log() {
        return folder.resolve("log");
    }

    /** How much it has printed, in bytes. */
    long logEnd() throws IOException {
        return Files.size(log());
    }

    /**
     * Writes its configuration.
     *
     * @param zooKeeper the servers, as {@code zookeeper.connect} names them
     * @param sessionMs time-out of its ZooKeeper session, in milliseconds
     */
    void prepare(String zooKeeper, long sessionMs) throws IOException {
        Files.createDirectories(folder);
        List<String> lines = new ArrayList<>();
        lines.add("broker.id=" + id);
        lines.add("listeners=PLAINTEXT://" + address());
        lines.add("log.dirs=" + folder.resolve("data"));
        lines.add("zookeeper.connect=" + zooKeeper);
        lines.add("zookeeper.session.timeout.ms=" + sessionMs);
        lines.add("zookeeper.connection.timeout.ms=60000");
        lines.add("auto.create.topics.enable=false");
        // A trial chooses who leads.
        lines.add("auto.leader.rebalance.enable=false");
        lines.add("log.cleaner.enable=false");
        Files.write(folder.resolve("server.properties"), lines);
        try (InputStream logging = Broker.class.getResourceAsStream("/" + LOGGING)) {
            Files.copy(logging, folder.resolve(LOGGING), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** Starts it, for the first time or again, on the data that it has. */
    void start() throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // Kafka's own start script chooses this collector and this goal.
        command.addAll(List.of(HEAP, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"));
        // Times in its log are read as UTC.
        command.add("-Duser.timezone=UTC");
        command.add("-Dlog4j.configuration=" + folder.resolve(LOGGING).toUri());
        if (agent) {
            command.add("-javaagent:" + System.getProperty("tailbound.kafka.agent"));
        }
        String libraries = System.getProperty("tailbound.kafka.libraries");
        command.addAll(List.of("-cp", libraries + File.separator + "*", "kafka.Kafka"));
        command.add(folder.resolve("server.properties").toString());
        process = ServerProcess.start(command, Map.of(), folder, log());
    }

    /** Whether its process exists. */
    boolean isAlive() {
        return process != null && process.isAlive();
    }

    /**
     * Whether the agent is there if, and only if, it should be.
     *
     * @throws IOException if not, so that nothing is attributed to the wrong client
     */
    void checkAgent() throws IOException {
        if (Files.readString(log()).contains(AGENT_SPEAKS) != agent) {
            throw new IOException("broker " + id + (agent ? " runs without" : " runs with") + " the agent: " + log());
        }
    }

    /** Sends it SIGKILL, and does not wait. */
    void strike() throws IOException {
        process.signal("KILL");
    }

    /** Kills it, and waits until it is gone. */
    @Override
    public void close() {
        if (process != null) {
            process.kill();
        }
    }
}
