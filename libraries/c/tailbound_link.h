/*
 * Connects an agent to its host under Linux, and keeps it connected: a Unix socket, or any stream of bytes
 * with a descriptor.
 *
 *     static struct tailbound_link link;
 *     tailbound_link_init(&link, &agent, &(struct tailbound_link_config){.path = "/run/tailbound/modes.sock"});
 *     tailbound_link_run(&link);
 *
 * tailbound_link_run serves in the thread that calls it. A program with a loop of its own polls
 * tailbound_link_polled and calls tailbound_link_step instead. It needs a system with poll() and pipe2();
 * an embedded system without them connects the agent by the functions of tailbound_agent.h alone.
 */
#ifndef TAILBOUND_LINK_H
#define TAILBOUND_LINK_H

#include <poll.h>
#include <signal.h>

#include "tailbound_agent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an agent gets to its host. What is 0 or null has the value that is named. */
struct tailbound_link_config {
    /* The Unix socket of the host mode manager, which root, this user or `host_uid` listens on. */
    const char *path;
    bool has_host_uid;
    unsigned host_uid;
    /* In place of `path`: makes a non-blocking descriptor, or returns a negative errno. */
    int (*connect)(void *context);
    void *context;
    /* How long the host may take to answer, and to take a message in (5000). */
    int answer_ms;
    /* The first and the longest pause before connecting again; each is twice the one before (10, 2000). */
    int pause_least_ms, pause_most_ms;
};

/* A link. All members are private. */
struct tailbound_link {
    struct tailbound_agent *agent;
    struct tailbound_link_config config;
    int descriptor;
    int end[2], requests[2];
    volatile sig_atomic_t ended;
    int pause_ms;
    uint64_t began_ns;
    /* When there is to be another attempt, or the host must have answered; 0 for never. */
    uint64_t deadline_ns;
    /* A request that could not be sent yet; an empty text for none. */
    char request[TAILBOUND_NAME_BYTES + 1];
};

/* Makes a link; connects at the first step. 0, or a negative errno. */
int tailbound_link_init(struct tailbound_link *link, struct tailbound_agent *agent,
                        const struct tailbound_link_config *config);

/* Serves the host until tailbound_link_end, connecting again for as long as it takes. 0, or a negative errno. */
int tailbound_link_run(struct tailbound_link *link);

/* Waits until there is something to do, for `at_most_ms` at most (-1: no bound), and does it. */
int tailbound_link_step(struct tailbound_link *link, int at_most_ms);

/* For a loop of one's own: what to poll, how many of it, and how long at most in ms (-1: no bound). */
size_t tailbound_link_polled(const struct tailbound_link *link, struct pollfd polled[3], int *at_most_ms);

/* Asks the host for a global mode as soon as there is a connection; from any thread. 0, or a negative errno:
   -EINVAL for what is no name, -EAGAIN where too many requests wait. */
int tailbound_link_request(struct tailbound_link *link, const char *mode);

/* Ends tailbound_link_run; from any thread, or a signal handler. */
void tailbound_link_end(struct tailbound_link *link);

/* Gives back what the link holds; tasks stay as they are. */
void tailbound_link_close(struct tailbound_link *link);

/* CLOCK_MONOTONIC, for `now_ns` of an agent whose clock is "monotonic". */
uint64_t tailbound_monotonic_ns(void);

/* The kernel's boot id, for `boot` of such an agent; "unknown" where there is none. */
const char *tailbound_boot_id(char id[64]);

#ifdef __cplusplus
}
#endif

#endif
