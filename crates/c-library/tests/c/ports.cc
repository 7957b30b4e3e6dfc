// Ports by the types of C++.
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tailbound_ports.hpp"

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not " #condition "\n";  \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

using namespace tailbound;

int main() {
    std::array<char, 16> room{};
    auto writer = SamplingWriter::create(16, 4);
    auto reader = SamplingReader::open(writer.descriptor(), std::chrono::hours(1));
    EXPECT(!reader.read(room.data(), room.size()));
    writer.write("newest");
    auto moved = std::move(reader);
    auto sample = moved.read(room.data(), room.size());
    EXPECT(sample && sample->valid == 1 && std::string(room.data(), sample->length) == "newest");

    auto sender = QueuingSender::create(16, 1);
    EXPECT(!sender.send("early"));
    auto receiver = QueuingReceiver::open(sender.descriptor());
    sender.connect(receiver.descriptor());
    EXPECT(sender.send("one") && !sender.send("two"));
    auto message = receiver.receive(room.data(), room.size());
    EXPECT(message && message->number == 1 && message->waiting == 0);
    EXPECT(!receiver.receive(room.data(), room.size()));
    int status = 0;
    try {
        SamplingReader::inherited("nothing");
    } catch (const Error &error) {
        status = error.status();
    }
    EXPECT(status == TAILBOUND_NO_PORT);
}
