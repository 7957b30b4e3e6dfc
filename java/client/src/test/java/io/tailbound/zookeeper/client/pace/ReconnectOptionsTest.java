package io.tailbound.zookeeper.client.pace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ReconnectOptionsTest {
    @Test
    void whatIsNotNamedKeepsItsDefault() {
        ReconnectOptions options = ReconnectOptions.parse(" jitter = 0.25 , retry=20ms");
        assertEquals(20_000_000, options.retryNs());
        assertEquals(0.25, options.jitter());
        assertEquals(15_000_000, options.shortestPauseNs());
        assertEquals(ReconnectOptions.DEFAULT.persistNs(), options.persistNs());
        assertEquals(ReconnectOptions.DEFAULT.maxNs(), options.maxNs());
        assertEquals(ReconnectOptions.DEFAULT.toString(), ReconnectOptions.parse("").toString());
    }

    @Test
    void whatIsWrittenIsRead() {
        String text = "retry=1500us,jitter=0.0,spread=20ms,persist=0ms,max=2s";
        assertEquals(text, ReconnectOptions.parse(text).toString());
    }

    @Test
    void aRetryAboveTheDefaultMaximumRaisesIt() {
        assertEquals(5_000_000_000L, ReconnectOptions.parse("retry=5s").maxNs());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "retri=50ms              | unknown option `retri`; the options are retry",
        "retry=50                | `50` is no duration; write a whole number with us, ms or s",
        "retry=                  | `` is no duration",
        "retry                   | `` is no duration",
        "retry=-1ms              | `-1ms` is no duration",
        "retry=0ms               | 0ms is out of range; it must be 1ms to 3600s",
        "retry=999999999999ms    | is no duration",
        "persist=2h              | is no duration",
        "max=9999s               | is out of range",
        "jitter=1                | `1` is no fraction; write a number from 0 up to, not including, 1",
        "jitter=NaN              | is no fraction",
        "retry=50ms,max=10ms     | `max` is shorter than `retry`",
        "retry=50ms,retry=20ms   | `retry` is given twice",
        "retry=50ms,             | unknown option ``",
    })
    void badOptionsSayWhatWouldBeRight(String text, String message) {
        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> ReconnectOptions.parse(text));
        assertTrue(error.getMessage().contains(message), error.getMessage());
    }

    @Test
    void anyTextIsReadOrRefused() {
        Random random = new Random(4);
        String alphabet = "retryjitspmax=,.0123456789usm-é\u0660 ";
        for (int i = 0; i < 50_000; i++) {
            StringBuilder text = new StringBuilder(random.nextBoolean() ? "retry=50ms,jitter=0.5,max=" : "");
            for (int j = random.nextInt(12); j > 0; j--) {
                text.append(alphabet.charAt(random.nextInt(alphabet.length())));
            }
            try {
                ReconnectOptions options = ReconnectOptions.parse(text.toString());
                assertEquals(options.toString(), ReconnectOptions.parse(options.toString()).toString());
            } catch (IllegalArgumentException e) {
                assertTrue(e.getMessage().contains("option"), text + ": " + e.getMessage());
            }
        }
    }
}
