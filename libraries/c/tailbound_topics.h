/*
 * Topics for C: publish and subscribe, with the library libtailbound (-ltailbound).
 *
 *     tailbound_space *space;
 *     tailbound_topic topic;
 *     tailbound_publisher *publisher;
 *     tailbound_topic_init(&topic, "people", "Positions", 1024);
 *     if (tailbound_space_open_udp_multicast("127.0.0.1", 7400, 1, TAILBOUND_CLOCK_MONOTONIC, &space) < 0
 *         || tailbound_publisher_open(space, &topic, &publisher) < 0
 *         || tailbound_publish(publisher, "two at the door", 15) < 0)
 *         fprintf(stderr, "%s\n", tailbound_last_error());
 *
 * The semantics are those of the Rust crate tailbound-pubsub, in docs/guides/topics.md.
 *
 * Outcomes. Functions return a negative status where they fail, and 0 otherwise, or 0 and 1 for no and yes. The text of a
 * failure is tailbound_last_error() of the same thread. A failed call changes nothing. NULL for a pointer is an error,
 * but closing NULL is none; texts are UTF-8.
 *
 * Threads. Threads may share a data space. A publisher, or a subscriber, is for one call at a time: a second call is refused
 * with TAILBOUND_BUSY, from another thread and from within a callback. After a handle is closed, no call may use it.
 * Publishers and subscribers may outlive their data space.
 *
 * Times are in nanoseconds, of the clock of the data space.
 */
#ifndef TAILBOUND_TOPICS_H
#define TAILBOUND_TOPICS_H

#include <stddef.h>
#include <stdint.h>

#include "tailbound_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data spaces: the place where publishers and subscribers meet. */

typedef struct tailbound_space tailbound_space;

/* The clock of time stamps. All programs of a data space use one: the first on one host, the second between hosts, which
 * NTP or PTP keep together. */
enum {
    TAILBOUND_CLOCK_MONOTONIC = 0,
    TAILBOUND_CLOCK_WALL = 1
};

/* The ends of a topic over datagrams, as this program sees them. Addresses are like "127.0.0.1:7400". */
typedef struct tailbound_udp_route {
    const char *topic;
    /* The address at which the subscriber of this program receives, or NULL. */
    const char *listen;
    /* The addresses of the subscribers that the publisher of this program sends to. */
    const char *const *peers;
    size_t peer_count;
} tailbound_udp_route;

/* The addresses of a topic over ZeroMQ, as this program sees them. */
typedef struct tailbound_zeromq_route {
    const char *topic;
    /* The addresses at which a publisher of this program may listen; the first free one counts. */
    const char *const *listen;
    size_t listen_count;
    /* The addresses of the publishers that a subscriber of this program connects to. */
    const char *const *publishers;
    size_t publisher_count;
} tailbound_zeromq_route;

/* Between the threads of this process, each of which uses the same handle. */
int tailbound_space_open_in_process(tailbound_space **space);
/* Over multicast datagrams on the interface with this address, within so many networks (1 to 255). */
int tailbound_space_open_udp_multicast(const char *interface, uint16_t port, uint32_t hops, int clock,
                                       tailbound_space **space);
/* Over datagrams to the addresses of each topic. */
int tailbound_space_open_udp_unicast(const tailbound_udp_route *routes, size_t count, int clock, tailbound_space **space);
/* Over shared memory, between the processes of this host. TAILBOUND_ABSENT unless built with the feature `iceoryx2`. */
int tailbound_space_open_shared_memory(const char *name, tailbound_space **space);
/* Over ZeroMQ, between the processes of this network namespace. TAILBOUND_ABSENT unless built with the feature `zeromq`. */
int tailbound_space_open_zeromq_on_host(const char *name, int clock, tailbound_space **space);
/* Over ZeroMQ by TCP. As above. */
int tailbound_space_open_zeromq_tcp(const tailbound_zeromq_route *routes, size_t count, int clock, tailbound_space **space);
/*
 * By the name of the transport and the address, as descriptions have both: "rtps" and "127.0.0.1:0" for a domain of DDS. "udp" and
 * "rtps" are always there, the others where the library was built with their features; TAILBOUND_ABSENT otherwise.
 */
