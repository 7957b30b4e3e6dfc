package io.tailbound.examples.elearning;

import jakarta.servlet.http.HttpServletResponse;
import java.sql.SQLException;
import java.util.List;

/** The content of a learning object. */
public final class ContentServlet extends QueryServlet {
    public ContentServlet() {
        super(List.of("id"));
    }

    @Override
    Body answer(Application application, Parameters parameters) throws BadParameter, SQLException {
        long id = parameters.whole("id", 0, Integer.MAX_VALUE);
        return application
                .database()
                .content(id)
                .map(bytes -> new Body(HttpServletResponse.SC_OK, "text/plain", bytes))
                .orElseGet(() -> Body.error(
                        HttpServletResponse.SC_NOT_FOUND,
                        "there is no learning object " + id + "; give an identifier that /position answered with"));
    }
}
