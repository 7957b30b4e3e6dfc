package io.tailbound.zookeeper.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.recovery.RecoveryRecorder.LossCause;
import io.tailbound.zookeeper.recovery.RecoveryRecorder.Role;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.zookeeper.metrics.impl.DefaultMetricsProvider;
import org.apache.zookeeper.server.admin.CommandResponse;
import org.apache.zookeeper.server.admin.Commands;
import org.junit.jupiter.api.Test;

class RecoveryReportingTest {
  private static void recover(RecoveryRecorder recorder) {
    recorder.leaderSign();
    recorder.leaderLost(LossCause.CLOSED);
    recorder.elected(Role.LEADER, 4);
    recorder.connected();
    recorder.synchronised(3);
    recorder.serving();
    recorder.firstWrite();
  }

  @Test
  void aRecoveryReachesMetricsJmxAndAdminServer() throws Exception {
    DefaultMetricsProvider metrics = new DefaultMetricsProvider();
    RecoveryReporting reporting =
        new RecoveryReporting(4, () -> 3, "tailbound", metrics.getRootContext());
    reporting.offerCommand(() -> List.of("a gap"));
    recover(reporting.recorder());
    ObjectName name = new ObjectName("io.tailbound:type=Recovery,server=4");
    String shown =
        (String) ManagementFactory.getPlatformMBeanServer().getAttribute(name, "Breakdown");
    assertTrue(shown.contains("\"leader\":4"), shown);

    CommandResponse answer =
        Commands.runGetCommand("recovery", null, Map.of(), null, null);
    List<?> recoveries = (List<?>) answer.toMap().get("recoveries");
    assertEquals(1, recoveries.size());
    assertEquals("leader", ((Map<?, ?>) recoveries.get(0)).get("role"));

    reporting.close();
    Map<String, Object> dumped = new HashMap<>();
    metrics.dump(dumped::put);
    assertEquals(1L, ((Number) dumped.get("tailbound_recoveries")).longValue());
    assertTrue(dumped.containsKey("tailbound_recovery_total_last_us"), dumped::toString);
    assertTrue(dumped.keySet().stream().anyMatch(key -> key.contains("tailbound_recovery_election_us")));
    assertTrue(!ManagementFactory.getPlatformMBeanServer().isRegistered(name));
  }

  @Test
  void textIsQuoted() {
    Recovery odd =
        new Recovery(
            1, 1, Role.LEADER, 1, 1, LossCause.OTHER, 1, 3, "a\"b\\c\n", 0, 0, 0, 0, 0, 0);
    assertTrue(RecoveryJson.line(odd).contains("\"variant\":\"a\\\"b\\\\c\\u000a\""));
    assertTrue(RecoveryJson.breakdown(List.of(odd, odd)).startsWith("{\"schema_version\":1"));
  }
}
