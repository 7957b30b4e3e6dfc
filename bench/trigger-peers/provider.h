/* The tracepoint of LTTng-UST in peers.c. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tailbound_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "provider.h"
#if !defined(PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROVIDER_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(tailbound_bench, two, LTTNG_UST_TP_ARGS(uint64_t, number, uint64_t, two),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, number, number)
                                                   lttng_ust_field_integer(uint64_t, two, two)))
#endif
#include <lttng/tracepoint-event.h>
