package io.tailbound.zookeeper.recovery;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Shows the recoveries of one server in JMX. */
final class RecoveryJmx implements RecoveryMXBean, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RecoveryJmx.class);

  private final RecoveryRecorder recorder;
  private final MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
  private ObjectName name;

  RecoveryJmx(long server, RecoveryRecorder recorder) {
    this.recorder = recorder;
    try {
      ObjectName wanted = new ObjectName("io.tailbound:type=Recovery,server=" + server);
      beans.registerMBean(this, wanted);
      name = wanted;
    } catch (JMException refused) {
      LOG.warn("Recoveries are not shown in JMX", refused);
    }
  }

  @Override
  public List<Map<String, Long>> getRecentNs() {
    return recorder.recent().stream().map(RecoveryJmx::times).toList();
  }

  private static Map<String, Long> times(Recovery recovery) {
    Map<String, Long> times = new LinkedHashMap<>(recovery.phasesNs());
    times.values().removeIf(ns -> ns == null);
    times.put("total_ns", recovery.totalNs());
    return times;
  }

  @Override
  public String getBreakdown() {
    return RecoveryJson.breakdown(recorder.recent());
  }

  @Override
  public void close() {
    if (name != null) {
      try {
        beans.unregisterMBean(name);
      } catch (JMException gone) {
        LOG.debug("JMX bean was gone already", gone);
      }
      name = null;
    }
  }
}