int tailbound_space_open_named(const char *transport, const char *address, int clock, tailbound_space **space);
int tailbound_space_close(tailbound_space *space);

/* ---- Topics. */

enum {
    TAILBOUND_BEST_EFFORT = 0,
    TAILBOUND_RELIABLE = 1
};

/* The qualities of delivery. 0 stands for the default: a history of 1, and none of the others. */
typedef struct tailbound_quality {
    /* The number of messages that wait for a subscriber; a newer one takes the place of the oldest. */
    uint32_t history;
    uint32_t reliability;
    /* The longest distance between two messages of a publisher; a longer one is an event. */
    uint64_t deadline_ns;
    /* The age above which a message is not delivered. */
    uint64_t lifespan_ns;
    /* The time without a sign of life after which a publisher is lost. */
    uint64_t lease_ns;
} tailbound_quality;

enum {
    TAILBOUND_DROP = 0,
    TAILBOUND_HOLD_BACK = 1
};

/* The traffic that each publisher may cause. All zeros stand for no contract. */
typedef struct tailbound_contract {
    /* The number of messages in each interval, wherever it begins. */
    uint32_t messages;
    /* The fate of the others. */
    uint32_t violation;
    /* The bytes in each interval; 0 stands for `messages` times the longest message. */
    uint64_t bytes;
    uint64_t interval_ns;
    uint64_t least_distance_ns;
} tailbound_contract;

/* A topic. Publishers and subscribers agree on name and type. */
typedef struct tailbound_topic {
    /* Of tailbound_topic_init. */
    size_t struct_size;
    /* The texts are read while a publisher or a subscriber is opened, and not after that. */
    const char *name;
    const char *type_name;
    /* The longest payload, in bytes. */
    size_t longest;
    /* The number of publishers, and of subscribers, that there is room for. */
    uint32_t publishers;
    uint32_t subscribers;
    tailbound_quality quality;
    tailbound_contract contract;
} tailbound_topic;

/* Fills a topic: for one publisher and one subscriber, with the default qualities and without a contract. */
int tailbound_topic_init(tailbound_topic *topic, const char *name, const char *type_name, size_t longest);

/* ---- Publishers. */

typedef struct tailbound_publisher tailbound_publisher;

/* TAILBOUND_LACKS if the transport lacks a quality, TAILBOUND_CONTRACT_FAULT for a contract without a meaning. */
int tailbound_publisher_open(const tailbound_space *space, const tailbound_topic *topic, tailbound_publisher **publisher);
/* Publishes a message whose data is as old as the message. TAILBOUND_CONTRACT_BROKEN, TAILBOUND_TOO_LONG: not sent. */
int tailbound_publish(const tailbound_publisher *publisher, const void *payload, size_t length);
/* Publishes a message that was made of others: its data is as old as theirs (origin_time_ns of a message). */
int tailbound_publish_from(const tailbound_publisher *publisher, uint64_t origin_time_ns, const void *payload, size_t length);
/* Publishes the new value of the instance with a key; origin_time_ns may be NULL for data as old as the message. */
int tailbound_publish_instance(const tailbound_publisher *publisher, const void *key, size_t key_length,
                               const uint64_t *origin_time_ns, const void *payload, size_t length);
/* Says that the instance with a key is gone. */
int tailbound_dispose(const tailbound_publisher *publisher, const void *key, size_t key_length);
/* Says that the publisher lives, where it has nothing else to say within its lease. */
int tailbound_assert_liveliness(const tailbound_publisher *publisher);
/* The number of the publisher in its messages and events. 0 of NULL, and while another call uses the publisher. */
uint64_t tailbound_publisher_source(const tailbound_publisher *publisher);
/* Says farewell to the subscribers. */
int tailbound_publisher_close(tailbound_publisher *publisher);

/* ---- Subscribers. */

typedef struct tailbound_subscriber tailbound_subscriber;

