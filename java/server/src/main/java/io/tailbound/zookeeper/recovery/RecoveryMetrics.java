package io.tailbound.zookeeper.recovery;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.zookeeper.metrics.MetricsContext;

/**
 * Gives recoveries to ZooKeeper's configured MetricsProvider (Prometheus or another): per phase and in
 * total a summary of all recoveries and gauges of the last and the longest one. All in microseconds.
 */
final class RecoveryMetrics implements Consumer<Recovery> {
  private static final String PREFIX = "tailbound_recovery_";
  private static final long NS_PER_US = 1000;

  private final MetricsContext context;
  private final Map<String, Long> last = new ConcurrentHashMap<>();
  private final Map<String, Long> longest = new ConcurrentHashMap<>();

  RecoveryMetrics(MetricsContext context) {
    this.context = context;
  }

  @Override
  public void accept(Recovery recovery) {
    context.getCounter("tailbound_recoveries").add(1);
    recovery.phasesNs().forEach((name, ns) -> {
      if (ns != null) {
        observe(name.substring(0, name.length() - "_ns".length()), ns / NS_PER_US);
      }
    });
    observe("total", recovery.totalNs() / NS_PER_US);
  }

  private void observe(String phase, long us) {
    context.getSummary(PREFIX + phase + "_us", MetricsContext.DetailLevel.ADVANCED).add(us);
    longest.merge(phase, us, Math::max);
    if (last.put(phase, us) == null) {
      context.registerGauge(PREFIX + phase + "_last_us", () -> last.get(phase));
      context.registerGauge(PREFIX + phase + "_max_us", () -> longest.get(phase));
    }
  }
}
