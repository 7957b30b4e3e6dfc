package io.tailbound.zookeeper.harness.process;

import java.io.IOException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Starts every child process from one thread that lives as long as this JVM.
 *
 * <p>The children ask the kernel to be killed with their parent ({@code PR_SET_PDEATHSIG}), and to the
 * kernel the parent is the <em>thread</em> that started them: a child of a short-lived thread would
 * die with it.
 */
final class Spawner {
    private static final ExecutorService THREAD =
            Executors.newSingleThreadExecutor(
                    work -> {
                        Thread thread = new Thread(work, "spawner");
                        thread.setDaemon(true);
                        return thread;
                    });

    private Spawner() {}

    /**
     * Starts what the builder describes.
     *
     * @throws IOException if the program cannot be started
     */
    static Process start(ProcessBuilder builder) throws IOException {
        try {
            return THREAD.submit(builder::start).get();
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof IOException cause) {
                throw cause;
            }
            throw new IOException("cannot start " + builder.command().get(0), failed.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while starting " + builder.command().get(0));
        }
    }
}
