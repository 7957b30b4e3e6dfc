package io.tailbound.examples.elearning;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** The forms of a report. */
enum ReportFormat {
    JSON("application/json"),
    XML("application/xml"),
    PROMETHEUS("text/plain; version=0.0.4");

    private static final int SCHEMA_VERSION = 1;
    private static final double NS_PER_SECOND = 1e9;
    private static final long US_PER_MS = 1000;

    private final String mediaType;

    ReportFormat(String mediaType) {
        this.mediaType = mediaType;
    }

    String mediaType() {
        return mediaType;
    }

    /** The words of the parameter, the default first. */
    static List<String> words() {
        return List.of("json", "xml", "prometheus");
    }

    static ReportFormat ofWord(String word) {
        return valueOf(word.toUpperCase(Locale.ROOT));
    }

    String render(ResponseReport report, ResponseTable.Rows rows) {
        return switch (this) {
            case JSON -> json(report, rows);
            case XML -> xml(report, rows);
            case PROMETHEUS -> prometheus(report, rows);
        };
    }

    private static Map<String, Long> fields(ResponseReport.Statistics of) {
        Map<String, Long> fields = new LinkedHashMap<>();
        fields.put("count", of.count());
        fields.put("errors", of.errors());
        fields.put("mean_ns", of.meanNs());
        fields.put("standard_deviation_ns", of.deviationNs());
        fields.put("min_ns", of.minNs());
        for (int percentile : ResponseReport.PERCENTILES) {
            fields.put("p" + percentile + "_ns", of.percentileNs(percentile));
        }
        fields.put("max_ns", of.maxNs());
        return fields;
    }

    private static Map<String, Object> header(ResponseReport report, ResponseTable.Rows rows) {
        Map<String, Object> header = new LinkedHashMap<>();
        header.put("schema_version", SCHEMA_VERSION);
        header.put("since_ms", report.sinceUs() / US_PER_MS);
        header.put("until_ms", report.untilUs() / US_PER_MS);
        header.put("complete", report.complete());
        header.put("rows_written", rows.written());
        header.put("rows_dropped", rows.dropped());
        return header;
    }

    private static String json(ResponseReport report, ResponseTable.Rows rows) {
        String requests = report.statistics().entrySet().stream()
                .map(entry -> quoted(entry.getKey().label()) + ":{" + joined(fields(entry.getValue())) + "}")
                .collect(Collectors.joining(","));
        return "{" + joined(header(report, rows)) + ",\"requests\":{" + requests + "}}\n";
    }

    private static String joined(Map<String, ?> fields) {
        return fields.entrySet().stream()
                .map(field -> quoted(field.getKey()) + ":" + field.getValue())
                .collect(Collectors.joining(","));
    }

    private static String quoted(String name) {
        return "\"" + name + "\"";
    }

    private static String xml(ResponseReport report, ResponseTable.Rows rows) {
        StringBuilder out = new StringBuilder("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<report");
        header(report, rows).forEach((name, value) -> out.append(attribute(name, value)));
        out.append(">\n");
        report.statistics().forEach((kind, statistics) -> {
            out.append("  <request").append(attribute("name", kind.label()));
            fields(statistics).forEach((name, value) -> out.append(attribute(name, value)));
            out.append("/>\n");
        });
        return out.append("</report>\n").toString();
    }

    private static String attribute(String name, Object value) {
        return " " + name + "=\"" + value + "\"";
    }

    /** Quantiles are of the interval, sums and counts since the start: what a summary of Prometheus is. */
    private static String prometheus(ResponseReport report, ResponseTable.Rows rows) {
        StringBuilder out = new StringBuilder();
        String name = "elearning_response_seconds";
        head(out, name, "summary", "Response times within the application, without errors.");
        report.statistics().forEach((kind, statistics) -> {
            for (int percentile : ResponseReport.PERCENTILES) {
                String labels = "{request=\"" + kind.label() + "\",quantile=\"" + percentile / 100.0 + "\"} ";
                out.append(name).append(labels).append(seconds(statistics.percentileNs(percentile))).append('\n');
            }
            ResponseLog.Totals totals = report.totals().get(kind);
            String labels = "{request=\"" + kind.label() + "\"} ";
            out.append(name).append("_sum").append(labels).append(seconds(totals.durationNs())).append('\n');
            out.append(name).append("_count").append(labels).append(totals.answers()).append('\n');
        });
        head(out, "elearning_errors_total", "counter", "Responses with an error status.");
        report.totals().forEach((kind, totals) -> out.append("elearning_errors_total{request=\"")
                .append(kind.label()).append("\"} ").append(totals.errors()).append('\n'));
        head(out, "elearning_rows_written_total", "counter", "Responses written to the table.");
        out.append("elearning_rows_written_total ").append(rows.written()).append('\n');
        head(out, "elearning_rows_dropped_total", "counter", "Responses that never came to the table.");
        out.append("elearning_rows_dropped_total ").append(rows.dropped()).append('\n');
        return out.toString();
    }

    private static void head(StringBuilder out, String name, String type, String help) {
        out.append("# HELP ").append(name).append(' ').append(help).append("\n# TYPE ").append(name).append(' ')
                .append(type).append('\n');
    }

    private static String seconds(long ns) {
        return String.format(Locale.ROOT, "%.9f", ns / NS_PER_SECOND);
    }
}
