package io.tailbound.zookeeper.harness.process;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * One server as a real process: a session and process group of its own, killed by the kernel when
 * this JVM dies, and by a shutdown hook when it ends in order.
 */
public final class ServerProcess {
    private static final Set<ServerProcess> RUNNING = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(ServerProcess::killAll, "kill-servers"));
    }

    private static volatile boolean ending;

    private final Process process;

    /** The process groups of the server, those of its children first. */
    private volatile List<Long> groups;

    private ServerProcess(Process process) {
        this.process = process;
        this.groups = List.of(process.pid());
        RUNNING.add(this);
    }

    /**
     * Starts a server.
     *
     * @param command what to run, in the foreground; it must not fork away
     * @param environment variables beside the inherited ones
     * @param folder its working folder
     * @param log the file to which standard output and error are appended
     * @throws IOException if the program cannot be started
     */
    public static ServerProcess start(
            List<String> command, Map<String, String> environment, Path folder, Path log)
            throws IOException {
        List<String> guarded = new ArrayList<>(List.of("setsid", "setpriv", "--pdeathsig", "KILL"));
        guarded.add("--");
        // The driver may run at a real-time priority, its servers do not.
        guarded.addAll(List.of("chrt", "--other", "0"));
        guarded.addAll(command);
        ProcessBuilder builder = new ProcessBuilder(guarded);
        builder.environment().putAll(environment);
        builder.directory(folder.toFile());
        builder.redirectInput(new File("/dev/null"));
        builder.redirectErrorStream(true);
        builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
        ServerProcess server = new ServerProcess(Spawner.start(builder));
        server.awaitGroup();
        return server;
    }

    /** Until `setsid` has run there is no group to signal. Returns as well when the process has ended. */
    private void awaitGroup() {
        Path stat = stat(process.pid());
        try {
            while (process.isAlive() && !leadsGroup(process.pid(), stat)) {
                Thread.sleep(1);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static Path stat(long pid) {
        return Path.of("/proc", Long.toString(pid), "stat");
    }

    private static boolean leadsGroup(long pid, Path stat) {
        String line;
        try {
            line = Files.readString(stat);
        } catch (IOException ended) {
            return false;
        }
        // After the name, which may hold blanks: state, parent, group.
        String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[2]) == pid;
    }

    /** The process's id, which is also its group's. */
    public long pid() {
        return process.pid();
    }

    /**
     * The CPU time that the process and the children that it has used so far, in steps of the kernel's
     * clock (mostly 10 ms); zero if they have ended.
     */
    public Duration cpuTime() {
        return Stream.concat(Stream.of(process.toHandle()), process.toHandle().descendants())
                .map(one -> one.info().totalCpuDuration().orElse(Duration.ZERO))
                .reduce(Duration.ZERO, Duration::plus);
    }

    /** Whether the process still exists, running or stopped. */
    public boolean isAlive() {
        return process.isAlive();
    }

    /**
     * Finds the groups of the server's children, which signals from then on reach directly: a server
     * that another program runs is a child in a group of its own, and that program may be slow to pass
     * its end on.
     */
    public void findGroups() {
        List<Long> found = new ArrayList<>();
        process.toHandle()
                .descendants()
                .map(ProcessHandle::pid)
                .filter(pid -> leadsGroup(pid, stat(pid)))
                .forEach(found::add);
        found.add(process.pid());
        groups = List.copyOf(found);
    }

    /**
     * Signals the server's process group, and those that {@link #findGroups} found.
     *
     * @param signal name without SIG, such as KILL, STOP, CONT
     * @throws IOException if the signal could not be sent
     */
    public void signal(String signal) throws IOException {
        boolean sent = false;
        for (long group : groups) {
            sent |= Signals.send(signal, group);
        }
        if (!sent) {
            throw new IOException("no process group " + process.pid() + " to send SIG" + signal);
        }
    }

    /** Kills the server if it lives and waits until the kernel has let go of its sockets. */
    public void kill() {
        RUNNING.remove(this);
        killGroup();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void killGroup() {
        try {
            for (long group : groups) {
                Signals.send("KILL", group);
            }
        } catch (IOException failed) {
            System.err.println(
                    "process " + process.pid() + " is killed, its children may live on: "
                            + failed.getMessage());
        }
        process.destroyForcibly();
    }

    /** Whether this JVM ends and has begun to kill all servers: what fails now says nothing. */
    public static boolean isEnding() {
        return ending;
    }

    private static void killAll() {
        ending = true;
        RUNNING.forEach(ServerProcess::killGroup);
    }
}
