package io.tailbound.zookeeper.harness.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.tailbound.zookeeper.harness.result.Options;
import org.junit.jupiter.api.Test;

class RecoveryOptionsTest {
    private static Options parse(String... arguments) {
        return Options.parse(arguments, RecoveryBench.defaults());
    }

    @Test
    void thereIsNoLoadUnlessItIsAskedFor() {
        assertEquals(0, parse().number("busy-per-cpu", 0));
        assertEquals(2, parse("--busy-per-cpu", "2").number("busy-per-cpu", 0));
    }

    @Test
    void aLoadIsAWholeNumber() {
        Options negative = parse("--busy-per-cpu", "-1");
        var problem =
                assertThrows(
                        IllegalArgumentException.class, () -> negative.number("busy-per-cpu", 0));
        assertTrue(problem.getMessage().contains("--busy-per-cpu -1"), problem.getMessage());
    }
}
