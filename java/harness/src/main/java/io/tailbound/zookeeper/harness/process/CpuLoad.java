package io.tailbound.zookeeper.harness.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Busy processes at ordinary priority, the same number on every CPU, each in a session of its own: the
 * other users of a machine that is fully used.
 */
public final class CpuLoad implements AutoCloseable {
    private static final String BUSY = "while :; do :; done";

    private final List<ServerProcess> processes = new ArrayList<>();

    private CpuLoad() {}

    /**
     * Starts the processes.
     *
     * @param perCpu how many for each CPU; 0 for none
     * @param cpus how many CPUs there are, from 0 on
     * @param folder where the processes live and write; created
     * @throws IOException if one cannot be started
     */
    public static CpuLoad start(int perCpu, int cpus, Path folder) throws IOException {
        Files.createDirectories(folder);
        CpuLoad load = new CpuLoad();
        try {
            for (int count = 0; count < perCpu * cpus; count++) {
                load.processes.add(
                        ServerProcess.start(
                                command(count % cpus),
                                java.util.Map.of(),
                                folder,
                                folder.resolve("log")));
            }
            return load;
        } catch (IOException failed) {
            load.close();
            throw failed;
        }
    }

    private static List<String> command(int cpu) {
        return List.of("taskset", "--cpu-list", Integer.toString(cpu), "sh", "-c", BUSY);
    }

    /** The ids of the processes. */
    public List<Long> pids() {
        return processes.stream().map(ServerProcess::pid).toList();
    }

    @Override
    public void close() {
        processes.forEach(ServerProcess::kill);
        processes.clear();
    }
}
