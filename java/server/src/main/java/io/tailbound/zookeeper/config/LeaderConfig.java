package io.tailbound.zookeeper.config;

/**
 * Settings that make a server ready to lead.
 *
 * @param deferSnapshot whether a new leader writes its snapshot after it serves instead of before
 * @param skipReplay whether the log is not read again at the end of a role when the data tree holds all
 *     of it
 * @param warmUp whether the classes of the leader's path are loaded in the background after the start
 */
public record LeaderConfig(boolean deferSnapshot, boolean skipReplay, boolean warmUp) {}
