package io.tailbound.servicelevel;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;

/** The service level of an application: a controller with a clock, for all threads of a process. */
public final class ServiceLevel {
    /** A request that is served. It ends once, by {@link #close}. */
    public final class Request implements AutoCloseable {
        private final long token;
        private final boolean optional;
        private final AtomicBoolean ended = new AtomicBoolean();

        private Request(long token, boolean optional) {
            this.token = token;
            this.optional = optional;
        }

        /** Whether optional content is served. */
        public boolean isOptional() {
            return optional;
        }

        /** Ends the request; does nothing where it has ended. */
        @Override
        public void close() {
            if (ended.compareAndSet(false, true)) {
                end(token);
            }
        }
    }

    private final LongSupplier clockNs;
    private final DoubleSupplier random;
    private final ServiceLevelController controller;

    /** A level by the clock of the machine. */
    public ServiceLevel(ServiceLevelSettings settings) {
        this(settings, System::nanoTime, () -> ThreadLocalRandom.current().nextDouble());
    }

    /**
     * A level by a clock and by random numbers of the caller, for tests.
     *
     * @param clockNs a monotonic clock, in nanoseconds
     * @param random numbers from 0 to below 1
     */
    public ServiceLevel(ServiceLevelSettings settings, LongSupplier clockNs, DoubleSupplier random) {
        this.clockNs = clockNs;
        this.random = random;
        this.controller = new ServiceLevelController(settings, clockNs.getAsLong());
    }

    /** Begins a request, and draws whether its optional content is served. */
    public Request request() {
        return request(0);
    }

    /**
     * Begins a request, and draws whether its optional content is served.
     *
     * @param waitedNs how long the request has waited already
     */
    public Request request(long waitedNs) {
        long token;
        double level;
        // The clock is read under the lock, so that the controller's time does not go back.
        synchronized (controller) {
            long nowNs = clockNs.getAsLong();
            token = controller.begin(nowNs, waitedNs);
            level = controller.level(nowNs);
        }
        // A level of 1 serves every request, since what is drawn is below 1.
        return new Request(token, random.getAsDouble() < level);
    }

    /** Takes a latency that the application has measured itself, of a request that has ended now. */
    public void observe(Duration latency) {
        synchronized (controller) {
            controller.observe(latency.toNanos(), clockNs.getAsLong());
        }
    }

    /** The probability that optional content is served. */
    public double level() {
        synchronized (controller) {
            return controller.level(clockNs.getAsLong());
        }
    }

    /** The state at this moment. */
    public ServiceLevelReport report() {
        synchronized (controller) {
            return controller.report(clockNs.getAsLong());
        }
    }

    /** The number of unfinished requests. */
    int unfinished() {
        synchronized (controller) {
            return controller.unfinished();
        }
    }

    private void end(long token) {
        synchronized (controller) {
            controller.end(token, clockNs.getAsLong());
        }
    }
}
