package io.tailbound.zookeeper.harness.power;

import io.tailbound.zookeeper.harness.process.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A disk of one host: an ext4 file system in an image, which commits its journal on request or every
 * 300 s. What its page cache holds outlives the processes that wrote it, and is lost with the power.
 */
final class Disk implements AutoCloseable {
    /** Snapshots of several hundred rounds fit, since nothing purges them; the image has holes. */
    private static final String SIZE = "1G";
    private static final String JOURNAL_MIB = "4";

    private final Path image;
    private final Path mountPoint;
    private final Path powerCut;

    /** Makes the image and mounts it. */
    Disk(Path image, Path mountPoint, Path powerCut) throws IOException {
        this.image = image;
        this.mountPoint = mountPoint;
        this.powerCut = powerCut;
        Files.createDirectories(mountPoint);
        Tool.run("truncate", "-s", SIZE, image.toString());
        Tool.run("mkfs.ext4", "-q", "-F", "-J", "size=" + JOURNAL_MIB,
                "-E", "lazy_itable_init=0,lazy_journal_init=0", image.toString());
        mount();
    }

    private void mount() throws IOException {
        Tool.run("mount", "-o", "loop,commit=300,noatime", image.toString(), mountPoint.toString());
    }

    /** Puts on the disk what the page cache holds. */
    void sync() throws IOException {
        Tool.run("sync", "-f", mountPoint.toString());
    }

    /** From now on nothing reaches the disk. No process may use it when power comes back. */
    void cutPower() throws IOException {
        Tool.run(powerCut.toString(), mountPoint.toString());
    }

    /** Mounts what reached the disk before its power was cut. */
    void restorePower() throws IOException {
        Tool.run("umount", mountPoint.toString());
        mount();
    }

    /** Unmounts it; the image stays with the logs, which show what was wrong. */
    @Override
    public void close() throws IOException {
        Tool.run("umount", mountPoint.toString());
    }
}
