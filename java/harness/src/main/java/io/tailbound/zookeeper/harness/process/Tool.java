package io.tailbound.zookeeper.harness.process;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** A program that is run to its end for what it does or prints. */
public final class Tool {
    private Tool() {}

    /**
     * Runs a program and returns what it wrote.
     *
     * @throws IOException if it cannot be started or does not exit with 0
     */
    public static String run(String... command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        Process process = Spawner.start(builder);
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            int code = process.waitFor();
            if (code != 0) {
                throw new IOException(
                        List.of(command) + " exited with " + code + ": " + output.strip());
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while running " + command[0]);
        }
        return output;
    }

    /** The first line that the program prints, or null where it cannot be had. */
    public static String firstLineOf(String... command) {
        try {
            return run(command).lines().findFirst().orElse(null);
        } catch (IOException missing) {
            return null;
        }
    }
}
