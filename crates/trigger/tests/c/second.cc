// Another file of the program.
#include "places.hpp"

extern "C" void act_in_second_file(unsigned long number) {
    in_inline_function(number);
    in_template<int>((int)number);
}
