package io.tailbound.zookeeper.harness.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class WriteLogTest {
    /** A write at 0, one in flight at the fault at 100, and two after it, out of order. */
    private static WriteLog faultAt100() {
        WriteLog log = new WriteLog();
        log.add(new WriteLog.Write(0, 0, 10));
        log.add(new WriteLog.Write(90, 90, 105));
        log.add(new WriteLog.Write(110, 150, 220));
        log.add(new WriteLog.Write(120, 160, 200));
        return log;
    }

    @Test
    void aWriteInFlightAtTheFaultIsNoRecovery() {
        assertEquals(OptionalLong.of(200), faultAt100().firstSuccessSentAfter(100));
        assertEquals(OptionalLong.empty(), faultAt100().firstSuccessSentAfter(161));
    }

    @Test
    void gapsAreBetweenSuccesses() {
        assertEquals(95, faultAt100().longestGapEndingAfter(100));
        assertEquals(20, faultAt100().longestGapEndingAfter(200));
        assertEquals(0, faultAt100().longestGapEndingAfter(220));
    }

    @Test
    void latencyCountsFromTheIntendedTime() {
        assertEquals(110, faultAt100().worstLatencyEndingAfter(100));
        assertEquals(0, new WriteLog().worstLatencyEndingAfter(0));
    }
}
