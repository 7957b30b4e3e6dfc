/**
 * Real ensembles as processes, and what is measured and checked on them.
 *
 * <p>{@code process}: servers that die with this JVM, signals, programs. {@code ensemble}: variants,
 * places, ZooKeeper and etcd ensembles; suites start here, with {@link
 * io.tailbound.zookeeper.harness.ensemble.Ensemble}. {@code client}: bare connections. {@code probe}:
 * open-loop writers that find when a service is back. {@code recovery}, {@code throughput}, {@code
 * history}: the programs behind {@code bench/recovery}. {@code result}: options, quantiles, tables,
 * JSON.
 */
package io.tailbound.zookeeper.harness;
