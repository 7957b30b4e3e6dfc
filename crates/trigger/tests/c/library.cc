// A shared library in C++ with triggers of its own.
#include "places.hpp"

extern "C" void act_in_library(unsigned long number) {
    TAILBOUND_TRIGGER("c.library", number);
    in_inline_function(number);
    in_template<int>((int)number);
    in_template<char>((char)number);
}
