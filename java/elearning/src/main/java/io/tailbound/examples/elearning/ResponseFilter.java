package io.tailbound.examples.elearning;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Measures the time from the begin of a request's treatment until its response is in the buffers of the network. */
public final class ResponseFilter extends HttpFilter {
    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        long beginNs = System.nanoTime();
        chain.doFilter(request, response);
        response.flushBuffer();
        long durationNs = System.nanoTime() - beginNs;
        RequestKind kind = RequestKind.ofPath(request.getServletPath());
        Application.of(getServletContext())
                .note(new Response(kind, Application.nowUs(), durationNs, response.getStatus()));
    }
}
