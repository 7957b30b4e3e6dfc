package io.tailbound.zookeeper.harness.recovery;

import io.tailbound.zookeeper.harness.ensemble.Variant;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/**
 * Makes every fsync and fdatasync of files below a folder take longer, by a preloaded library: the slow
 * disk of the thesis's comparison (section 5.4, RTZK-Lite on HDD and SSD).
 *
 * @param delayMs what is added to each; 0 for none
 * @param library the library
 */
record SyncDelay(long delayMs, Path library) {
    /** Why the delay cannot be had for a variant; empty if it can. */
    Optional<String> obstacle(Variant variant) {
        if (delayMs > 0 && variant.launcher() == Variant.Launcher.ETCD) {
            return Optional.of(
                    "Go makes its system calls itself: a preloaded library cannot delay them");
        }
        return Optional.empty();
    }

    /** The variables that load it into a server. */
    Map<String, String> environment(Path folder) {
        if (delayMs == 0) {
            return Map.of();
        }
        return Map.of(
                "LD_PRELOAD", library.toString(),
                "SYNC_DELAY_MS", Long.toString(delayMs),
                "SYNC_DELAY_BELOW", folder.toString());
    }
}
