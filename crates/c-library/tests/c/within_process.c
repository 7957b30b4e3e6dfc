/* Everything that the header of topics has, within one process. */
#include <pthread.h>

#include "expect.h"
#include "tailbound_topics.h"

struct seen {
    pthread_mutex_t lock;
    unsigned messages;
    unsigned ended;
    char text[64];
    tailbound_message last;
    const tailbound_subscriber *subscriber;
    tailbound_subscriber_thread *thread;
};

static void on_message(void *context, const tailbound_message *message) {
    struct seen *seen = context;
    pthread_mutex_lock(&seen->lock);
    EXPECT(message->length < sizeof seen->text);
    memcpy(seen->text, message->payload, message->length);
    seen->text[message->length] = 0;
    seen->last = *message;
    seen->messages++;
    if (seen->subscriber != NULL) {
        /* A callback gets nowhere with the subscriber that it is called by. */
        EXPECT(tailbound_take(seen->subscriber, on_message, context) == TAILBOUND_BUSY);
        EXPECT(tailbound_subscriber_close((tailbound_subscriber *)seen->subscriber) == TAILBOUND_BUSY);
    }
    if (seen->thread != NULL)
        EXPECT(tailbound_subscriber_stop(seen->thread) == TAILBOUND_BUSY);
    pthread_mutex_unlock(&seen->lock);
}

static void on_event(void *context, const tailbound_event *event) {
    struct seen *seen = context;
    pthread_mutex_lock(&seen->lock);
    seen->ended += event->kind == TAILBOUND_PUBLISHER_ENDED;
    pthread_mutex_unlock(&seen->lock);
}

static void polling(const tailbound_space *space) {
    tailbound_topic topic;
    tailbound_publisher *publisher;
    tailbound_subscriber *subscriber;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
    tailbound_message message;
    tailbound_event event;
    tailbound_counts counts;
    char room[32];
    uint64_t origin_ns = 77;

    EXPECT(tailbound_topic_init(&topic, "people", "Positions", 32) == 0);
    topic.quality.history = 8;
    EXPECT(tailbound_subscriber_open(space, &topic, &subscriber) == 0);
    EXPECT(tailbound_publisher_open(space, &topic, &publisher) == 0);
    EXPECT(tailbound_wait(subscriber, 0) == 0);
    EXPECT(tailbound_take(subscriber, on_message, &seen) == 0);

    EXPECT(tailbound_publish(publisher, "one", 3) == 0);
    EXPECT(tailbound_publish(publisher, NULL, 0) == 0);
    EXPECT(tailbound_publish_from(publisher, origin_ns, "three", 5) == 0);
    EXPECT(tailbound_publish_instance(publisher, "key", 3, &origin_ns, "four", 4) == 0);
    EXPECT(tailbound_dispose(publisher, "key", 3) == 0);
    EXPECT(tailbound_assert_liveliness(publisher) == 0);

    EXPECT(tailbound_wait(subscriber, -1) == 1);
    seen.subscriber = subscriber;
    EXPECT(tailbound_take(subscriber, on_message, &seen) == 1);
    seen.subscriber = NULL;
    EXPECT(strcmp(seen.text, "one") == 0 && seen.last.sequence == 0 && seen.last.instance == 0);
    EXPECT(seen.last.source == tailbound_publisher_source(publisher) && seen.last.source != 0);
    EXPECT(seen.last.origin_time_ns == seen.last.source_time_ns);
    EXPECT(seen.last.arrival_time_ns >= seen.last.source_time_ns);
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room - 1, &message) == TAILBOUND_TOO_LONG);
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room, &message) == 1);
    EXPECT(message.length == 0 && message.sequence == 1);
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room, &message) == 1);
    EXPECT(message.length == 5 && message.payload == (uint8_t *)room && memcmp(room, "three", 5) == 0);
    EXPECT(message.origin_time_ns == 77 && message.source_time_ns > 77 && message.disposes == 0);
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room, &message) == 1);
    EXPECT(message.instance != 0 && message.origin_time_ns == 77);
    seen.last = message;
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room, &message) == 1);
    EXPECT(message.disposes == 1 && message.instance == seen.last.instance && message.length == 0);
    EXPECT(tailbound_take_copy(subscriber, room, sizeof room, &message) == 0);

    EXPECT(tailbound_take_event(subscriber, &event) == 1);
    EXPECT(event.kind == TAILBOUND_APPEARED && event.source == seen.last.source && event.count == 1 && event.breach == 0);
    EXPECT(tailbound_take_event(subscriber, &event) == 0);
    EXPECT(tailbound_subscriber_counts(subscriber, &counts) == 0);
    EXPECT(counts.delivered == 5 && counts.signs == 1 && counts.lost == 0 && counts.garbage == 0);
    EXPECT(tailbound_publisher_close(publisher) == 0);
    EXPECT(tailbound_wait(subscriber, PATIENCE_NS) == 1);
    EXPECT(tailbound_take(subscriber, on_message, &seen) == 0);
    EXPECT(tailbound_take_event(subscriber, &event) == 1 && event.kind == TAILBOUND_PUBLISHER_ENDED);
    EXPECT(tailbound_subscriber_close(subscriber) == 0);
}

