// Triggers in code that every file which includes it has a copy of.
#include "tailbound_trigger.h"

inline void in_inline_function(unsigned long number) {
    TAILBOUND_TRIGGER("c.inline", number);
}

template <class T> void in_template(T number) {
    TAILBOUND_TRIGGER("c.template", number, sizeof(T));
}
