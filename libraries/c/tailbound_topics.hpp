/*
 * Topics for C++17 and later: the functions of tailbound_topics.h as types that close themselves, with exceptions.
 *
 *     auto space = tailbound::DataSpace::udp_multicast("127.0.0.1", 7400);
 *     tailbound::Topic topic("people", "Positions", 1024);
 *     tailbound::Publisher publisher(space, topic);
 *     publisher.publish("two at the door");
 *
 *     tailbound::Subscriber subscriber(space, topic);
 *     subscriber.wait(std::chrono::seconds(1));
 *     subscriber.take([](const tailbound::Message &message) { use(message.text(), message.data_age()); });
 *
 * Values move and do not copy. What a function of yours throws in `take` comes out of `take`; what it throws on the thread of a
 * SubscriberThread ends the program, as in any thread.
 */
#ifndef TAILBOUND_TOPICS_HPP
#define TAILBOUND_TOPICS_HPP

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tailbound_bytes.hpp"
#include "tailbound_topics.h"

namespace tailbound {

/* The clock of time stamps. */
enum class ClockKind { monotonic = TAILBOUND_CLOCK_MONOTONIC, wall = TAILBOUND_CLOCK_WALL };

/* The addresses of a topic over datagrams. */
struct UdpRoute {
    std::string topic;
    std::optional<std::string> listen;
    std::vector<std::string> peers;
};

/* The addresses of a topic over ZeroMQ. */
struct ZeroMqRoute {
    std::string topic;
    std::vector<std::string> listen;
    std::vector<std::string> publishers;
};

/* A topic. The fields of the structure of C stand in `layout`. */
class Topic {
public:
    Topic(std::string name, std::string type_name, std::size_t longest)
        : name_(std::move(name)), type_name_(std::move(type_name)) {
        check(tailbound_topic_init(&layout, name_.c_str(), type_name_.c_str(), longest));
    }

    Topic &publishers(std::uint32_t count) { layout.publishers = count; return *this; }
    Topic &subscribers(std::uint32_t count) { layout.subscribers = count; return *this; }
    Topic &history(std::uint32_t count) { layout.quality.history = count; return *this; }
    Topic &reliable() { layout.quality.reliability = TAILBOUND_RELIABLE; return *this; }
    Topic &deadline(std::chrono::nanoseconds length) { layout.quality.deadline_ns = nanoseconds(length); return *this; }
    Topic &lifespan(std::chrono::nanoseconds length) { layout.quality.lifespan_ns = nanoseconds(length); return *this; }
    Topic &lease(std::chrono::nanoseconds length) { layout.quality.lease_ns = nanoseconds(length); return *this; }
    Topic &contract(const tailbound_contract &terms) { layout.contract = terms; return *this; }

    /* The structure for the functions of C, valid as long as the topic. */
    const tailbound_topic *get() const {
        current_ = layout;
        current_.name = name_.c_str();
        current_.type_name = type_name_.c_str();
        return &current_;
    }

    tailbound_topic layout{};

private:
    static std::uint64_t nanoseconds(std::chrono::nanoseconds length) {
        return length.count() > 0 ? static_cast<std::uint64_t>(length.count()) : 0;
    }

    std::string name_;
    std::string type_name_;
    // A short text lies within the string itself, so that its address changes when the topic moves.
    mutable tailbound_topic current_{};
};

/* The place where publishers and subscribers meet. */
class DataSpace {
public:
    static DataSpace in_process() {
        tailbound_space *space = nullptr;
        check(tailbound_space_open_in_process(&space));
        return DataSpace(space);
    }

    static DataSpace udp_multicast(const std::string &interface, std::uint16_t port, std::uint32_t hops = 1,
                                   ClockKind clock = ClockKind::monotonic) {
        tailbound_space *space = nullptr;
        check(tailbound_space_open_udp_multicast(interface.c_str(), port, hops, static_cast<int>(clock), &space));
        return DataSpace(space);
    }

    static DataSpace udp_unicast(const std::vector<UdpRoute> &routes, ClockKind clock = ClockKind::monotonic) {
        std::vector<std::vector<const char *>> peers;
        std::vector<tailbound_udp_route> layouts;
        for (const UdpRoute &route : routes) {
            peers.push_back(pointers(route.peers));
            const char *listen = route.listen ? route.listen->c_str() : nullptr;
            layouts.push_back({route.topic.c_str(), listen, peers.back().data(), peers.back().size()});
        }
        tailbound_space *space = nullptr;
        check(tailbound_space_open_udp_unicast(layouts.data(), layouts.size(), static_cast<int>(clock), &space));
        return DataSpace(space);
    }

