/*
 * An agent inside of a C program: it stops and starts the program's own tasks at mode changes.
 *
 * This is the agent without a connection: bytes that were received go in, bytes to send come out. It needs
 * a C11 compiler and <string.h>, allocates nothing, starts no thread and calls no operating system, so
 * that it runs in the guest of a real-time operating system as well. tailbound_link.h is what connects it to a
 * Unix socket under Linux and other systems with poll().
 *
 * What goes over the wire is in docs/reference/agent-protocol.md; the semantics are those of the Rust agent,
 * against the same tests.
 *
 *     static struct tailbound_task tasks[] = {
 *         {.name = "move", .started = true, .stop = stop_move, .start = start_move},
 *     };
 *     static uint8_t in[TAILBOUND_IN_BYTES(1)], out[TAILBOUND_OUT_BYTES(1)];
 *     static struct tailbound_agent agent;
 *
 * One agent is for one thread at a time.
 */
#ifndef TAILBOUND_AGENT_H
#define TAILBOUND_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the protocol; the host's must be the same. */
#define TAILBOUND_PROTOCOL_VERSION 1u
/* The longest name of a domain, a mode or a task, and the longest text for people, in bytes. */
#define TAILBOUND_NAME_BYTES 129u
#define TAILBOUND_TEXT_BYTES 512u
/* The most tasks of an agent; define it as another number, 256 at most, to have more or fewer. */
#ifndef TAILBOUND_TASKS_MAX
#define TAILBOUND_TASKS_MAX 32u
#endif
/* How large the buffers of an agent with so many tasks are at least. */
#define TAILBOUND_IN_BYTES(tasks) (4096u + 2u * 133u * (tasks))
#define TAILBOUND_OUT_BYTES(tasks) (8192u + 2u * 133u * (tasks))

/*
 * Stops or starts a task. Null if that was done, or why it was not: a text that stays valid until the next
 * call. When a stop returns, the task executes nothing any more. Both may be called where the task is
 * stopped or started already.
 */
typedef const char *(*tailbound_call)(void *context);

/* A task that is switched by calls. */
struct tailbound_task {
    const char *name;
    /* Whether it is started now; the agent keeps it up to date. */
    bool started;
    tailbound_call stop;
    tailbound_call start;
    /* What both are called with. */
    void *context;
};

/* What happened, for a log; `told` is a mode, a reason, or empty. */
enum tailbound_event {
    TAILBOUND_CONNECTED,
    TAILBOUND_DONE,
    TAILBOUND_FAILED,
    TAILBOUND_WITHDRAWN,
    TAILBOUND_REFUSED,
    /* These two by tailbound_link.h. */
    TAILBOUND_NOT_CONNECTED,
    TAILBOUND_LOST,
};

/* Why bytes are no message, or the agent does not work. */
enum tailbound_status {
    TAILBOUND_OK,
    /* The first bytes of a frame are not those of this protocol. */
    TAILBOUND_NOT_OURS,
    /* The host speaks another version. */
    TAILBOUND_VERSION,
    /* A frame is longer than the buffer for received bytes. */
    TAILBOUND_TOO_LONG,
    /* A frame holds no valid message. */
    TAILBOUND_MALFORMED,
    /* The host takes this agent for that of another domain. */
    TAILBOUND_OTHER_DOMAIN,
    /* Of tailbound_agent_init: a name is none. */
    TAILBOUND_BAD_NAME,
    /* Of tailbound_agent_init: a buffer is too small, or there are too many tasks. */
    TAILBOUND_TOO_SMALL,
    /* Of tailbound_agent_request: there is no connection that has begun, or too much waits to be sent. */
    TAILBOUND_NOT_NOW,
};

/* What an agent is made from; it must outlive the agent. */
struct tailbound_agent_config {
    /* The domain, as in the description. */
    const char *domain;
    /* Its tasks, at most TAILBOUND_TASKS_MAX. */
    struct tailbound_task *tasks;
    size_t task_count;
    /* The time now in nanoseconds, and which clock that is: "monotonic" for CLOCK_MONOTONIC. */
    uint64_t (*now_ns)(void);
    const char *clock;
    /* Names what the clock counts from, such as the kernel's boot id. */
    const char *boot;
    /* Buffers of TAILBOUND_IN_BYTES and TAILBOUND_OUT_BYTES. */
    uint8_t *in, *out;
    size_t in_bytes, out_bytes;
    /* Hears what happens; may be null. */
    void (*on_event)(void *context, enum tailbound_event event, const char *told);
    void *event_context;
};

/* Tasks by their places in the table. */
struct tailbound_lists {
    uint16_t stop[TAILBOUND_TASKS_MAX], start[TAILBOUND_TASKS_MAX];
    uint16_t stops, starts;
};

/* The newest change that was decided, with the answer that is repeated with it. */
struct tailbound_decided {
    uint64_t change;
    /* A checksum of its mode and lists; `has_content` is false where its withdrawal came first. */
    uint64_t content;
    bool has_content;
    enum { TAILBOUND_HELD, TAILBOUND_HAS_FAILED, TAILBOUND_WAS_WITHDRAWN } outcome;
    /* What takes it back. */
    struct tailbound_lists back;
    /* The mode before, and that of the change; empty for none. */
    char before[TAILBOUND_NAME_BYTES + 1];
    uint64_t received_ns, switched_ns;
    char reason[TAILBOUND_TEXT_BYTES + 1];
};

/* An agent. All members are private. */
struct tailbound_agent {
    const struct tailbound_agent_config *config;
    size_t in_used, out_used;
    bool welcomed, has_decided;
    /* The newest change that this connection told of. */
    uint64_t newest;
    char mode[TAILBOUND_NAME_BYTES + 1];
    struct tailbound_decided decided;
};

/* Makes an agent. Tasks stay as they are. */
enum tailbound_status tailbound_agent_init(struct tailbound_agent *agent,
                                           const struct tailbound_agent_config *config);

/* A connection was made: forgets what another one left, and has its first message sent. */
void tailbound_agent_connected(struct tailbound_agent *agent);

/* Where to put what the link receives, and how much; nothing while answers must be sent first. */
uint8_t *tailbound_agent_room(struct tailbound_agent *agent, size_t *bytes);

/*
 * Takes in `bytes` that were put there at the time `received_ns`, and does what they say. Call it with 0
 * bytes after sending, too: messages wait while there is no room for their answers. Unless this returns
 * TAILBOUND_OK, close the connection, and connect again.
 */
enum tailbound_status tailbound_agent_received(struct tailbound_agent *agent, size_t bytes,
                                               uint64_t received_ns);

/* What is to be sent; and notes that the first `bytes` of it were. */
const uint8_t *tailbound_agent_to_send(const struct tailbound_agent *agent, size_t *bytes);
void tailbound_agent_sent(struct tailbound_agent *agent, size_t bytes);

/* Whether the host has answered on this connection. */
bool tailbound_agent_is_welcomed(const struct tailbound_agent *agent);

/* The mode that the domain is in; an empty text where that is not known. */
const char *tailbound_agent_mode(const struct tailbound_agent *agent);

/* Asks the host for a global mode. Whether it grants it shows in what it then tells to switch. */
enum tailbound_status tailbound_agent_request(struct tailbound_agent *agent, const char *mode);

/* Whether a text is a name: small letters, digits, -, _ and ., begun by a letter or digit. */
bool tailbound_is_name(const char *text);

/* What a status says, for people. */
const char *tailbound_status_text(enum tailbound_status status);

#ifdef __cplusplus
}
#endif

#endif
