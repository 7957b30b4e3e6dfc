package io.tailbound.zookeeper.recovery;

import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import org.apache.zookeeper.metrics.MetricsContext;
import org.apache.zookeeper.server.admin.Commands;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The recorder of a running server with all its exports: one log line per recovery ({@code recovery
 * {...}}), JMX, ZooKeeper's MetricsProvider, and the AdminServer's command {@code recovery}.
 */
public final class RecoveryReporting implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RecoveryReporting.class);
  private static final long CLOSE_WAIT_SECONDS = 5;

  private final ExecutorService notifier;
  private final PhaseRecorder recorder;
  private final RecoveryJmx jmx;

  /**
   * Starts the exports.
   *
   * @param server id of this server
   * @param servers how many voting servers the present configuration has
   * @param variant name of the configured variant
   * @param metrics {@code ServerMetrics.getMetrics().getMetricsProvider().getRootContext()}, after
   *     the provider was started
   */
  public RecoveryReporting(
      long server, IntSupplier servers, String variant, MetricsContext metrics) {
    notifier =
        Executors.newSingleThreadExecutor(
            task -> {
              Thread thread = new Thread(task, "tailbound-recovery-report");
              thread.setDaemon(true);
              return thread;
            });
    recorder =
        new PhaseRecorder(
            server,
            servers,
            variant,
            System::nanoTime,
            notifier,
            List.of(
                recovery -> LOG.info("recovery {}", RecoveryJson.line(recovery)),
                new RecoveryMetrics(metrics)));
    jmx = new RecoveryJmx(server, recorder);
  }

  /**
   * Adds the AdminServer's command, which there is once in a process.
   *
   * @param damages what was wrong with the data of this server at its start
   */
  public void offerCommand(Supplier<List<String>> damages) {
    Commands.registerCommand(new RecoveryCommand(recorder, damages));
  }

  /** What the server tells its phases to. */
  public RecoveryRecorder recorder() {
    return recorder;
  }

  /** Publishes what is left and ends the exports. */
  @Override
  public void close() {
    recorder.stop();
    notifier.shutdown();
    try {
      if (!notifier.awaitTermination(CLOSE_WAIT_SECONDS, TimeUnit.SECONDS)) {
        LOG.warn("A recovery could not be reported within {} s", CLOSE_WAIT_SECONDS);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    jmx.close();
  }
}
