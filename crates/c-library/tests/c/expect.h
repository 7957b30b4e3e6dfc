/* What the programs of these tests have in common: they end with a line where something is not as it should be. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tailbound_status.h"

#define EXPECT(condition)                                                                                   \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            fprintf(stderr, "%s:%d: not %s; the last failure: %s\n", __FILE__, __LINE__, #condition,        \
                    tailbound_last_error());                                                                \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

/* The bound of a wait for something that must happen. */
#define PATIENCE_NS 20000000000LL

#endif
