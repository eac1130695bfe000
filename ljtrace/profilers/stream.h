/* stream.h - write the streams of memprof and sysprof: bytes, numbers and symbols, gathered in a buffer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A symbol gives a name to an address that the events have. It is written before the event that has it first, which
 * readers of these versions permit. No locks, no memory: it works in signal handlers.
 */
#ifndef LJTRACE_PROFILERS_STREAM_H
#define LJTRACE_PROFILERS_STREAM_H

#include "ljtrace/profilers/machine.h"
#include <stddef.h>

enum { STREAM_FINAL = 0x80, STREAM_SYMBOLS = 4096 };

/* The headers of symbols: in the table at the beginning. Those between events depend on the stream. */
enum stream_symbol { SYMBOL_LUA, SYMBOL_C, SYMBOL_TRACE };

struct stream {
    uint8_t *buffer;
    size_t used, room;
    /* Write the buffer. It may set *data to another buffer, or to NULL: nothing more is written. Returns 0 on failure. */
    size_t (*write)(const void **data, size_t size, void *argument);
    void *argument;
    bool failed;
    int error; /* errno of the failure */
    bool ended;
    long process;      /* that has begun it; a forked child writes nothing, since its file is its parent's */
    uint8_t symbol[3]; /* the headers of symbols between events */
    /* A cache of symbols that were written: the address or number, and what it stood for. */
    struct {
        uint64_t key, what[2];
    } known[STREAM_SYMBOLS];
};

/* Begin with an empty cache of symbols. */
void stream_begin(struct stream *s, uint8_t *buffer, size_t room,
                  size_t (*write)(const void **data, size_t size, void *argument), void *argument);
void stream_byte(struct stream *s, uint8_t byte);
void stream_number(struct stream *s, uint64_t number); /* as ULEB128 */
void stream_text(struct stream *s, const char *text, size_t size);
/* The head of a table or of events: three letters and a version. */
void stream_head(struct stream *s, const char *letters, uint8_t version);
/* Write all that is in the buffer. */
void stream_flush(struct stream *s);
/* Write the end of the events, too. */
static inline void stream_end(struct stream *s)
{
    stream_byte(s, STREAM_FINAL);
    stream_flush(s);
}

/* Write a symbol unless it is known: of a prototype, of a trace, of a C function. The last is not for signal handlers; a
 * function that has no name gets its object's, with the offset. */
void stream_proto(struct stream *s, const struct lt_vm *vm, uint64_t proto);
void stream_function(struct stream *s, uint64_t code);
void stream_trace(struct stream *s, const struct lt_vm *vm, uint32_t trace);
/* What is at this address is no longer there. */
void stream_forget(struct stream *s, uint64_t address);

/* The table of symbols at the beginning, with the C functions of all loaded objects if they are wanted. Not for signal
 * handlers. */
void stream_table(struct stream *s, bool with_functions);
/* The C functions of objects that were loaded since then. */
void stream_new_functions(struct stream *s);

#endif
