/* Prints the sizes of the structures and the places of their fields, as the compiler of C has them. */
#include "expect.h"
#include "tailbound_ports.h"
#include "tailbound_topics.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(tailbound_##type))
#define PLACE(type, field) printf(#type "." #field " %zu\n", offsetof(tailbound_##type, field))

int main(void) {
    SIZE(quality);
    PLACE(quality, history);
    PLACE(quality, reliability);
    PLACE(quality, deadline_ns);
    PLACE(quality, lifespan_ns);
    PLACE(quality, lease_ns);
    SIZE(contract);
    PLACE(contract, messages);
    PLACE(contract, violation);
    PLACE(contract, bytes);
    PLACE(contract, interval_ns);
    PLACE(contract, least_distance_ns);
    SIZE(topic);
    PLACE(topic, struct_size);
    PLACE(topic, name);
    PLACE(topic, type_name);
    PLACE(topic, longest);
    PLACE(topic, publishers);
    PLACE(topic, subscribers);
    PLACE(topic, quality);
    PLACE(topic, contract);
    SIZE(udp_route);
    PLACE(udp_route, topic);
    PLACE(udp_route, listen);
    PLACE(udp_route, peers);
    PLACE(udp_route, peer_count);
    SIZE(zeromq_route);
    PLACE(zeromq_route, topic);
    PLACE(zeromq_route, listen);
    PLACE(zeromq_route, listen_count);
    PLACE(zeromq_route, publishers);
    PLACE(zeromq_route, publisher_count);
    SIZE(message);
    PLACE(message, payload);
    PLACE(message, length);
    PLACE(message, source);
    PLACE(message, sequence);
    PLACE(message, instance);
    PLACE(message, source_time_ns);
    PLACE(message, origin_time_ns);
    PLACE(message, arrival_time_ns);
    PLACE(message, disposes);
    SIZE(event);
    PLACE(event, kind);
    PLACE(event, breach);
    PLACE(event, source);
    PLACE(event, count);
    SIZE(counts);
    PLACE(counts, delivered);
    PLACE(counts, signs);
    PLACE(counts, lost);
    PLACE(counts, held_back);
    PLACE(counts, dropped);
    PLACE(counts, of_other_topics);
    PLACE(counts, too_long);
    PLACE(counts, of_strangers);
    PLACE(counts, repeated);
    PLACE(counts, expired);
    PLACE(counts, garbage);
    SIZE(sample);
    PLACE(sample, number);
    PLACE(sample, length);
    PLACE(sample, written_time_ns);
    PLACE(sample, age_ns);
    PLACE(sample, valid);
    SIZE(queued_message);
    PLACE(queued_message, number);
    PLACE(queued_message, length);
    PLACE(queued_message, written_time_ns);
    PLACE(queued_message, age_ns);
    PLACE(queued_message, waiting);
    return 0;
}
