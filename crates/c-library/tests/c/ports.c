/*
 * Ports: within the process by descriptors, what is refused, and, with the argument "inherited", those that a program in
 * Rust has this one inherit: what comes by "orders" is written to "position".
 */
#include <fcntl.h>
#include <unistd.h>

#include "expect.h"
#include "tailbound_ports.h"

#define INVALID(call) EXPECT((call) == TAILBOUND_INVALID && tailbound_last_error()[0] != 0)

static void by_descriptors(void) {
    tailbound_sampling_writer *writer;
    tailbound_sampling_reader *reader;
    tailbound_queuing_sender *sender;
    tailbound_queuing_receiver *receiver;
    tailbound_sample sample;
    tailbound_queued_message message;
    char room[16];

    EXPECT(tailbound_sampling_writer_create(16, 4, &writer) == 0);
    EXPECT(tailbound_sampling_reader_open(tailbound_sampling_writer_descriptor(writer), PATIENCE_NS, &reader) == 0);
    EXPECT(tailbound_sampling_read(reader, room, sizeof room, &sample) == 0);
    EXPECT(tailbound_sampling_write(writer, "old", 3) == 0);
    EXPECT(tailbound_sampling_write(writer, "newest", 6) == 0);
    EXPECT(tailbound_sampling_write(writer, "seventeen letters", 17) == TAILBOUND_TOO_LONG);
    EXPECT(tailbound_sampling_read(reader, room, 3, &sample) == TAILBOUND_TOO_LONG);
    EXPECT(tailbound_sampling_read(reader, room, sizeof room, &sample) == 1);
    EXPECT(sample.number == 2 && sample.length == 6 && memcmp(room, "newest", 6) == 0 && sample.valid == 1);
    EXPECT(sample.written_time_ns != 0 && sample.age_ns < PATIENCE_NS);
    EXPECT(tailbound_sampling_reader_close(reader) == 0);
    EXPECT(tailbound_sampling_reader_open(tailbound_sampling_writer_descriptor(writer), 0, &reader) == 0);
    usleep(1000);
    EXPECT(tailbound_sampling_read(reader, room, sizeof room, &sample) == 1 && sample.valid == 0);

    EXPECT(tailbound_queuing_sender_create(16, 2, &sender) == 0);
    EXPECT(tailbound_queuing_send(sender, "one", 3) == TAILBOUND_FULL);
    EXPECT(tailbound_queuing_receiver_open(tailbound_queuing_sender_descriptor(sender), &receiver) == 0);
    EXPECT(tailbound_queuing_receive(receiver, room, sizeof room, &message) == 0);
    EXPECT(tailbound_queuing_sender_connect(sender, tailbound_queuing_receiver_descriptor(receiver)) == 0);
    EXPECT(tailbound_queuing_send(sender, "one", 3) == 0);
    EXPECT(tailbound_queuing_send(sender, "two", 3) == 0);
    EXPECT(tailbound_queuing_send(sender, "three", 5) == TAILBOUND_FULL);
    EXPECT(tailbound_queuing_receive(receiver, room, 2, &message) == TAILBOUND_TOO_LONG);
    EXPECT(tailbound_queuing_receive(receiver, room, sizeof room, &message) == 1);
    EXPECT(message.number == 1 && message.length == 3 && message.waiting == 1 && memcmp(room, "one", 3) == 0);
    EXPECT(message.written_time_ns != 0 && message.age_ns < PATIENCE_NS);

    /* One side for the other, and files that are no port. */
    tailbound_sampling_reader *none = NULL;
    int file = open("/dev/null", O_RDONLY);
    EXPECT(tailbound_sampling_reader_open(tailbound_queuing_sender_descriptor(sender), 0, &none) == TAILBOUND_NO_PORT);
    EXPECT(tailbound_sampling_reader_open(file, 0, &none) == TAILBOUND_NO_PORT && none == NULL);
    EXPECT(tailbound_queuing_sender_connect(sender, file) == TAILBOUND_NO_PORT);
    close(file);
    INVALID(tailbound_sampling_reader_open(-1, 0, &none));
    INVALID(tailbound_sampling_reader_open(file, 0, &none));
    INVALID(tailbound_sampling_reader_open(tailbound_sampling_writer_descriptor(writer), 0, NULL));
    INVALID(tailbound_sampling_write(NULL, "", 0));
    INVALID(tailbound_sampling_write(writer, NULL, 1));
    INVALID(tailbound_sampling_read(reader, NULL, 8, &sample));
    INVALID(tailbound_sampling_read(reader, room, sizeof room, NULL));
    INVALID(tailbound_sampling_read(NULL, room, sizeof room, &sample));
    INVALID(tailbound_queuing_send(sender, NULL, SIZE_MAX));
    INVALID(tailbound_queuing_receive(receiver, room, sizeof room, NULL));
    INVALID(tailbound_sampling_writer_descriptor(NULL));
    EXPECT(tailbound_queuing_receive(receiver, room, sizeof room, &message) == 1 && message.number == 2);
    EXPECT(tailbound_sampling_writer_close(writer) == 0);
    EXPECT(tailbound_sampling_reader_close(reader) == 0);
    EXPECT(tailbound_queuing_sender_close(sender) == 0);
    EXPECT(tailbound_queuing_receiver_close(receiver) == 0);
    EXPECT(tailbound_queuing_receiver_close(NULL) == 0);
}

static void sizes(void) {
    tailbound_sampling_writer *writer = NULL;
    tailbound_queuing_sender *sender = NULL;
    INVALID(tailbound_sampling_writer_create(0, 4, &writer));
    INVALID(tailbound_sampling_writer_create(8, 1, &writer));
    INVALID(tailbound_sampling_writer_create(SIZE_MAX, SIZE_MAX, &writer));
    INVALID(tailbound_queuing_sender_create(8, 0, &sender));
    INVALID(tailbound_sampling_writer_create(8, 2, NULL));
    INVALID(tailbound_sampling_writer_inherit(NULL, &writer));
    EXPECT(tailbound_sampling_writer_inherit("nothing", &writer) == TAILBOUND_NO_PORT);
    EXPECT(strstr(tailbound_last_error(), "`nothing`") != NULL);
    EXPECT(writer == NULL && sender == NULL);
}

static void inherited(void) {
    tailbound_sampling_writer *position;
    tailbound_sampling_reader *reader;
    tailbound_queuing_receiver *orders;
    tailbound_queued_message message;
    char room[16];
    INVALID(tailbound_sampling_reader_inherit("position", &reader));
    EXPECT(tailbound_sampling_writer_inherit("position", &position) == 0);
    EXPECT(tailbound_queuing_receiver_inherit("orders", &orders) == 0);
    INVALID(tailbound_queuing_receiver_descriptor(orders));
    for (;;) {
        int received = tailbound_queuing_receive(orders, room, sizeof room, &message);
        EXPECT(received >= 0);
        if (received == 0) {
            usleep(1000);
            continue;
        }
        EXPECT(tailbound_sampling_write(position, room, message.length) == 0);
        if (message.length == 3 && memcmp(room, "end", 3) == 0)
            break;
    }
    EXPECT(tailbound_queuing_receiver_close(orders) == 0);
    EXPECT(tailbound_sampling_writer_close(position) == 0);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "inherited") == 0) {
        inherited();
        return 0;
    }
    by_descriptors();
    sizes();
    return 0;
}
