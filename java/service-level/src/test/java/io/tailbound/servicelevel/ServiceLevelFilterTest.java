package io.tailbound.servicelevel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Handler;
import java.util.logging.Logger;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The filter in a Tomcat. */
final class ServiceLevelFilterTest {
    private static final String REPORT = "/tailbound/service-level";
    private static final long MS = 1_000_000;

    @TempDir
    Path folder;

    private final AtomicLong clock = new AtomicLong();

    /** Takes as long by the clock of the test as the query says, and answers with the decision. */
    private final class Application extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws ServletException, IOException {
            String asked = request.getPathInfo();
            if (asked.equals("/forward")) {
                request.getRequestDispatcher("/page").forward(request, response);
                return;
            }
            String ms = request.getParameter("ms");
            clock.addAndGet(ms == null ? 0 : Long.parseLong(ms) * MS);
            if (asked.equals("/fails")) {
                throw new ServletException("as the test wants");
            }
            if (asked.equals("/never")) {
                request.startAsync().setTimeout(1);
                return;
            }
            if (asked.equals("/async") && request.getAttribute("again") == null) {
                request.setAttribute("again", true);
                AsyncContext context = request.startAsync();
                context.start(() -> {
                    clock.addAndGet(200 * MS);
                    context.dispatch();
                });
                return;
            }
            if (asked.equals("/async")) {
                AsyncContext context = request.startAsync();
                context.start(() -> {
                    clock.addAndGet(300 * MS);
                    context.complete();
                });
                return;
            }
            response.getWriter().print(request.getAttribute(ServiceLevelFilter.OPTIONAL));
        }
    }

    @BeforeAll
    static void quieten() {
        // The applications that fail as they should would fill the log.
        Logger root = Logger.getLogger("");
        for (Handler handler : root.getHandlers()) {
            root.removeHandler(handler);
        }
    }

    private ServiceLevel stepped(double drawn) {
        return new ServiceLevel(ServiceLevelSettings.of(Duration.ofSeconds(1)), clock::get, () -> drawn);
    }

    private WebServer server(ServiceLevel level, Map<String, String> parameters) throws Exception {
        return new WebServer(folder, "/shop", new Application(), new ServiceLevelFilter(level), parameters);
    }

    /** The report, once no request is under way: a client has its answer before the filter is left. */
    private static ServiceLevelReport settled(ServiceLevel level) throws InterruptedException {
        for (int wait = 0; level.unfinished() > 0 && wait < 20_000; wait++) {
            Thread.sleep(1);
        }
        assertEquals(0, level.unfinished());
        return level.report();
    }

    @Test
    void aRequestIsTimedAndDecidedOn() throws Exception {
        ServiceLevel level = stepped(0.95);
        try (WebServer server = server(level, Map.of())) {
            assertEquals("true", server.get("/page?ms=2000"));
            ServiceLevelReport report = settled(level);
            assertEquals(OptionalLong.of(2000 * MS), report.latencyNs());
            assertEquals(0.95, report.serviceLevel(), 1e-9, "unfinished after one second, slow after two");
            assertEquals("false", server.get("/page"));
            assertEquals(2, settled(level).requests());
        }
    }

    @Test
    void failuresAndDispatchesCountOnce() throws Exception {
        ServiceLevel level = stepped(0);
        try (WebServer server = server(level, Map.of())) {
            HttpResponse<String> failed = server.send("GET", "/fails?ms=70");
            assertEquals(500, failed.statusCode());
            assertEquals("true", failed.body(), "the page for errors has the decision, too");
            assertEquals(1, settled(level).requests());
            assertEquals("true", server.get("/forward?ms=30"));
            ServiceLevelReport report = settled(level);
            // The page for errors took its time after the request had left the filter.
            assertEquals(OptionalLong.of(70 * MS), report.latencyNs());
            assertEquals(2, report.requests());
        }
    }

    @Test
    void anAsynchronousRequestEndsWhenItIsCompleted() throws Exception {
        ServiceLevel level = stepped(0);
        try (WebServer server = server(level, Map.of())) {
            assertEquals(200, server.send("GET", "/async").statusCode());
            ServiceLevelReport report = settled(level);
            assertEquals(OptionalLong.of(500 * MS), report.latencyNs());
            assertEquals(1, report.requests());
        }
    }

    @Test
    void anAsynchronousRequestEndsWhenItsTimeIsOver() throws Exception {
        ServiceLevel level = stepped(0);
        try (WebServer server = server(level, Map.of())) {
            assertEquals(500, server.send("GET", "/never").statusCode());
            assertEquals(1, settled(level).requests());
        }
    }

    @Test
    void theReportIsJsonOrPrometheus() throws Exception {
        ServiceLevel level = stepped(0);
        level.observe(Duration.ofMillis(1310));
        clock.addAndGet(400 * MS);
        try (WebServer server = server(level, Map.of())) {
            HttpResponse<String> answer = server.send("GET", REPORT);
            assertEquals("application/json", answer.headers().firstValue("Content-Type").orElseThrow());
            JsonNode json = new ObjectMapper().readTree(answer.body());
            assertEquals(-0.31, json.get("matching_value").asDouble(), 1e-9);
            assertEquals(0.4, json.get("age_seconds").asDouble());
            assertEquals(1, json.get("requests").asLong());
            assertTrue(server.get(REPORT, "Accept", "text/plain").contains("\ntailbound_service_level 1.0\n"));
            assertTrue(server.get(REPORT + "?format=prometheus").contains("_deadline_seconds 1.0\n"));
            assertEquals(400, server.send("GET", REPORT + "?format=xml").statusCode());
            HttpResponse<String> posted = server.send("POST", REPORT);
            assertEquals(405, posted.statusCode());
            assertEquals("GET, HEAD", posted.headers().firstValue("Allow").orElseThrow());
            assertEquals("", server.send("HEAD", REPORT).body());
            assertEquals(1, settled(level).requests(), "the report itself is not timed");
        }
    }

    @Test
    void parametersSayTheRest() throws Exception {
        ServiceLevel level = stepped(0.5);
        Map<String, String> parameters =
                Map.of("path", "", "untimed", "/events, /health", "start-header", "X-Request-Start");
        try (WebServer server = server(level, parameters)) {
            assertEquals("true", server.get(REPORT), "the path is the application's");
            assertEquals("true", server.get("/events/1?ms=5000"));
            assertEquals(1, settled(level).requests());
            String before = "t=" + (System.currentTimeMillis() - 60_000);
            server.get("/page", "X-Request-Start", before);
            assertTrue(settled(level).latencyNs().orElseThrow() >= 60_000 * MS);
        }
    }

    @Test
    void aRegistrationAloneIsEnough() throws Exception {
        Map<String, String> parameters =
                Map.of("deadline", "60min", "interval", "100ms", "window", "1s", "pole", "0.5", "initial-level", "1");
        try (WebServer server =
                new WebServer(folder, "", new Application(), new ServiceLevelFilter(), parameters)) {
            assertEquals("true", server.get("/page"));
            assertEquals(3600.0, new ObjectMapper().readTree(server.get(REPORT)).get("deadline_seconds").asDouble());
        }
    }

    @Test
    void aRegistrationThatMakesNoSenseStopsTheApplication() throws Exception {
        for (Map<String, String> parameters : List.of(
                Map.<String, String>of(),
                Map.of("deadline", "1"),
                Map.of("deadline", "1s", "pole", "x"),
                Map.of("deadline", "1s", "dead-line", "1s"),
                Map.of("deadline", "1s", "path", "report"))) {
            try (WebServer server =
                    new WebServer(folder, "", new Application(), new ServiceLevelFilter(), parameters)) {
                assertFalse(server.isAvailable(), parameters.toString());
            }
        }
    }

    @Test
    void threadsLoseNoRequest() throws Exception {
        ServiceLevel level = new ServiceLevel(ServiceLevelSettings.of(Duration.ofHours(1)));
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (WebServer server = server(level, Map.of())) {
            List<Callable<Void>> work = new ArrayList<>();
            for (int thread = 0; thread < 8; thread++) {
                work.add(() -> {
                    for (int number = 0; number < 50; number++) {
                        assertEquals("true", server.get("/page"));
                        server.get("/async");
                    }
                    return null;
                });
                work.add(() -> {
                    for (int number = 0; number < 2_000; number++) {
                        level.request().close();
                        level.report();
                    }
                    return null;
                });
            }
            for (Future<Void> done : threads.invokeAll(work)) {
                done.get();
            }
            assertEquals(8 * (50 * 2 + 2_000), settled(level).requests());
        } finally {
            threads.shutdownNow();
        }
    }
}
