package io.tailbound.servicelevel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

final class ServiceLevelSettingsTest {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration WINDOW = Duration.ofSeconds(5);

    private static void refused(String message, Executable settings) {
        String actual = assertThrows(IllegalArgumentException.class, settings).getMessage();
        assertTrue(actual.contains(message), actual);
    }

    @Test
    void timesHaveUnits() {
        assertEquals(Duration.ofMillis(500), ServiceLevelSettings.parseTime("500ms", "deadline"));
        assertEquals(Duration.ofMillis(1500), ServiceLevelSettings.parseTime(" 1.5 s ", "deadline"));
        assertEquals(Duration.ofMinutes(2), ServiceLevelSettings.parseTime("2min", "deadline"));
        for (String text : new String[] {"1", "", "-1s", "1h", "NaN s", "1 s 2"}) {
            refused("deadline is \"" + text + "\"; write a number with a unit",
                    () -> ServiceLevelSettings.parseTime(text, "deadline"));
        }
        refused("whole number of nanoseconds", () -> ServiceLevelSettings.parseTime("0.5ns", "window"));
        refused("at most 292 years", () -> ServiceLevelSettings.parseTime("99999999999999min", "window"));
    }

    @Test
    void settingsThatMakeNoSenseAreRefused() {
        refused("deadline is PT0S; give a time above zero", () -> ServiceLevelSettings.of(Duration.ZERO));
        refused("deadline is null", () -> ServiceLevelSettings.of(null));
        refused("at most 292 years", () -> ServiceLevelSettings.of(Duration.ofDays(365_000)));
        refused("window is PT5S, no multiple of the interval of PT2S",
                () -> new ServiceLevelSettings(SECOND, Duration.ofSeconds(2), WINDOW, 0.9, 0.1, 1));
        refused("5000 intervals of PT0.001S; at most 3600 fit",
                () -> new ServiceLevelSettings(SECOND, Duration.ofMillis(1), WINDOW, 0.9, 0.1, 1));
        refused("pole is 1.0; give a number from 0 to below 1",
                () -> new ServiceLevelSettings(SECOND, SECOND, WINDOW, 1, 0.1, 1));
        refused("pole is NaN", () -> new ServiceLevelSettings(SECOND, SECOND, WINDOW, Double.NaN, 0.1, 1));
        refused("rise is 0.0", () -> new ServiceLevelSettings(SECOND, SECOND, WINDOW, 0.9, 0, 1));
        refused("initialLevel is 1.5", () -> new ServiceLevelSettings(SECOND, SECOND, WINDOW, 0.9, 0.1, 1.5));
    }

    @Test
    void negativeLatenciesAreCounted() {
        ServiceLevelController controller = new ServiceLevelController(ServiceLevelSettings.of(SECOND), 0);
        controller.observe(-1, 5);
        assertEquals(1, controller.ignored());
        assertEquals(0, controller.report(5).requests());
    }
}
