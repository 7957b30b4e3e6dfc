package io.tailbound.zookeeper.harness.ensemble;

import java.util.List;

/**
 * Where one server runs.
 *
 * @param host the IPv4 address that it listens on
 * @param prefix what comes before its command, to enter a network namespace; mostly empty
 */
public record Site(String host, List<String> prefix) {}
