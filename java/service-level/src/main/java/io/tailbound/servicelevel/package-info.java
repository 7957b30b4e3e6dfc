/**
 * Web applications that serve less under overload.
 *
 * <p>A request has a mandatory part and an optional one. {@link io.tailbound.servicelevel.ServiceLevelFilter}
 * times requests, keeps the longest latency near a deadline by the share of requests whose optional part is
 * served, and publishes a report. The rule and the report are those of the Python package
 * {@code tailbound.service_level}; both pass {@code docs/reference/service-level-scenarios.json}.
 */
package io.tailbound.servicelevel;
