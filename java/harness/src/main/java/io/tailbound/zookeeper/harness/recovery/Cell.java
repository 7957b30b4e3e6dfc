package io.tailbound.zookeeper.harness.recovery;

import io.tailbound.zookeeper.harness.ensemble.Variant;

/** One combination that the benchmark measures. */
record Cell(Variant variant, int size, Fault fault) {
    /** What happens to the leader. */
    enum Fault {
        /** It is killed: SIGKILL. */
        KILL("KILL"),
        /** It hangs: SIGSTOP, until the service is back. */
        STOP("STOP");

        private final String signal;

        Fault(String signal) {
            this.signal = signal;
        }

        /** The signal's name, without SIG. */
        String signal() {
            return signal;
        }
    }

    @Override
    public String toString() {
        return variant.name() + ", " + size + " servers, " + fault.name().toLowerCase();
    }
}
