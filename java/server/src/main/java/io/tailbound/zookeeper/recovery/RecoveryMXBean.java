package io.tailbound.zookeeper.recovery;

import java.util.List;
import java.util.Map;

/** What JMX shows of recoveries, as {@code io.tailbound:type=Recovery,server=ID}. */
public interface RecoveryMXBean {
  /** The last recoveries, newest first: phases and total in nanoseconds by their names in JSON. */
  List<Map<String, Long>> getRecentNs();

  /** The last recoveries as a breakdown in JSON. */
  String getBreakdown();
}
