package io.tailbound.servicelevel;

import java.util.Arrays;
import java.util.Locale;

/**
 * The answer to a request for the report: by {@code ?format=}, else by its Accept header, else as JSON.
 *
 * @param status the status of HTTP
 * @param contentType the type of the body
 * @param body the body, without regard to HEAD
 */
record ReportAnswer(int status, String contentType, String body) {
    static final String JSON_TYPE = "application/json";
    static final String PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

    static ReportAnswer to(String method, String query, String accept, ServiceLevelReport report) {
        if (!method.equals("GET") && !method.equals("HEAD")) {
            return new ReportAnswer(405, "text/plain", "use GET\n");
        }
        String format = format(query);
        return switch (format) {
            case "json" -> json(report);
            case "prometheus" -> prometheus(report);
            case "" -> prefersText(accept) ? prometheus(report) : json(report);
            default -> new ReportAnswer(
                    400, "text/plain", "there is no such format; write format=json or format=prometheus\n");
        };
    }

    private static ReportAnswer json(ServiceLevelReport report) {
        return new ReportAnswer(200, JSON_TYPE, report.json() + "\n");
    }

    private static ReportAnswer prometheus(ServiceLevelReport report) {
        return new ReportAnswer(200, PROMETHEUS_TYPE, report.prometheus());
    }

    private static String format(String query) {
        String format = "";
        for (String pair : query.split("&")) {
            if (pair.startsWith("format=")) {
                format = pair.substring("format=".length());
            }
        }
        return format;
    }

    /** Whether a header prefers plain text over JSON; where it wants both alike, JSON is preferred. */
    private static boolean prefersText(String accept) {
        double text = Math.max(quality(accept, "text/plain"), quality(accept, "text/*"));
        double json = Math.max(quality(accept, JSON_TYPE), quality(accept, "application/*"));
        return text > Math.max(json, quality(accept, "*/*"));
    }

    /** The quality of a media range in an Accept header, zero where it is not in there. */
    private static double quality(String accept, String wanted) {
        double best = 0.0;
        for (String part : accept.toLowerCase(Locale.ROOT).split(",")) {
            String[] pieces = Arrays.stream(part.split(";", -1)).map(String::trim).toArray(String[]::new);
            if (!pieces[0].equals(wanted)) {
                continue;
            }
            double quality = 1.0;
            for (String parameter : pieces) {
                if (parameter.startsWith("q=")) {
                    quality = number(parameter.substring(2));
                }
            }
            best = Math.max(best, quality);
        }
        return best;
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return 0.0;
        }
    }
}
