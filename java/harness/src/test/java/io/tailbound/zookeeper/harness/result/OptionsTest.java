package io.tailbound.zookeeper.harness.result;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class OptionsTest {
    private static final Map<String, String> DEFAULTS = Map.of("trials", "50", "sizes", "3,5");

    private static Options parse(String... arguments) {
        return Options.parse(arguments, DEFAULTS);
    }

    private static void fails(String word, Runnable wrong) {
        var problem = assertThrows(IllegalArgumentException.class, wrong::run);
        assertTrue(problem.getMessage().contains(word), problem.getMessage());
    }

    @Test
    void keepsDefaultsAndTakesValues() {
        Options options = parse("--trials", "7");
        assertEquals(7, options.number("trials", 1));
        assertEquals(List.of(3, 5), options.numbers("sizes", 3));
    }

    @Test
    void refusesWhatItDoesNotKnow() {
        fails("--trials", () -> parse("--trial", "7"));
        fails("no option 7", () -> parse("7", "8"));
        fails("needs a value", () -> parse("--trials"));
        fails("from 1 on", () -> parse("--trials", "0").number("trials", 1));
        fails("whole number", () -> parse("--trials", "many").number("trials", 1));
    }
}
