package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private static Settings read(String... namesAndValues) {
        Map<String, String> properties =
                new HashMap<>(Map.of("elearning.database", "127.0.0.1:1", "elearning.password-file", "p"));
        for (int i = 0; i < namesAndValues.length; i += 2) {
            properties.put("elearning." + namesAndValues[i], namesAndValues[i + 1]);
        }
        return Settings.read(properties::get);
    }

    private static String refusal(String name, String value) {
        return assertThrows(IllegalArgumentException.class, () -> read(name, value)).getMessage();
    }

    @Test
    void settingsHaveDefaults() {
        assertEquals(new Settings("127.0.0.1:1", Path.of("p"), 9, 120, false), read());
        assertEquals(new Settings("127.0.0.1:1", Path.of("p"), 3, 7, true),
                read("connections", "3", "patience", "7", "table", "on"));
    }

    @Test
    void aRefusalSaysWhatWouldBeRight() {
        assertEquals("property elearning.connections is \"0\"; give a whole number from 1 to 64",
                refusal("connections", "0"));
        assertEquals("property elearning.patience is \"soon\"; give a whole number from 1 to 3600",
                refusal("patience", "soon"));
        assertEquals("property elearning.table is \"yes\"; give \"on\" or \"off\"", refusal("table", "yes"));
        assertEquals("property elearning.database is \"here\"; give ADDRESS:PORT, such as 127.0.0.1:13306",
                refusal("database", "here"));
        assertEquals("property elearning.database is missing; examples/elearning/web gives it", refusal("database", ""));
    }
}
