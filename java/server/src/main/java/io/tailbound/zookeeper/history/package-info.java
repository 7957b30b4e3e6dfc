/**
 * The transactions that a server finds on its disk at a start: whether they are whole, whether they are
 * on disk, and what becomes of a history that is damaged.
 */
package io.tailbound.zookeeper.history;
