/*
 * Bytes and failures of the C++ headers of libtailbound.
 */
#ifndef TAILBOUND_BYTES_HPP
#define TAILBOUND_BYTES_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tailbound_status.h"

namespace tailbound {

/* A failure, with the status of C. */
class Error : public std::runtime_error {
public:
    explicit Error(int status) : Error(status, tailbound_last_error()) {}
    Error(int status, const char *text) : std::runtime_error(text), status_(status) {}

    int status() const { return status_; }

private:
    int status_;
};

/* Throws a failure, and passes any other outcome on. */
inline int check(int status) {
    if (status < 0)
        throw Error(status);
    return status;
}

/* Bytes of another: of a text, or of anything with `data()` and `size()` over plain values, such as std::vector and std::span. */
class Bytes {
public:
    Bytes() = default;
    Bytes(const void *data, std::size_t size) : data_(static_cast<const std::uint8_t *>(data)), size_(size) {}
    Bytes(const char *text) : Bytes(std::string_view(text)) {}
    Bytes(std::string_view text) : Bytes(text.data(), text.size()) {}

    template <typename Range, typename Value = std::remove_pointer_t<decltype(std::declval<const Range &>().data())>,
              typename = std::enable_if_t<std::is_trivially_copyable_v<Value> && !std::is_same_v<Range, Bytes>>>
    Bytes(const Range &range) : Bytes(range.data(), range.size() * sizeof(Value)) {}

    const std::uint8_t *data() const { return data_; }
    std::size_t size() const { return size_; }
    const std::uint8_t *begin() const { return data_; }
    const std::uint8_t *end() const { return data_ + size_; }

private:
    const std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace tailbound

#endif
