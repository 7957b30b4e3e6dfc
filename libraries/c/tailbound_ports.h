/*
 * Ports for C: messages between programs over memory that the kernel lets one side alone write, with the library
 * libtailbound (-ltailbound).
 *
 *     tailbound_sampling_writer *position;
 *     if (tailbound_sampling_writer_inherit("position", &position) < 0
 *         || tailbound_sampling_write(position, "12.5 7.0", 8) < 0)
 *         fprintf(stderr, "%s\n", tailbound_last_error());
 *
 * A sampling port has the newest message, which each reader finds with its age and whether it is valid. A queuing port
 * has messages in order, and says when it is full and when it is empty. No call waits or depends on the other side.
 * docs/guides/time-partitions.md has the rest.
 *
 * Outcomes and threads are as in tailbound_topics.h. Times are in nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef TAILBOUND_PORTS_H
#define TAILBOUND_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "tailbound_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tailbound_sampling_writer tailbound_sampling_writer;
typedef struct tailbound_sampling_reader tailbound_sampling_reader;
typedef struct tailbound_queuing_sender tailbound_queuing_sender;
typedef struct tailbound_queuing_receiver tailbound_queuing_receiver;

/* ---- Ports of a description, which `tailbound run` has a program inherit: by name. TAILBOUND_NO_PORT without one, and
 * TAILBOUND_INVALID if this program has the other end. */
int tailbound_sampling_writer_inherit(const char *name, tailbound_sampling_writer **writer);
int tailbound_sampling_reader_inherit(const char *name, tailbound_sampling_reader **reader);
int tailbound_queuing_sender_inherit(const char *name, tailbound_queuing_sender **sender);
int tailbound_queuing_receiver_inherit(const char *name, tailbound_queuing_receiver **receiver);

/* ---- Ports of programs that pass descriptors themselves, by inheritance or over a Unix socket.
 *
 * The side that writes makes the memory, and the other one opens its descriptor. Of a queuing port, the descriptor of the
 * receiver goes back to the sender. A descriptor that is returned belongs to its handle; one that is passed in is copied. */
int tailbound_sampling_writer_create(size_t longest, size_t messages, tailbound_sampling_writer **writer);
int tailbound_sampling_writer_descriptor(const tailbound_sampling_writer *writer);
int tailbound_sampling_reader_open(int descriptor, uint64_t validity_ns, tailbound_sampling_reader **reader);
int tailbound_queuing_sender_create(size_t longest, size_t messages, tailbound_queuing_sender **sender);
int tailbound_queuing_sender_descriptor(const tailbound_queuing_sender *sender);
int tailbound_queuing_receiver_open(int descriptor, tailbound_queuing_receiver **receiver);
int tailbound_queuing_receiver_descriptor(const tailbound_queuing_receiver *receiver);
int tailbound_queuing_sender_connect(const tailbound_queuing_sender *sender, int receiver_descriptor);

/* ---- Messages. */

typedef struct tailbound_sample {
    /* From 1: the same number twice is the same message. */
    uint64_t number;
    size_t length;
    uint64_t written_time_ns;
    uint64_t age_ns;
    /* 1 if the message is no older than the validity of the port. */
    uint32_t valid;
} tailbound_sample;

typedef struct tailbound_queued_message {
    /* From 1, without gaps. */
    uint64_t number;
    size_t length;
    uint64_t written_time_ns;
    uint64_t age_ns;
    /* The number of messages that wait behind it. */
    uint64_t waiting;
} tailbound_queued_message;

/* Makes a message the newest one. */
int tailbound_sampling_write(const tailbound_sampling_writer *writer, const void *message, size_t length);
/* Copies the newest message, and says whether there was one. TAILBOUND_TOO_LONG if the room is shorter than the message. */
int tailbound_sampling_read(const tailbound_sampling_reader *reader, void *room, size_t room_length, tailbound_sample *sample);
/* Sends a message. TAILBOUND_FULL if as many wait as the port holds, and as long as there is no receiver. */
int tailbound_queuing_send(const tailbound_queuing_sender *sender, const void *message, size_t length);
/* Takes the next message out, and says whether there was one. TAILBOUND_TOO_LONG if the room is shorter; it stays then. */
int tailbound_queuing_receive(const tailbound_queuing_receiver *receiver, void *room, size_t room_length,
                              tailbound_queued_message *message);

int tailbound_sampling_writer_close(tailbound_sampling_writer *writer);
int tailbound_sampling_reader_close(tailbound_sampling_reader *reader);
int tailbound_queuing_sender_close(tailbound_queuing_sender *sender);
int tailbound_queuing_receiver_close(tailbound_queuing_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
