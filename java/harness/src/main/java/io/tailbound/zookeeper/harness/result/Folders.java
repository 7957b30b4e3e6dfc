package io.tailbound.zookeeper.harness.result;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Working folders of ensembles. */
public final class Folders {
    private Folders() {}

    /** Deletes a folder with all that is in it; one that is not there is fine. */
    public static void delete(Path folder) throws IOException {
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(folder)) {
            paths = walk.sorted(Comparator.reverseOrder()).toList();
        } catch (NoSuchFileException absent) {
            return;
        }
        for (Path path : paths) {
            Files.deleteIfExists(path);
        }
    }

    /** Moves a folder out of the way, so that the logs of a failure can be read. */
    public static void keep(Path folder, Path as) throws IOException {
        delete(as);
        if (Files.isDirectory(folder)) {
            Files.move(folder, as, StandardCopyOption.REPLACE_EXISTING);
            System.err.println("kept the servers' logs in " + as);
        }
    }
}
