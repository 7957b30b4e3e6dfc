/*
 * Service levels for C++17 and later: the functions of tailbound_service_level.h as types that close themselves, with exceptions.
 *
 *     tailbound::ServiceLevel level(std::chrono::seconds(1));
 *     level.listen("unix:/run/shop.sock");
 *     auto request = level.begin();
 *     if (level.serves_optional())
 *         recommend();
 *     answer();
 */
#ifndef TAILBOUND_SERVICE_LEVEL_HPP
#define TAILBOUND_SERVICE_LEVEL_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tailbound_bytes.hpp"
#include "tailbound_service_level.h"

namespace tailbound {

/* A level that requests are told to. Threads may share it. */
class ServiceLevel {
public:
    /* A request, which ends with this object. */
    class Request {
    public:
        Request(Request &&other) noexcept : level_(std::exchange(other.level_, nullptr)), number_(other.number_) {}
        Request(const Request &) = delete;
        Request &operator=(const Request &) = delete;
        Request &operator=(Request &&) = delete;
        ~Request() {
            if (level_)
                tailbound_service_level_end(level_, number_);
        }

    private:
        friend class ServiceLevel;
        Request(const tailbound_service_level *level, std::uint64_t number) : level_(level), number_(number) {}

        const tailbound_service_level *level_;
        std::uint64_t number_;
    };

    explicit ServiceLevel(std::chrono::nanoseconds deadline) {
        tailbound_service_level *handle = nullptr;
        check(tailbound_service_level_create(count(deadline), &handle));
        handle_.reset(handle);
    }

    /* Begins a request that has waited for so long already. The level outlives it. */
    [[nodiscard]] Request begin(std::chrono::nanoseconds waited = std::chrono::nanoseconds::zero()) const {
        std::uint64_t number = 0;
        check(tailbound_service_level_begin(get(), count(waited), &number));
        return Request(get(), number);
    }

    void observe(std::chrono::nanoseconds latency) const { check(tailbound_service_level_observe(get(), count(latency))); }
    bool serves_optional() const { return check(tailbound_service_level_serves_optional(get())) == 1; }

    double value() const {
        double value = 0;
        check(tailbound_service_level_value(get(), &value));
        return value;
    }

    /* The report as JSON. */
    std::string report() const {
        std::string text(512, '\0');
        text.resize(static_cast<std::size_t>(check(tailbound_service_level_report(get(), text.data(), text.size()))));
        return text;
    }

    int listen(const std::string &address) const { return check(tailbound_service_level_listen(get(), address.c_str())); }
    const tailbound_service_level *get() const { return handle_.get(); }

private:
    struct Close {
        void operator()(tailbound_service_level *handle) const { tailbound_service_level_close(handle); }
    };

    /* A time that is negative is longer than any that the library takes. */
    static std::uint64_t count(std::chrono::nanoseconds time) { return static_cast<std::uint64_t>(time.count()); }

    std::unique_ptr<tailbound_service_level, Close> handle_;
};

} // namespace tailbound

#endif
