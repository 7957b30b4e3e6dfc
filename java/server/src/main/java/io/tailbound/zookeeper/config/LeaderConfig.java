package io.tailbound.zookeeper.config;

/**
 * Settings that make a server ready to lead.
 *
 * @param deferSnapshot whether a new leader writes its snapshot after it serves instead of before
 * @param warmUp whether the classes of the leader's path are loaded in the background after the start
 */
public record LeaderConfig(boolean deferSnapshot, boolean warmUp) {}
