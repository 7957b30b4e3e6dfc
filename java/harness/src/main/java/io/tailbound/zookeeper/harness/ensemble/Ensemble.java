package io.tailbound.zookeeper.harness.ensemble;

import io.tailbound.zookeeper.harness.process.ServerProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;

/**
 * An ensemble of real server processes, each with its own data folder and log below one folder.
 * Servers are counted from 1. Not safe for use by several threads at once.
 */
public abstract class Ensemble implements AutoCloseable {
    /** No server: the answer to "who leads" while nobody does. */
    public static final int NOBODY = 0;

    private static final long POLL_MS = 5;

    private final Setup setup;
    private final ServerProcess[] servers;

    /**
     * What an ensemble is made of.
     *
     * @param variant what runs
     * @param size number of servers
     * @param placement where each server runs; closed with the ensemble
     * @param folder where data and logs go; created
     * @param config further lines of zoo.cfg, for example a short tickTime in tests
     * @param environment variables for every server, for example a preloaded library
     */
    public record Setup(
            Variant variant,
            int size,
            Placement placement,
            Path folder,
            List<String> config,
            Map<String, String> environment) {
        /** An ensemble on a loopback block of its own, with nothing beside its variant. */
        public static Setup plain(Variant variant, int size, Path folder) throws IOException {
            return new Setup(variant, size, LoopbackBlock.claim(), folder, List.of(), Map.of());
        }
    }

    Ensemble(Setup setup) {
        this.setup = setup;
        this.servers = new ServerProcess[setup.size() + 1];
    }

    /** The ensemble of the kind that the variant names, not started. */
    public static Ensemble of(Setup setup) {
        return switch (setup.variant().launcher()) {
            case STOCK, TAILBOUND -> new ZooKeeperEnsemble(setup);
            case ETCD -> new EtcdEnsemble(setup);
        };
    }

    /** What the ensemble is made of. */
    public final Setup setup() {
        return setup;
    }

    /** Number of servers. */
    public final int size() {
        return setup.size();
    }

    /** Where clients reach server {@code id}. */
    public abstract java.net.InetSocketAddress clientAddress(int id);

    /** The command that runs server {@code id} in the foreground. */
    abstract List<String> command(int id) throws IOException;

    /** Variables that the command needs beside those of the set-up. */
    abstract Map<String, String> environment(int id);

    /** Writes what server {@code id} needs before its first start. */
    abstract void prepare(int id) throws IOException;

    /** Whether server {@code id} serves, and whether it leads; asks the server itself. */
    abstract Role role(int id);

    /** What a server says of itself. */
    enum Role {
        LEADS,
        FOLLOWS,
        OUT_OF_SERVICE
    }

    /** The folder of server {@code id}. */
    final Path serverFolder(int id) {
        return setup.folder().resolve("server-" + id);
    }

    /** The file with everything that server {@code id} has printed. */
    public final Path log(int id) {
        return serverFolder(id).resolve("log");
    }

    /**
     * Starts all servers.
     *
     * @throws IOException if one cannot be started
     */
    public final void start() throws IOException {
        for (int id = 1; id <= size(); id++) {
            Files.createDirectories(serverFolder(id));
            prepare(id);
        }
        for (int id = 1; id <= size(); id++) {
            start(id);
        }
    }

    /** Starts server {@code id}, for the first time or again, on the data that it has. */
    public final void start(int id) throws IOException {
        List<String> command = new ArrayList<>(setup.placement().site(id).prefix());
        command.addAll(command(id));
        Map<String, String> environment = new HashMap<>(setup.environment());
        environment.putAll(environment(id));
        servers[id] = ServerProcess.start(command, environment, serverFolder(id), log(id));
    }

    /**
     * Checks that every server has what its variant asks for: the launcher starts a server without a
     * nice value or a reservation that is not to be had, and says so in the log.
     *
     * @throws IOException if one has not; with the launcher's words
     */
    public final void checkOptionsTaken() throws IOException {
        if (setup.variant().options().isEmpty()) {
            return;
        }
        for (int id = 1; id <= size(); id++) {
            try (var lines = Files.lines(log(id))) {
                var refusal = lines.filter(line -> line.startsWith("tailbound-zookeeper: ")).findFirst();
                if (refusal.isPresent()) {
                    throw new IOException("server " + id + ": " + refusal.get());
                }
            }
        }
    }

    /** Has signals reach server {@code id} also where another program runs it. */
    public final void findGroups(int id) {
        servers[id].findGroups();
    }

    /** Sends SIGSTOP, SIGCONT or the like to server {@code id}. */
    public final void signal(int id, String signal) throws IOException {
        servers[id].signal(signal);
    }

    /** Kills server {@code id} with SIGKILL and waits until it is gone. */
    public final void kill(int id) {
        servers[id].kill();
    }

    /** The CPU time that server {@code id} has used since its start. */
    public final Duration cpuTime(int id) {
        return servers[id].cpuTime();
    }

    /** Whether the process of server {@code id} exists. */
    public final boolean isAlive(int id) {
        return servers[id] != null && servers[id].isAlive();
    }

    /**
     * The server that leads, or {@link #NOBODY}; also nobody while two say that they do, as after a
     * hung leader is continued and has not yet noticed that it was deposed.
     */
    public final int leader() {
        int leader = NOBODY;
        for (int id = 1; id <= size(); id++) {
            if (isAlive(id) && role(id) == Role.LEADS) {
                if (leader != NOBODY) {
                    return NOBODY;
                }
                leader = id;
            }
        }
        return leader;
    }

    /**
     * Waits until every server serves and one leads.
     *
     * @return the leader
     * @throws TimeoutException if that takes too long or a server has died; names the servers
     */
    public final int awaitHealthy(Duration limit) throws InterruptedException, TimeoutException {
        long end = System.nanoTime() + limit.toNanos();
        int leader = NOBODY;
        while (!unhealthy().isEmpty() || (leader = leader()) == NOBODY) {
            if (System.nanoTime() > end || !dead().isEmpty()) {
                throw new TimeoutException(complaint());
            }
            Thread.sleep(POLL_MS);
        }
        return leader;
    }

    private List<Integer> dead() {
        return IntStream.rangeClosed(1, size()).filter(id -> !isAlive(id)).boxed().toList();
    }

    private List<Integer> unhealthy() {
        List<Integer> out = new ArrayList<>();
        for (int id = 1; id <= size(); id++) {
            if (!isAlive(id) || role(id) == Role.OUT_OF_SERVICE) {
                out.add(id);
            }
        }
        return out;
    }

    private String complaint() {
        return setup.variant().name()
                + " with "
                + size()
                + " servers: out of service "
                + unhealthy()
                + ", of them ended "
                + dead()
                + "; see "
                + setup.folder();
    }

    /** Kills all servers and gives the places back; data and logs stay. */
    @Override
    public final void close() {
        for (ServerProcess server : servers) {
            if (server != null) {
                server.kill();
            }
        }
        setup.placement().close();
    }
}