typedef struct tailbound_message {
    /* Valid as long as the callback runs. */
    const uint8_t *payload;
    size_t length;
    /* The publisher, and its number of the message, from 0. */
    uint64_t source;
    uint64_t sequence;
    /* The instance, a hash of its key; 0 without keys. */
    uint64_t instance;
    /* The time at which the message was published. */
    uint64_t source_time_ns;
    /* The time of the oldest measurement in the message: the age of the data is arrival_time_ns - origin_time_ns. */
    uint64_t origin_time_ns;
    uint64_t arrival_time_ns;
    /* 1 if the message says that its instance is gone. */
    uint32_t disposes;
} tailbound_message;

enum {
    /* The first sign of life of a publisher, or the first one after it was lost. */
    TAILBOUND_APPEARED = 1,
    TAILBOUND_MESSAGES_LOST = 2,
    TAILBOUND_CONTRACT_BREACH = 3,
    TAILBOUND_DEADLINE_MISSED = 4,
    /* No sign of life of a publisher within its lease. */
    TAILBOUND_PUBLISHER_LOST = 5,
    TAILBOUND_PUBLISHER_ENDED = 6
};

enum {
    TAILBOUND_BREACH_OF_MESSAGES = 1,
    TAILBOUND_BREACH_OF_BYTES = 2,
    TAILBOUND_BREACH_OF_DISTANCE = 3
};

typedef struct tailbound_event {
    uint32_t kind;
    /* The limit that the latest message exceeded, of TAILBOUND_CONTRACT_BREACH. */
    uint32_t breach;
    uint64_t source;
    /* The number of messages, or of deadlines; 1 of other kinds. */
    uint64_t count;
} tailbound_event;

/* Messages so far, by what happened to them. */
typedef struct tailbound_counts {
    uint64_t delivered;
    uint64_t signs;
    uint64_t lost;
    uint64_t held_back;
    uint64_t dropped;
    uint64_t of_other_topics;
    uint64_t too_long;
    uint64_t of_strangers;
    uint64_t repeated;
    uint64_t expired;
    uint64_t garbage;
} tailbound_counts;

/* The functions that get messages and events. They must not leave by longjmp or by an exception. */
typedef void tailbound_message_function(void *context, const tailbound_message *message);
typedef void tailbound_event_function(void *context, const tailbound_event *event);

int tailbound_subscriber_open(const tailbound_space *space, const tailbound_topic *topic, tailbound_subscriber **subscriber);
/* Shows the next message to a function, if one waits, and says whether one did. Never waits itself. */
int tailbound_take(const tailbound_subscriber *subscriber, tailbound_message_function *visit, void *context);
/* The same by a copy: `room` has the length of the longest payload at least, and `message->payload` is `room` then. */
int tailbound_take_copy(const tailbound_subscriber *subscriber, void *room, size_t room_length, tailbound_message *message);
/* Waits for a message to take, or for a new event; says whether there is one. Without end if the limit is negative. */
int tailbound_wait(const tailbound_subscriber *subscriber, int64_t limit_ns);
/* Takes the next event, and says whether there was one. */
int tailbound_take_event(const tailbound_subscriber *subscriber, tailbound_event *event);
int tailbound_subscriber_counts(const tailbound_subscriber *subscriber, tailbound_counts *counts);
int tailbound_subscriber_close(tailbound_subscriber *subscriber);

/* A thread that waits for messages and events, and calls the functions with each. */
typedef struct tailbound_subscriber_thread tailbound_subscriber_thread;

/* The subscriber belongs to the thread from then on, and is closed by it, also where no thread could be made
 * (TAILBOUND_REFUSED); after TAILBOUND_INVALID and TAILBOUND_BUSY it is as before. `on_event` may be NULL. */
int tailbound_subscriber_start(tailbound_subscriber *subscriber, tailbound_message_function *on_message,
                               tailbound_event_function *on_event, void *context, tailbound_subscriber_thread **thread);
/* Ends the thread, within a tenth of a second and after the callback that runs. The status is that of the failure by which
 * the thread had ended before, if there was one. TAILBOUND_BUSY from a callback of the thread itself, which goes on. */
int tailbound_subscriber_stop(tailbound_subscriber_thread *thread);

#ifdef __cplusplus
}
#endif

#endif
