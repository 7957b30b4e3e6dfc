package io.tailbound.zookeeper.harness.ensemble;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class VariantsTest {
    @Test
    void theTableHasTheVariantsOfTheComparison() throws IOException {
        var expected =
                List.of(
                        "vanilla", "vanilla-best", "thesis-lite", "thesis-full", "tailbound",
                        "tailbound-nice", "tailbound-reserved", "etcd", "etcd-tuned");
        assertEquals(expected, Variants.read(null).names());
    }

    @Test
    void aSecondCopyDiffersInItsNameOnly() throws IOException {
        var pair = Variants.read(null).select(List.of("vanilla-best", "vanilla-best+again"));
        assertEquals("vanilla-best+again", pair.get(1).name());
        assertEquals(pair.get(0), pair.get(1).named("vanilla-best"));
    }

    @Test
    void anUnknownNameIsAnErrorThatNamesTheKnown() throws IOException {
        Variants table = Variants.read(null);
        var problem =
                assertThrows(
                        IllegalArgumentException.class, () -> table.select(List.of("vanila")));
        assertTrue(problem.getMessage().contains("vanilla-best"), problem.getMessage());
    }

    @Test
    void serversGetTheCpusInTurns() throws IOException {
        Variant reserved = Variants.read(null).select(List.of("tailbound-reserved")).get(0);
        for (int id = 1; id <= 3; id++) {
            String option = reserved.options(id, 2).get(0);
            assertTrue(option.endsWith(id == 2 ? "@1" : "@0"), option);
        }
    }

    @Test
    void onlyOurLauncherTakesOptions(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("variants.json");
        Files.writeString(
                file,
                "[{\"name\": \"x\", \"launcher\": \"stock\", \"config\": [], \"jvm\": [],"
                        + " \"options\": [\"--nice=1\"]}]");
        var problem = assertThrows(IOException.class, () -> Variants.read(file));
        assertTrue(problem.getMessage().contains("--nice=1"), problem.getMessage());
    }

    @Test
    void anUnknownFieldIsAnError(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("variants.json");
        Files.writeString(file, "[{\"name\": \"x\", \"launcher\": \"stock\", \"flags\": []}]");
        assertThrows(IOException.class, () -> Variants.read(file));
    }
}
