/*
 * A recording of events from the side of a writer: maps the file that the Rust side prepared (tailbound-trigger,
 * `layout`), gives every thread a ring of its own while there are some, and writes events without waiting.
 */
#ifndef TAILBOUND_RECORDING_H
#define TAILBOUND_RECORDING_H

#include <stdint.h>

/* Maps an open recording and records into it from now on. Returns 0, or -1 with errno (EBUSY, EINVAL, those of mmap). */
int tailbound_recording_begin(int file);
/* Ends the recording. The mapping stays, since a thread may be in the middle of a write. */
void tailbound_recording_end(void);
/* Enters the name of the events of this number, from 1. */
void tailbound_recording_enter_name(uint32_t number, const char *name);
/* The instant on the clock of the recording; 0 without one. */
uint64_t tailbound_recording_now(void);
/* Writes an event, or counts it as lost. Does nothing without a recording. Safe in signal handlers. */
void tailbound_recording_write(uint32_t number, const uint64_t *arguments, uint32_t count);

#endif
