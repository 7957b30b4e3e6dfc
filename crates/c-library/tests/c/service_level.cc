// A service level by the types of C++.
#include <cstdlib>
#include <iostream>
#include <string>

#include "tailbound_service_level.hpp"

#define EXPECT(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not " #condition "\n";  \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

using namespace tailbound;

int main() {
    ServiceLevel level(std::chrono::seconds(1));
    EXPECT(level.value() == 1 && level.serves_optional());
    {
        auto request = level.begin(std::chrono::seconds(3));
        auto moved = std::move(request);
        EXPECT(level.report().find("\"requests\": 0") != std::string::npos);
    }
    EXPECT(level.report().find("\"requests\": 1") != std::string::npos);
    EXPECT(level.report().find("\"matching_value\": -1.0") != std::string::npos);
    EXPECT(level.listen("http://127.0.0.1:0") > 0);
    int status = 0;
    try {
        level.observe(std::chrono::nanoseconds(-1));
    } catch (const Error &error) {
        status = error.status();
    }
    EXPECT(status == TAILBOUND_INVALID);
}
