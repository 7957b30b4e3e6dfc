// As echo.c, by the types of C++; and what the types have beyond.
//
// Usage: echo multicast INTERFACE PORT | echo unicast LISTEN PEER | echo TRANSPORT ADDRESS -
#include <array>
#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "tailbound_topics.hpp"

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not " #condition "\n";  \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

using namespace std::chrono_literals;
using namespace tailbound;

static DataSpace open_space(char **arguments) {
    if (arguments[1] == std::string("multicast"))
        return DataSpace::udp_multicast(arguments[2], static_cast<std::uint16_t>(std::stoi(arguments[3])));
    if (arguments[3] == std::string("-"))
        return DataSpace::named(arguments[1], arguments[2]);
    return DataSpace::udp_unicast({{"ping", arguments[2], {}}, {"pong", std::nullopt, {arguments[3]}}});
}

template <typename Body>
static int status_of(Body body) {
    try {
        body();
    } catch (const Error &error) {
        EXPECT(std::string(error.what()) != "");
        return error.status();
    }
    return 0;
}

static void within_process() {
    auto space = DataSpace::in_process();
    Topic topic("people", "Positions", 64);
    topic.history(4).publishers(2).lease(3600s);
    Topic moved = std::move(topic);
    Subscriber subscriber(space, moved);
    Publisher publisher(space, moved);
    const std::array<std::uint16_t, 3> numbers{1, 2, 3};
    publisher.publish(numbers);
    publisher.publish(std::string("text"));
    publisher.publish_instance("key", "value", 5);
    publisher.dispose("key");
    EXPECT(subscriber.wait());
    EXPECT(subscriber.take([&](const Message &message) {
        EXPECT(message.payload().size() == sizeof numbers);
        EXPECT(message.data_age() == message.age() && message.age() >= 0ns);
    }));
    EXPECT(subscriber.take([&](const Message &message) { EXPECT(message.text() == "text"); }));
    EXPECT(subscriber.take([&](const Message &message) { EXPECT(message.layout.origin_time_ns == 5); }));
    // What is thrown in a callback comes out, and the message is taken.
    bool caught = false;
    try {
        subscriber.take([](const Message &message) {
            EXPECT(message.disposes());
            throw std::string("thrown");
        });
    } catch (const std::string &text) {
        caught = text == "thrown";
    }
    EXPECT(caught);
    EXPECT(!subscriber.take([](const Message &) {}));
    EXPECT(subscriber.take_event()->kind == TAILBOUND_APPEARED);
    EXPECT(!subscriber.take_event() && subscriber.counts().delivered == 4);

    EXPECT(status_of([&] { Publisher(space, Topic("people", "Positions", 64).reliable()); }) == TAILBOUND_LACKS);
    EXPECT(status_of([&] { publisher.publish(std::string(65, 'a')); }) == TAILBOUND_TOO_LONG);
    EXPECT(status_of([&] { DataSpace::udp_multicast("nowhere", 7400); }) == TAILBOUND_INVALID);

    std::atomic<int> messages{0};
    std::atomic<bool> ended{false};
    SubscriberThread thread(
        std::move(subscriber), [&](const Message &message) { messages += message.text() == "by thread"; },
        [&](const tailbound_event &event) { ended = ended || event.kind == TAILBOUND_PUBLISHER_ENDED; });
    publisher.publish("by thread");
    { Publisher ends = std::move(publisher); }
    while (messages < 1 || !ended)
        std::this_thread::yield();
    thread.stop();
}

int main(int count, char **arguments) {
    within_process();
    EXPECT(count == 4);
    auto space = open_space(arguments);
    Topic topic("ping", "bytes", 256);
    topic.history(16);
    Subscriber subscriber(space, topic);
    Publisher publisher(space, Topic("pong", "bytes", 256));
    for (bool goes_on = true; goes_on;) {
        EXPECT(subscriber.wait(20s));
        subscriber.take([&](const Message &message) {
            goes_on = message.text() != "end";
            if (goes_on)
                publisher.publish_from(message.layout.origin_time_ns, message.payload());
        });
    }
}