    static DataSpace shared_memory(const std::string &name) {
        tailbound_space *space = nullptr;
        check(tailbound_space_open_shared_memory(name.c_str(), &space));
        return DataSpace(space);
    }

    static DataSpace zeromq_on_host(const std::string &name, ClockKind clock = ClockKind::monotonic) {
        tailbound_space *space = nullptr;
        check(tailbound_space_open_zeromq_on_host(name.c_str(), static_cast<int>(clock), &space));
        return DataSpace(space);
    }

    static DataSpace zeromq_tcp(const std::vector<ZeroMqRoute> &routes, ClockKind clock = ClockKind::monotonic) {
        std::vector<std::vector<const char *>> lists;
        std::vector<tailbound_zeromq_route> layouts;
        for (const ZeroMqRoute &route : routes) {
            lists.push_back(pointers(route.listen));
            const std::vector<const char *> &listen = lists.back();
            tailbound_zeromq_route layout{route.topic.c_str(), listen.data(), listen.size(), nullptr, 0};
            lists.push_back(pointers(route.publishers));
            layout.publishers = lists.back().data();
            layout.publisher_count = lists.back().size();
            layouts.push_back(layout);
        }
        tailbound_space *space = nullptr;
        check(tailbound_space_open_zeromq_tcp(layouts.data(), layouts.size(), static_cast<int>(clock), &space));
        return DataSpace(space);
    }

    /* By the name of the transport and the address, as descriptions have both. */
    static DataSpace named(const std::string &transport, const std::string &address,
                           ClockKind clock = ClockKind::monotonic) {
        tailbound_space *space = nullptr;
        check(tailbound_space_open_named(transport.c_str(), address.c_str(), static_cast<int>(clock), &space));
        return DataSpace(space);
    }

    const tailbound_space *get() const { return space_.get(); }

private:
    struct Close {
        void operator()(tailbound_space *space) const { tailbound_space_close(space); }
    };

    explicit DataSpace(tailbound_space *space) : space_(space) {}

    static std::vector<const char *> pointers(const std::vector<std::string> &texts) {
        std::vector<const char *> pointers;
        for (const std::string &text : texts)
            pointers.push_back(text.c_str());
        return pointers;
    }

    std::unique_ptr<tailbound_space, Close> space_;
};

/* A message, valid as long as the function that gets it runs. */
class Message {
public:
    explicit Message(const tailbound_message &layout) : layout(layout) {}

    Bytes payload() const { return Bytes(layout.payload, layout.length); }
    std::string_view text() const {
        return std::string_view(reinterpret_cast<const char *>(layout.payload), layout.length);
    }
    bool disposes() const { return layout.disposes != 0; }
    /* The time since the oldest measurement in the message; of a clock that is behind, zero. */
    std::chrono::nanoseconds data_age() const { return since(layout.origin_time_ns); }
    /* The time since the message was published. */
    std::chrono::nanoseconds age() const { return since(layout.source_time_ns); }

    const tailbound_message &layout;

private:
    std::chrono::nanoseconds since(std::uint64_t time_ns) const {
        const std::uint64_t arrival_ns = layout.arrival_time_ns;
        return std::chrono::nanoseconds(arrival_ns > time_ns ? static_cast<std::int64_t>(arrival_ns - time_ns) : 0);
    }
};

/* Publishes messages of a topic; says farewell at its end. */
class Publisher {
public:
    Publisher(const DataSpace &space, const Topic &topic) {
        tailbound_publisher *publisher = nullptr;
        check(tailbound_publisher_open(space.get(), topic.get(), &publisher));
        publisher_.reset(publisher);
    }

    void publish(Bytes payload) { check(tailbound_publish(get(), payload.data(), payload.size())); }

    /* A message that was made of others, such as `message.layout.origin_time_ns`. */
    void publish_from(std::uint64_t origin_time_ns, Bytes payload) {
        check(tailbound_publish_from(get(), origin_time_ns, payload.data(), payload.size()));
    }

    /* The new value of the instance with a key. */
    void publish_instance(Bytes key, Bytes payload, std::optional<std::uint64_t> origin_time_ns = std::nullopt) {
        const std::uint64_t *origin = origin_time_ns ? &*origin_time_ns : nullptr;
        check(tailbound_publish_instance(get(), key.data(), key.size(), origin, payload.data(), payload.size()));
    }

