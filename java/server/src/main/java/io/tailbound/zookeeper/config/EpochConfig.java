package io.tailbound.zookeeper.config;

/**
 * Settings of the epoch values.
 *
 * @param mode how they are kept
 * @param reserve how many epochs are promised in advance in mode {@link EpochMode#CRASH_SAFE}
 * @param ensemble name of the ensemble, with which the data directory is stamped; empty for none
 */
public record EpochConfig(EpochMode mode, int reserve, String ensemble) {}
