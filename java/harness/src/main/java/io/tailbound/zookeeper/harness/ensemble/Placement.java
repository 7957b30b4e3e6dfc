package io.tailbound.zookeeper.harness.ensemble;

/** Gives every server of an ensemble a place; servers are counted from 1. */
public interface Placement extends AutoCloseable {
    /** The place of server {@code id}. */
    Site site(int id);

    @Override
    void close();
}
