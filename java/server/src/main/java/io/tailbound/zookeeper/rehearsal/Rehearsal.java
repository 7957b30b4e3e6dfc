package io.tailbound.zookeeper.rehearsal;

import io.tailbound.zookeeper.config.TailboundConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import java.util.stream.Stream;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Recoveries of an ensemble of three servers inside of this process, before it takes part in a real one.
 *
 * <p>A server leads for the first time in the middle of a recovery, and most of what that takes in a JVM
 * that never did it is loading, linking, interpreting and compiling. Here the whole path has been taken
 * before, with the classes and settings of the server to come.
 *
 * <p>What is the process's own is put back: the folder and the sockets are gone afterwards, JMX beans are
 * removed, log lines are formatted and dropped, and a server that would end the process ends the rehearsal.
 * Metrics have not been started yet by then. A rehearsal that fails costs nothing but its time.
 */
public final class Rehearsal {

  private static final Logger LOG = LoggerFactory.getLogger(Rehearsal.class);
  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final Duration LONGEST_CURTAIN = Duration.ofSeconds(2);
  private static final long LOOK_INTERVAL_MS = 2;
  private static final String FOLDER = "tailbound-rehearsal";

  private Rehearsal() {}

  /**
   * Rehearses, and logs what came of it.
   *
   * @param config settings of the mechanisms; says how many recoveries
   * @param dataDirectory a folder below it is used, and removed
   */
  public static void before(TailboundConfig config, Path dataDirectory) {
    long beginNs = System.nanoTime();
    try {
      int recoveries = run(config, config.leader().rehearsals(), dataDirectory.resolve(FOLDER));
      long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beginNs);
      LOG.info("Rehearsed {} recoveries in {} ms", recoveries, tookMs);
    } catch (IOException | RuntimeException e) {
      LOG.warn("Recoveries could not be rehearsed, so the first real one takes longer", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Rehearses.
   *
   * @param recoveries how many
   * @param folder is emptied before and removed afterwards
   * @return how many recoveries there were
   * @throws IOException if files or sockets cannot be used, a server would have ended the process, or it
   *     takes more than 20 s
   */
  public static int run(TailboundConfig config, int recoveries, Path folder)
      throws IOException, InterruptedException {
    AtomicInteger exit = new AtomicInteger(RehearsedEnsemble.NO_EXIT);
    ThreadGroup cast = new ThreadGroup(FOLDER);
    remove(folder);
    ServiceUtils.setSystemExitProcedure(exit::set);
    try (DroppedLog dropped = new DroppedLog()) {
      FutureTask<Integer> play = new FutureTask<>(() -> play(config, recoveries, folder, exit::get));
      new Thread(cast, play, FOLDER).start();
      try {
        return play.get();
      } finally {
        awaitEnd(cast);
      }
    } catch (ExecutionException e) {
      throw new IOException(e.getCause().getMessage(), e.getCause());
    } finally {
      ServiceUtils.setSystemExitProcedure(ServiceUtils.SYSTEM_EXIT);
      remove(folder);
    }
  }

  private static int play(TailboundConfig config, int recoveries, Path folder, IntSupplier exitCode)
      throws IOException, InterruptedException, TimeoutException {
    try (RehearsedEnsemble ensemble =
        new RehearsedEnsemble(config, Files.createDirectories(folder), LIMIT, exitCode)) {
      ensemble.write();
      int done = 0;
      while (done < recoveries) {
        ensemble.recover();
        done++;
      }
      return done;
    }
  }

  /** The servers' threads inherit the group; some wait for seconds, or log, after their server has ended. */
  private static void awaitEnd(ThreadGroup cast) throws InterruptedException {
    long endNs = System.nanoTime() + LONGEST_CURTAIN.toNanos();
    while (cast.activeCount() > 0 && System.nanoTime() - endNs < 0) {
      cast.interrupt();
      Thread.sleep(LOOK_INTERVAL_MS);
    }
  }

  private static void remove(Path folder) throws IOException {
    if (!Files.exists(folder)) {
      return;
    }
    List<Path> paths;
    try (Stream<Path> walk = Files.walk(folder)) {
      paths = walk.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path path : paths) {
      Files.deleteIfExists(path);
    }
  }
}
