package io.tailbound.zookeeper.harness.throughput;

import io.tailbound.zookeeper.harness.result.Quantiles;
import java.util.function.ToDoubleFunction;

/** What is compared between two ensembles in one window each. */
enum Measure {
    /** Operations per second, as many as go: closed loop. */
    RATE(true, Load.Window::rate),
    /** Median time from intended sending to answer at a modest rate: open loop. */
    MEDIAN_LATENCY_NS(false, window -> Quantiles.of(window.latenciesNs()).at(50)),
    /** 99th percentile of the same. */
    P99_LATENCY_NS(false, window -> Quantiles.of(window.latenciesNs()).at(99));

    private final boolean closedLoop;
    private final ToDoubleFunction<Load.Window> value;

    Measure(boolean closedLoop, ToDoubleFunction<Load.Window> value) {
        this.closedLoop = closedLoop;
        this.value = value;
    }

    boolean closedLoop() {
        return closedLoop;
    }

    double of(Load.Window window) {
        return value.applyAsDouble(window);
    }
}
