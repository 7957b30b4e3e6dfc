package io.tailbound.examples.elearning;

import jakarta.servlet.http.HttpServletResponse;
import java.sql.SQLException;
import java.util.List;

/** Whether the database answers and has all its data. */
public final class ReadyServlet extends QueryServlet {
    public ReadyServlet() {
        super(List.of());
    }

    @Override
    Body answer(Application application, Parameters parameters) throws SQLException {
        return application.database().isComplete()
                ? Body.json("{\"ready\":true}\n")
                : Body.error(HttpServletResponse.SC_SERVICE_UNAVAILABLE, "the database lacks data");
    }
}
