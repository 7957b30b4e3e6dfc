/* Connections to the host, one after another. */
#define _GNU_SOURCE
#include "tailbound_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MS_NS UINT64_C(1000000)
/* So many reads at most per step, so that the program's own loop has its turn. */
#define READS_PER_STEP 32

uint64_t tailbound_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

const char *tailbound_boot_id(char id[64]) {
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : read(file, id, 63);
    if (file >= 0) {
        close(file);
    }
    if (count <= 0) {
        return "unknown";
    }
    id[count] = '\0';
    id[strcspn(id, "\n")] = '\0';
    return id;
}

/* Whether the other end of a socket is root's, ours, or that of the user who was named. */
static bool is_trusted(const struct tailbound_link_config *config, int descriptor) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    uid_t trusted = config->has_host_uid ? (uid_t)config->host_uid : geteuid();
    return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
           (peer.uid == 0 || peer.uid == trusted);
}

static int connect_unix(const struct tailbound_link_config *config) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (config->path == NULL || strlen(config->path) >= sizeof address.sun_path) {
        return -EINVAL;
    }
    strcpy(address.sun_path, config->path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        return -errno;
    }
    int error = 0;
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof address) != 0) {
        error = errno;
    } else if (!is_trusted(config, descriptor)) {
        error = EPERM;
    }
    if (error != 0) {
        close(descriptor);
        return -error;
    }
    return descriptor;
}

static void tell(struct tailbound_link *link, enum tailbound_event event, const char *told) {
    const struct tailbound_agent_config *config = link->agent->config;
    if (config->on_event != NULL) {
        config->on_event(config->event_context, event, told);
    }
}

static void set_deadline(struct tailbound_link *link, int from_now_ms) {
    link->deadline_ns = tailbound_monotonic_ns() + (uint64_t)from_now_ms * MS_NS;
}

/* There is no connection, or none any more: pauses before the next attempt. */
static void lose(struct tailbound_link *link, const char *why) {
    bool had_one = link->descriptor >= 0;
    if (had_one) {
        close(link->descriptor);
        link->descriptor = -1;
        /* A host that closes every connection soon is not asked more and more often. */
        uint64_t lived_ns = tailbound_monotonic_ns() - link->began_ns;
        if (tailbound_agent_is_welcomed(link->agent) && lived_ns > (uint64_t)link->pause_ms * MS_NS) {
            link->pause_ms = link->config.pause_least_ms;
        }
    }
    set_deadline(link, link->pause_ms);
    bool longest = link->pause_ms > link->config.pause_most_ms / 2;
    link->pause_ms = longest ? link->config.pause_most_ms : 2 * link->pause_ms;
    tell(link, had_one ? TAILBOUND_LOST : TAILBOUND_NOT_CONNECTED, why);
}

static bool is_overdue(const struct tailbound_link *link) {
    return link->deadline_ns != 0 && tailbound_monotonic_ns() >= link->deadline_ns;
}

static void attempt(struct tailbound_link *link) {
    if (!is_overdue(link)) {
        return;
    }
    const struct tailbound_link_config *config = &link->config;
    int made = config->connect != NULL ? config->connect(config->context) : connect_unix(config);
    if (made < 0) {
        lose(link, strerror(-made));
        return;
    }
    link->descriptor = made;
    link->began_ns = tailbound_monotonic_ns();
    set_deadline(link, config->answer_ms);
    tailbound_agent_connected(link->agent);
}

/* Sends what there is to send; false where the connection is lost. */
static bool flush(struct tailbound_link *link) {
    size_t bytes;
    const uint8_t *from = tailbound_agent_to_send(link->agent, &bytes);
    while (bytes > 0) {
        ssize_t count = send(link->descriptor, from, bytes, MSG_NOSIGNAL);
        if (count < 0 && errno == ENOTSOCK) {
            count = write(link->descriptor, from, bytes);
        }
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            if (link->deadline_ns == 0) {
                set_deadline(link, link->config.answer_ms);
            }
            return true;
        }
        if (count < 0) {
            lose(link, strerror(errno));
            return false;
        }
        tailbound_agent_sent(link->agent, (size_t)count);
        from = tailbound_agent_to_send(link->agent, &bytes);
    }
    if (tailbound_agent_is_welcomed(link->agent)) {
        link->deadline_ns = 0;
    }
    return true;
}

/* Takes requests of other threads from the pipe, one at a time. */
static void pass_requests_on(struct tailbound_link *link) {
    while (tailbound_agent_is_welcomed(link->agent)) {
        if (link->request[0] == '\0' &&
            read(link->requests[0], link->request, sizeof link->request) != (ssize_t)sizeof link->request) {
            link->request[0] = '\0';
            return;
        }
        if (link->request[0] != '\0' &&
            tailbound_agent_request(link->agent, link->request) == TAILBOUND_NOT_NOW) {
            return;
        }
        link->request[0] = '\0';
    }
}

/*
 * Takes in `bytes` that were read, and does what all whole messages say: what there was no room to answer is
 * taken as soon as the answers before it are sent, however long nothing more comes. False where the connection
 * is lost.
 */