    void dispose(Bytes key) { check(tailbound_dispose(get(), key.data(), key.size())); }
    void assert_liveliness() { check(tailbound_assert_liveliness(get())); }
    std::uint64_t source() const { return tailbound_publisher_source(get()); }
    const tailbound_publisher *get() const { return publisher_.get(); }

private:
    struct Close {
        void operator()(tailbound_publisher *publisher) const { tailbound_publisher_close(publisher); }
    };

    std::unique_ptr<tailbound_publisher, Close> publisher_;
};

/* Receives messages of a topic. */
class Subscriber {
public:
    Subscriber(const DataSpace &space, const Topic &topic) {
        tailbound_subscriber *subscriber = nullptr;
        check(tailbound_subscriber_open(space.get(), topic.get(), &subscriber));
        subscriber_.reset(subscriber);
    }

    /* Shows the next message to a function, if one waits; whether one did. */
    template <typename Visit>
    bool take(Visit &&visit) {
        struct Call {
            Visit &visit;
            std::exception_ptr thrown;
        } call{visit, nullptr};
        const auto function = [](void *context, const tailbound_message *message) noexcept {
            Call &call = *static_cast<Call *>(context);
            try {
                call.visit(Message(*message));
            } catch (...) {
                call.thrown = std::current_exception();
            }
        };
        const int taken = check(tailbound_take(get(), function, &call));
        if (call.thrown)
            std::rethrow_exception(call.thrown);
        return taken == 1;
    }

    /* Waits without end for a message or an event. */
    bool wait() { return check(tailbound_wait(get(), -1)) == 1; }
    /* Waits at most this long; whether there is a message or an event. */
    bool wait(std::chrono::nanoseconds limit) {
        return check(tailbound_wait(get(), limit.count() > 0 ? limit.count() : 0)) == 1;
    }

    std::optional<tailbound_event> take_event() {
        tailbound_event event{};
        if (check(tailbound_take_event(get(), &event)) == 0)
            return std::nullopt;
        return event;
    }

    tailbound_counts counts() const {
        tailbound_counts counts{};
        check(tailbound_subscriber_counts(get(), &counts));
        return counts;
    }

    const tailbound_subscriber *get() const { return subscriber_.get(); }

private:
    friend class SubscriberThread;

    struct Close {
        void operator()(tailbound_subscriber *subscriber) const { tailbound_subscriber_close(subscriber); }
    };

    std::unique_ptr<tailbound_subscriber, Close> subscriber_;
};

/* A thread that calls back with messages and events, until its end. */
class SubscriberThread {
public:
    using OnMessage = std::function<void(const Message &)>;
    using OnEvent = std::function<void(const tailbound_event &)>;

    SubscriberThread(Subscriber subscriber, OnMessage on_message, OnEvent on_event = nullptr)
        : functions_(new Functions{std::move(on_message), std::move(on_event)}) {
        const auto message = [](void *context, const tailbound_message *message) noexcept {
            static_cast<Functions *>(context)->on_message(Message(*message));
        };
        const auto event = [](void *context, const tailbound_event *event) noexcept {
            static_cast<Functions *>(context)->on_event(*event);
        };
        tailbound_event_function *const for_events = functions_->on_event ? +event : nullptr;
        tailbound_subscriber_thread *thread = nullptr;
        const int status = tailbound_subscriber_start(subscriber.subscriber_.get(), message, for_events, functions_.get(),
                                                      &thread);
        if (status != TAILBOUND_INVALID && status != TAILBOUND_BUSY)
            static_cast<void>(subscriber.subscriber_.release());
        check(status);
        thread_.reset(thread);
    }

    SubscriberThread(SubscriberThread &&) = default;
    SubscriberThread &operator=(SubscriberThread &&) = delete;

    /* Ends the thread, and throws the failure by which it had ended before, if there was one. */
    void stop() { check(tailbound_subscriber_stop(thread_.release())); }

private:
    struct Functions {
        OnMessage on_message;
        OnEvent on_event;
    };
    struct Stop {
        void operator()(tailbound_subscriber_thread *thread) const { tailbound_subscriber_stop(thread); }
    };

    // Before the thread, so that the functions outlive it.
    std::unique_ptr<Functions> functions_;
    std::unique_ptr<tailbound_subscriber_thread, Stop> thread_;
};

} // namespace tailbound

#endif
