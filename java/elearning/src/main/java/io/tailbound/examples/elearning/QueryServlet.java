package io.tailbound.examples.elearning;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Answers GET requests; an error becomes a status and a sentence in JSON. */
abstract class QueryServlet extends HttpServlet {
    /**
     * A response body.
     *
     * @param status its HTTP status
     * @param mediaType its type
     * @param bytes its bytes
     */
    record Body(int status, String mediaType, byte[] bytes) {
        static Body json(String text) {
            return of("application/json", text);
        }

        static Body of(String mediaType, String text) {
            return new Body(HttpServletResponse.SC_OK, mediaType, text.getBytes(StandardCharsets.UTF_8));
        }

        static Body error(int status, String sentence) {
            StringBuilder text = new StringBuilder("{\"error\":\"");
            for (char one : sentence.toCharArray()) {
                if (one == '"' || one == '\\') {
                    text.append('\\').append(one);
                } else {
                    text.append(one < ' ' ? ' ' : one);
                }
            }
            byte[] bytes = text.append("\"}\n").toString().getBytes(StandardCharsets.UTF_8);
            return new Body(status, "application/json", bytes);
        }
    }

    private static final Logger LOG = Logger.getLogger(QueryServlet.class.getName());

    private final List<String> names;

    /** A servlet whose requests have parameters of these names. */
    QueryServlet(List<String> names) {
        this.names = names;
    }

    /** The answer to a request. */
    abstract Body answer(Application application, Parameters parameters) throws BadParameter, SQLException;

    @Override
    protected final void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Body body = body(request);
        response.setStatus(body.status());
        response.setContentType(body.mediaType());
        response.setContentLength(body.bytes().length);
        response.getOutputStream().write(body.bytes());
    }

    private Body body(HttpServletRequest request) {
        try {
            return answer(
                    Application.of(getServletContext()), new Parameters(request.getParameterMap(), names));
        } catch (BadParameter bad) {
            return Body.error(HttpServletResponse.SC_BAD_REQUEST, bad.getMessage());
        } catch (SQLException absent) {
            LOG.log(Level.FINE, "a query failed", absent);
            return Body.error(
                    HttpServletResponse.SC_SERVICE_UNAVAILABLE, "the database does not answer: " + absent.getMessage());
        }
    }
}
