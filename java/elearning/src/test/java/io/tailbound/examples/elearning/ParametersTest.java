package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ParametersTest {
    private static Parameters given(String name, String... values) throws BadParameter {
        return new Parameters(Map.of(name, values), List.of("lat", "count", "format"));
    }

    private static void assertRefused(String message, Executable question) {
        assertEquals(message, assertThrows(BadParameter.class, question).getMessage());
    }

    @Test
    void numbersInRangeAreTaken() throws BadParameter {
        assertEquals(45.4, given("lat", "45.4").decimal("lat", -85, 85));
        assertEquals(-85, given("lat", "-85").decimal("lat", -85, 85));
        assertEquals(7, given("count", "7").whole("count", 1, 50, 10));
        assertEquals(10, given("lat", "1").whole("count", 1, 50, 10));
        assertEquals(150, given("lat", "1").decimal("radius_m", 1, 2000, 150));
    }

    @Test
    void aRefusalSaysWhatWouldBeRight() {
        String right = "give a number from -85 to 85, such as lat=0";
        assertRefused("parameter lat is \"north\"; " + right, () -> given("lat", "north").decimal("lat", -85, 85));
        assertRefused("parameter lat is \"86\"; " + right, () -> given("lat", "86").decimal("lat", -85, 85));
        assertRefused("parameter lat is \"NaN\"; " + right, () -> given("lat", "NaN").decimal("lat", -85, 85));
        assertRefused("parameter lat is \"\"; " + right, () -> given("lat", "").decimal("lat", -85, 85));
        assertRefused("parameter lat is missing; " + right, () -> given("count", "1").decimal("lat", -85, 85));
        assertRefused(
                "parameter count is \"1.5\"; give a whole number from 1 to 50",
                () -> given("count", "1.5").whole("count", 1, 50, 10));
        assertRefused(
                "parameter count is missing; give a whole number from 1 to 50",
                () -> given("lat", "1").whole("count", 1, 50));
    }

    @Test
    void aWordIsOneOfSeveral() throws BadParameter {
        List<String> words = List.of("json", "xml");
        assertEquals("json", given("lat", "1").word("format", words));
        assertEquals("xml", given("format", "xml").word("format", words));
        assertRefused(
                "parameter format is \"yaml\"; give json, xml", () -> given("format", "yaml").word("format", words));
    }

    @Test
    void strangersAndRepetitionsAreRefused() {
        assertRefused("there is no parameter \"latitude\"; give lat, count, format", () -> given("latitude", "1"));
        assertRefused("parameter lat comes 2 times; give it once", () -> given("lat", "1", "2"));
        assertRefused(
                "there is no parameter \"x\"; give none", () -> new Parameters(Map.of("x", new String[1]), List.of()));
    }

    @Test
    void aLongTextIsCut() {
        String text = "9".repeat(10_000);
        BadParameter refusal =
                assertThrows(BadParameter.class, () -> given("count", text).whole("count", 1, 50, 10));
        assertTrue(refusal.getMessage().length() < 120, refusal.getMessage());
    }
}
