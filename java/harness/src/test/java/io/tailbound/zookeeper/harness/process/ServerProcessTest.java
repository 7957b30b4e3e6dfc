package io.tailbound.zookeeper.harness.process;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Servers end when they are told to, and when whoever started them is no more. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
class ServerProcessTest {
    private static final List<String> SERVER = List.of("sleep", "600");

    @TempDir Path folder;

    private static ServerProcess start(Path folder) throws IOException {
        return ServerProcess.start(SERVER, Map.of(), folder, folder.resolve("log"));
    }

    @Test
    void aServerOutlivesTheThreadThatStartedItAndEndsWhenKilled() throws Exception {
        var holder = new Object() {
            ServerProcess server;
        };
        Thread starter =
                new Thread(
                        () -> {
                            try {
                                holder.server = start(folder);
                            } catch (IOException failed) {
                                throw new IllegalStateException(failed);
                            }
                        });
        starter.start();
        starter.join();
        holder.server.signal("STOP");
        holder.server.signal("CONT");
        assertTrue(holder.server.isAlive());
        holder.server.kill();
        assertFalse(holder.server.isAlive());
        assertThrows(IOException.class, () -> holder.server.signal("CONT"));
    }

    @Test
    void aSignalReachesAServerThatAnotherProgramRuns() throws Exception {
        // With job control a shell gives its children groups of their own.
        List<String> command = List.of("sh", "-c", "set -m; sleep 600 & wait");
        Path log = folder.resolve("log");
        ServerProcess server = ServerProcess.start(command, Map.of(), folder, log);
        ProcessHandle shell = ProcessHandle.of(server.pid()).orElseThrow();
        ProcessHandle child = awaitSleep(shell);
        server.findGroups();
        server.kill();
        child.onExit().get(20, TimeUnit.SECONDS);
        assertFalse(server.isAlive());
    }

    @Test
    void aServerDiesWithAHarnessThatIsKilled() throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("java.class.path");
        Process harness =
                new ProcessBuilder(
                                java, "-cp", classes, Harness.class.getName(), folder.toString())
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        try (BufferedReader output = harness.inputReader()) {
            long pid = Long.parseLong(output.readLine());
            ProcessHandle server = ProcessHandle.of(pid).orElseThrow();
            harness.destroyForcibly();
            while (server.isAlive()) {
                Thread.sleep(10);
            }
        } finally {
            harness.destroyForcibly();
        }
    }

    /** Another harness, to be killed. */
    static final class Harness {
        private Harness() {}

        public static void main(String[] arguments) throws Exception {
            ServerProcess server = start(Path.of(arguments[0]));
            // Until it is asleep it may not yet have asked to die with this process.
            while (ProcessHandle.of(server.pid())
                    .flatMap(handle -> handle.info().command())
                    .filter(command -> command.endsWith("sleep"))
                    .isEmpty()) {
                Thread.sleep(10);
            }
            System.out.println(server.pid());
            Thread.sleep(TimeUnit.MINUTES.toMillis(10));
        }
    }

    private static ProcessHandle awaitSleep(ProcessHandle shell) throws InterruptedException {
        while (true) {
            var sleep =
                    shell.descendants()
                            .filter(one -> one.info().command().orElse("").endsWith("sleep"))
                            .findFirst();
            if (sleep.isPresent()) {
                return sleep.get();
            }
            Thread.sleep(5);
        }
    }
}
