package io.tailbound.examples.elearning;

import java.util.List;
import java.util.concurrent.TimeUnit;

/** The report of the application on its own response times. */
public final class ReportServlet extends QueryServlet {
    /** The year 2255, up to which microseconds since 1970 stay exact in every format. */
    private static final long MOST_MS = 9_000_000_000_000L;

    public ReportServlet() {
        super(List.of("since_ms", "format"));
    }

    @Override
    Body answer(Application application, Parameters parameters) throws BadParameter {
        long sinceUs = TimeUnit.MILLISECONDS.toMicros(parameters.whole("since_ms", 0, MOST_MS, 0));
        ReportFormat format = ReportFormat.ofWord(parameters.word("format", ReportFormat.words()));
        ResponseReport report = application.log().report(sinceUs, Application.nowUs());
        return Body.of(format.mediaType(), format.render(report, application.rows()));
    }
}
