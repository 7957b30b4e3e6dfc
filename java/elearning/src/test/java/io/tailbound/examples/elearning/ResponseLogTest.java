package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ResponseLogTest {
    private static Response position(long endUs, long durationNs) {
        return new Response(RequestKind.POSITION, endUs, durationNs, 200);
    }

    private static ResponseReport.Statistics positions(ResponseReport report) {
        return report.statistics().get(RequestKind.POSITION);
    }

    @Test
    void onlyTheIntervalIsReported() {
        ResponseLog log = new ResponseLog(10);
        log.add(position(100, 1));
        log.add(position(200, 2));
        log.add(new Response(RequestKind.CONTENT, 250, 9, 200));
        log.add(position(300, 3));
        ResponseReport report = log.report(200, 400);
        assertEquals(2, positions(report).count());
        assertEquals(2, positions(report).minNs());
        assertEquals(3, positions(report).maxNs());
        assertEquals(1, report.statistics().get(RequestKind.CONTENT).count());
        assertTrue(report.complete());
        assertEquals(6, report.totals().get(RequestKind.POSITION).durationNs());
    }

    @Test
    void aReportSaysWhetherResponsesWereForgotten() {
        ResponseLog log = new ResponseLog(3);
        for (int i = 1; i <= 5; i++) {
            log.add(position(i * 100, i));
        }
        assertEquals(3, positions(log.report(0, 600)).count());
        assertFalse(log.report(0, 600).complete());
        assertFalse(log.report(200, 600).complete());
        assertTrue(log.report(201, 600).complete());
        assertEquals(5, log.report(0, 600).totals().get(RequestKind.POSITION).answers());
    }

    @Test
    void errorsAreCountedApart() {
        ResponseLog log = new ResponseLog(10);
        log.add(position(100, 5));
        log.add(new Response(RequestKind.POSITION, 110, 7, 503));
        ResponseReport report = log.report(0, 200);
        assertEquals(1, positions(report).count());
        assertEquals(1, positions(report).errors());
        assertEquals(5, positions(report).maxNs());
        assertEquals(new ResponseLog.Totals(1, 1, 5), report.totals().get(RequestKind.POSITION));
    }

    @Test
    void statisticsAreThoseOfTheSample() {
        ResponseReport.Statistics of = new ResponseReport.Statistics(new long[] {40, 10, 20, 30}, 0);
        assertEquals(25, of.meanNs());
        // The square root of 500 / 3.
        assertEquals(13, of.deviationNs());
        assertEquals(20, of.percentileNs(50));
        assertEquals(30, of.percentileNs(51));
        assertEquals(40, of.percentileNs(90));
        assertEquals(40, of.percentileNs(99));
        ResponseReport.Statistics none = new ResponseReport.Statistics(new long[0], 0);
        assertEquals(0, none.meanNs() + none.deviationNs() + none.percentileNs(99) + none.minNs() + none.maxNs());
    }
}
