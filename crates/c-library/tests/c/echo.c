/*
 * Sends what comes on topic "ping" back on topic "pong", with its origin, over datagrams; a message "end" ends it.
 *
 * Usage: echo multicast INTERFACE PORT | echo unicast LISTEN PEER | echo TRANSPORT ADDRESS -
 */
#include "expect.h"
#include "tailbound_topics.h"

static tailbound_space *open_space(char **arguments) {
    tailbound_space *space;
    if (strcmp(arguments[1], "multicast") == 0) {
        uint16_t port = (uint16_t)atoi(arguments[3]);
        EXPECT(tailbound_space_open_udp_multicast(arguments[2], port, 1, TAILBOUND_CLOCK_MONOTONIC, &space) == 0);
    } else if (strcmp(arguments[3], "-") == 0) {
        EXPECT(tailbound_space_open_named(arguments[1], arguments[2], TAILBOUND_CLOCK_MONOTONIC, &space) == 0);
    } else {
        const char *peers[] = {arguments[3]};
        tailbound_udp_route routes[] = {{"ping", arguments[2], NULL, 0}, {"pong", NULL, peers, 1}};
        EXPECT(tailbound_space_open_udp_unicast(routes, 2, TAILBOUND_CLOCK_MONOTONIC, &space) == 0);
    }
    return space;
}

int main(int count, char **arguments) {
    tailbound_topic topic;
    tailbound_subscriber *subscriber;
    tailbound_publisher *publisher;
    tailbound_message message;
    char room[256];
    EXPECT(count == 4);
    tailbound_space *space = open_space(arguments);
    EXPECT(tailbound_topic_init(&topic, "ping", "bytes", sizeof room) == 0);
    topic.quality.history = 16;
    EXPECT(tailbound_subscriber_open(space, &topic, &subscriber) == 0);
    topic.name = "pong";
    EXPECT(tailbound_publisher_open(space, &topic, &publisher) == 0);
    EXPECT(tailbound_space_close(space) == 0);
    for (;;) {
        int taken = tailbound_take_copy(subscriber, room, sizeof room, &message);
        EXPECT(taken >= 0);
        if (taken == 0) {
            EXPECT(tailbound_wait(subscriber, PATIENCE_NS) == 1);
            continue;
        }
        if (message.length == 3 && memcmp(room, "end", 3) == 0)
            break;
        EXPECT(tailbound_publish_from(publisher, message.origin_time_ns, room, message.length) == 0);
    }
    EXPECT(tailbound_publisher_close(publisher) == 0);
    EXPECT(tailbound_subscriber_close(subscriber) == 0);
    return 0;
}
