/* Null pointers and numbers that stand for nothing: an error code each, with a text. */
#include "expect.h"
#include "tailbound_topics.h"

#define REFUSED_AS(expected, call)                                                                          \
    do {                                                                                                    \
        EXPECT((call) == (expected));                                                                       \
        EXPECT(tailbound_last_error()[0] != 0);                                                             \
    } while (0)
#define INVALID(call) REFUSED_AS(TAILBOUND_INVALID, call)

static void nothing(void *context, const tailbound_message *message) {
    (void)context;
    (void)message;
}

static void spaces(void) {
    tailbound_space *space = NULL;
    const char *wrong_peer[] = {"127.0.0.1"};
    const char *null_peer[] = {NULL};
    tailbound_udp_route route = {"people", NULL, NULL, 0};

    INVALID(tailbound_space_open_in_process(NULL));
    INVALID(tailbound_space_open_udp_multicast(NULL, 7400, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_multicast("localhost", 7400, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_multicast("127.0.0.\xff", 7400, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_multicast("127.0.0.1", 0, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_multicast("127.0.0.1", 7400, 256, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_multicast("127.0.0.1", 7400, 1, 2, &space));
    INVALID(tailbound_space_open_udp_multicast("127.0.0.1", 7400, 1, TAILBOUND_CLOCK_MONOTONIC, NULL));
    INVALID(tailbound_space_open_udp_unicast(NULL, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_unicast(&route, SIZE_MAX, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_udp_unicast(&route, 1, -1, &space));
    route.peer_count = 1;
    INVALID(tailbound_space_open_udp_unicast(&route, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    route.peers = wrong_peer;
    INVALID(tailbound_space_open_udp_unicast(&route, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    EXPECT(strstr(tailbound_last_error(), "127.0.0.1:7400") != NULL);
    route.peers = null_peer;
    INVALID(tailbound_space_open_udp_unicast(&route, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    route.peer_count = 0;
    route.listen = "nowhere";
    INVALID(tailbound_space_open_udp_unicast(&route, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    route.topic = NULL;
    INVALID(tailbound_space_open_udp_unicast(&route, 1, TAILBOUND_CLOCK_WALL, &space));
    INVALID(tailbound_space_open_shared_memory(NULL, &space));
    INVALID(tailbound_space_open_zeromq_on_host(NULL, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_zeromq_tcp(NULL, 1, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_named(NULL, "127.0.0.1:0", TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_named("rtps", NULL, TAILBOUND_CLOCK_MONOTONIC, &space));
    INVALID(tailbound_space_open_named("pigeons", "127.0.0.1:0", TAILBOUND_CLOCK_MONOTONIC, &space));
    EXPECT(strstr(tailbound_last_error(), "cyclone-dds") != NULL);
    EXPECT(tailbound_space_open_named("rtps", "127.0.0.1", TAILBOUND_CLOCK_MONOTONIC, &space) < 0);
    EXPECT(space == NULL);
    EXPECT(tailbound_space_close(NULL) == 0);
    EXPECT(tailbound_publisher_close(NULL) == 0);
    EXPECT(tailbound_subscriber_close(NULL) == 0);
    EXPECT(tailbound_subscriber_stop(NULL) == 0);
}

/* Tries to open both ends of a topic. */
static void refuse_topic(const tailbound_space *space, const tailbound_topic *topic, int status) {
    tailbound_publisher *publisher = NULL;
    tailbound_subscriber *subscriber = NULL;
    REFUSED_AS(status, tailbound_publisher_open(space, topic, &publisher));
    REFUSED_AS(status, tailbound_subscriber_open(space, topic, &subscriber));
    EXPECT(publisher == NULL && subscriber == NULL);
}

static void topics(const tailbound_space *space) {
    tailbound_topic topic, garbage;

    INVALID(tailbound_topic_init(NULL, "people", "Positions", 8));
    refuse_topic(space, NULL, TAILBOUND_INVALID);
    memset(&topic, 0, sizeof topic);
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    EXPECT(strstr(tailbound_last_error(), "tailbound_topic_init") != NULL);
    memset(&garbage, 0xa5, sizeof garbage);
    refuse_topic(space, &garbage, TAILBOUND_INVALID);
    EXPECT(tailbound_topic_init(&topic, NULL, "Positions", 8) == 0);
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    EXPECT(tailbound_topic_init(&topic, "people", "\xff", 8) == 0);
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    EXPECT(tailbound_topic_init(&topic, "", "Positions", 8) == 0);
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    EXPECT(tailbound_topic_init(&topic, "people", "Positions", 0) == 0);
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    EXPECT(tailbound_topic_init(&topic, "people", "Positions", SIZE_MAX) == 0);
    refuse_topic(space, &topic, TAILBOUND_LACKS);
    EXPECT(tailbound_topic_init(&topic, "people", "Positions", 8) == 0);
    refuse_topic(NULL, &topic, TAILBOUND_INVALID);
    topic.quality.reliability = TAILBOUND_RELIABLE;
    refuse_topic(space, &topic, TAILBOUND_LACKS);
    EXPECT(strstr(tailbound_last_error(), "reliable delivery") != NULL);
    topic.quality.reliability = 2;
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    topic.quality.reliability = TAILBOUND_BEST_EFFORT;
    topic.quality.history = UINT32_MAX;
    refuse_topic(space, &topic, TAILBOUND_LACKS);
    topic.quality.history = 1;
    topic.publishers = UINT32_MAX;
    refuse_topic(space, &topic, TAILBOUND_LACKS);
    topic.publishers = 1;
    topic.contract.interval_ns = 1000;
    refuse_topic(space, &topic, TAILBOUND_CONTRACT_FAULT);
    topic.contract.messages = 1;
    topic.contract.violation = 7;
    refuse_topic(space, &topic, TAILBOUND_INVALID);
    topic.contract.violation = TAILBOUND_DROP;
    INVALID(tailbound_publisher_open(space, &topic, NULL));
    INVALID(tailbound_subscriber_open(space, &topic, NULL));
}

static void calls(const tailbound_space *space) {
    tailbound_topic topic;
    tailbound_publisher *publisher;
    tailbound_subscriber *subscriber;
    tailbound_message message;
    tailbound_event event;
    tailbound_counts counts;
    tailbound_subscriber_thread *thread;
    char room[8];

    EXPECT(tailbound_topic_init(&topic, "people", "Positions", 8) == 0);
    EXPECT(tailbound_publisher_open(space, &topic, &publisher) == 0);
    EXPECT(tailbound_subscriber_open(space, &topic, &subscriber) == 0);
    INVALID(tailbound_publish(NULL, "", 0));
    INVALID(tailbound_publish(publisher, NULL, 1));
    INVALID(tailbound_publish(publisher, "", SIZE_MAX));
    INVALID(tailbound_publish_from(publisher, 0, NULL, 1));
    INVALID(tailbound_publish_instance(publisher, NULL, 1, NULL, "", 0));
    INVALID(tailbound_publish_instance(publisher, "", 0, NULL, NULL, 1));
    INVALID(tailbound_dispose(publisher, NULL, 3));
    INVALID(tailbound_assert_liveliness(NULL));
    EXPECT(tailbound_publisher_source(NULL) == 0);
    INVALID(tailbound_take(NULL, nothing, NULL));
    INVALID(tailbound_take(subscriber, NULL, NULL));
    INVALID(tailbound_take_copy(NULL, room, sizeof room, &message));
    INVALID(tailbound_take_copy(subscriber, NULL, sizeof room, &message));
    INVALID(tailbound_take_copy(subscriber, room, sizeof room, NULL));
    INVALID(tailbound_wait(NULL, 0));
    INVALID(tailbound_take_event(NULL, &event));
    INVALID(tailbound_take_event(subscriber, NULL));
    INVALID(tailbound_subscriber_counts(NULL, &counts));
    INVALID(tailbound_subscriber_counts(subscriber, NULL));
    INVALID(tailbound_subscriber_start(NULL, nothing, NULL, NULL, &thread));
    EXPECT(tailbound_publisher_close(publisher) == 0);
    EXPECT(tailbound_subscriber_close(subscriber) == 0);
}

int main(void) {
    tailbound_space *space;
    spaces();
    EXPECT(tailbound_space_open_in_process(&space) == 0);
    topics(space);
    calls(space);
    EXPECT(tailbound_space_close(space) == 0);
    EXPECT(strcmp(tailbound_status_name(1), "OK") == 0);
    EXPECT(strcmp(tailbound_status_name(TAILBOUND_CONTRACT_BROKEN), "CONTRACT_BROKEN") == 0);
    EXPECT(strcmp(tailbound_status_name(-1000), "UNKNOWN") == 0);
    return 0;
}