static bool take(struct tailbound_link *link, size_t bytes) {
    size_t before, after;
    do {
        tailbound_agent_room(link->agent, &before);
        before -= bytes;
        enum tailbound_status status =
            tailbound_agent_received(link->agent, bytes, tailbound_monotonic_ns());
        if (status != TAILBOUND_OK) {
            lose(link, tailbound_status_text(status));
            return false;
        }
        if (!flush(link)) {
            return false;
        }
        tailbound_agent_room(link->agent, &after);
        bytes = 0;
    } while (after > before);
    return true;
}

/* Reads and answers; false where the connection is lost, or there is nothing more to read now. */
static bool hear(struct tailbound_link *link) {
    size_t bytes;
    uint8_t *room = tailbound_agent_room(link->agent, &bytes);
    if (bytes == 0) {
        return false;
    }
    ssize_t count = read(link->descriptor, room, bytes);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return errno == EINTR;
    }
    if (count <= 0) {
        lose(link, count < 0 ? strerror(errno) : "the host closed the connection");
        return false;
    }
    return take(link, (size_t)count);
}

static void serve(struct tailbound_link *link) {
    if (!flush(link) || !take(link, 0)) {
        return;
    }
    for (int reads = 0; reads < READS_PER_STEP && hear(link); reads++) {
    }
    if (link->descriptor < 0) {
        return;
    }
    pass_requests_on(link);
    if (flush(link) && is_overdue(link)) {
        lose(link, "the host was silent, or took nothing in, for too long");
    }
}

size_t tailbound_link_polled(const struct tailbound_link *link, struct pollfd polled[3],
                             int *at_most_ms) {
    size_t to_send = 0, room = 0, count = 0;
    *at_most_ms = -1;
    if (link->deadline_ns != 0) {
        uint64_t now = tailbound_monotonic_ns();
        uint64_t left = link->deadline_ns > now ? link->deadline_ns - now : 0;
        *at_most_ms = (int)((left + MS_NS - 1) / MS_NS);
    }
    /* Requests stay in the pipe while there is nobody to send them to. */
    bool takes_requests = link->descriptor >= 0 && tailbound_agent_is_welcomed(link->agent);
    bool waits = takes_requests && link->request[0] == '\0';
    polled[count++] = (struct pollfd){.fd = link->end[0], .events = POLLIN};
    if (waits) {
        polled[count++] = (struct pollfd){.fd = link->requests[0], .events = POLLIN};
    }
    if (link->descriptor >= 0) {
        tailbound_agent_to_send(link->agent, &to_send);
        tailbound_agent_room(link->agent, &room);
        int events = (to_send > 0 ? POLLOUT : 0) | (room > 0 ? POLLIN : 0);
        polled[count++] = (struct pollfd){.fd = link->descriptor, .events = (short)events};
    }
    return count;
}

int tailbound_link_step(struct tailbound_link *link, int at_most_ms) {
    struct pollfd polled[3];
    int wait_ms;
    size_t count = tailbound_link_polled(link, polled, &wait_ms);
    if (at_most_ms >= 0 && (wait_ms < 0 || at_most_ms < wait_ms)) {
        wait_ms = at_most_ms;
    }
    if (poll(polled, (nfds_t)count, wait_ms) < 0 && errno != EINTR) {
        return -errno;
    }
    if (link->ended) {
        return 0;
    }
    if (link->descriptor < 0) {
        attempt(link);
    }
    if (link->descriptor >= 0) {
        serve(link);
    }
    return 0;
}

int tailbound_link_run(struct tailbound_link *link) {
    int outcome = 0;
    while (!link->ended && outcome == 0) {
        outcome = tailbound_link_step(link, -1);
    }
    return outcome;
}

int tailbound_link_request(struct tailbound_link *link, const char *mode) {
    char record[TAILBOUND_NAME_BYTES + 1] = "";
    if (!tailbound_is_name(mode)) {
        return -EINVAL;
    }
    strcpy(record, mode);
    /* Records are shorter than PIPE_BUF, so they come out whole. */
    return write(link->requests[1], record, sizeof record) < 0 ? -errno : 0;
}

void tailbound_link_end(struct tailbound_link *link) {
    int before = errno;
    link->ended = 1;
    ssize_t full_wakes_as_well = write(link->end[1], "", 1);
    (void)full_wakes_as_well;
    errno = before;
}

void tailbound_link_close(struct tailbound_link *link) {
    for (int side = 0; side < 2; side++) {
        close(link->end[side]);
        close(link->requests[side]);
    }
    if (link->descriptor >= 0) {
        close(link->descriptor);
    }
    link->descriptor = -1;
}

static int or_else(int value, int otherwise) {
    return value > 0 ? value : otherwise;
}

int tailbound_link_init(struct tailbound_link *link, struct tailbound_agent *agent,
                        const struct tailbound_link_config *config) {
    memset(link, 0, sizeof *link);
    link->agent = agent;
    link->config = *config;
    link->descriptor = -1;
    link->config.answer_ms = or_else(config->answer_ms, 5000);
    link->config.pause_least_ms = or_else(config->pause_least_ms, 10);
    link->config.pause_most_ms = or_else(config->pause_most_ms, 2000);
    link->pause_ms = link->config.pause_least_ms;
    /* The first attempt is due. */
    link->deadline_ns = 1;
    if (pipe2(link->end, O_NONBLOCK | O_CLOEXEC) != 0) {
        return -errno;
    }
    if (pipe2(link->requests, O_NONBLOCK | O_CLOEXEC) != 0) {
        int error = errno;
        close(link->end[0]);
        close(link->end[1]);
        return -error;
    }
    return 0;
}
