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

    private ServerProcess(Process process) {
        this.process = process;
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
        Path stat = Path.of("/proc", Long.toString(process.pid()), "stat");
        try {
            while (process.isAlive() && !leadsGroup(stat)) {
                Thread.sleep(1);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean leadsGroup(Path stat) {
        String line;
        try {
            line = Files.readString(stat);
        } catch (IOException ended) {
            return !process.isAlive();
        }
        // After the name, which may hold blanks: state, parent, group.
        String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[2]) == process.pid();
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
     * Signals the server's process group.
     *
     * @param signal name without SIG, such as KILL, STOP, CONT
     * @throws IOException if the signal could not be sent
     */
    public void signal(String signal) throws IOException {
        if (!Signals.send(signal, process.pid())) {
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
            Signals.send("KILL", process.pid());
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
