package io.tailbound.servicelevel;

import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Set;

/**
 * Times each request of an application, and answers for the report of its service level.
 *
 * <p>The request attribute {@value #OPTIONAL}, a {@link Boolean}, says whether the request's optional content is
 * served. A request ends when the servlet returns, an asynchronous one when it is completed. The parameters
 * {@code deadline} (the only one that is needed), {@code interval}, {@code window}, {@code pole}, {@code rise} and
 * {@code initial-level} are those of {@link ServiceLevelSettings}, with times such as {@code 500ms};
 *
 * <ul>
 *   <li>{@code path}: the path of the report within the application; empty for none;
 *   <li>{@code untimed}: beginnings of paths whose latency does not count, with commas between;
 *   <li>{@code start-header}: a header in which a proxy writes when it got the request, such as
 *       {@code X-Request-Start}; only if the proxy always sets it.
 * </ul>
 */
public final class ServiceLevelFilter implements Filter {
    /** The request attribute with the decision. */
    public static final String OPTIONAL = "tailbound.optional";

    /** The attribute of the servlet context with the {@link ServiceLevel}. */
    public static final String SERVICE_LEVEL = "tailbound.service-level";

    private static final String REPORT_PATH = "/tailbound/service-level";
    private static final Set<String> PARAMETERS = Set.of(
            "deadline", "interval", "window", "pole", "rise", "initial-level", "path", "untimed", "start-header");

    private ServiceLevel serviceLevel;
    private String path = REPORT_PATH;
    private List<String> untimed = List.of();
    private String startHeader;

    /** A filter with the parameters of its registration. */
    public ServiceLevelFilter() {}

    /** A filter of a level that the application has made; the parameters of its registration say the rest. */
    public ServiceLevelFilter(ServiceLevel serviceLevel) {
        this.serviceLevel = serviceLevel;
    }

    @Override
    public void init(FilterConfig config) throws ServletException {
        try {
            for (Enumeration<String> names = config.getInitParameterNames(); names.hasMoreElements(); ) {
                String name = names.nextElement();
                if (!PARAMETERS.contains(name)) {
                    throw new IllegalArgumentException(
                            "there is no parameter \"" + name + "\"; use those of " + PARAMETERS.stream().sorted().toList());
                }
            }
            if (serviceLevel == null) {
                serviceLevel = new ServiceLevel(settings(config));
            }
            String given = config.getInitParameter("path");
            path = given == null ? REPORT_PATH : given.isBlank() ? null : checkedPath(given, "path");
            untimed = paths(config.getInitParameter("untimed"));
            startHeader = config.getInitParameter("start-header");
        } catch (IllegalArgumentException e) {
            throw new ServletException("filter " + config.getFilterName() + ": " + e.getMessage(), e);
        }
        config.getServletContext().setAttribute(SERVICE_LEVEL, serviceLevel);
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        // A request that is dispatched once more, such as to a page for errors, is timed already.
        if (!(request instanceof HttpServletRequest http) || request.getAttribute(OPTIONAL) != null) {
            chain.doFilter(request, response);
            return;
        }
        String asked = http.getServletPath() + (http.getPathInfo() == null ? "" : http.getPathInfo());
        if (asked.equals(path)) {
            report(http, (HttpServletResponse) response);
        } else if (untimed.stream().anyMatch(asked::startsWith)) {
            request.setAttribute(OPTIONAL, true);
            chain.doFilter(request, response);
        } else {
            time(http, response, chain);
        }
    }

    private void time(HttpServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        String started = startHeader == null ? null : request.getHeader(startHeader);
        ServiceLevel.Request served =
                serviceLevel.request(StartHeader.waitedNs(started, System.currentTimeMillis() * 1_000_000));
        boolean goesOn = false;
        try {
            request.setAttribute(OPTIONAL, served.isOptional());
            chain.doFilter(request, response);
            goesOn = request.isAsyncStarted();
            if (goesOn) {
                request.getAsyncContext().addListener(new Completion(served));
            }
        } catch (IllegalStateException e) {
            // The asynchronous request was completed meanwhile.
            if (!goesOn) {
                throw e;
            }
            goesOn = false;
        } finally {
            if (!goesOn) {
                served.close();
            }
        }
    }

    private void report(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String query = request.getQueryString() == null ? "" : request.getQueryString();
        String accept = request.getHeader("Accept") == null ? "" : request.getHeader("Accept");
        ReportAnswer answer = ReportAnswer.to(request.getMethod(), query, accept, serviceLevel.report());
        byte[] body = answer.body().getBytes(StandardCharsets.UTF_8);
        response.setStatus(answer.status());
        response.setContentType(answer.contentType());
        response.setContentLength(body.length);
        response.setHeader("Cache-Control", "no-store");
        if (answer.status() == HttpServletResponse.SC_METHOD_NOT_ALLOWED) {
            response.setHeader("Allow", "GET, HEAD");
        }
        if (!request.getMethod().equals("HEAD")) {
            response.getOutputStream().write(body);
        }
    }

    private static ServiceLevelSettings settings(FilterConfig config) {
        if (config.getInitParameter("deadline") == null) {
            throw new IllegalArgumentException("deadline is missing; give the latency to keep, such as 500ms");
        }
        ServiceLevelSettings usual = ServiceLevelSettings.of(time(config, "deadline", null));
        return new ServiceLevelSettings(
                usual.deadline(),
                time(config, "interval", usual.interval()),
                time(config, "window", usual.window()),
                number(config, "pole", usual.pole()),
                number(config, "rise", usual.rise()),
                number(config, "initial-level", usual.initialLevel()));
    }

    private static Duration time(FilterConfig config, String name, Duration usual) {
        String text = config.getInitParameter(name);
        return text == null ? usual : ServiceLevelSettings.parseTime(text, name);
    }

    private static double number(FilterConfig config, String name, double usual) {
        String text = config.getInitParameter(name);
        try {
            return text == null ? usual : Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " is \"" + text + "\"; give a number such as 0.9", e);
        }
    }

    private static List<String> paths(String text) {
        List<String> paths = new ArrayList<>();
        for (String one : text == null ? new String[0] : text.split(",")) {
            paths.add(checkedPath(one.trim(), "untimed"));
        }
        return List.copyOf(paths);
    }

    private static String checkedPath(String text, String name) {
        if (!text.startsWith("/")) {
            throw new IllegalArgumentException(name + " is \"" + text + "\"; give a path that begins with a \"/\"");
        }
        return text;
    }

    /** Ends an asynchronous request when it is completed, however it is. */
    private record Completion(ServiceLevel.Request request) implements AsyncListener {
        @Override
        public void onComplete(AsyncEvent event) {
            request.close();
        }

        @Override
        public void onStartAsync(AsyncEvent event) {
            // A new cycle begins without the listeners of the one before.
            event.getAsyncContext().addListener(this);
        }

        @Override
        public void onTimeout(AsyncEvent event) {
            // The container completes the request.
        }

        @Override
        public void onError(AsyncEvent event) {
            // The container completes the request.
        }
    }
}
