package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.ensemble.LoopbackBlock;
import io.tailbound.zookeeper.harness.ensemble.Placement;
import io.tailbound.zookeeper.harness.ensemble.Site;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/**
 * Hosts that lose power one by one: each has a disk, a boot id that changes with every loss of power
 * (bound over the kernel's, in a mount namespace of the server), and a delay of the syncs of its log
 * that can be set while its server runs.
 */
final class Hosts implements Placement {
    private static final String ENTER =
            "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";

    private final LoopbackBlock addresses;
    private final Path folder;
    private final Path delayLibrary;
    private final List<Disk> disks = new ArrayList<>();

    /**
     * @param folder that of the ensemble, whose data folders become mount points
     * @param size how many hosts
     * @param tools folder with the compiled {@code power_cut} and {@code sync_delay.so}
     */
    Hosts(Path folder, int size, Path tools) throws IOException {
        this.addresses = LoopbackBlock.claim();
        this.folder = folder;
        this.delayLibrary = tools.resolve("sync_delay.so");
        Files.createDirectories(folder);
        for (int id = 1; id <= size; id++) {
            delaySyncs(id, 0);
            boot(id);
            disks.add(new Disk(folder.resolve("disk-" + id), data(id), tools.resolve("power_cut")));
        }
    }

    private Path data(int id) {
        return folder.resolve("server-" + id).resolve("data");
    }

    private Path delay(int id) {
        return folder.resolve("delay-" + id);
    }

    private Path bootId(int id) {
        return folder.resolve("boot-" + id);
    }

    private void boot(int id) throws IOException {
        Files.writeString(bootId(id), UUID.randomUUID() + "\n");
    }

    /** Puts on the disks what they hold so far. */
    void sync() throws IOException {
        for (Disk disk : disks) {
            disk.sync();
        }
    }

    /** Every sync of the log of server {@code id} begins so much later from now on. */
    void delaySyncs(int id, long ms) throws IOException {
        Files.writeString(delay(id), Long.toString(ms));
    }

    /** Nothing reaches the disk of host {@code id} any more. */
    void cutPower(int id) throws IOException {
        disks.get(id - 1).cutPower();
    }

    /** Host {@code id}, whose server has ended, boots again. */
    void restorePower(int id) throws IOException {
        disks.get(id - 1).restorePower();
        boot(id);
    }

    @Override
    public Site site(int id) {
        List<String> prefix =
                List.of(
                        "env",
                        "LD_PRELOAD=" + delayLibrary,
                        "SYNC_DELAY_BELOW=" + data(id),
                        "SYNC_DELAY_NAME=log.",
                        "SYNC_DELAY_CONTROL=" + delay(id),
                        "unshare", "--mount", "--propagation", "slave",
                        "sh", "-c", ENTER, bootId(id).toString());
        return new Site(addresses.site(id).host(), prefix);
    }

    @Override
    public void close() {
        addresses.close();
        for (Disk disk : disks) {
            try {
                disk.close();
            } catch (IOException failed) {
                System.err.println("power: " + failed.getMessage() + "; it ends with the mount namespace");
            }
        }
    }
}
