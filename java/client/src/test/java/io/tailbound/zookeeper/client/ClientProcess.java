package io.tailbound.zookeeper.client;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/** A {@link ReportingClient} in a process of its own, with or without the agent. */
final class ClientProcess implements AutoCloseable {
    final String kind;
    final List<Long> reconnectionsNs = new ArrayList<>();
    private final Process process;
    private final Path errors;
    private boolean connected;
    private long connectedAtNs;
    private int port;
    private long session;
    private final StringBuilder said = new StringBuilder();

    /**
     * Starts a client.
     *
     * @param version of ZooKeeper, among those that the build put beside its output
     * @param jvmOptions such as {@code -javaagent:...}
     */
    ClientProcess(String kind, String version, List<String> jvmOptions, String servers, Path folder) throws IOException {
        this.kind = kind;
        this.errors = folder.resolve(kind.replaceAll("[^a-z0-9.]", "-") + ".err");
        List<String> command = new ArrayList<>(List.of(Ensemble.java(), "-Xmx64m", "-XX:+UseSerialGC", "-Dtailbound.log=WARN"));
        command.addAll(jvmOptions);
        command.addAll(List.of("-cp", classPath(version), ReportingClient.class.getName(), servers));
        this.process = new ProcessBuilder(command).redirectError(errors.toFile()).start();
        Thread reader = new Thread(this::read, "output of " + kind);
        reader.setDaemon(true);
        reader.start();
    }

    /** The agent's jar as an option of Java's. */
    static String agent(String arguments) {
        return "-javaagent:" + System.getProperty("tailbound.agent") + (arguments.isEmpty() ? "" : "=" + arguments);
    }

    /** The tests' class path with ZooKeeper of another version, and without our jar. */
    private static String classPath(String version) {
        String clients = System.getProperty("tailbound.clients") + File.separator;
        String others = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> !entry.matches(".*[/\\\\]zookeeper(-jute)?-[0-9.]+\\.jar"))
                .filter(entry -> !entry.endsWith("tailbound-zookeeper-client.jar") && !entry.endsWith("classes/"))
                .collect(Collectors.joining(File.pathSeparator));
        String tests = ClientProcess.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return String.join(File.pathSeparator, tests, clients + "zookeeper-" + version + ".jar",
                clients + "zookeeper-jute-" + version + ".jar", others);
    }

    private void read() {
        try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                note(line);
            }
        } catch (IOException e) {
            note("closed");
        }
    }

    private synchronized void note(String line) {
        said.append(line).append('\n');
        String[] words = line.split(" ");
        if (words[0].equals("CONNECTED")) {
            connected = true;
            connectedAtNs = Long.parseLong(words[1]);
            port = Integer.parseInt(words[2]);
            session = Long.parseLong(words[3]);
        } else if (words[0].equals("LOST")) {
            connected = false;
        }
        notifyAll();
    }

    /** Waits for a connection made after an instant of {@code System.nanoTime}, and returns its instant. */
    synchronized long awaitConnection(long afterNs) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!connected || connectedAtNs - afterNs < 0) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (leftMs <= 0 || !process.isAlive()) {
                throw new TimeoutException(kind + " does not connect; it said\n" + said + errors());
            }
            wait(Math.min(leftMs, 200));
        }
        return connectedAtNs;
    }

    synchronized int port() {
        return port;
    }

    synchronized long session() {
        return session;
    }

    /** What it wrote to standard error. */
    String errors() throws IOException {
        return Files.readString(errors);
    }

    @Override
    public void close() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }
}
