/*
 * Ports for C++17 and later: the functions of tailbound_ports.h as types that close themselves, with exceptions.
 *
 *     auto position = tailbound::SamplingReader::inherited("position");
 *     std::array<std::uint8_t, 64> room;
 *     if (auto sample = position.read(room.data(), room.size()); sample && sample->valid)
 *         use(room.data(), sample->length, sample->age_ns);
 */
#ifndef TAILBOUND_PORTS_HPP
#define TAILBOUND_PORTS_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tailbound_bytes.hpp"
#include "tailbound_ports.h"

namespace tailbound {

/* Writes the newest message of a sampling port. */
class SamplingWriter {
public:
    static SamplingWriter inherited(const std::string &name) {
        tailbound_sampling_writer *handle = nullptr;
        check(tailbound_sampling_writer_inherit(name.c_str(), &handle));
        return SamplingWriter(handle);
    }

    static SamplingWriter create(std::size_t longest, std::size_t messages) {
        tailbound_sampling_writer *handle = nullptr;
        check(tailbound_sampling_writer_create(longest, messages, &handle));
        return SamplingWriter(handle);
    }

    int descriptor() const { return check(tailbound_sampling_writer_descriptor(get())); }
    void write(Bytes message) { check(tailbound_sampling_write(get(), message.data(), message.size())); }
    const tailbound_sampling_writer *get() const { return handle_.get(); }

private:
    struct Close {
        void operator()(tailbound_sampling_writer *handle) const { tailbound_sampling_writer_close(handle); }
    };

    explicit SamplingWriter(tailbound_sampling_writer *handle) : handle_(handle) {}

    std::unique_ptr<tailbound_sampling_writer, Close> handle_;
};

/* Reads the newest message of a sampling port. */
class SamplingReader {
public:
    static SamplingReader inherited(const std::string &name) {
        tailbound_sampling_reader *handle = nullptr;
        check(tailbound_sampling_reader_inherit(name.c_str(), &handle));
        return SamplingReader(handle);
    }

    static SamplingReader open(int descriptor, std::chrono::nanoseconds validity) {
        tailbound_sampling_reader *handle = nullptr;
        check(tailbound_sampling_reader_open(descriptor, static_cast<std::uint64_t>(validity.count()), &handle));
        return SamplingReader(handle);
    }

    /* Copies the newest message into the room, if there is one. */
    std::optional<tailbound_sample> read(void *room, std::size_t length) {
        tailbound_sample sample{};
        if (check(tailbound_sampling_read(get(), room, length, &sample)) == 0)
            return std::nullopt;
        return sample;
    }
    const tailbound_sampling_reader *get() const { return handle_.get(); }

private:
    struct Close {
        void operator()(tailbound_sampling_reader *handle) const { tailbound_sampling_reader_close(handle); }
    };

    explicit SamplingReader(tailbound_sampling_reader *handle) : handle_(handle) {}

    std::unique_ptr<tailbound_sampling_reader, Close> handle_;
};

/* Sends messages in order. */
class QueuingSender {
public:
    static QueuingSender inherited(const std::string &name) {
        tailbound_queuing_sender *handle = nullptr;
        check(tailbound_queuing_sender_inherit(name.c_str(), &handle));
        return QueuingSender(handle);
    }

    static QueuingSender create(std::size_t longest, std::size_t messages) {
        tailbound_queuing_sender *handle = nullptr;
        check(tailbound_queuing_sender_create(longest, messages, &handle));
        return QueuingSender(handle);
    }

    int descriptor() const { return check(tailbound_queuing_sender_descriptor(get())); }
    void connect(int receiver_descriptor) { check(tailbound_queuing_sender_connect(get(), receiver_descriptor)); }

    /* Sends a message; false if the port is full. */
    bool send(Bytes message) {
        const int status = tailbound_queuing_send(get(), message.data(), message.size());
        return status == TAILBOUND_FULL ? false : check(status) == 0;
    }
    const tailbound_queuing_sender *get() const { return handle_.get(); }

private:
    struct Close {
        void operator()(tailbound_queuing_sender *handle) const { tailbound_queuing_sender_close(handle); }
    };

    explicit QueuingSender(tailbound_queuing_sender *handle) : handle_(handle) {}

    std::unique_ptr<tailbound_queuing_sender, Close> handle_;
};

/* Receives messages in order. */
class QueuingReceiver {
public:
    static QueuingReceiver inherited(const std::string &name) {
        tailbound_queuing_receiver *handle = nullptr;
        check(tailbound_queuing_receiver_inherit(name.c_str(), &handle));
        return QueuingReceiver(handle);
    }

    static QueuingReceiver open(int descriptor) {
        tailbound_queuing_receiver *handle = nullptr;
        check(tailbound_queuing_receiver_open(descriptor, &handle));
        return QueuingReceiver(handle);
    }

    int descriptor() const { return check(tailbound_queuing_receiver_descriptor(get())); }
    /* Takes the next message out into the room; none from an empty port. */
    std::optional<tailbound_queued_message> receive(void *room, std::size_t length) {
        tailbound_queued_message message{};
        if (check(tailbound_queuing_receive(get(), room, length, &message)) == 0)
            return std::nullopt;
        return message;
    }
    const tailbound_queuing_receiver *get() const { return handle_.get(); }

private:
    struct Close {
        void operator()(tailbound_queuing_receiver *handle) const { tailbound_queuing_receiver_close(handle); }
    };

    explicit QueuingReceiver(tailbound_queuing_receiver *handle) : handle_(handle) {}

    std::unique_ptr<tailbound_queuing_receiver, Close> handle_;
};

} // namespace tailbound

#endif
