package io.tailbound.examples.elearning;

/**
 * A response that was given.
 *
 * @param request the kind of its request
 * @param endUs the instant of its end, in microseconds since 1970
 * @param durationNs the time that it took within the application, in nanoseconds
 * @param status its HTTP status
 */
record Response(RequestKind request, long endUs, long durationNs, int status) {
    private static final int LEAST_ERROR = 400;

    /** Whether the request was refused or failed. */
    boolean isError() {
        return status >= LEAST_ERROR;
    }
}
