/*
 * Service levels for C: an application that leaves optional content out under overload, with the library libtailbound
 * (-ltailbound).
 *
 *     tailbound_service_level *level;
 *     uint64_t request;
 *     if (tailbound_service_level_create(1000000000, &level) < 0
 *         || tailbound_service_level_listen(level, "unix:/run/shop.sock") < 0)
 *         fprintf(stderr, "%s\n", tailbound_last_error());
 *     tailbound_service_level_begin(level, 0, &request);
 *     if (tailbound_service_level_serves_optional(level) == 1)
 *         recommend();
 *     answer();
 *     tailbound_service_level_end(level, request);
 *
 * Every second the level moves so that the slowest request of the last five seconds is answered at the deadline.
 * docs/reference/service-level-interface.md has the rule, and docs/guides/serve-less-under-overload.md the use.
 *
 * Outcomes are as in tailbound_topics.h. Threads may share a handle; calls come one after the other, and none waits for anything
 * else, but that close waits for the end of an answer, a second at most. Times are in nanoseconds.
 */
#ifndef TAILBOUND_SERVICE_LEVEL_H
#define TAILBOUND_SERVICE_LEVEL_H

#include <stddef.h>
#include <stdint.h>

#include "tailbound_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tailbound_service_level tailbound_service_level;

/* Makes a service level at a deadline above zero. The level is 1 at the start. */
int tailbound_service_level_create(uint64_t deadline_ns, tailbound_service_level **level);
/* Begins a request that has waited for so long already, such as in a queue of the application; its number is above zero. */
int tailbound_service_level_begin(const tailbound_service_level *level, uint64_t waited_ns, uint64_t *request);
/* Ends a request. One that has ended, or never begun, changes nothing. */
int tailbound_service_level_end(const tailbound_service_level *level, uint64_t request);
/* Takes the latency of a request that has ended now, in place of its begin and end. */
int tailbound_service_level_observe(const tailbound_service_level *level, uint64_t latency_ns);
/* Draws whether a request gets its optional content: 1 or 0, and 1 with the probability of the level. */
int tailbound_service_level_serves_optional(const tailbound_service_level *level);
/* The level itself, from 0 to 1. */
int tailbound_service_level_value(const tailbound_service_level *level, double *value);
/* Writes the report as JSON, and returns its length, which is below 300 bytes; no zero follows. TAILBOUND_TOO_LONG if the room
 * is shorter. */
int tailbound_service_level_report(const tailbound_service_level *level, char *room, size_t room_length);
/* Answers `GET /tailbound/service-level` in a thread of the library, at "unix:PATH" or "http://IP:PORT", until the level is closed.
 * Returns the port, such as for port 0, which the kernel chooses; 0 of a Unix socket. */
int tailbound_service_level_listen(const tailbound_service_level *level, const char *address);
/* Ends the service level and its answers; NULL is none. */
int tailbound_service_level_close(tailbound_service_level *level);

#ifdef __cplusplus
}
#endif

#endif
