package io.tailbound.zookeeper.harness.result;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class QuantilesTest {
    @Test
    void takesNearestRanks() {
        Quantiles hundred = Quantiles.of(LongStream.rangeClosed(1, 100).boxed().toList());
        assertEquals(1, hundred.min());
        assertEquals(50, hundred.at(50));
        assertEquals(99, hundred.at(99));
        assertEquals(100, hundred.max());
    }

    @Test
    void fewSamplesHaveTheirMaximumAsP99() {
        Quantiles three = Quantiles.of(List.of(30L, 10L, 20L));
        assertEquals(20, three.at(50));
        assertEquals(30, three.at(99));
        assertEquals(10, three.at(0));
    }

    @Test
    void noSamplesHaveNone() {
        assertThrows(IllegalArgumentException.class, () -> Quantiles.of(List.of()));
    }
}