static void contracts(const tailbound_space *space) {
    tailbound_topic topic, without;
    tailbound_publisher *publisher, *flood;
    tailbound_subscriber *subscriber;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
    tailbound_event event;
    tailbound_counts counts;

    EXPECT(tailbound_topic_init(&topic, "speed", "Speed", 8) == 0);
    topic.quality.history = 8;
    topic.publishers = 2;
    without = topic;
    topic.contract.messages = 1;
    topic.contract.interval_ns = 3600000000000ULL;
    EXPECT(tailbound_publisher_open(space, &topic, &publisher) == 0);
    EXPECT(tailbound_publish(publisher, "1", 1) == 0);
    EXPECT(tailbound_publish(publisher, "2", 1) == TAILBOUND_CONTRACT_BROKEN);
    EXPECT(strstr(tailbound_last_error(), "`speed`") != NULL);
    EXPECT(tailbound_publish(publisher, "123456789", 9) == TAILBOUND_TOO_LONG);
    EXPECT(strstr(tailbound_last_error(), "9 bytes") != NULL);
    EXPECT(tailbound_publisher_close(publisher) == 0);

    EXPECT(tailbound_subscriber_open(space, &topic, &subscriber) == 0);
    EXPECT(tailbound_publisher_open(space, &without, &flood) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(tailbound_publish(flood, "x", 1) == 0);
    EXPECT(tailbound_take(subscriber, on_message, &seen) == 1);
    EXPECT(tailbound_take(subscriber, on_message, &seen) == 0);
    EXPECT(tailbound_take_event(subscriber, &event) == 1 && event.kind == TAILBOUND_APPEARED);
    EXPECT(tailbound_take_event(subscriber, &event) == 1 && event.kind == TAILBOUND_CONTRACT_BREACH);
    EXPECT(event.count == 2 && event.breach == TAILBOUND_BREACH_OF_MESSAGES);
    EXPECT(tailbound_subscriber_counts(subscriber, &counts) == 0);
    EXPECT(counts.dropped == 2 && counts.delivered == 1);
    EXPECT(tailbound_publisher_close(flood) == 0);
    EXPECT(tailbound_subscriber_close(subscriber) == 0);
}

static void thread(tailbound_space *space) {
    tailbound_topic topic;
    tailbound_publisher *publisher;
    tailbound_subscriber *subscriber;
    tailbound_subscriber_thread *thread = NULL;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned messages = 0, ended = 0;

    EXPECT(tailbound_topic_init(&topic, "people", "Positions", 32) == 0);
    topic.quality.history = 8;
    EXPECT(tailbound_subscriber_open(space, &topic, &subscriber) == 0);
    EXPECT(tailbound_publisher_open(space, &topic, &publisher) == 0);
    /* What was opened outlives its space. */
    EXPECT(tailbound_space_close(space) == 0);
    EXPECT(tailbound_subscriber_start(subscriber, NULL, NULL, NULL, &thread) == TAILBOUND_INVALID);
    EXPECT(tailbound_subscriber_start(subscriber, on_message, on_event, &seen, NULL) == TAILBOUND_INVALID);
    pthread_mutex_lock(&seen.lock);
    EXPECT(tailbound_subscriber_start(subscriber, on_message, on_event, &seen, &seen.thread) == 0);
    thread = seen.thread;
    pthread_mutex_unlock(&seen.lock);
    EXPECT(tailbound_publish(publisher, "one", 3) == 0);
    EXPECT(tailbound_publish(publisher, "two", 3) == 0);
    EXPECT(tailbound_publisher_close(publisher) == 0);
    while (messages < 2 || ended == 0) {
        pthread_mutex_lock(&seen.lock);
        messages = seen.messages;
        ended = seen.ended;
        pthread_mutex_unlock(&seen.lock);
    }
    EXPECT(tailbound_subscriber_stop(thread) == 0);
    EXPECT(strcmp(seen.text, "two") == 0);
}

int main(void) {
    tailbound_space *space;
    EXPECT(tailbound_space_open_in_process(&space) == 0);
    polling(space);
    contracts(space);
    thread(space);
    return 0;
}
