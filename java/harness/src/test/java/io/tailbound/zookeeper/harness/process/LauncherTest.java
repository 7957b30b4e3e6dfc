package io.tailbound.zookeeper.harness.process;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code java/bin/tailbound-zookeeper} with a JVM and a {@code tailbound} that only say what they get. */
class LauncherTest {
    @TempDir Path folder;
    private Path launcher;
    private Path tailbound;

    private record Answer(int code, String out, String err) {}

    @BeforeEach
    void install() throws IOException {
        launcher = folder.resolve("java/bin/tailbound-zookeeper");
        Files.createDirectories(launcher.getParent());
        Files.copy(Path.of("../bin/tailbound-zookeeper"), launcher);
        launcher.toFile().setExecutable(true);
        Path target = Files.createDirectories(folder.resolve("java/server/target/lib"));
        Files.createFile(target.resolve("stock.jar"));
        Files.createFile(target.resolveSibling("tailbound-zookeeper-0.1.0.jar"));
        // Field 19 of stat is the nice value; the name of the process has no blanks.
        script("jdk/bin/java", "cut -d' ' -f19 /proc/$$/stat; echo server: \"$@\"");
        tailbound = script("tailbound", "exit 1");
    }

    private Path script(String name, String text) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "#!/bin/sh\n" + text + "\n");
        file.toFile().setExecutable(true);
        return file;
    }

    private Answer launch(String... arguments) throws IOException, InterruptedException {
        return launchBehind(List.of(), arguments);
    }

    /** Starts the launcher by a command that ends in starting another. */
    private Answer launchBehind(List<String> before, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(before);
        command.addAll(List.of("setsid", "--wait", launcher.toString()));
        command.addAll(List.of(arguments));
        Path err = folder.resolve("err");
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(err.toFile());
        builder.environment().put("JAVA_HOME", folder.resolve("jdk").toString());
        builder.environment().put("TAILBOUND", tailbound.toString());
        Process process = builder.start();
        String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return new Answer(process.waitFor(), out, Files.readString(err));
    }

    @Test
    void startsAsBeforeWithoutOptions() throws Exception {
        Answer answer = launch("zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertTrue(answer.out().endsWith("TailboundPeerMain zoo.cfg\n"), answer.out());
        assertEquals("", answer.err());
    }

    @Test
    void refusesWhatItDoesNotUnderstand() throws Exception {
        for (String wrong : List.of("--nice=21", "--nice=low", "--nice=", "--reserve=4ms", "--rt")) {
            Answer answer = launch(wrong, "zoo.cfg");
            assertEquals(2, answer.code(), wrong);
            assertTrue(answer.err().contains(wrong), answer.err());
            assertEquals("", answer.out());
        }
        assertEquals(2, launch().code());
        assertEquals(2, launch("--nice=0").code());
    }

    @Test
    void takesANiceValue() throws Exception {
        Answer answer = launch("--nice=7", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertTrue(answer.out().startsWith("7\n"), answer.out());
    }

    @Test
    void startsWithoutANiceValueThatIsRefusedAndSaysWhatItNeeds() throws Exception {
        boolean isRoot = "root".equals(System.getProperty("user.name"));
        List<String> withoutTheRight =
                isRoot ? List.of("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice") : List.of();
        Answer plain = launchBehind(withoutTheRight, "zoo.cfg");
        Answer answer = launchBehind(withoutTheRight, "--nice=-20", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertEquals(plain.out(), answer.out());
        assertTrue(answer.err().contains("may not have -20 (needs CAP_SYS_NICE)"), answer.err());
    }

    @Test
    void runsUnderAReservationThatIsToBeHad() throws Exception {
        // Both the question and the server go through this program.
        script("tailbound", "while [ \"$1\" != -- ]; do echo \"word $1\"; shift; done; shift; exec \"$@\"");
        Answer answer = launch("--reserve=40ms/100ms@1", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        String words = "word run\nword -b\nword 40ms\nword -p\nword 100ms\nword -c\nword 1\n";
        assertTrue(answer.out().startsWith(words), answer.out());
        assertTrue(answer.out().endsWith("TailboundPeerMain zoo.cfg\n"), answer.out());
    }

    @Test
    void startsWithoutAReservationThatIsRefusedAndSaysWhy() throws Exception {
        script("tailbound", "echo \"tailbound: error: CPU 0 is full\" >&2; exit 1");
        Answer answer = launch("--reserve=40ms/100ms", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertTrue(answer.out().endsWith("TailboundPeerMain zoo.cfg\n"), answer.out());
        assertTrue(answer.err().contains("without a reservation of 40ms/100ms"), answer.err());
        assertTrue(answer.err().contains("CPU 0 is full"), answer.err());
    }

    @Test
    void asksAgainWhileTheReservationOfADeadServerEnds() throws Exception {
        script(
                "tailbound",
                "if [ ! -e \"$0.asked\" ]; then : >\"$0.asked\"; exit 1; fi\n"
                        + "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
        Answer answer = launch("--reserve=40ms/100ms", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertFalse(answer.err().contains("without"), answer.err());
    }

    @Test
    void startsWithoutTheProgram() throws Exception {
        tailbound = folder.resolve("absent");
        Answer answer = launch("--reserve=40ms/100ms", "zoo.cfg");
        assertEquals(0, answer.code(), answer.err());
        assertTrue(answer.err().contains("no program"), answer.err());
    }
}
