package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Element;

class ReportFormatTest {
    private static final ResponseTable.Rows ROWS = new ResponseTable.Rows(12, 1);

    private static ResponseReport report() {
        ResponseLog log = new ResponseLog(100);
        for (int i = 1; i <= 20; i++) {
            log.add(new Response(RequestKind.POSITION, 5_000_000L + i, i * 1_000_000L, 200));
        }
        log.add(new Response(RequestKind.CONTENT, 5_000_000, 1, 404));
        return log.report(4_000_000, 6_000_000);
    }

    @Test
    void jsonHasNanosecondsAndTheVersionOfItsForm() {
        assertEquals(
                "{\"schema_version\":1,\"since_ms\":4000,\"until_ms\":6000,\"complete\":true,\"rows_written\":12,"
                        + "\"rows_dropped\":1,\"requests\":{\"position\":{\"count\":20,\"errors\":0,"
                        + "\"mean_ns\":10500000,\"standard_deviation_ns\":5916080,\"min_ns\":1000000,"
                        + "\"p50_ns\":10000000,\"p90_ns\":18000000,\"p95_ns\":19000000,\"p99_ns\":20000000,"
                        + "\"max_ns\":20000000},\"content\":{\"count\":0,\"errors\":1,\"mean_ns\":0,"
                        + "\"standard_deviation_ns\":0,\"min_ns\":0,\"p50_ns\":0,\"p90_ns\":0,\"p95_ns\":0,"
                        + "\"p99_ns\":0,\"max_ns\":0}}}\n",
                ReportFormat.JSON.render(report(), ROWS));
    }

    @Test
    void xmlIsReadByAParser() throws Exception {
        byte[] text = ReportFormat.XML.render(report(), ROWS).getBytes(StandardCharsets.UTF_8);
        Element root = DocumentBuilderFactory.newInstance()
                .newDocumentBuilder()
                .parse(new ByteArrayInputStream(text))
                .getDocumentElement();
        assertEquals("true", root.getAttribute("complete"));
        Element position = (Element) root.getElementsByTagName("request").item(0);
        assertEquals("position", position.getAttribute("name"));
        assertEquals("10500000", position.getAttribute("mean_ns"));
        assertEquals(2, root.getElementsByTagName("request").getLength());
    }

    @Test
    void prometheusHasSecondsAndSumsSinceTheStart() {
        String text = ReportFormat.PROMETHEUS.render(report(), ROWS);
        assertTrue(text.contains("# TYPE elearning_response_seconds summary\n"), text);
        assertTrue(text.contains("elearning_response_seconds{request=\"position\",quantile=\"0.95\"} 0.019000000\n"));
        assertTrue(text.contains("elearning_response_seconds_sum{request=\"position\"} 0.210000000\n"), text);
        assertTrue(text.contains("elearning_response_seconds_count{request=\"position\"} 20\n"), text);
        assertTrue(text.contains("elearning_errors_total{request=\"content\"} 1\n"), text);
        assertTrue(text.contains("elearning_rows_dropped_total 1\n"), text);
        for (String line : text.split("\n")) {
            assertTrue(line.matches("# (HELP|TYPE) \\w+ .+|\\w+(\\{[^}]*\\})? [0-9.]+"), line);
        }
    }

    @Test
    void everyWordIsAFormat() {
        ReportFormat.words().forEach(word -> ReportFormat.ofWord(word).mediaType());
        assertEquals(ReportFormat.values().length, ReportFormat.words().size());
    }
}
